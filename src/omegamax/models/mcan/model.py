"""The network from end to end: question and image in, scores of answers and where it looked out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax import functional
from omegamax._checks import readable
from omegamax._numerics import working_dtype
from omegamax.models.grid_cnn import GridCNN
from omegamax.models.mcan.blocks import FeedForward, GuidedAttention, SelfAttention
from omegamax.models.mcan.config import MCANConfig
from omegamax.models.mcan.grid import GridAttention, ImageGrid
from omegamax.models.mcan.output import OutputAttention


@dataclass(frozen=True, eq=False)
class Answer:
    """What a model says, and where it looked.

    Args:
        logits: one for each answer, ``[B, A]``.
        attention: over the image: ``weights [B, h, w]``, and for continuous kinds ``density`` and the ``discrete``
            weights it was made from.
        words: attention over the question, ``[B, T]``.
        context: what was seen, ``[B, D]``: all that the answer has of the image.
    """

    logits: Tensor
    attention: GridAttention
    words: Tensor
    context: Tensor


class MCAN(torch.nn.Module):
    """The modular co-attention network, encoder-decoder version, on grids.

    Words go through an LSTM and self-attention (the encoder); cells of the image through self-attention and attention
    to the words (the decoder); one look at the image and one at the question give the answer.

    Args:
        config: sizes, and the attention that the answer is read from.
        embedding: of the words, to start from, ``[words, word_dim]``.

    ``forward(batch)`` takes what :class:`~omegamax.data.collate.Collate` makes: ``question [B, T]``, integers, 0 after
    the last word; ``features [B, L, image_dim]`` with ``grid = (h, w)`` and, for images smaller than the grid,
    ``feature_mask [B, L]`` (True where there is a cell), ``sizes [B, 2]`` (rows and columns), or both; or, if built
    with ``pixels``, ``image [B, 3, H, W]`` in [0, 1]. With ``boxes [B, L, 4]``, corners x1, y1, x2, y2 in [0, 1], the
    features are those of boxes, as many as there are, and need no grid. What else there is is left alone. Returns an
    :class:`Answer`.

        >>> model = MCAN(MCANConfig.small(words=20, answers=5)).eval()
        >>> batch = {"question": torch.tensor([[3, 7, 2], [4, 0, 0]]), "image": torch.rand(2, 3, 56, 56)}
        >>> answer = model(batch)
        >>> answer.logits.shape, answer.attention.weights.shape, answer.words.shape
        (torch.Size([2, 5]), torch.Size([2, 14, 14]), torch.Size([2, 3]))

    References: Yu et al., "Deep modular co-attention networks for visual question answering" (CVPR 2019), Figs. 2 and
    5; with grids and continuous attention: Martins et al. (NeurIPS 2020), Sec. 4; Farinhas (thesis, 2021), Ch. 6.
    """

    def __init__(self, config: MCANConfig, embedding: Tensor | None = None):
        super().__init__()
        self.config = config
        self.cnn = GridCNN(config.image_dim, config.grid) if config.pixels else None
        self.question = QuestionEncoder(config, embedding)
        self.image = ImageDecoder(config)
        self.output = OutputAttention(config.hidden_dim, config.flat_dim, config.output, config.dropout)
        self.classifier = AnswerClassifier(config)

    def forward(self, batch: Mapping[str, Any]) -> Answer:
        x, grid, y, words = self._read(batch)
        asked = self.classifier.attend(y, words) if self.output.predicts else None
        context, attention = self.output(x, grid, None if asked is None else asked[0])
        attended, weights = self.classifier.attend(y, words) if asked is None else asked
        logits = self.classifier.fuse(attended, context)
        return Answer(logits, attention, weights, context)

    def match(self, batch: Mapping[str, Any], source: OutputAttention) -> float:
        """Set, and return, the scale at which the look is as sharp as that of ``source`` on these questions.

        ``source`` is the attention that the weights of this network were learnt with: see
        :meth:`OutputAttention.match`. Dropout is off meanwhile.
        """
        modes = {module: module.training for module in self.modules()}
        self.eval()
        try:
            with torch.no_grad():
                x, grid, _, _ = self._read(batch)
                self.output.match(x, grid, source)
        finally:
            for module, training in modes.items():
                module.training = training
        return float(self.output.score_scale)

    def _read(self, batch: Mapping[str, Any]) -> tuple[Tensor, ImageGrid, Tensor, Tensor]:
        """Return cells ``[B, L, D]`` and where they are, words ``[B, T, D]`` and their mask, as the last layers do."""
        if "question" not in batch:
            raise ValueError(f"MCAN: batch must hold a question, got {', '.join(batch) or 'nothing'}")
        features, grid = self._cells(batch)
        y, words = self.question(batch["question"])
        if len(y) != len(features):
            raise ValueError(f"MCAN: there must be an image for each question, got {len(features)} for {len(y)}")
        return self.image(features, y, grid.mask, words), grid, y, words

    def _cells(self, batch: Mapping[str, Any]) -> tuple[Tensor, ImageGrid]:
        """Return features ``[B, L, image_dim]`` and where they are."""
        if self.cnn is not None and batch.get("image") is not None:
            return self.cnn(batch["image"]), ImageGrid(self.config.grid)
        features, depth = batch.get("features"), self.config.image_dim
        if features is None:
            wanted = "an image or features" if self.cnn is not None else "features (an image needs pixels=True)"
            raise ValueError(f"MCAN: batch must hold {wanted}, got {', '.join(batch)}")
        boxes = batch.get("boxes")
        if boxes is not None and (boxes.dim() != 3 or boxes.shape != (*features.shape[:2], 4)):
            wanted = f"[B, L, 4] for features [B, L, {depth}]"
            given = f"{tuple(boxes.shape)} and {tuple(features.shape)}"
            raise ValueError(f"MCAN: boxes must be {wanted}, got shapes {given}")
        grid = batch.get("grid") if boxes is None else (1, features.shape[1])
        h, w = self.config.grid if grid is None else (int(k) for k in grid)
        if features.dim() != 3 or features.shape[1:] != (h * w, depth):
            wanted = f"[B, {h} x {w}, {depth}], as grid and image_dim say"
            raise ValueError(f"MCAN: features must be {wanted}, got shape {tuple(features.shape)}")
        mask = batch.get("feature_mask")
        if mask is not None and (mask.dtype != torch.bool or mask.shape != features.shape[:2]):
            given = f"{mask.dtype} of shape {tuple(mask.shape)}"
            raise ValueError(f"MCAN: feature_mask must be bool {tuple(features.shape[:2])}, got {given}")
        sizes = batch.get("sizes") if boxes is None else None
        if sizes is None:
            return features, ImageGrid((h, w), mask, boxes=boxes)
        if sizes.shape != (len(features), 2):
            raise ValueError(f"MCAN: sizes must be [{len(features)}, 2], rows and columns, got {tuple(sizes.shape)}")
        return features, ImageGrid.of_sizes((h, w), sizes.to(features.device)) if mask is None else ImageGrid(
            (h, w), mask, sizes
        )

    def extra_repr(self) -> str:
        return f"output={self.config.output.kind!r}"


class QuestionEncoder(torch.nn.Module):
    """Embedding, LSTM and self-attention layers: ``question [B, T] -> features [B, T, D], mask [B, T]``.

    Words are indices, 0 for padding; the mask is True at words. Padding goes after the words (the LSTM reads on
    through it, which changes nothing of what it said before), and what comes out there has no meaning.

    Args:
        config: sizes; ``words`` counts the padding too.
        embedding: the rows to start from, such as GloVe's, ``[words, word_dim]``. They are learnt on.

        >>> encode = QuestionEncoder(MCANConfig.small(words=20, answers=5))
        >>> y, mask = encode(torch.tensor([[3, 7, 0, 0]]))
        >>> y.shape, mask
        (torch.Size([1, 4, 64]), tensor([[ True,  True, False, False]]))

    Reference: Yu et al. (CVPR 2019), the encoder of Fig. 5.
    """

    def __init__(self, config: MCANConfig, embedding: Tensor | None = None):
        super().__init__()
        self.embedding = torch.nn.Embedding(config.words, config.word_dim)
        if embedding is not None:
            wanted = tuple(self.embedding.weight.shape)
            if tuple(embedding.shape) != wanted:
                given = tuple(embedding.shape)
                raise ValueError(f"QuestionEncoder: embedding must be [words, word_dim] = {wanted}, got shape {given}")
            with torch.no_grad():
                self.embedding.weight.copy_(embedding)
        self.lstm = torch.nn.LSTM(config.word_dim, config.hidden_dim, batch_first=True)
        self.layers = torch.nn.ModuleList(SelfAttention(*config.block()) for _ in range(config.layers))

    def forward(self, question: Tensor) -> tuple[Tensor, Tensor]:
        self._check(question)
        mask = question != 0
        y, _ = self.lstm(self.embedding(question))
        for layer in self.layers:
            y = layer(y, mask)
        return y, mask

    def _check(self, question: Tensor) -> None:
        name, words = "QuestionEncoder", self.embedding.num_embeddings
        if not isinstance(question, Tensor) or question.dtype not in (torch.int64, torch.int32):
            given = question.dtype if isinstance(question, Tensor) else type(question).__name__
            raise TypeError(f"{name}: question must hold integer word indices, got {given}")
        if question.dim() != 2 or question.shape[1] == 0:
            raise ValueError(f"{name}: question must be [B, T] with T >= 1, got shape {tuple(question.shape)}")
        if question.numel() and readable(question):
            low, high = (int(i) for i in question.aminmax())
            if low < 0 or high >= words:
                worst = low if low < 0 else high
                raise IndexError(f"{name}: question must hold indices in [0, {words}), the vocabulary, got {worst}")


class ImageDecoder(torch.nn.Module):
    """A linear map and guided attention layers: ``features [B, L, image_dim] -> [B, L, D]``.

    ``forward(features, guide [B, T, D], mask [B, L] | None, guide_mask [B, T] | None)``; masks are True where there is
    something. Absent cells count for nothing, whatever they hold, and what comes out there has no meaning.

        >>> decode = ImageDecoder(MCANConfig.small(words=20, answers=5))
        >>> decode(torch.randn(2, 196, 64), torch.randn(2, 4, 64)).shape
        torch.Size([2, 196, 64])

    Reference: Yu et al. (CVPR 2019), the decoder of Fig. 5: all layers are guided by the encoder's last.
    """

    def __init__(self, config: MCANConfig):
        super().__init__()
        self.project = torch.nn.Linear(config.image_dim, config.hidden_dim)
        self.layers = torch.nn.ModuleList(GuidedAttention(*config.block()) for _ in range(config.layers))

    def forward(
        self, features: Tensor, guide: Tensor, mask: Tensor | None = None, guide_mask: Tensor | None = None
    ) -> Tensor:
        if mask is not None:  # a weight of 0 would not stop a NaN
            features = features.masked_fill(~mask.unsqueeze(-1), 0.0)
        x = self.project(features)
        for layer in self.layers:
            x = layer(x, guide, mask, guide_mask)
        return x


class AnswerClassifier(torch.nn.Module):
    r"""Attention over the words, fusion with what was seen in the image, and the scores of the answers.

    .. math:: s = W \, \mathrm{LayerNorm}(W_y \tilde y + W_x \tilde x), \qquad
              \tilde y = \sum_t \beta_t y_t, \quad \beta = \mathrm{softmax}(\mathrm{MLP}(y_1), ..., \mathrm{MLP}(y_T))

    ``forward(y [B, T, D], mask [B, T], context [B, D])`` returns the logits ``[B, A]`` and :math:`\beta` ``[B, T]``,
    which is 0 throughout for a question without words. Attention over the words is softmax in every model.

        >>> classify = AnswerClassifier(MCANConfig.small(words=20, answers=5))
        >>> logits, words = classify(torch.randn(2, 4, 64), torch.ones(2, 4, dtype=torch.bool), torch.randn(2, 64))
        >>> logits.shape, words.shape
        (torch.Size([2, 5]), torch.Size([2, 4]))

    Reference: Yu et al. (CVPR 2019); Farinhas, "Visual attention with sparse and continuous transformations" (thesis,
    2021), Sec. 6.2.1.
    """

    def __init__(self, config: MCANConfig):
        super().__init__()
        self.score = FeedForward(config.hidden_dim, config.flat_dim, config.dropout, 1)
        self.question = torch.nn.Linear(config.hidden_dim, config.fused_dim)
        self.image = torch.nn.Linear(config.hidden_dim, config.fused_dim)
        self.norm = torch.nn.LayerNorm(config.fused_dim)
        self.answer = torch.nn.Linear(config.fused_dim, config.answers)

    def forward(self, y: Tensor, mask: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        attended, words = self.attend(y, mask)
        return self.fuse(attended, context), words

    def attend(self, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return the attended question :math:`\tilde y`, ``[B, D]``, and the weights of its words, ``[B, T]``."""
        z = self.score(y).squeeze(-1)
        words = functional.softmax(z.to(working_dtype(z)), mask=mask)
        return torch.einsum("bt,btd->bd", words.to(y.dtype), y), words

    def fuse(self, attended: Tensor, context: Tensor) -> Tensor:
        """Return the logits ``[B, A]`` of an attended question and what was seen, ``[B, D]`` each."""
        return self.answer(self.norm(self.question(attended) + self.image(context)))

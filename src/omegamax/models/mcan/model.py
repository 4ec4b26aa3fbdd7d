"""The network from end to end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.models.grid_cnn import GridCNN
from omegamax.models.mcan.classifier import AnswerClassifier
from omegamax.models.mcan.config import MCANConfig
from omegamax.models.mcan.grid import Grid, GridAttention
from omegamax.models.mcan.image import ImageDecoder
from omegamax.models.mcan.output import OutputAttention
from omegamax.models.mcan.question import QuestionEncoder


@dataclass(frozen=True, eq=False)
class Answer:
    """What a model says, and where it looked.

    Args:
        logits: one for each answer, ``[B, A]``.
        attention: over the image: ``weights [B, h, w]``, and for continuous kinds ``density`` and the ``discrete``
            weights it was made from.
        words: attention over the question, ``[B, T]``.
    """

    logits: Tensor
    attention: GridAttention
    words: Tensor


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
    with ``pixels``, ``image [B, 3, H, W]`` in [0, 1]. What else there is is left alone. Returns an :class:`Answer`.

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
        if "question" not in batch:
            raise ValueError(f"MCAN: batch must hold a question, got {', '.join(batch) or 'nothing'}")
        features, grid = self._cells(batch)
        y, words = self.question(batch["question"])
        if len(y) != len(features):
            raise ValueError(f"MCAN: there must be an image for each question, got {len(features)} for {len(y)}")
        x = self.image(features, y, grid.mask, words)
        context, attention = self.output(x, grid)
        logits, weights = self.classifier(y, words, context)
        return Answer(logits, attention, weights)

    def _cells(self, batch: Mapping[str, Any]) -> tuple[Tensor, Grid]:
        """Features ``[B, L, image_dim]`` and where they are."""
        if self.cnn is not None and batch.get("image") is not None:
            return self.cnn(batch["image"]), Grid(self.config.grid)
        features, depth = batch.get("features"), self.config.image_dim
        if features is None:
            wanted = "an image or features" if self.cnn is not None else "features (an image needs pixels=True)"
            raise ValueError(f"MCAN: batch must hold {wanted}, got {', '.join(batch)}")
        grid = batch.get("grid")
        h, w = self.config.grid if grid is None else (int(k) for k in grid)
        if features.dim() != 3 or features.shape[1:] != (h * w, depth):
            wanted = f"[B, {h} x {w}, {depth}], as grid and image_dim say"
            raise ValueError(f"MCAN: features must be {wanted}, got shape {tuple(features.shape)}")
        mask = batch.get("feature_mask")
        if mask is not None and (mask.dtype != torch.bool or mask.shape != features.shape[:2]):
            given = f"{mask.dtype} of shape {tuple(mask.shape)}"
            raise ValueError(f"MCAN: feature_mask must be bool {tuple(features.shape[:2])}, got {given}")
        sizes = batch.get("sizes")
        if sizes is None:
            return features, Grid((h, w), mask)
        if sizes.shape != (len(features), 2):
            raise ValueError(f"MCAN: sizes must be [{len(features)}, 2], rows and columns, got {tuple(sizes.shape)}")
        return features, Grid.of_sizes((h, w), sizes.to(features.device)) if mask is None else Grid((h, w), mask, sizes)

    def extra_repr(self) -> str:
        return f"output={self.config.output.kind!r}"

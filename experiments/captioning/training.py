"""Training of captioners on features in memory: what ``omegamax caption fit`` does, with less between the steps.

A step goes from word to word through hundreds of kernels of a few microseconds. That part is the same whatever
attention words are read from; on a GPU it is captured as CUDA graphs, one for each length of captions in a batch, and
the rest, which is computed for all words at once, is not.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torchmetrics.text import BLEUScore

from omegamax.data.vocabulary import PADDING
from omegamax.models.captioning import Captioner, ImageMemory, LSTMDecoder
from omegamax.models.mcan import ImageGrid
from omegamax.tasks.batches import LengthOrder
from omegamax.tasks.captioning import CaptionData, CaptionTask
from omegamax.tasks.captioning.task import Written

WIDTHS = (10, 12, 14, 17)  # words, the end among them, that batches are filled up to; longer ones to the longest
CHUNK = 250  # pictures that are written of at once


@dataclass(frozen=True, eq=False)
class Part:
    """A split on a device: N pictures, M captions.

    Args:
        features: of the cells, ``[N, L, D]`` in half precision.
        grid: rows and columns of the cells.
        names: of the pictures.
        references: texts of the captions of each picture, of words alone.
        texts: the same as people wrote them.
        picture: index of the picture of each caption, ``[M]``.
        caption: its tokens from start to end, ``[M, T + 1]``.
        lengths: how many of them there are after the start, ``[M]`` on the CPU.
    """

    features: Tensor
    grid: tuple[int, int]
    names: list[str]
    references: list[list[str]]
    texts: list[list[str]]
    picture: Tensor
    caption: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, data: CaptionData, name: str, device: str) -> Part:
        """Read a split of a set with features."""
        pairs = data.split(name)
        samples = [pairs.samples[index] for index in range(len(pairs.samples))]
        features = torch.stack([sample.features.half().flatten(0, 1) for sample in samples])
        caption = torch.zeros(len(samples), 1, dtype=torch.long)
        if name == "train":
            # Without the features, which are there once, not once for each caption.
            which = zip(pairs.picture.tolist(), pairs.caption.tolist(), strict=True)
            said = [data.vocabulary.encode(samples[image].captions[number]) for image, number in which]
            numbers = [torch.tensor(each[: data.length + 1]) for each in said]  # the start is no word
            caption = torch.nn.utils.rnn.pad_sequence(numbers, batch_first=True, padding_value=PADDING)
        return cls(
            features.to(device),
            tuple(samples[0].features.shape[:2]),  # type: ignore[arg-type]
            [sample.id for sample in samples],
            [[" ".join(words) for words in sample.captions] for sample in samples],
            [list(sample.references) for sample in samples],
            pairs.picture.to(device),
            caption.to(device),
            (caption[:, 1:] != PADDING).sum(1),
        )


@dataclass(frozen=True)
class Schedule:
    """How long and how: epochs, those at the start without validation, norm of gradients, size and order of batches."""

    epochs: int
    first: int
    clip: float
    batch_size: int
    seed: int


class Recurrence(torch.nn.Module):
    """What is computed word after word: features and tokens ``[B, T]`` to values of cells and states ``[B, T, d]``."""

    def __init__(self, model: Captioner, grid: tuple[int, int]) -> None:
        super().__init__()
        self.encoder, self.decoder, self.grid = model.encoder, model.decoder, grid

    def forward(self, features: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.encoder({"features": features, "grid": self.grid})
        assert isinstance(self.decoder, LSTMDecoder)
        return memory.values, self.decoder.run(memory, tokens)


class Step:
    """Steps of Adam with clipped gradients; with ``graph``, their recurrent part is captured for each width."""

    def __init__(self, task: CaptionTask, part: Part, clip: float, graph: bool) -> None:
        self.task, self.part, self.clip, self.graph = task, part, clip, graph
        self.learnt = [p for p in task.parameters() if p.requires_grad]
        self.optimiser = torch.optim.Adam(self.learnt, task.rate.peak, task.betas, fused=graph or None)
        self._recurrences: dict[int, torch.nn.Module] = {}

    def run(self, rows: Tensor, width: int) -> Tensor:
        """Learn from the captions with these indices, filled up to ``width`` words; return the loss."""
        features = self.part.features[self.part.picture[rows]]
        caption = self.part.caption[rows, : width + 1]
        tokens, target = caption[:, :-1].contiguous(), caption[:, 1:]
        values, states = self._recurrence(features, tokens)(features, tokens)
        model, memory = self.task.model, ImageMemory(values, ImageGrid(self.part.grid))
        assert isinstance(model.decoder, LSTMDecoder)
        hidden, _, _ = model.decoder.look(memory, states)
        loss = model.output.loss(hidden, target, ignore_index=PADDING)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.learnt, self.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return loss.detach()

    def _recurrence(self, features: Tensor, tokens: Tensor) -> torch.nn.Module:
        width = tokens.shape[1]
        if width not in self._recurrences:
            plain = Recurrence(self.task.model, self.part.grid).train()
            if self.graph:
                # The decoder has parameters that are used after it.
                torch.cuda.make_graphed_callables(plain, (features, tokens), allow_unused_input=True)
            self._recurrences[width] = plain
        return self._recurrences[width]


@dataclass(frozen=True)
class Trained:
    """What came out: BLEU-4 of the validation part after each epoch that was measured, the best epoch, the seconds."""

    curve: list[tuple[int, float]]
    best_epoch: int
    val_bleu4: float
    seconds: float


def train(task: CaptionTask, parts: dict[str, Part], schedule: Schedule, graph: bool = False) -> Trained:
    """Train a network, and leave it with the weights of the epoch with the best BLEU-4 of the validation part."""
    part, start = parts["train"], time.perf_counter()
    order = LengthOrder(part.lengths, schedule.batch_size, schedule.seed)
    step = Step(task.train(), part, schedule.clip, graph)
    longest = part.caption.shape[1] - 1
    widths = [width for width in WIDTHS if width < longest] + [longest]
    curve: list[tuple[int, float]] = []
    best: dict[str, Tensor] = {}
    total = schedule.epochs * (len(part.lengths) // schedule.batch_size)
    done = 0
    for epoch in range(schedule.epochs):
        order.set_epoch(epoch)
        whole = [rows for rows in order if len(rows) == schedule.batch_size]  # graphs have one size
        chosen = torch.tensor(whole, dtype=torch.long).reshape(-1, schedule.batch_size)
        longest_of = part.lengths[chosen].amax(1).tolist()
        # All at once: a copy from the host in each step would wait for the step before.
        for rows, length in zip(chosen.to(part.picture.device), longest_of, strict=True):
            step.optimiser.param_groups[0]["lr"] = task.rate.peak * task.rate.factor_at(done, total)
            step.run(rows, next(each for each in widths if each >= length))
            done += 1
        if epoch + 1 > schedule.first or epoch + 1 == schedule.epochs:
            curve.append((epoch + 1, bleu4(write(task, parts["val"], beam=1), parts["val"].references)))
            if curve[-1][1] >= max(value for _, value in curve):
                best = {name: value.detach().clone() for name, value in task.model.state_dict().items()}
    task.model.load_state_dict(best)
    task.eval()
    del step
    gc.collect()  # graphs and what forwards to them hold each other, and memory that the next network wants
    highest = max(value for _, value in curve)
    at = max(epoch for epoch, value in curve if value == highest)
    return Trained(curve, at, highest, time.perf_counter() - start)


@torch.no_grad()
def write(task: CaptionTask, part: Part, beam: int) -> list[tuple[str, ...]]:
    """Return the words of a caption of each picture."""
    training, found = task.training, []
    task.eval()
    for features in part.features.split(CHUNK):
        batch = {"features": features, "grid": part.grid}
        tokens = task.model.write(batch, beam=beam, max_length=task.max_length + 1).tokens[:, 0]
        found += [tuple(task.vocabulary.decode(each)) for each in tokens.tolist()]
    task.train(training)
    return found


@torch.no_grad()
def look(task: CaptionTask, part: Part) -> list[Written]:
    """Return the captions of a part by beam search, with where the network looked."""
    parts = part.features.split(CHUNK)
    return [each for features in parts for each in task.write({"features": features, "grid": part.grid})]


def bleu4(captions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """Return BLEU-4 of captions."""
    return float(BLEUScore(4)([" ".join(words) for words in captions], references))

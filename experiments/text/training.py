"""The loop that trains a network on texts which lie on its device as a whole, and keeps its best weights.

It makes the steps that ``omegamax text fit`` makes with the same batches (Adam, weight decay added to the gradient, the
loss of :class:`~omegamax.tasks.text.TextTask`); what is more is words left out at random and a rate that falls.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from sets import Part
from torch import Tensor

from omegamax.data.vocabulary import UNKNOWN
from omegamax.tasks.batches import LengthOrder
from omegamax.tasks.text import TextTask

Batch = dict[str, Any]
WORDS = 1 << 17  # of a batch in an evaluation, padding included


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Args:
        rate: of Adam at its peak, after ``warmup`` of all steps; it falls to zero along a cosine.
        weight_decay: added to the gradient, as Table 3 of the paper does.
        dropout: of embeddings and of the states of words.
        word_dropout: share of the words that are made unknown ones in each batch.
        epochs, batch_size: as they say.
        patience: epochs without a better validation after which training ends.
        clip: norm that gradients are cut to.
    """

    rate: float = 1e-3
    weight_decay: float = 0.0
    dropout: float = 0.5
    word_dropout: float = 0.0
    epochs: int = 8
    batch_size: int = 64
    patience: int = 3
    warmup: float = 0.1
    clip: float = 1.0


def batches(part: Part, batch_size: int, seed: int, epoch: int) -> Iterator[Batch]:
    """Make the batches of an epoch, each of texts of about one length."""
    order = LengthOrder(part.lengths, batch_size, seed)
    order.set_epoch(epoch)
    for rows in order:
        yield take(part, torch.tensor(rows))


def long_batches(part: Part, words: int = WORDS) -> Iterator[Tensor]:
    """List the rows of a part, longest texts first, in batches of about as many words each."""
    order = part.lengths.argsort(descending=True, stable=True)
    while len(order):
        count = max(1, words // max(1, int(part.lengths[order[0]])))
        yield order[:count]
        order = order[count:]


def take(part: Part, rows: Tensor) -> Batch:
    """Return a batch of rows, as :func:`~omegamax.data.text.collate_texts` makes it, on the device of the words."""
    device = part.words.device
    lengths, begin = part.lengths[rows], part.ends[:-1][rows]
    place = torch.arange(int(lengths.max()))
    there = place < lengths.unsqueeze(1)
    index = torch.where(there, begin.unsqueeze(1) + place, 0).to(device, non_blocking=True)
    there = there.to(device, non_blocking=True)
    batch = {"words": part.words[index].long() * there, "lengths": lengths.tolist()}
    batch["label"] = part.label[rows.to(device, non_blocking=True)]
    if part.marks is not None:
        batch["marks"] = part.marks[index] * there
    return batch


def drop_words(words: Tensor, share: float) -> Tensor:
    """Return words of which a share, drawn at random, are unknown."""
    return torch.where((torch.rand(words.shape, device=words.device) < share) & (words > 0), UNKNOWN, words)


class Loop:
    """Trains a task on a device: ``fit`` leaves it with the weights of its best validation.

    Args:
        half: let matrix products and LSTMs on a GPU be in half precision, with a scaled loss.
    """

    def __init__(self, task: TextTask, device: str, how: Training, half: bool = False) -> None:
        self.task, self.device, self.how = task.to(device), device, how
        self.half = half and device.startswith("cuda")
        learnt = [p for p in task.parameters() if p.requires_grad]
        fused = device.startswith("cuda")
        self.adam = torch.optim.Adam(learnt, how.rate, weight_decay=how.weight_decay, fused=fused)
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.half)
        self.steps = 0

    def precision(self) -> Any:
        """Return the context that a forward pass runs in."""
        return torch.autocast("cuda", torch.float16) if self.half else nullcontext()

    def step(self, batch: Batch, factor: float) -> Tensor:
        """Take one step, at a factor of the rate; return the loss."""
        how = self.how
        if how.word_dropout:
            batch = {**batch, "words": drop_words(batch["words"], how.word_dropout)}
        for group in self.adam.param_groups:
            group["lr"] = how.rate * factor
        self.adam.zero_grad(set_to_none=True)
        with self.precision():
            answer = self.task(batch)
        loss = F.cross_entropy(answer.logits.float(), batch["label"])
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.adam)
        learnt = [p for p in self.task.parameters() if p.grad is not None]
        torch.nn.utils.clip_grad_norm_(learnt, how.clip)
        self.scaler.step(self.adam)
        self.scaler.update()
        self.steps += 1
        return loss.detach()

    def fit(self, train: Part, val: Part, seed: int) -> dict[str, Any]:
        """Train until patience or epochs end; return the best validation, the epoch it was after, and all of them."""
        how, start = self.how, time.perf_counter()
        per_epoch = -(-len(train) // how.batch_size)
        best, kept, curve, when = (-1.0, 0.0), None, [], 0
        for epoch in range(how.epochs):
            self.task.train()
            for place, batch in enumerate(batches(train, how.batch_size, seed, epoch)):
                done = (epoch * per_epoch + place) / (how.epochs * per_epoch)
                rise = min(1.0, (done + 1e-3) / how.warmup) if how.warmup else 1.0
                self.step(batch, rise * 0.5 * (1 + torch.cos(torch.tensor(torch.pi * done)).item()))
            found = self.validate(val)
            curve.append(round(found["accuracy"], 4))
            if (found["accuracy"], -found["loss"]) > best:
                best, when, kept = (found["accuracy"], -found["loss"]), epoch + 1, deepcopy(self.task.state_dict())
            elif epoch + 1 - when >= how.patience:
                break
        assert kept is not None
        self.task.load_state_dict(kept)
        seconds = round(time.perf_counter() - start, 1)
        about = {"best_epoch": when, "epochs": len(curve), "seconds": seconds, "curve": " ".join(map(str, curve))}
        return {"val_accuracy": round(best[0], 6), "val_loss": round(-best[1], 6), **about}

    def validate(self, part: Part) -> dict[str, float]:
        """Return accuracy and loss on a part."""
        return summarise(self.answer(part)[0], part.label)

    @torch.no_grad()
    def answer(self, part: Part, zeros: bool = False) -> tuple[Tensor, float]:
        """Return the probabilities of the classes of all texts of a part, ``[N, C]``, in their order.

        And with ``zeros`` the share of their words that have exactly no attention, else 0.
        """
        self.task.eval()
        out = torch.empty(len(part), len(self.task.vocabulary.answers), device=self.device)
        none = torch.zeros((), dtype=torch.long, device=self.device)
        for rows in long_batches(part):
            with self.precision():
                answer = self.task(take(part, rows))
            out[rows.to(self.device)] = answer.logits.float().softmax(-1)
            if zeros:
                none += (answer.attention.empty() & answer.attention.mask).sum()
        return out, none.item() / int(part.ends[-1])


def summarise(probability: Tensor, label: Tensor) -> dict[str, float]:
    """Return accuracy and mean loss of probabilities ``[N, C]``.

    >>> summarise(torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([1, 1]))["accuracy"]
    0.5
    """
    true = probability.gather(1, label.unsqueeze(1)).squeeze(1)
    right = (probability.argmax(-1) == label).double().mean().item()
    return {"accuracy": right, "loss": -true.clamp(min=1e-30).log().double().mean().item()}

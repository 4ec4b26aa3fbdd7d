"""Games about pictures: which one the sender sees, and which ones the receiver has to choose from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_integer
from omegamax.tasks.batches import Order


def draw_games(count: int, candidates: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Draw a game about each of ``count`` pictures: candidates ``[count, n]`` by index, and the right one ``[count]``.

    The others are distinct pictures, all sets of them equally likely, and so is the index of the right one.

        >>> pictures, target = draw_games(5, 3, torch.Generator().manual_seed(0))
        >>> pictures.gather(1, target[:, None]).flatten()
        tensor([0, 1, 2, 3, 4])
    """
    check_integer("draw_games", "candidates", candidates, 2, count)
    others = torch.empty(count, 0, dtype=torch.long)
    # Floyd's way to a subset of the numbers below count - 1, for all games at once.
    for top in range(count - candidates, count - 1):
        drawn = torch.randint(top + 1, (count, 1), generator=generator)
        taken = (others == drawn).any(1, keepdim=True)
        others = torch.cat([others, torch.where(taken, top, drawn)], 1)
    own = torch.arange(count)[:, None]
    pictures = torch.cat([own, (own + 1 + others) % count], 1)
    target = torch.randint(candidates, (count, 1), generator=generator)
    moved = pictures.gather(1, target)
    pictures[:, :1] = moved
    return pictures.scatter(1, target, own), target.flatten()


def draw_concept_games(
    concepts: Tensor, count: int, candidates: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Draw games whose candidates are of different concepts: pictures ``[count, n]``, and the right one ``[count]``.

    All sets of ``candidates`` concepts are equally likely, and then all pictures of each; ``concepts [N]`` are integers
    >= 0, one for each picture.

        >>> concepts = torch.tensor([0, 1, 1, 2, 2, 2])
        >>> pictures, target = draw_concept_games(concepts, 4, 3, torch.Generator().manual_seed(0))
        >>> concepts[pictures].sort(1).values.tolist(), target.shape
        ([[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]], torch.Size([4]))
    """
    check_integer("draw_concept_games", "count", count, 1)
    members = ConceptMembers(concepts)
    check_integer("draw_concept_games", "candidates", candidates, 2, members.concepts)
    chosen = torch.rand(count, members.concepts, generator=generator).argsort(1)[:, :candidates]
    return members.draw(chosen, generator), torch.randint(candidates, (count,), generator=generator)


class ConceptMembers:
    """Pictures of each concept, of those that have any.

    ``concepts [N]`` are integers >= 0, one for each picture; :attr:`concepts` is the number of those that occur.
    """

    def __init__(self, concepts: Tensor) -> None:
        sizes = concepts.bincount()
        self.size = sizes[sizes > 0]
        self.start = self.size.cumsum(0) - self.size
        self.pictures = concepts.argsort(stable=True)
        self.concepts = len(self.size)

    def draw(self, chosen: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw a picture of each of the concepts ``chosen [*]``, ``[*]``, all of its pictures equally likely."""
        part = torch.rand(chosen.shape, generator=generator, device=chosen.device)
        index = (part * self.size[chosen]).long()  # a float32 below one, times a size below 2^24, stays below it
        return self.pictures[self.start[chosen] + torch.minimum(index, self.size[chosen] - 1)]

    def to(self, device: torch.device | str) -> ConceptMembers:
        """Move to a device."""
        self.size, self.start, self.pictures = (t.to(device) for t in (self.size, self.start, self.pictures))
        return self


class ConceptOrder(Order):
    """Batches of pictures of different concepts: all sets of ``batch_size`` concepts are equally likely.

    An epoch has as many batches as pictures allow. Processes draw batches of their own.

        >>> order = ConceptOrder(torch.tensor([0, 0, 1, 1, 2, 2]), 2, seed=0)
        >>> [len({picture // 2 for picture in batch}) for batch in order]  # concepts in each of three batches
        [2, 2, 2]
    """

    def __init__(self, concepts: Tensor, batch_size: int, seed: int = 0, *, processes: int = 1, rank: int = 0) -> None:
        super().__init__(len(concepts) // batch_size * batch_size, batch_size, seed, processes=processes, rank=rank)
        self.members = ConceptMembers(concepts)
        check_integer("ConceptOrder", "batch_size", batch_size, 1, self.members.concepts)

    def __iter__(self) -> Iterator[list[int]]:
        """Return the batches of the epoch, from index ``first`` on."""
        mixed = int(np.random.SeedSequence([self.seed or 0, self.epoch, self.rank]).generate_state(1)[0])
        generator = torch.Generator().manual_seed(mixed)
        for number in range(len(self)):
            chosen = torch.randperm(self.members.concepts, generator=generator)[: self.batch_size]
            batch = self.members.draw(chosen, generator).tolist()
            if number >= self.first:
                yield batch


class Games(Dataset[int]):
    """Games about a stack of pictures; game ``i`` is about picture ``i``, and :meth:`batch` makes batches of them.

    With ``seed`` the candidates are drawn once from all pictures: the same games each time. Without one they are drawn
    from the pictures of a batch, which for batches of pictures drawn at random comes to the same, and each picture is
    looked at once by the receiver, not once for every game that it is in.

    Args:
        images: bytes ``[N, *]``.
        labels: classes of the pictures ``[N]``; no player sees them.
        candidates: pictures in a game.
        seed: of the games; None: drawn from each batch.
        concepts: of the pictures ``[N]``. With a seed, candidates are then of different concepts, and game ``i`` is
            about some picture: :func:`draw_concept_games`. Without one, batches must be, see :class:`ConceptOrder`.
        mean, deviation: of the pixels as numbers in [0, 1], taken out.

    A batch has ``images [U, D]``, ``shown [B]`` (the place of the sender's picture among them), ``candidates [B, n]``,
    ``target [B]`` (which candidate it is) and ``label [B]``.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        candidates: int = 16,
        seed: int | None = None,
        mean: float = 0.0,
        deviation: float = 1.0,
        concepts: Tensor | None = None,
    ) -> None:
        if len(images) != len(labels):
            raise ValueError(f"Games: as many labels as images are needed, got {len(labels)} and {len(images)}")
        self.candidates = check_integer("Games", "candidates", candidates, 2, len(images))
        self.images, self.labels = images.flatten(1), labels
        self.mean, self.deviation = mean, deviation
        if concepts is not None and len(images) != len(concepts):
            raise ValueError(f"Games: as many concepts as images are needed, got {len(concepts)} and {len(images)}")
        self.games = None
        if seed is not None:
            generator = torch.Generator().manual_seed(seed)
            if concepts is None:
                self.games = draw_games(len(images), self.candidates, generator)
            else:
                self.games = draw_concept_games(concepts, len(images), self.candidates, generator)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> int:
        return index  # pictures are fetched for a whole batch at once

    def batch(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """Return the games about these pictures."""
        own = torch.as_tensor(indices)
        if self.games is None:
            # By the pictures alone, whatever was drawn before: a run can be taken up again anywhere.
            mixed = int(np.random.SeedSequence(list(indices)).generate_state(1)[0])
            candidates, target = draw_games(len(own), self.candidates, torch.Generator().manual_seed(mixed))
            rows, shown = own, torch.arange(len(own))
        else:
            pictures, target = self.games[0][own], self.games[1][own]
            own = pictures.gather(1, target[:, None]).flatten()
            rows, candidates = pictures.unique(return_inverse=True)
            shown = candidates.gather(1, target[:, None]).flatten()
        images = (self.images[rows].float() / 255 - self.mean) / self.deviation
        game = {"shown": shown, "candidates": candidates, "target": target}
        return {"images": images, **game, "label": self.labels[own]}

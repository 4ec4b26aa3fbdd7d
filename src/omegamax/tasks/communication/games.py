"""Games about pictures: which one the sender sees, and which ones the receiver has to choose from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_integer


def draw_games(count: int, candidates: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Draw a game about each of ``count`` pictures: candidates ``[count, n]`` by index, and the right one ``[count]``.

    The others are distinct pictures, all sets of them equally likely, and so is the place of the right one.

        >>> places, target = draw_games(5, 3, torch.Generator().manual_seed(0))
        >>> places.gather(1, target[:, None]).flatten()
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
    places = torch.cat([own, (own + 1 + others) % count], 1)
    target = torch.randint(candidates, (count, 1), generator=generator)
    moved = places.gather(1, target)
    places[:, :1] = moved
    return places.scatter(1, target, own), target.flatten()


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
    ) -> None:
        if len(images) != len(labels):
            raise ValueError(f"Games: as many labels as images are needed, got {len(labels)} and {len(images)}")
        self.candidates = check_integer("Games", "candidates", candidates, 2, len(images))
        self.images, self.labels = images.flatten(1), labels
        self.mean, self.deviation = mean, deviation
        self.games = None
        if seed is not None:
            self.games = draw_games(len(images), self.candidates, torch.Generator().manual_seed(seed))

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
            places, target = self.games[0][own], self.games[1][own]
            rows, candidates = places.unique(return_inverse=True)
            shown = candidates.gather(1, target[:, None]).flatten()
        images = (self.images[rows].float() / 255 - self.mean) / self.deviation
        place = {"shown": shown, "candidates": candidates, "target": target}
        return {"images": images, **place, "label": self.labels[own]}

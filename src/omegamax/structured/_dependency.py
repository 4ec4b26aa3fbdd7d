"""Dependency trees over the words of a sentence."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import check_mask
from omegamax.structured._factor import BuiltIn


class DependencyTree(BuiltIn):
    """Trees in which every word has one head, another word or the root; scores ``[*, n, n]`` are [modifier, head].

    The diagonal holds the scores of attaching a word to the root. A word whose row ``mask`` takes out is absent.

    Args:
        projective: only trees whose arcs do not cross, the root standing left of the first word.
        single_root: exactly one word is attached to the root.

    Coming from lpsmap: its ``DepTree(u, packed=True, projective=True)`` allows only one word below the root, which is
    ``DependencyTree(u, projective=True, single_root=True)`` here; without ``projective`` it allows any number, as
    ``DependencyTree(u)`` does. ``packed=True`` is the layout used here.

        >>> from omegamax.structured import sparsemap
        >>> scores = torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [0.5, 1.0, 0.0]])
        >>> sparsemap(scores, DependencyTree())
        tensor([[1.0000, 0.0000, 0.0000],
                [0.7500, 0.2500, 0.0000],
                [0.2500, 0.7500, 0.0000]])

    Reference: McDonald et al. (HLT/EMNLP 2005) for the best tree with crossing arcs, Eisner (COLING 1996) without.
    """

    event_dims = 2

    def __init__(self, projective: bool = False, single_root: bool = False):
        self.projective, self.single_root = bool(projective), bool(single_root)

    def kind(self, event: tuple[int, ...]) -> tuple[str, tuple[int, ...], Tensor | None]:
        return "projective" if self.projective else "arborescence", (event[0], int(self.single_root)), None

    def check(self, name: str, scores: Tensor) -> None:
        if scores.shape[-1] != scores.shape[-2]:
            raise ValueError(
                f"{name}: scores of a DependencyTree must be square [*, n, n] (modifier, head), got shape "
                f"{tuple(scores.shape)}"
            )

    def prepare(
        self, name: str, scores: Tensor, additional: Tensor | None, mask: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        check_mask(name, scores, mask)
        mask = mask.expand_as(scores)
        here = mask.any(-1)
        if bool((~here).all(-1).any()):
            raise ValueError(f"{name}: mask leaves no word in a row of scores of shape {tuple(scores.shape)}")
        scores = scores.masked_fill(~(mask & here[..., None, :]), -math.inf)
        # An absent word hangs, as a leaf at no cost, from the word before it; leading ones from the word after.
        size = scores.shape[-1]
        at = torch.arange(size, device=scores.device)
        head = torch.where(here.cumsum(-1) > 0, at - 1, at + 1)
        leaf = torch.where(head[..., None] == at, 0.0, -math.inf).to(scores.dtype)
        return torch.where(here[..., None], scores, leaf), additional

    def __repr__(self) -> str:
        flags = [f"{n}=True" for n in ("projective", "single_root") if getattr(self, n)]
        return f"DependencyTree({', '.join(flags)})"

"""Attention over the image that the answer is read from: weights over cells, a density, or a mixture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from omegamax import functional, nn
from omegamax._numerics import working_dtype
from omegamax.basis import GaussianRBF
from omegamax.densities import Density
from omegamax.maps import match_sharpness
from omegamax.mixtures import AIC, BIC, MDL, Criterion, Linear
from omegamax.models.mcan.blocks import FeedForward
from omegamax.models.mcan.config import OutputConfig
from omegamax.nn.transforms import apply, resolve

CRITERIA = {"bic": BIC, "aic": AIC, "mdl": MDL}


@dataclass(frozen=True, eq=False)
class ImageGrid:
    """L = h w cells, row by row, of B images; smaller images take the upper left ones.

    Args:
        shape: ``(h, w)``, of the largest image.
        mask: ``[B, L]``, True where there is a cell; None: everywhere.
        given: rows and columns of each image, ``[B, 2]``; None: read from the mask, which on a GPU has to be waited
            for.

        >>> grid = ImageGrid((2, 3), torch.tensor([[True] * 6, [True, True, False, True, True, False]]))
        >>> grid.sizes.tolist(), grid.pack(torch.arange(12).view(2, 6)).tolist()
        ([[2, 3], [2, 2]], [[0, 1, 2, 3, 4, 5], [6, 7, 9, 10, 6, 6]])
    """

    shape: tuple[int, int]
    mask: Tensor | None = None
    given: Tensor | None = None

    @classmethod
    def of_sizes(cls, shape: tuple[int, int], sizes: Tensor) -> ImageGrid:
        """Return the grid of whole images with these rows and columns, ``[B, 2]``.

        >>> ImageGrid.of_sizes((2, 3), torch.tensor([[1, 2]])).mask
        tensor([[ True,  True, False, False, False, False]])
        """
        rows, columns = (
            torch.arange(k, device=sizes.device) < n for k, n in zip(shape, sizes.split(1, -1), strict=True)
        )
        return cls(shape, (rows.unsqueeze(-1) & columns.unsqueeze(-2)).flatten(1), sizes)

    @cached_property
    def sizes(self) -> Tensor | None:
        """Return rows and columns of each image, ``[B, 2]``, on the CPU; None: all have the full grid."""
        if self.mask is None:
            return None
        if self.given is not None:
            sizes = self.given.cpu()
        else:
            cells = self.mask.unflatten(-1, self.shape)
            sizes = torch.stack([_last(cells.any(2)), _last(cells.any(1))], -1).cpu()
        return None if bool((sizes == torch.tensor(self.shape)).all()) else sizes

    @cached_property
    def holes(self) -> Tensor | None:
        """Return where images lack cells, the mask of all, packed; None: they are all whole."""
        if self.mask is None:
            return None
        full = len(self.mask) * self.shape[0] * self.shape[1]
        wanted = full if self.sizes is None else int(self.sizes.prod(-1).sum())
        if int(self.mask.sum()) == wanted:
            return None
        packed = self.pack(self.mask)
        if self.sizes is not None:  # what is behind the cells of a small image is a copy of its first
            packed = packed & (torch.arange(packed.shape[1]) < self.sizes.prod(-1, keepdim=True)).to(packed.device)
        return packed

    def pack(self, x: Tensor) -> Tensor:
        """Put the cells of each image in front, row by row, ``[B, L, *]``; what is behind them has no meaning."""
        if self.sizes is None:
            return x
        index = torch.arange(x.shape[1])
        columns = self.sizes[:, 1:].clamp(min=1)
        index = index // columns * self.shape[1] + index % columns  # [B, L]
        index = torch.where(torch.arange(x.shape[1]) < self.sizes.prod(-1, keepdim=True), index, 0).to(x.device)
        return x[torch.arange(len(x), device=x.device).unsqueeze(-1), index]


@dataclass(frozen=True, eq=False)
class GridAttention:
    """Where a model looked: weights over the cells, and the density that was made from them, if one was.

    Args:
        discrete: weights ``[B, h, w]`` that sum to one (to zero for an image without cells).
        grid: the cells.
        density: of batch ``[B]``, over the unit square that each image fills, x to the right and y down; or None.
    """

    discrete: Tensor
    grid: ImageGrid
    density: Density | None = None

    @property
    def sizes(self) -> Tensor | None:
        """Return rows and columns of each image, ``[B, 2]``; None: all have the full grid."""
        return self.grid.sizes

    @cached_property
    def weights(self) -> Tensor:
        """Return the attention that was paid to each cell, ``[B, h, w]``: the weights, or the shares of the density."""
        return self.discrete if self.density is None else self.shares()

    def shares(self, samples: int = 4) -> Tensor:
        """Return what each cell has of the density, ``[B, h, w]``, from ``samples`` x ``samples`` points in each.

        Sums to one: what lies outside the image is not counted, see :func:`~omegamax.metrics.on_grid`.
        """
        log, inside = self._logarithms(samples)
        h, w = self.discrete.shape[1:]
        p = functional.softmax(log.flatten(1), mask=inside.flatten(1))
        return p.unflatten(-1, (h, samples, w, samples)).sum((2, 4))

    def empty(self, samples: int = 4) -> Tensor:
        """Cells with exactly no attention, bool ``[B, h, w]``; what is merely too small for a float is not."""
        if self.density is None:
            return self.discrete == 0
        log, inside = self._logarithms(samples)
        h, w = self.discrete.shape[1:]
        none = (log.isneginf() | ~inside).unflatten(2, (w, samples)).unflatten(1, (h, samples))
        return none.all(4).all(2)

    def _logarithms(self, samples: int) -> tuple[Tensor, Tensor]:
        """Return log-densities at points of the cells, ``[B, h s, w s]``, and which points lie inside the image."""
        if self.density is None:
            raise ValueError("GridAttention: shares are those of a density, and this attention has none")
        batch, h, w = self.discrete.shape
        like = self.density.mean
        sizes = torch.tensor([[h, w]]) if self.sizes is None else self.sizes
        rows, columns = sizes.to(like.device, like.dtype).clamp(min=1).unsqueeze(-1).unbind(1)  # [B, 1]
        y = (torch.arange(h * samples, device=like.device) + 0.5) / (samples * rows)  # [B, h s]
        x = (torch.arange(w * samples, device=like.device) + 0.5) / (samples * columns)
        y, x = torch.broadcast_tensors(y.unsqueeze(-1), x.unsqueeze(-2))  # [B, h s, w s]
        points = torch.stack([x, y], -1).expand(batch, -1, -1, -1).to(like.dtype)
        log = self.density.log_prob(points.permute(1, 2, 0, 3)).permute(2, 0, 1)
        inside = (points < 1).all(-1)
        if self.sizes is not None:
            inside = inside & (self.sizes.prod(-1) > 0).to(like.device)[:, None, None]
        return log, inside


class OutputAttention(torch.nn.Module):
    r"""One look at the image: ``forward(x [B, L, D], grid)`` returns the context ``[B, D]`` and where it came from.

    .. math:: \tilde x = \sum_l p_l x_l \quad\text{or}\quad \tilde x = E_p[V(t)], \qquad
              z_l = \mathrm{MLP}(x_l)

    Scores z come from the same network in every kind. A discrete kind maps them to weights p; a continuous one maps
    them to weights by ``config.discrete``, makes a density p with their moments, or fits a mixture to them, and takes
    the mean of the function V that ridge regression puts through the features. Cells missing inside an image have no
    weight; V is not fitted there, or with ``padding`` it is fitted to 0, as around the image.

    Before they are mapped, scores are multiplied by the buffer ``score_scale``, 1 unless :meth:`match` sets it.

    Args:
        dim: features D of a cell.
        hidden: units of the network, with ``dropout`` after them.
        config: which kind.

        >>> look = OutputAttention(8, 16, OutputConfig("continuous_sparsemax"))
        >>> context, attention = look(torch.randn(3, 30, 8), ImageGrid((5, 6)))
        >>> context.shape, attention.weights.shape, attention.density.mean.shape
        (torch.Size([3, 8]), torch.Size([3, 5, 6]), torch.Size([3, 2]))

    References: Farinhas, "Visual attention with sparse and continuous transformations" (thesis, 2021), Sec. 6.2.2 and
    6.3.1; Farinhas, Martins and Aguiar (2021), Alg. 1; tvmax: Martins et al. (ICIP 2021).
    """

    def __init__(self, dim: int, hidden: int, config: OutputConfig, dropout: float = 0.0):
        super().__init__()
        self.config = config
        self.score = FeedForward(dim, hidden, dropout, 1)
        self.transform = _transform(config)
        self.density = _density(config)
        self.score_scale: Tensor
        self.register_buffer("score_scale", torch.ones(()))

    def forward(self, x: Tensor, grid: ImageGrid) -> tuple[Tensor, GridAttention]:
        weights = self.weigh(self.scores(x), grid)
        shown = weights.unflatten(-1, grid.shape)
        if self.density is None:
            return torch.einsum("bl,bld->bd", weights.to(x.dtype), x), GridAttention(shown, grid)
        lengths = grid.shape if grid.sizes is None else grid.sizes
        values, holes = grid.pack(x), grid.holes
        if holes is not None and self.config.padding:
            values, holes = values.masked_fill(~holes.unsqueeze(-1), 0.0), None
        context, density = self.density(values, grid.pack(weights), lengths=lengths, mask=holes)
        return context, GridAttention(shown, grid, density)

    def scores(self, x: Tensor) -> Tensor:
        """Return the score of each cell, ``[B, L, D] -> [B, L]``."""
        z = self.score(x).squeeze(-1)
        return z.to(working_dtype(z))

    def weigh(self, z: Tensor, grid: ImageGrid) -> Tensor:
        """Return the discrete weights of cells with scores z, ``[B, L] -> [B, L]``."""
        return self._map(self.score_scale.to(z.dtype) * z, grid)

    def match(self, x: Tensor, grid: ImageGrid, source: OutputAttention) -> None:
        """Set ``score_scale`` so that weights are as sharp, on average over these images, as those of ``source``.

        The scores are taken to be the same in both: weights learnt with one kind were loaded into another. K-subsets
        cannot be sharper than 1/k, and is compared with the weights of ``source`` capped there, the closest by
        Kullback-Leibler divergence: for softmax, constrained softmax.
        """
        with torch.no_grad():
            z = self.scores(x).double()
            reference = source.weigh(z, grid)
            if self.config.kind == "k_subsets":
                count = z.shape[-1] if grid.mask is None else grid.mask.sum(-1, keepdim=True)
                cap = 1 / torch.as_tensor(count, device=z.device).clamp(min=1, max=self.config.k).to(z.dtype)
                reference = functional.constrained_softmax(reference.log(), cap.expand(len(z), 1))
            if grid.mask is not None:
                z = z.masked_fill(~grid.mask, -torch.inf)
            self.score_scale.fill_(match_sharpness(z, lambda scaled: self._map(scaled, grid), reference))

    def _map(self, z: Tensor, grid: ImageGrid) -> Tensor:
        if grid.mask is not None:
            z = z.masked_fill(~grid.mask, -torch.inf)
        if isinstance(self.transform, nn.TVmax):
            return self.transform(z.unflatten(-1, grid.shape)).flatten(1)
        if self.config.kind != "k_subsets":
            return apply(self.transform, z)
        k = min(float(self.config.k), float(z.shape[-1]))
        p = functional.k_subsets(z, k)
        if grid.mask is None:
            return p / k
        count = grid.mask.sum(-1, keepdim=True).to(p.dtype)
        return p / count.clamp(min=1).clamp(max=k)  # an image with fewer than k cells has them all

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # Weights that were written before there was a scale have the scale 1.
        state_dict.setdefault(f"{prefix}score_scale", torch.ones(()))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _last(present: Tensor) -> Tensor:
    """Return one more than the last index that is True, ``[B, n] -> [B]``."""
    return (present * torch.arange(1, present.shape[1] + 1, device=present.device)).amax(1)


def _transform(config: OutputConfig) -> Any:
    kind, alpha = config.kind, config.exponent
    if kind == "entmax" and alpha is not None:
        return nn.Entmax(alpha, learnable=config.learnable)
    if kind == "tvmax":
        return nn.TVmax(config.strength, learnable=config.learnable)
    if kind == "k_subsets":
        return nn.KSubsets(config.k)
    return resolve("OutputAttention", config.discrete if config.continuous else kind)


def _density(config: OutputConfig) -> nn.ContinuousAttention | nn.MultimodalAttention | None:
    if not config.continuous:
        return None
    assert config.exponent is not None
    basis = GaussianRBF.grid(config.functions, 2, variance=config.variance)
    settings: dict[str, Any] = {
        "penalty": config.penalty,
        "padding": config.padding,
        "floor": config.floor,
        "learnable": config.learnable,
    }
    if config.kind != "multimodal":
        return nn.ContinuousAttention(basis, config.exponent, **settings)
    return nn.MultimodalAttention(
        basis,
        config.max_components,
        config.exponent,
        components=config.components,
        criterion=_criterion(config.selection),
        iterations=config.iterations,
        restarts=config.restarts,
        **settings,
    )


def _criterion(selection: float | str) -> Criterion:
    return CRITERIA[selection]() if isinstance(selection, str) else Linear(float(selection))

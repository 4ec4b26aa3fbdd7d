"""Draw calls of continuous attention, over the line and the plane, and of mixtures of Gaussians."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor

from omegamax.basis import GaussianRBF
from omegamax.densities import Mixture
from omegamax.mixtures import AIC, BIC, Linear, select_components, weighted_em
from omegamax.nn import ContinuousAttention, MultimodalAttention

from .operations import Operation, Place

F32, F64 = torch.float32, torch.float64
WITHIN = 1e-10  # of the largest number: what derivatives of narrow densities, sums of large ones, leave of float64
BATCHES = ((1,), (2,), (3,), (5,), (2, 2), (1, 3), (0,))


def draw_weights(rng: random.Random, g: torch.Generator, *shape: int, peaked: bool = False) -> tuple[Tensor, str]:
    """Return weights, float64, of rows that are flat, sparse, tiny, lost, and perhaps ``peaked``."""
    distribution = rng.choice(("uniform", "softmax", "sparse", "far from one", *(["peaked"] if peaked else [])))
    w = torch.rand(shape, generator=g, dtype=F64)
    if distribution in ("softmax", "peaked"):
        w = ((1.0 if distribution == "softmax" else 20.0) * torch.randn(shape, generator=g, dtype=F64)).softmax(-1)
    if distribution == "sparse":
        w = torch.where(torch.rand(shape, generator=g) < 0.7, 0.0, w)
    if distribution == "far from one":
        w = w * 10.0 ** rng.randint(-20, 20)
    if w.numel() and rng.random() < 0.3:
        row = rng.randrange(w.shape[0])
        lost = rng.choice((0.0, torch.nan, torch.inf))
        w[row] = torch.where(torch.rand(w[row].shape, generator=g) < 0.5, lost, 0.0)
        distribution += f", a row with {lost}"
    return w, distribution


def draw_layout(rng: random.Random) -> tuple[str, Callable[[Tensor], Tensor]]:
    """Return how a tensor lies in memory, and what lays it out so."""
    layouts: dict[str, Callable[[Tensor], Tensor]] = {
        "contiguous": lambda t: t,
        "every second": lambda t: torch.stack([t, t], -1)[..., 0],
        "last axis first": lambda t: t.movedim(-1, 0).contiguous().movedim(0, -1),
    }
    name = rng.choice(("contiguous", *layouts))
    return name, layouts[name]


def draw_basis(rng: random.Random, n: int) -> Callable[[Place], GaussianRBF]:
    """Return what makes a basis, whose tensors are those of the call."""
    variance = rng.choice((1e-3, 0.01, 0.05, 0.5))
    count = rng.choice((1, 2, 3, 5)) if n == 2 else rng.choice((1, 2, 7, 16, 130))
    whole = GaussianRBF.grid(count, n, variance, dtype=F64)
    if rng.random() < 0.2:
        generator = torch.Generator().manual_seed(rng.getrandbits(32))
        root = 0.2 * torch.randn(len(whole), n, n, generator=generator, dtype=F64)
        whole = GaussianRBF(whole.centers, root @ root.mT + 0.01 * torch.eye(n, dtype=F64))
    scale = whole.covariance if whole.variance is None else whole.variance
    return lambda place: GaussianRBF(place(whole.centers), place(scale))


def draw_attention(seed: int, rng: random.Random, g: torch.Generator, components: int = 0) -> Operation:
    """Draw continuous attention, or multimodal attention with some components."""
    n = 2 if components else rng.choice((1, 2))
    size = tuple(rng.randint(1, 6) for _ in range(n)) if n == 2 else rng.choice((1, 2, 7, 33, 130, 600))
    length = size[0] * size[1] if isinstance(size, tuple) else size
    batch, width = rng.choice(BATCHES), rng.choice((1, 3))
    alpha = rng.choice((1.0, 1.0, 4 / 3, 1.5, 2.0, 2.0, 3.0))
    combined, settings = rng.random() < 0.3, {"floor": rng.choice((None, None, 0.01))}
    # Gradients through components of next to no weight are more exact by kernels than in plain torch.
    weights, distribution = draw_weights(rng, g, *batch, length, peaked=components == 0)
    values = torch.randn(*batch, length, width, generator=g, dtype=F64)
    layout, lay_out = draw_layout(rng)
    mask = torch.rand(*batch, length, generator=g) < 0.7 if rng.random() < 0.3 else None
    settings["padding"] = mask is None and rng.random() < 0.3
    make_basis = draw_basis(rng, n)
    # Where a component starts is decided by comparisons, of which rounding changes some.
    dtype = F64 if components else rng.choice((F32, F64))
    slopes = [torch.randn(*batch, k, generator=g, dtype=F64) for k in (width, n)]

    def run(place: Place, plain: bool) -> list[Tensor]:
        basis = make_basis(place)
        if components:
            layer: torch.nn.Module = MultimodalAttention(
                basis, components, alpha, positions=size, combined=combined, iterations=1, **settings
            )
        else:
            layer = ContinuousAttention(basis, alpha, positions=size, combined=combined, **settings)
        v, w = (lay_out(place(t)).requires_grad_() for t in (values, weights))
        context, density = layer(v, w, mask=None if mask is None else place(mask))
        total = (context * place(slopes[0])).nan_to_num().sum() + (density.mean * place(slopes[1])).nan_to_num().sum()
        return [context, density.mean, density.covariance_matrix, *torch.autograd.grad(total, (v, w))]

    name = f"multimodal of {components}" if components else "continuous"
    given = f"alpha {alpha:.3g}, combined={combined}, {settings}, values {(*batch, length, width)} on {size}"
    text = f"{given}, {distribution}, {layout}{', mask' * (mask is not None)}"
    return Operation(seed, name.split(" ")[0], text, dtype, WITHIN, run)


def draw_multimodal(seed: int, rng: random.Random, g: torch.Generator) -> Operation:
    """Draw multimodal attention."""
    return draw_attention(seed, rng, g, rng.randint(1, 3))


def draw_mixture(seed: int, rng: random.Random, g: torch.Generator) -> Operation:
    """Draw a fit of mixtures to points, or a selection among several numbers of components."""
    n, components = rng.choice((1, 2)), rng.randint(1, 6)
    batch, length = rng.choice(BATCHES), rng.choice((1, 2, 5, 17, 40, 130))
    x = torch.randn(*rng.choice(((), batch)), length, n, generator=g, dtype=F64) * rng.choice((1e-3, 1.0, 1e4))
    x = x + rng.choice((0.0, 1e3))
    weights, distribution = draw_weights(rng, g, *batch, length)
    mask = torch.rand(*batch, length, generator=g) < 0.8 if rng.random() < 0.3 else None
    selected = rng.random() < 0.4
    settings = {"iterations": rng.randint(0, 3), "init": rng.choice(("split", "kmeans++", "random"))}
    settings["restarts"] = rng.choice((1, 2, 3))
    settings |= rng.choice(({"floor": 1e-2}, {"spread": 1e-2}, {}))
    criterion = rng.choice((BIC(), AIC(), Linear(1.0)))
    slopes = torch.randn(*batch, components, generator=g, dtype=F64)

    def run(place: Place, plain: bool) -> list[Tensor]:
        w = place(weights).requires_grad_()
        given = {**settings, "mask": None if mask is None else place(mask)}
        given["generator"] = torch.Generator().manual_seed(seed)
        fit: Mixture
        if selected:
            fit = select_components(place(x), w, components, criterion, **given)
        else:
            fit = weighted_em(place(x), w, components, **given)
        unit = 1 + place(x).abs().amax() if x.numel() else 1.0
        mean, covariance = fit.components.mean / unit, fit.components.covariance_matrix / unit**2
        parts = [fit.weights, fit.weights.unsqueeze(-1) * mean, fit.weights[..., None, None] * covariance]
        total = sum((place(slopes)[(..., *[None] * (t.dim() - slopes.dim()))] * t).nan_to_num().sum() for t in parts)
        return [*parts, torch.autograd.grad(total, w)[0]]

    kind = f"{criterion} of up to" if selected else "fit of"
    text = (
        f"{kind} {components} to {tuple(x.shape)}, batch {batch}, {settings}, mask={mask is not None}, {distribution}"
    )
    return Operation(seed, "mixtures", text, F64, WITHIN, run)

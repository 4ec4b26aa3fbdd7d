"""Compare a drawn call with the plain-torch reference in float64.

How far a result may be off is what rounding the differences of a row's scores would make of it: the reference is
evaluated at scores whose distances to the maximum are moved by a few units in the last place, and the largest change
seen is allowed beside the rounding of the result itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

import omegamax

from .draws import Case
from .interpreted import INTERPRETER

NUDGES = 3
ULPS = 4.0  # of the dtype computed in, by which distances between scores may be off
SLACK = 8.0  # rounding errors of a result, relative to the mass of its row
DOUBLE_SLACK = 256.0  # the same in float64, where the reference is no better; sums of long rows are in it


def check(case: Case, device: str = "cpu") -> Iterator[str]:
    """Yield a sentence for each way in which the case is wrong."""
    place = "cpu" if device == INTERPRETER else device
    z = case.z.to(place)
    p = case.call(z)
    if p.shape != z.shape or p.dtype != z.dtype:
        yield f"shape or dtype: {tuple(p.shape)} {p.dtype}"
        return
    p = p.cpu()
    truth = exact(case, case.z.double())
    yield from _edge_cases(case, p, truth)
    yield from _values(case, p, truth)
    if device == "cpu":
        yield from _neighbours(case, p)
        with omegamax.backend("reference"):
            yield from (f"plain torch, {said}" for said in _values(case, case.call(), truth))
    yield from _gradients(case, z, p, truth)
    yield from _loss(case, place)


def exact(case: Case, z: Tensor) -> Tensor:
    """Apply the map to float64 scores by plain torch on the CPU."""
    with omegamax.backend("reference"):
        return case.call(z, torch.float64)


def _edge_cases(case: Case, p: Tensor, truth: Tensor) -> Iterator[str]:
    gone = case.z == -math.inf
    if case.mask is not None:
        gone = gone | ~case.mask
    spoilt = truth.isnan()
    if not torch.equal(p.isnan(), spoilt):
        yield f"NaN in {int(p.isnan().sum())} entries, wanted in {int(spoilt.sum())}"
    if bool((p[gone & ~spoilt] != 0).any()):
        yield "an entry that is masked or -inf has probability"
    if bool((p < 0).any()):
        yield f"a negative probability, {float(p[p < 0].min())}"


def _values(case: Case, p: Tensor, truth: Tensor) -> Iterator[str]:
    sound = ~truth.isnan()
    error = torch.where(sound, p.double() - truth, 0.0).abs().sum(case.dim)
    allowed = _allowed(case, truth)
    worst = (error - allowed).argmax()
    if bool(error.flatten()[worst] > allowed.flatten()[worst]):
        yield f"total variation {error.flatten()[worst]:.3g}, allowed {allowed.flatten()[worst]:.3g}"


def _allowed(case: Case, truth: Tensor) -> Tensor:
    """Return the total variation that is allowed in each row."""
    eps = torch.finfo(case.z.dtype).eps
    mass = truth.nan_to_num().sum(case.dim)
    tiny = torch.finfo(case.z.dtype).smallest_normal * eps * case.z.shape[case.dim]  # underflow is gradual
    allowed = _slack(case) * eps * mass + tiny
    spread = torch.zeros_like(allowed)
    for nudged in _nudged(case):
        spread = torch.maximum(spread, (exact(case, nudged) - truth).nan_to_num().abs().sum(case.dim))
    return allowed + 2 * spread


def _nudged(case: Case) -> Iterator[Tensor]:
    z = case.z.double()
    eps = torch.finfo(torch.promote_types(case.z.dtype, torch.float32)).eps
    there = z.isfinite() if case.mask is None else z.isfinite() & case.mask  # a masked maximum moves no distance
    top = torch.where(there, z, -math.inf).amax(case.dim, keepdim=True)
    top = torch.where(top.isfinite(), top, 0.0)
    generator = torch.Generator().manual_seed(case.seed)
    for _ in range(NUDGES):
        by = 1 + ULPS * eps * (2 * torch.rand(z.shape, generator=generator, dtype=torch.float64) - 1)
        moved = top + (z - top) * by  # not finite where the distance is beyond the largest number
        yield torch.where(moved.isfinite(), moved, z)


def _neighbours(case: Case, p: Tensor) -> Iterator[str]:
    """Say whether a row's result depends on the rows beside it."""
    results = p.movedim(case.dim, -1).reshape(-1, p.shape[case.dim])
    i = case.seed % len(results)
    for beside in (math.nan, 0.5, torch.finfo(p.dtype).max):
        z = torch.empty_strided(case.z.shape, case.z.stride(), dtype=p.dtype).fill_(beside)
        at = [slice(None)] * z.dim()
        at[next(d for d in range(z.dim()) if d != case.dim % z.dim() and z.shape[d] == len(results))] = slice(i, i + 1)
        z[tuple(at)] = case.z[tuple(at)]
        again = case.call(z).movedim(case.dim, -1).reshape(results.shape)[i]
        if not torch.equal(again.nan_to_num(nan=-1.0), results[i].nan_to_num(nan=-1.0)):
            gap = float((again - results[i]).abs().nan_to_num().max())
            yield f"row {i} beside rows of {beside:.3g} differs by {gap:.3g}"
            return


def _gradients(case: Case, z: Tensor, p: Tensor, truth: Tensor) -> Iterator[str]:
    """Compare gradients in rows whose support rounding does not change."""
    if case.z.dtype.itemsize < 4:
        return
    generator = torch.Generator().manual_seed(case.seed)
    g = torch.randn(case.z.shape, generator=generator, dtype=torch.float64)
    wanted = _gradient(case, case.z.double(), g)
    steady = ~truth.isnan().any(case.dim) & _same_face(case, p.double(), truth)
    spread = torch.zeros_like(wanted)
    for nudged in _nudged(case):
        steady &= _same_face(case, exact(case, nudged), truth)
        spread = torch.maximum(spread, (_gradient(case, nudged, g) - wanted).abs())
    given = _gradient(case, z, g.to(z.dtype).to(z.device)).cpu().double()
    eps = torch.finfo(case.z.dtype).eps
    scale = wanted.abs().sum(case.dim) + g.abs().amax(case.dim)
    allowed = 4 * _slack(case) * eps * scale + 4 * spread.sum(case.dim)
    error = torch.where(steady, (given - wanted).abs().nan_to_num(nan=math.inf).sum(case.dim), 0.0)
    worst = (error - allowed).nan_to_num(nan=-math.inf).argmax()
    if bool(error.flatten()[worst] > allowed.flatten()[worst]):
        yield f"gradient off by {error.flatten()[worst]:.3g}, allowed {allowed.flatten()[worst]:.3g}"


def _same_face(case: Case, p: Tensor, q: Tensor) -> Tensor:
    """Return which rows have the same entries at zero, and the same at the largest probability, where a bound is."""
    faces = [torch.stack([a > 0, a == a.amax(case.dim, keepdim=True)]) for a in (p, q)]
    return (faces[0] == faces[1]).all(0).all(case.dim)


LOSSES = {
    "softmax": omegamax.softmax_loss,
    "sparsemax": omegamax.sparsemax_loss,
    "entmax15": omegamax.entmax15_loss,
    "entmax": omegamax.entmax_loss,
    "normmax": omegamax.normmax_loss,
    "k_subsets": omegamax.k_subsets_loss,
}


def _loss(case: Case, device: str) -> Iterator[str]:
    """Compare the map's loss, and that its gradient is ``p - y``, at a class of each row."""
    loss = LOSSES.get(case.map)
    by_number = not any(isinstance(a, Tensor) for a in case.parameters.values())
    if loss is None or not by_number or case.parameters.get("k", 1) != 1 or case.z.dtype.itemsize < 4:
        return
    z = case.z.movedim(case.dim, -1).reshape(-1, case.z.shape[case.dim])
    z = z[z.isfinite().all(-1)]
    if len(z) == 0:
        return
    generator = torch.Generator().manual_seed(case.seed)
    y = torch.randint(z.shape[-1], (len(z),), generator=generator)
    with omegamax.backend("reference"):
        wanted = loss(z.double(), y, reduction="none", **case.parameters)
    sound = wanted < torch.finfo(z.dtype).max
    z, y, wanted = z[sound], y[sound], wanted[sound]
    if len(z) == 0:
        return
    leaf = z.to(device).detach().requires_grad_()
    given = loss(leaf, y.to(device), reduction="none", **case.parameters)
    allowed = 2 * _slack(case) * torch.finfo(z.dtype).eps * (1 + wanted.abs())
    worst = ((given.cpu().double() - wanted).abs() - allowed).argmax()
    if bool((given[worst].cpu().double() - wanted[worst]).abs() > allowed[worst]) or not bool((given >= 0).all()):
        yield f"loss {float(given[worst])!r}, wanted {float(wanted[worst])!r}"
    (grad,) = torch.autograd.grad(given.sum(), leaf)
    p = case.function(leaf.detach(), dim=-1, **case.parameters)
    p[torch.arange(len(z)), y.to(device)] -= 1
    gap = float((grad - p).abs().sum(-1).max())
    if not gap <= 2 * _slack(case) * torch.finfo(z.dtype).eps:
        yield f"loss has a gradient that is {gap:.3g} from p - y"


def _slack(case: Case) -> float:
    return DOUBLE_SLACK if case.z.dtype == torch.float64 else SLACK


def _gradient(case: Case, z: Tensor, g: Tensor) -> Tensor:
    leaf = z.detach().clone().requires_grad_()
    if z.dtype == torch.float64 and g.dtype == torch.float64 and z.is_cpu:
        with omegamax.backend("reference"):
            p = case.call(leaf, torch.float64)
            return torch.autograd.grad(p, leaf, g)[0]
    return torch.autograd.grad(case.call(leaf), leaf, g)[0]

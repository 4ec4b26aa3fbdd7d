"""Draw calls of what is no map, and compare them with plain torch: layers, mixtures, attention, losses, long rows.

A call is compared with the same in plain torch and float64. It may be off by a few times what plain torch is in the
precision of the call, or what arguments that differ in their last digits lead to, and by the rounding of its largest
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

import omegamax

from .interpreted import INTERPRETER

F32, F64 = torch.float32, torch.float64
Place = Callable[[Tensor], Tensor]
FACTOR = 8.0  # by which an error may exceed those
NUDGES = 2
ULPS = 16.0  # of the precision of the call, by which arguments are moved
SLACK = 64.0  # rounding errors of the largest number of an example, in float32 at least, and 2 of its own


@dataclass
class Operation:
    """One call: ``run(place, plain)`` returns its results and gradients, the batch first.

    ``place(t)`` returns a drawn tensor, float64 and of the host, in the precision and on the device of the call.
    ``plain`` says that it is the call in plain torch, which comes after the other.
    """

    seed: int
    map: str
    text: str
    dtype: torch.dtype
    within: float  # by which share of its largest number a result may be off at any rate
    run: Callable[[Place, bool], list[Tensor]]

    def __str__(self) -> str:
        return f"case {self.seed}: {self.map} of {self.text}, {self.dtype}"

    def place(self, device: str, dtype: torch.dtype, nudge: int = 0) -> Place:
        """Return what moves drawn tensors; rounding to the precision of the call comes first, and the nudge then."""
        generator = torch.Generator().manual_seed(nudge)
        ulps = ULPS * torch.finfo(self.dtype).eps if nudge else 0.0

        def move(t: Tensor) -> Tensor:
            if not t.is_floating_point():
                return t.to(device)
            t = t.to(self.dtype)
            if nudge:
                t = t * (1 + ulps * (2 * torch.rand(t.shape, generator=generator, dtype=F64) - 1))
            return t.to(device, dtype)

        return move


def check_operation(case: Operation, device: str) -> Iterator[str]:
    """Yield a sentence for each result that is wrong."""
    found = case.run(case.place("cpu" if device == INTERPRETER else device, case.dtype), False)
    with omegamax.backend("reference"):
        plain, truth = (case.run(case.place("cpu", dtype), True) for dtype in (case.dtype, F64))
        nudged = [case.run(case.place("cpu", F64, nudge), True) for nudge in range(1, NUDGES + 1)]
    for i, (ours, exact, *others) in enumerate(zip(found, truth, plain, *nudged, strict=True)):
        others = [t.detach() for t in others]
        yield from _compare(f"result {i}", case.within, ours.detach().cpu(), exact.detach(), others)


def _compare(name: str, within: float, ours: Tensor, exact: Tensor, others: list[Tensor]) -> Iterator[str]:
    plain = others[0]
    if ours.shape != exact.shape or ours.dtype != plain.dtype:
        yield f"{name}: shape or dtype {tuple(ours.shape)} {ours.dtype}, wanted {tuple(exact.shape)} {plain.dtype}"
        return
    if not exact.numel():
        return
    if not torch.equal(ours.isnan(), exact.isnan()):
        yield f"{name}: NaN in {int(ours.isnan().sum())} entries, wanted in {int(exact.isnan().sum())}"
        return
    rounding = SLACK * torch.finfo(torch.promote_types(ours.dtype, F32)).eps + 2 * torch.finfo(ours.dtype).eps
    ours, exact, *others = (_as_examples(t) for t in (ours, exact, *others))
    error = (ours - exact).abs().amax(-1)
    spread = torch.stack([(t - exact).abs().amax(-1) for t in others]).amax(0)
    allowed = FACTOR * spread + (rounding + within) * exact.abs().amax(-1)
    worst = int((error - allowed).argmax())
    if bool(error[worst] > allowed[worst]):
        yield f"{name}: off by {error[worst]:.3g} in example {worst}, allowed {allowed[worst]:.3g}"


def _as_examples(t: Tensor) -> Tensor:
    return t.double().nan_to_num().reshape(len(t) if t.dim() else 1, -1)

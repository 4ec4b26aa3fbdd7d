"""Every loss as a module, made from the record of its map, constructed as :class:`torch.nn.CrossEntropyLoss` is."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from omegamax import losses
from omegamax._arguments import check_choice
from omegamax.losses import REDUCTIONS, check_smoothing
from omegamax.maps import MapRecord, Omega, SquaredNorm, find, get
from omegamax.maps.record import capitalize
from omegamax.nn._generated import bind, current, describe, document, hold_arguments, learning_arguments


class FenchelYoungLoss(torch.nn.Module):
    """Module of :func:`omegamax.fenchel_young_loss`.

    >>> FenchelYoungLoss("sparsemax")(torch.tensor([1.0, 0.5, -1.0]), torch.tensor([1.0, 0.0, 0.0]))
    tensor(0.0625)
    """

    def __init__(self, omega: str | Omega, reduction: str = "mean"):
        super().__init__()
        check_choice("FenchelYoungLoss", "reduction", reduction, REDUCTIONS)
        self.omega = get(omega)
        self.reduction = reduction

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        return losses.fenchel_young_loss(z, y, self.omega, self.reduction)

    def extra_repr(self) -> str:
        return f"{self.omega!r}, reduction={self.reduction!r}"


class SquaredLoss(FenchelYoungLoss):
    """Module of :func:`omegamax.squared_loss`.

    >>> SquaredLoss()(torch.tensor([1.0, -2.0]), torch.tensor([1.0, 0.0]))
    tensor(2.)
    """

    def __init__(self, reduction: str = "mean"):
        super().__init__(SquaredNorm(), reduction)


class MapLoss(torch.nn.Module):
    """The loss of a map as a module: constructed with its parameters and the options of cross-entropy.

    A subclass names the map, ``class SparsemaxLoss(MapLoss, of="sparsemax")``. ``weight`` is a buffer.
    """

    record: ClassVar[MapRecord]
    signature: ClassVar[inspect.Signature]  # also of subclasses with a constructor of their own
    arguments: ClassVar[dict[str, inspect.Parameter]]  # of the map
    function: ClassVar[Callable[..., Tensor]]
    weight: Tensor | None

    def __init_subclass__(cls, of: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if of is None:
            return
        cls.record = record = find(of)
        function = getattr(losses, record.loss or "")
        cls.function = staticmethod(function)
        by_name, either = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        _, _, *parameters = inspect.signature(function).parameters.values()
        cls.arguments = {a.name: a for a in parameters if a.kind is not by_name}
        cls.signature = inspect.Signature(
            [*(a.replace(kind=either) for a in parameters), *learning_arguments(record, by_name)]
        )
        cls.__signature__ = cls.signature  # type: ignore[attr-defined]
        cls.__doc__ = document(cls.__name__, function, record, inputs=2)

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__()
        title = type(self).__name__
        arguments = bind(title, self.signature, given, options)
        self.register_buffer("weight", arguments.pop("weight"))
        self.ignore_index = arguments.pop("ignore_index")
        self.reduction = arguments.pop("reduction")
        self.label_smoothing = arguments.pop("label_smoothing")
        check_choice(title, "reduction", self.reduction, REDUCTIONS)
        check_smoothing(title, self.label_smoothing)
        self._names = hold_arguments(self, self.record, arguments)

    def forward(self, z: Tensor, target: Tensor) -> Tensor:
        """Return the loss of the scores against the target."""
        return type(self).function(
            z,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
            **{name: current(getattr(self, name), z) for name in self._names},
        )

    def extra_repr(self) -> str:
        return ", ".join(filter(None, (describe(self, self.arguments), f"reduction={self.reduction!r}")))


class SoftmaxLoss(MapLoss, of="softmax"): ...


class SparsemaxLoss(MapLoss, of="sparsemax"): ...


class Entmax15Loss(MapLoss, of="entmax15"): ...


class EntmaxLoss(MapLoss, of="entmax"): ...


class NormmaxLoss(MapLoss, of="normmax"): ...


class KSubsetsLoss(MapLoss, of="k_subsets"): ...


@functools.cache
def make_loss_module(record: MapRecord) -> type[MapLoss]:
    """Make the Module of the loss of a map that has no class here: one that was registered."""
    place = {"__module__": "omegamax.nn"}  # where pickle looks for it
    title = capitalize(record.loss or "")
    return types.new_class(title, (MapLoss,), {"of": record.name}, lambda namespace: namespace.update(place))

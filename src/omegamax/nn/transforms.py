"""Every map as a module, made from its record. Each ``forward(z, mask=None)`` calls the function of the map."""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any, ClassVar

import torch
from torch import Tensor

from omegamax.maps import MapRecord, Omega, find, get
from omegamax.nn._generated import bind, current, describe, document, hold_arguments, learning_arguments
from omegamax.nn.alpha import Alpha


class MapModule(torch.nn.Module):
    """A map as a module: constructed with its parameters, called with scores.

    A subclass names the map, ``class Sparsemax(MapModule, of="sparsemax")``, and takes the arguments of its function
    but for ``z`` and ``mask``. Tensors among them are buffers, parameters stay parameters.
    """

    record: ClassVar[MapRecord]
    signature: ClassVar[inspect.Signature]  # also of subclasses with a constructor of their own
    arguments: ClassVar[dict[str, inspect.Parameter]]

    def __init_subclass__(cls, of: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if of is None:
            return
        cls.record = record = find(of)
        given = inspect.signature(record.function).parameters
        cls.arguments = {name: a for i, (name, a) in enumerate(given.items()) if i and name != "mask"}
        either = inspect.Parameter.POSITIONAL_OR_KEYWORD
        cls.signature = inspect.Signature(
            [*(a.replace(kind=either) for a in cls.arguments.values()), *learning_arguments(record, either)]
        )
        cls.__signature__ = cls.signature  # type: ignore[attr-defined]
        cls.__doc__ = document(cls.__name__, record.function, record, inputs=1)

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__()
        arguments = bind(type(self).__name__, self.signature, given, options)
        self._names = hold_arguments(self, self.record, arguments)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the probabilities of the scores."""
        return self.record.function(z, mask=mask, **{name: current(getattr(self, name), z) for name in self._names})

    def extra_repr(self) -> str:
        return describe(self, self.arguments)


class Softmax(MapModule, of="softmax"): ...


class Sparsemax(MapModule, of="sparsemax"): ...


class Entmax15(MapModule, of="entmax15"): ...


class Entmax(MapModule, of="entmax"):
    alpha: float | Tensor | Alpha


class Normmax(MapModule, of="normmax"):
    alpha: float | Tensor | Alpha


class KSubsets(MapModule, of="k_subsets"): ...


class ConstrainedSoftmax(MapModule, of="constrained_softmax"): ...


class ConstrainedSparsemax(MapModule, of="constrained_sparsemax"): ...


class Fusedmax(MapModule, of="fusedmax"): ...


class TVmax(MapModule, of="tvmax"): ...


class GraphFusedmax(MapModule, of="graph_fusedmax"): ...


class Oscarmax(MapModule, of="oscarmax"): ...


class SequentialKSubsets(MapModule, of="sequential_k_subsets"): ...


@functools.cache
def make_module(record: MapRecord) -> type[MapModule]:
    """Make the Module of a map that has no class here: one that was registered."""
    place = {"__module__": "omegamax.nn"}  # where pickle looks for it
    return types.new_class(record.module, (MapModule,), {"of": record.name}, lambda namespace: namespace.update(place))


def resolve(name: str, transform: str | Omega | torch.nn.Module) -> Omega | torch.nn.Module:
    """Return what an argument ``transform`` stands for: the Omega of a name, an Omega, or a module."""
    if not isinstance(transform, torch.nn.Module):
        return get(transform)
    if getattr(transform, "dim", -1) != -1:
        raise ValueError(f"{name}: a module given as transform must have dim=-1, got {transform!r}")
    return transform


def apply(transform: Omega | torch.nn.Module, z: Tensor) -> Tensor:
    """Return the probabilities of scores along the last axis; ``-inf`` scores are masked."""
    return transform(z) if isinstance(transform, torch.nn.Module) else transform.argmax(z)

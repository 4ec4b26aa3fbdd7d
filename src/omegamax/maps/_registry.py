"""One map, one record: what the losses, layers, tests, benchmarks and command line are made from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.compiler import is_compiling

if TYPE_CHECKING:
    from omegamax.maps.omega import Omega


@dataclass(frozen=True)
class Transform:
    """A registered map: its function, the factory of its Omega, its reference, and parameters to try it with."""

    name: str
    function: Callable[..., Tensor]
    omega: Callable[..., Omega]
    summary: str
    complexity: str
    cite: str
    example: dict[str, Any] = field(default_factory=dict)
    image: bool = False  # normalised over the last two axes, and so without ``dim``
    signature: inspect.Signature = field(init=False, repr=False, compare=False)  # of the factory

    def __post_init__(self) -> None:
        # Attention by name asks for it at each call, and finding it out takes longer than a small kernel.
        object.__setattr__(self, "signature", inspect.signature(self.omega))

    def __call__(self, z: Tensor, dim: int = -1, **options: Any) -> Tensor:
        """The map with the example's parameters."""
        if self.image:
            return self.function(z, **{**self.example, **options})
        return self.function(z, dim=dim, **{**self.example, **options})


TRANSFORMS: dict[str, Transform] = {}


def register(transform: Transform) -> Transform:
    """Add a map to the library; its name must be new."""
    if transform.name in TRANSFORMS:
        raise ValueError(f"register: name {transform.name!r} is taken")
    TRANSFORMS[transform.name] = transform
    return transform


def get(omega: str | Omega, **parameters: Any) -> Omega:
    """The Omega of a map's name, or the Omega itself.

    >>> get("entmax", alpha=1.5)
    Tsallis(alpha=1.5)
    >>> get("k_subsets", k=2)
    KSubsets(k=2)
    """
    if not isinstance(omega, str):
        if not hasattr(omega, "argmax") or isinstance(omega, (type, Tensor)):
            raise TypeError(f"get: omega must be the name of a map or an Omega, got {type(omega).__name__}")
        if parameters:
            raise ValueError(f"get: parameters go with a name, got {omega!r} and {', '.join(parameters)}")
        return omega
    if omega not in TRANSFORMS:
        raise ValueError(f"get: no map is called {omega!r}; known: {', '.join(TRANSFORMS)}")
    transform = TRANSFORMS[omega]
    try:
        if not is_compiling():  # which torch 2.5 cannot do; the call below fails all the same
            transform.signature.bind(**parameters)
    except TypeError as error:
        raise TypeError(f"get: {omega!r} takes {transform.signature}: {error}") from None
    return transform.omega(**parameters)

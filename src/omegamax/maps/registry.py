"""The register of the maps: those of the library, of a program, and of packages with an entry point."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from torch import Tensor
from torch.compiler import is_compiling

from omegamax.maps.omega import Omega
from omegamax.maps.record import MapRecord, capitalize

GROUP = "omegamax.maps"  # of the entry points
Registered = TypeVar("Registered", bound=Callable[..., Any])

_RECORDS: dict[str, MapRecord] = {}
_BROKEN: dict[str, str] = {}  # entry points that failed, by name
_asked_packages = False


@overload
def register(map: MapRecord, /) -> MapRecord: ...
@overload
def register(map: Registered, /, **fields: Any) -> Registered: ...
@overload
def register(map: None = None, /, **fields: Any) -> Callable[[Registered], Registered]: ...
def register(map: Any = None, /, **fields: Any) -> Any:
    """Add a map to the library; its names must be new.

    From then on :func:`omegamax.get` finds it, and so does every argument ``omega``, ``base`` and ``transform``:
    losses, attention, memories, fusedmax over it. ``omegamax.<name>``, ``omegamax.nn.<module>`` and
    ``omegamax.losses.<loss>`` exist, and ``omegamax maps`` lists it. A package adds its maps by an entry point of the
    group ``omegamax.maps``, which names a module that registers them; docs/extending.md shows one.

    Args:
        map: a :class:`~omegamax.maps.MapRecord`; or a subclass of :class:`~omegamax.Omega`, whose function is made from
            its :meth:`~omegamax.Omega.argmax`; or a function, with ``omega=`` among the fields. Without it this is a
            decorator of one of the latter two.
        fields: those of the record. The name is that of the function, or ``name`` of the Omega; the loss is called
            ``<name>_loss``, unless ``loss=None``.

    Returns:
        What was given.

        >>> import torch
        >>> @register(summary="softmax at half the temperature")
        ... class Sharp(Omega):
        ...     name = "sharp"
        ...     margin = float("inf")
        ...
        ...     def __call__(self, p):
        ...         return 0.5 * torch.special.xlogy(p, p).sum(-1)
        ...
        ...     def solve(self, z):
        ...         return (2 * z).softmax(-1)
        >>> get("sharp").argmax(torch.tensor([0.5, 0.0]))
        tensor([0.7311, 0.2689])
        >>> unregister("sharp")
    """
    if map is None:
        return lambda thing: register(thing, **fields)
    record = map if isinstance(map, MapRecord) else _make_record(map, fields)
    taken = {
        "name": {*_RECORDS},
        "module": {r.module for r in _RECORDS.values()},
        "loss": {r.loss for r in _RECORDS.values() if r.loss},
    }
    for argument, names in taken.items():
        if getattr(record, argument) in names:
            raise ValueError(f"register: {argument} {getattr(record, argument)!r} is taken")
    _RECORDS[record.name] = record
    return map


def unregister(name: str) -> None:
    """Take a map out of the register, for tests and notebooks that register it anew."""
    if _RECORDS.pop(name, None) is None:
        raise ValueError(f"unregister: no map is called {name!r}")


def get(omega: str | Omega, **parameters: Any) -> Omega:
    """Return the Omega of a map's name, or the Omega itself.

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
    record = _RECORDS[omega] if omega in _RECORDS else find(omega)
    try:
        # Torch 2.5 cannot compile it; the call below fails all the same.
        if (parameters or record.has_required) and not is_compiling():
            record.signature.bind(**parameters)
    except TypeError as error:
        raise TypeError(f"get: {omega!r} takes {record.signature}: {error}") from None
    return record.omega(**parameters)


def find(name: str) -> MapRecord:
    """Return the record of a map, of the library or of a package with an entry point."""
    if name not in _RECORDS and name not in records():
        broken = f"; {_BROKEN[name]}" if name in _BROKEN else ""
        raise ValueError(f"get: no map is called {name!r}; known: {', '.join(_RECORDS)}{broken}")
    return _RECORDS[name]


def records() -> Mapping[str, MapRecord]:
    """Return all records by name, with those of packages that have an entry point."""
    _ask_packages()
    return _RECORDS


def find_companion(kind: str, name: str) -> MapRecord | None:
    """Return the record whose ``kind``, ``"name"``, ``"module"`` or ``"loss"``, is ``name``; also its loss's Module."""
    if name.startswith("_"):
        return None
    for record in records().values():
        if kind == "loss module":
            if record.loss and capitalize(record.loss) == name:
                return record
        elif getattr(record, kind) == name:
            return record
    return None


def _make_record(thing: Any, fields: dict[str, Any]) -> MapRecord:
    if isinstance(thing, type) and issubclass(thing, Omega):
        name = fields.pop("name", getattr(thing, "name", None))
        if not isinstance(name, str):
            raise TypeError(f"register: name must be given where {thing.__name__}.name is not one word")
        function, omega = _make_function(name, thing), fields.pop("omega", thing)
    elif inspect.isfunction(thing):
        if "omega" not in fields:
            raise TypeError(
                f"register: omega, which makes the Omega of {thing.__name__}, must be given with a function"
            )
        name, function, omega = fields.pop("name", thing.__name__), thing, fields.pop("omega")
    else:
        raise TypeError(
            f"register: map must be a MapRecord, a subclass of Omega or a function, got {type(thing).__name__}"
        )
    document = inspect.getdoc(thing) or name
    defaults = {"summary": document.splitlines()[0].rstrip("."), "loss": f"{name}_loss"}
    return MapRecord(name, function, omega, **{**defaults, **fields})


def _make_function(name: str, omega: type[Omega]) -> Callable[..., Tensor]:
    """Make the function of a map from its Omega: that of the constructor's arguments, ``dim`` and ``mask``."""
    own = list(inspect.signature(omega).parameters.values())
    positional = [a for a in own if a.kind is a.POSITIONAL_OR_KEYWORD]
    names = [a.name for a in positional]

    def function(z: Tensor, *given: Any, dim: int = -1, mask: Tensor | None = None, **options: Any) -> Tensor:
        # No inspect.signature here: torch.compile reads this function.
        if len(given) > len(names):
            dim, given = given[len(names)], given[: len(names)]
        return omega(**dict(zip(names, given, strict=False)), **options).argmax(z, dim, mask=mask)

    def parameter(name: str, kind: Any, default: Any, annotation: Any) -> inspect.Parameter:
        return inspect.Parameter(name, kind, default=default, annotation=annotation)

    either, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            parameter("z", either, inspect.Parameter.empty, Tensor),
            *positional,
            parameter("dim", either, -1, int),
            *(a for a in own if a.kind is by_name),
            parameter("mask", by_name, None, Tensor | None),
        ],
        return_annotation=Tensor,
    )
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = omega.__module__, omega.__doc__
    return function


def _ask_packages() -> None:
    """Load the entry points of installed packages, once; one that fails is a warning that names it."""
    global _asked_packages
    if _asked_packages:
        return
    _asked_packages = True
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        try:
            loaded = point.load()
            if isinstance(loaded, MapRecord) and loaded.name not in _RECORDS:
                register(loaded)
        except Exception as error:
            package = point.dist.name if point.dist else "?"
            _BROKEN[point.name] = (
                f"the entry point {point.name!r} = {point.value!r} of package {package!r} could not be loaded: "
                f"{type(error).__name__}: {error}"
            )
            warnings.warn(f"omegamax: {_BROKEN[point.name]}", RuntimeWarning, stacklevel=3)

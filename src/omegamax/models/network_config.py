"""What the configurations of all networks can do: be changed, be kept as plain data, and be made of it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypeVar

from omegamax.maps import find, get

Own = TypeVar("Own", bound="NetworkConfig")


@dataclass(frozen=True)  # or a command line would take what is derived from it for a choice of classes
class NetworkConfig:
    """A base of configurations, which are frozen dataclasses.

    Attributes:
        parts: by the name of their field, the classes of configurations inside this one.
    """

    parts: ClassVar[Mapping[str, type[Any]]] = {}

    def replace(self: Own, **changes: Any) -> Own:
        """Return the same with changes."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, words, lists and dicts, to be saved with the weights."""
        return {name: _make_plain(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls: type[Own], settings: Mapping[str, Any]) -> Own:
        """Return the configuration that :meth:`to_dict` wrote; names it does not know are a TypeError."""
        made = {name: kind(**settings[name]) for name, kind in cls.parts.items() if settings.get(name) is not None}
        return cls(**{**settings, **made})


def check_transform(name: str, transform: str, options: Mapping[str, Any]) -> None:
    """Refuse a map that there is not, options that it does not have, and maps over images."""
    get(transform, **options)
    if find(transform).image:
        raise ValueError(f"{name}: transform must be a map along one axis, got {transform!r}, over images")


def _make_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _make_plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, tuple) else value

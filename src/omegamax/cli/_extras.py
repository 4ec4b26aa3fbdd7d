"""Packages that come with the extras of an install."""

from __future__ import annotations

from importlib.util import find_spec

VIZ = ("matplotlib",)
TRAIN = (
    *VIZ,
    "lightning",
    "jsonargparse",
    "docstring_parser",
    "typeshed_client",
    "PIL",
    "rich",
    "safetensors",
    "torchmetrics",
)


def require(packages: tuple[str, ...]) -> None:
    """Refuse to begin where one of ``packages`` is missing, and say which extra brings it."""
    for package in packages:
        try:
            there = find_spec(package) is not None
        except ModuleNotFoundError:
            there = False
        if not there:
            extra = "omegamax[viz]" if packages == VIZ else "omegamax[train]"
            raise ImportError(f"{package} is not installed: pip install '{extra}'", name="omegamax")

"""Configurations that others wrote: which classes they may name, and how much they may hold."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import yaml
from jsonargparse import get_loader, set_loader

PACKAGES = ("omegamax", "lightning", "lightning_fabric", "pytorch_lightning", "torch", "torchmetrics")
VARIABLE = "OMEGAMAX_MODULES"  # names of more packages, with commas between, whose classes may be named
REFUSAL = re.compile(rf"must name a class of .*?; to trust a package, set {VARIABLE}=\w*")
MOST_CHARACTERS = 1 << 24  # of a configuration
MOST_NODES = 100_000  # values of one, an alias counted as all that it stands for
MOST_LEVELS = 100


@contextmanager
def guard_imports() -> Iterator[None]:
    """Let jsonargparse import no module that is not of :data:`PACKAGES`, and load no text that grows beyond bounds.

    A class path is resolved by importing its module, which runs it: it is checked before. Classes of the user's own
    are taken where ``OMEGAMAX_MODULES`` names their package, or where they are imported and derive from one of ours.
    """
    swapped, load = [], get_loader("yaml")
    for name, module in list(sys.modules.items()):
        # All but the module that defines the function, where it serves names that come from code.
        if name.startswith("jsonargparse.") and name != "jsonargparse._util" and "import_object" in vars(module):
            swapped.append((module, module.import_object))
    if not swapped:
        raise RuntimeError("this version of jsonargparse imports classes in an unknown way; install another")
    for module, resolve in swapped:
        module.import_object = _check_names(resolve)  # type: ignore[attr-defined]
    set_loader("yaml", _bound(load), (yaml.YAMLError,))
    try:
        yield
    finally:
        set_loader("yaml", load, (yaml.YAMLError,))
        for module, resolve in swapped:
            module.import_object = resolve  # type: ignore[attr-defined]


def find_data_name(arguments: Sequence[str]) -> str | None:
    """Return the class of data that arguments of a command name, by themselves or else in a file of settings.

    >>> find_data_name(["fit", "--data.size", "260", "--data", "TextFilesData"]), find_data_name(["fit"])
    ('TextFilesData', None)
    """
    by_file = None
    for word, following in zip(reversed(arguments), ["", *reversed(arguments[1:])], strict=True):
        name, equals, value = word.partition("=")
        value = value if equals else following
        if name in ("--data", "--data.class_path"):
            return value
        if name == "--config" and by_file is None and os.path.isfile(value):  # a pipe can be read but once
            try:
                with open(value, encoding="utf-8") as file:
                    settings = get_loader("yaml")(file.read(MOST_CHARACTERS + 1))
            except (OSError, ValueError, yaml.YAMLError):
                continue  # the parser reads the file again, and says what is wrong with it
            data = settings.get("data") if isinstance(settings, dict) else None
            data = data.get("class_path") if isinstance(data, dict) else data
            by_file = data if isinstance(data, str) else None
    return by_file


def list_packages() -> tuple[str, ...]:
    """List packages whose classes a configuration may name."""
    more = os.environ.get(VARIABLE, "").split(",")
    return (*PACKAGES, *(name.strip() for name in more if name.strip()))


def _check_names(resolve: Any) -> Any:
    """Wrap a function that imports what a name stands for: check the name before, and the thing after."""

    def import_object(name: Any, *more: Any, **settings: Any) -> Any:
        if settings.get("check_path", True) is False:  # the name comes from code
            return resolve(name, *more, **settings)
        # A name without a dot is that of no module, and resolve says so.
        if isinstance(name, str) and "." in name and not _within(name) and not _ours(name):
            raise ValueError(_refusal(name))
        found = resolve(name, *more, **settings)
        where = getattr(found, "__module__", None) or getattr(found, "__name__", "")
        if not _within(str(where)) and not _ours(str(name)):  # torch.os.system is defined elsewhere
            raise ValueError(_refusal(str(name)))
        return found

    return import_object


def _refusal(name: str) -> str:
    wanted = f"a class of {', '.join(list_packages())}"
    return f"must name {wanted}, got {name!r}; to trust a package, set {VARIABLE}={name.partition('.')[0]}"


def _within(name: str) -> bool:
    """Tell whether a name is that of a thing in an allowed package."""
    return any(name == package or name.startswith(f"{package}.") for package in list_packages())


def _ours(name: str) -> bool:
    """Tell whether a name is that of a class which is imported already and derives from one in an allowed package."""
    module, _, attribute = name.rpartition(".")
    found = getattr(sys.modules.get(module), attribute, None)
    return isinstance(found, type) and any(_within(base.__module__) for base in found.__mro__[1:])


def _bound(load: Any) -> Any:
    """Return a loader of YAML that first counts what a text stands for."""

    def load_bounded(stream: Any) -> Any:
        check_yaml(stream)
        return load(stream)

    return load_bounded


def check_yaml(text: str) -> None:
    """Refuse YAML that is too long, too deep, or whose aliases stand for too much.

    >>> check_yaml("a: &a [1, 2]\\nb: *a")
    """
    if len(text) > MOST_CHARACTERS:
        raise yaml.YAMLError(f"a configuration must have at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
    if not any(mark in text for mark in "[{:&*-?"):  # a single word
        return
    sizes: dict[str, int] = {}  # of what anchors stand for
    open_: list[tuple[str | None, int]] = [(None, 0)]  # anchor and number of values, of each level
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        anchor, size = getattr(event, "anchor", None), 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append((anchor, 1))
            if len(open_) > MOST_LEVELS:
                raise yaml.YAMLError(f"a configuration must have at most {MOST_LEVELS} levels, but has more")
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_.pop()
        elif isinstance(event, yaml.AliasEvent):
            if str(anchor) not in sizes:
                raise yaml.YAMLError(f"the alias {anchor!r} stands for a value that is not complete before it")
            size, anchor = sizes[str(anchor)], None
        elif not isinstance(event, yaml.ScalarEvent):
            continue
        if anchor is not None:
            sizes[str(anchor)] = size
        open_[-1] = (open_[-1][0], open_[-1][1] + size)
        if open_[-1][1] > MOST_NODES:
            raise yaml.YAMLError(f"a configuration must stand for at most {MOST_NODES:,} values, but has more")

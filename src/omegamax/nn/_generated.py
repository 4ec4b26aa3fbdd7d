"""What modules made from the record of a map share: how they are called, hold their arguments and are documented."""

from __future__ import annotations

import ast
import doctest
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from omegamax._checks import check_above
from omegamax.maps import MapRecord
from omegamax.nn.alpha import Alpha, hold
from omegamax.nn.strength import Strength

EITHER, BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY


def learning_arguments(record: MapRecord, kind: Any) -> list[inspect.Parameter]:
    """Return the arguments of a module that say whether and how the parameter of a map is learnt."""
    if record.learnable is None:
        return []
    defaults: dict[str, Any] = {"learnable": False}
    if record.learnable.bounds is not None:
        defaults |= {"per": None, "bounds": record.learnable.bounds}
    return [inspect.Parameter(name, kind, default=default) for name, default in defaults.items()]


def bind(title: str, signature: inspect.Signature, given: tuple, options: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments of a module by name, defaults included."""
    try:
        bound = signature.bind(*given, **options)
    except TypeError as error:
        raise TypeError(f"{title}: {error}; it takes {signature}") from None
    bound.apply_defaults()
    return bound.arguments


def hold_arguments(module: torch.nn.Module, record: MapRecord, arguments: dict[str, Any]) -> tuple[str, ...]:
    """Store the arguments of a map on a module, a learnt one as a module of its own; return their names.

    The Omega refuses what its map does not take.
    """
    title, learnable = type(module).__name__, record.learnable
    learn, per, bounds = (arguments.pop(name, None) for name in ("learnable", "per", "bounds"))
    taken = {name: value for name, value in arguments.items() if name in record.signature.parameters}
    try:
        record.omega(**taken)
    except (TypeError, ValueError, IndexError) as error:
        raise type(error)(f"{title}: {str(error).partition(': ')[2] or error}") from None
    if per is not None and not learn:
        raise ValueError(
            f"{title}: per goes with learnable=True; without it give {learnable and learnable.parameter} as a tensor, "
            f"got per={per}"
        )
    for name, value in arguments.items():
        if not learn or learnable is None or name != learnable.parameter:
            hold(module, name, value)
        elif bounds is None:
            setattr(module, name, Strength(value))
        else:
            if learnable.above >= 1:
                check_above(title, "bounds[0]", bounds[0], learnable.above)
            setattr(module, name, Alpha(value, bounds, per))
    return tuple(arguments)


def current(value: Any, z: Tensor) -> Any:
    """Return a stored argument as the function of the scores takes it."""
    if isinstance(value, Alpha):
        return value(z)
    return value() if isinstance(value, Strength) else value


def describe(module: torch.nn.Module, arguments: Mapping[str, inspect.Parameter]) -> str:
    """Return ``name=value`` for each argument; those by keyword only where they are not the default."""
    shown = []
    for name, argument in arguments.items():
        value = getattr(module, name)
        if isinstance(value, torch.nn.Module) or (argument.kind is BY_NAME and value is argument.default):
            continue
        if isinstance(value, Tensor) and value.dim():
            value = list(value.shape)
        shown.append(f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}")
    return ", ".join(shown)


def document(title: str, function: Callable, record: MapRecord, inputs: int) -> str:
    """Return the docstring of the module of a function: its arguments, and its first example by the module."""
    name = function.__name__
    learnable, how = record.learnable, ""
    taken = [a for a in inspect.signature(function).parameters if a != "mask"][inputs:]
    text = f"Module of :func:`omegamax.{name}`{f', {learnable.parameter} fixed or learnt' if learnable else ''}.\n"
    if taken:
        text += f"\nArgs:\n    {', '.join(taken)}: as in the function.\n"
    if learnable is not None:
        how = f"    learnable: learn {learnable.parameter}, from the value given"
        if learnable.bounds is None:
            text += f"{how}: make it a :class:`~omegamax.nn.Strength`.\n"
        else:
            text += f"{how}: make it an :class:`~omegamax.nn.Alpha`.\n"
            text += "    per: one for each head, ``n``, or for each index of an axis of the scores, ``(axis, size)``.\n"
            text += "    bounds: interval that it cannot leave.\n"
    return text + _example(title, name, inspect.getdoc(function) or "", inputs)


def _example(title: str, name: str, text: str, inputs: int) -> str:
    """Return the first example of a function with its call as one of the module, ``name(z, k)`` as ``Title(k)(z)``."""
    lines = ""
    for example in doctest.DocTestParser().get_examples(text):
        statement = ast.parse(example.source).body[0]
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            if call.func.id != name or len(call.args) < inputs:
                return ""
            made = ast.Call(ast.Name(title), call.args[inputs:], call.keywords)
            source = ast.unparse(ast.Call(made, call.args[:inputs], []))
            return f"\n{lines}>>> {source}\n{textwrap.dedent(example.want)}"
        lines += f">>> {example.source}"
    return ""

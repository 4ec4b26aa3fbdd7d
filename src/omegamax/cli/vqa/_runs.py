"""Trained networks by the folder or file they are in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omegamax.data import DataError
from omegamax.data.files import parse_json, read_text
from omegamax.data.unpack import MIB
from omegamax.tasks.vqa import VQATask
from omegamax.tasks.vqa.compare import BLIND, Contender, label
from omegamax.tasks.weights_file import find_weights

MOST_CURVE = 64 * MIB  # bytes of a file of points; a point has some hundred


def named_runs(paths: Sequence[Path]) -> dict[str, Contender]:
    """Networks by their attention, or by the name of their folder or file where two have the same."""
    found = [(path, read_run(path)) for path in paths]
    kinds = [_kind(run) for _, run in found]
    if len(set(kinds)) == len(kinds):
        return {kind: run for kind, (_, run) in zip(kinds, found, strict=True)}
    named = {str(path): run for path, run in found}
    if len(named) < len(found):
        raise DataError(f"the same network is named twice: {', '.join(map(str, paths))}; name each once")
    return named


def read_run(path: Path) -> Contender:
    """The network in a folder of a run, or in a file, with its curve if there is one beside it."""
    file = find_weights(path, VQATask.kind)
    folders = (path,) if path.is_dir() else (file.parent, file.parent.parent)
    curves = [folder / "curve.json" for folder in folders if (folder / "curve.json").is_file()]
    return Contender(VQATask.load(file), _curve(curves[0]) if curves else [])


def _curve(path: Path) -> list[dict[str, float]]:
    advice = "remove it, and the report goes without the curve"
    try:
        points = parse_json(read_text(path, MOST_CURVE), finite=False)  # a loss can be NaN
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}); {advice}") from error
    if not isinstance(points, list) or not all(map(_is_point, points)):
        raise DataError(f"{path} must be a list of points, a number or null by name, each with a step; {advice}")
    return points


def _is_point(point: object) -> bool:
    """Whether this is what was logged at a step, numbers by name."""
    if not isinstance(point, dict) or point.get("step") is None:
        return False
    return all(value is None or type(value) in (int, float) for value in point.values())


def _kind(run: Contender) -> str:
    return BLIND if run.task.blind else label(run.task.network.output)

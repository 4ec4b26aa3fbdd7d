"""What every part should take at most, line by line, measured as a user calls it: one call after another.

A goal is a multiple of a rival's time, or milliseconds. Beside it stands what was measured before it was set.
"""

from __future__ import annotations

from collections.abc import Iterator

from on_gpu import DEVICE, goal_attention, goal_layers, goal_rows
from on_gpu.clock import back_to_back, peak_mebibytes
from on_gpu.goal import Goal
from on_gpu.sheet import Sheet, said

SECONDS = {"full": 0.6, "quick": 0.2, "tiny": 0.01}


def cases(scale: str = "full") -> list[Goal]:
    """All goals, those first that say most about what is new."""
    parts = (goal_layers, goal_rows, goal_attention)
    return [goal for part in parts for goal in part.goals(scale)]


def measure(sheet: Sheet, scale: str = "full") -> Iterator[str]:
    """A row for each rival of each goal; yields a line about each goal."""
    for goal in cases(scale):
        row = {"shape": goal.shape, "dtype": goal.dtype, "way": goal.way}
        try:
            rivals = goal.rivals()
        except Exception as problem:  # a library or a kernel of torch that is not here
            sheet.add(work=goal.work, name="omegamax", note=said(problem), **row)
            yield f"{goal.title}: {said(problem)}"
            continue
        readings = back_to_back(rivals, goal.baseline, SECONDS[scale], DEVICE)
        ours = readings.pop(goal.ours)
        for (work, name), reading in readings.items():
            sheet.add(work=work, name=name, **row, **vars(reading))
        peak = peak_mebibytes(rivals[goal.ours]) if goal.unit == "MiB" and not ours.note else float("nan")
        found = goal.value(ours, peak)
        aim = {"bar": goal.aim, "ok": found <= goal.aim} if goal.aim else {}
        note = ours.note or f"{goal.unit}; before {goal.before}"
        # The last row of a goal: those since the one before it are its rivals.
        sheet.add(work=goal.work, name="omegamax", **row, **{**vars(ours), "note": note}, **aim, peak_mib=peak)
        yield f"{goal.title}: {found:.3g} {goal.unit}, aim {goal.aim or '-'}, was {goal.before or '-'}"
        del rivals

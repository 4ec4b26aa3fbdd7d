"""Where a command computes."""

from __future__ import annotations

from typing import Any

from omegamax.cli._checks import CommandError


def move(task: Any, device: str) -> None:
    """Move a network to the device that ``--device`` names, or refuse one that is not there."""
    try:
        task.to(device)
    except (RuntimeError, AssertionError) as error:  # the latter from a build of torch without it
        reason = str(error).splitlines()[0]
        raise CommandError(f"--device {device} is not there ({reason}); try --device cpu") from error

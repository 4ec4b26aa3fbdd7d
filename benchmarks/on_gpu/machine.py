"""Where the numbers come from."""

from __future__ import annotations

import datetime
import platform

import torch

from on_gpu import peers
from on_gpu.sheet import Sheet


def short_name() -> str:
    """``h200`` for an NVIDIA H200: the last word that has a digit in it."""
    if not torch.cuda.is_available():
        return "none"
    words = [word for word in torch.cuda.get_device_name().lower().split() if any(c.isdigit() for c in word)]
    return words[0] if words else "gpu"


def describe(sheet: Sheet, sections: list[str]) -> None:
    """A row for each fact, which says of which sections it is one: others may have been measured another day."""
    facts = {
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "none",
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        **{name: peers.version(name) for name in ("triton", "transformers", *peers.NAMES)},
    }
    for fact, value in facts.items():
        sheet.add(work=" ".join(sections), name=fact, note=value)

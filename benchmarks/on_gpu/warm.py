"""Compile what will be timed, in many processes at once, into Triton's cache."""

from __future__ import annotations

import importlib

from on_gpu import peers
from on_gpu.clock import Run
from on_gpu.pool import Job
from on_gpu.sheet import Sheet

SECTIONS = ("rows", "attention", "decoding", "losses", "goals")
LONGEST = 1 << 17  # keys to decode with: longer caches take the same kernels, and more memory than processes share
PARTS = 15  # adasplash tries up to thirty settings of a kernel


def jobs(sections: list[str], scale: str) -> list[Job]:
    """Ours one by one, and adasplash's by parts of their settings."""
    found = []
    for section in (section for section in SECTIONS if section in sections):
        cases = _cases(section, scale)
        for index, case in enumerate(cases):
            works = [work for work, name in case.names() if name == "omegamax"]
            found += [Job("warm", __name__, "ours", (section, scale, index, work)) for work in works]
        if any(name == "adasplash" for case in cases for _, name in case.names()):
            found += [Job("warm", __name__, "theirs", (section, scale, part)) for part in range(PARTS)]
    return found


def ours(sheet: Sheet, section: str, scale: str, index: int, work: str) -> None:
    _tried(_cases(section, scale)[index].rivals()[work, "omegamax"])


def theirs(sheet: Sheet, section: str, scale: str, part: int) -> None:
    peers.only_compile(part, PARTS)
    for case in importlib.import_module(f"on_gpu.{section}").cases(scale):
        works = case.tuned(part)
        if works:
            rivals = case.rivals()
            for work in works:
                _tried(rivals[work, "adasplash"])


def _tried(run: Run) -> None:
    try:
        run()
    except Exception:
        return  # what does not compile is reported where it is timed


def _cases(section: str, scale: str) -> list:
    """Those that need a compiler: a map's backward pass compiles the forward one too, where both are timed."""
    cases = importlib.import_module(f"on_gpu.{section}").cases(scale)
    if section in ("attention", "goals"):  # without a backward pass to come attention keeps less, by other kernels
        return cases
    if section == "decoding":
        return [case for case in cases if case.made == "independent" and case.keys <= LONGEST]
    both = {case.shape for case in cases if case.way == "forward+backward"}
    return [case for case in cases if case.way == "forward+backward" or case.shape not in both]

"""``omegamax cite``: whom to thank."""

from __future__ import annotations

import argparse

from omegamax.cli._bibliography import bibliography, work_of
from omegamax.cli._checks import CommandError

SUMMARY = "print the BibTeX of maps, or of works by key"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax cite``."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="a map (see `omegamax maps`) or a BibTeX key")


def run(options: argparse.Namespace) -> int:
    """Print each work once, in the order asked for."""
    print("\n\n".join(bibtex(options.names)))
    return 0


def bibtex(names: list[str]) -> list[str]:
    """Return the BibTeX of maps and keys, without repetitions.

    >>> bibtex(["sparsemax", "martins2016softmax"])[0].splitlines()[0]
    '@inproceedings{martins2016softmax,'
    """
    from omegamax.maps import records

    maps, works = records(), bibliography()
    unknown = [name for name in names if name not in maps and name not in works]
    if unknown:
        raise CommandError(
            f"no map or work is called {', '.join(map(repr, unknown))}\n"
            f"maps: {', '.join(maps)}\nworks: {', '.join(works)}"
        )
    found = [work_of(maps[name].cite) if name in maps else works[name] for name in names]
    return list(dict.fromkeys(work.bibtex for work in found if work is not None))

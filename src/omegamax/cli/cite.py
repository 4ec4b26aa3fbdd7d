"""``omegamax cite``: whom to thank."""

from __future__ import annotations

import argparse

from omegamax.cli._bibliography import Publication, bibliography, work_of
from omegamax.cli._checks import CommandError
from omegamax.cli._works import WORKS

SUMMARY = "print the BibTeX of maps, of other parts of the library, or of works by key"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax cite``."""
    which = "a map (see `omegamax maps`), a public name such as `hopfield.Memory`, or a BibTeX key"
    parser.add_argument("names", nargs="+", metavar="NAME", help=which)


def run(options: argparse.Namespace) -> int:
    """Print each work once, in the order asked for."""
    print("\n\n".join(bibtex(options.names)))
    return 0


def bibtex(names: list[str]) -> list[str]:
    """Return the BibTeX of maps, public names and keys, without repetitions.

    >>> bibtex(["sparsemax", "martins2016softmax"])[0].splitlines()[0]
    '@inproceedings{martins2016softmax,'
    >>> [entry.splitlines()[0] for entry in bibtex(["hopfield.Memory.classic"])]
    ['@article{hopfield1982neural,', '@article{amari1972learning,']
    """
    from omegamax.maps import records

    maps, works = records(), bibliography()
    unknown = [name for name in names if name not in maps and name not in WORKS and name not in works]
    if unknown:
        raise CommandError(
            f"no map or work is called {', '.join(map(repr, unknown))}\n"
            f"maps: {', '.join(maps)}\nother names: {', '.join(WORKS)}\nworks: {', '.join(works)}"
        )
    found: list[Publication | None] = []
    for name in names:
        found += [work_of(maps[name].cite)] if name in maps else [works[key] for key in WORKS.get(name, (name,))]
    return list(dict.fromkeys(work.bibtex for work in found if work is not None))

"""The kind of a question, told from its answer."""

from __future__ import annotations

_KINDS = {"yes": "yes/no", "no": "yes/no"}


def kind_of(answer: str) -> str:
    """Return ``"yes/no"`` of yes and no, ``"number"`` of digits, ``"other"`` of all else.

    >>> [kind_of(answer) for answer in ("yes", "12", "two chairs")]
    ['yes/no', 'number', 'other']
    """
    return "number" if answer.isdecimal() else _KINDS.get(answer, "other")


def yes_or_no(label: object) -> str | None:
    """Return the answer of a statement's label: true or false, as JSON or in letters; None of anything else."""
    if isinstance(label, str):
        return {"true": "yes", "false": "no"}.get(label.strip().lower())
    return ("yes" if label else "no") if isinstance(label, bool) else None

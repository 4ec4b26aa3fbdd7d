"""A comparison of networks that a page shows and a file keeps, whatever they were asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import Any, ClassVar, Generic, TypeVar

from omegamax.tasks.report.records import ModelRow, check_records, load_record, save_record

RowKind = TypeVar("RowKind", bound=ModelRow)
ExampleKind = TypeVar("ExampleKind")
Own = TypeVar("Own", bound="PageComparison[Any, Any]")


@dataclass(frozen=True)
class PageComparison(Generic[RowKind, ExampleKind]):
    """Everything a page shows. An application names its format, and its types of rows, examples and looks.

    Args:
        title, about: heading and a sentence or two under it.
        rows: the networks, in the order shown.
        examples: to look at, each with its ``looks`` by the name of the row.
        settings: what the numbers depend on, name and value.
    """

    form: ClassVar[str]
    row_type: ClassVar[type[Any]]
    example_type: ClassVar[type[Any]]
    look_type: ClassVar[type[Any]]

    title: str
    about: str
    rows: list[RowKind]
    examples: list[ExampleKind] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_records(type(self).__name__, self.rows, self.examples)

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON."""
        save_record(self, self.form, path)

    @classmethod
    def load(cls: type[Own], path: str | PathLike[str]) -> Own:
        """Read what :meth:`save` wrote."""

        def read_rows(given: list[dict[str, Any]]) -> list[Any]:
            return [cls.row_type(**row) for row in given]

        def read_examples(given: list[dict[str, Any]]) -> list[Any]:
            looks = [{name: cls.read_look(look) for name, look in each["looks"].items()} for each in given]
            return [cls.example_type(**{**each, "looks": own}) for each, own in zip(given, looks, strict=True)]

        return load_record(cls, cls.form, path, rows=read_rows, examples=read_examples)

    @classmethod
    def read_look(cls, data: Any) -> Any:
        """Make the look of one network of what JSON has of it."""
        return cls.look_type(**data)

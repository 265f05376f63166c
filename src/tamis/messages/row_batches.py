"""Rows as they come out of a file: batches of good ones, and what is said of a bad one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tamis.errors import MessageError

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 120  # characters of a bad row that are shown


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was left out. `line` counts lines from 1, or rows of a table from 0."""

    file: str
    line: int
    reason: str
    text: str = ""
    place: Literal["line", "row"] = "line"

    def __str__(self) -> str:
        shown = f"\n  {self.text}" if self.text else ""
        return f"{self.file}, {self.place} {self.line}: {self.reason}{shown}"


OnBad = Callable[[BadRow], None]


@dataclass(frozen=True, slots=True)
class Batch:
    """Some messages of a file, in order.

    `rows` is a record batch with one column per dotted attribute, or a list of mappings.
    `numbers[i]` is the number of row i in its file, from 0; bad rows are counted, blank lines
    are not. `lines[i]` is where the row stands: a line of text from 1, or its number in a table.
    `progress` is the part of the file that has been read, where that is known.
    """

    file: str
    rows: pa.RecordBatch | list[dict[str, Any]]
    numbers: Sequence[int]
    lines: Sequence[int]
    place: Literal["line", "row"] = "line"
    progress: float | None = field(default=None, compare=False)

    def bad(self, i: int, reason: str) -> BadRow:
        """What is said of row i where it turns out to be bad after it was read."""
        return BadRow(self.file, self.lines[i], reason, place=self.place)

    def __len__(self) -> int:
        return len(self.numbers)


def refuse(bad: BadRow) -> None:
    """An `on_bad` that stops at the first bad row."""
    raise MessageError(str(bad))


def excerpt(text: object) -> str:
    """The beginning of `text` as one printable line."""
    whole = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in whole[:_SHOWN])
    return shown + ("..." if len(whole) > _SHOWN else "")

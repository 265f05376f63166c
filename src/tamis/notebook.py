"""How things look in a notebook: small tables of HTML, in which no text is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

SHOWN = 10  # rows of a table
_LONGEST = 200  # characters of a cell


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A titled table; `rows` beyond the first SHOWN are for the caller to leave out."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _cell(value: object) -> str:
    text = str(value)
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")

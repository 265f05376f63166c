"""What a broker answers, as a table for people or as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

AsJson = Annotated[bool, Parameter(name="--json", negative="")]
_WIDE = 80  # characters of a cell at most


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """A line for each row below a line of headings; all columns of all rows as JSON."""
    if as_json:
        print_json(list(rows))
        return
    cells = [[_cell(row.get(name)) for name in columns] for row in rows]
    table = [[name.upper() for name in columns], *cells]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        print("  ".join(padded).rstrip())


def print_record(record: Mapping[str, Any], as_json: bool) -> None:
    """One thing: a line for each of its properties."""
    if as_json:
        print_json(record)
        return
    width = max(map(len, record), default=0)
    for name, value in record.items():
        print(f"{name.ljust(width)}  {_cell(value, 0)}".rstrip())


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False))


def _cell(value: Any, most: int = _WIDE) -> str:
    if value is None or isinstance(value, str):
        text = value or ""
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, int):
        text = f"{value:,}"
    else:
        text = json.dumps(value, ensure_ascii=False)
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if not most or len(text) <= most else text[: most - 3] + "..."

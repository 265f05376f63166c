"""JSON lines: one object to a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tamis.errors import MessageError
from tamis.messages.byte_sources import MAX_LINE, Source, lines
from tamis.messages.row_batches import BadRow, OnBad, excerpt

MAX_DEPTH = 64

Record = tuple[int, int, dict[str, Any] | None]
# scan_once costs half of json.loads; what loads checks besides is checked in _parse.
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def records(source: Source, on_bad: OnBad, limit: int = MAX_LINE) -> Iterator[Record]:
    """(line, size, object) for every line that is not blank; None stands for a bad line."""
    for number, line in lines(source, limit):
        try:
            row = parse_object(line, limit)
        except MessageError as error:
            on_bad(BadRow(source.name, number, str(error), excerpt(line.rstrip())))
            yield number, len(line), None
            continue
        if row is not None:
            yield number, len(line), row


def parse_object(line: bytes, limit: int = MAX_LINE) -> dict[str, Any] | None:
    """The object on a line, or None if the line is blank.

    NaN, Infinity and -Infinity are read as the doubles that they name, and a number beyond the
    doubles such as 1e400 as infinity. Of two equal keys the last one counts.
    """
    if len(line) > limit:
        raise MessageError(f"the line is longer than {limit} bytes")
    try:
        text = line.decode().strip(" \t\r\n")
    except UnicodeDecodeError as error:
        raise MessageError(f"invalid UTF-8 at byte {error.start + 1}") from None
    if not text:
        return None
    value = _parse(text)
    if not isinstance(value, dict):
        raise MessageError(f"expected a JSON object, found {_KINDS.get(type(value), 'null')}")
    return value


_KINDS: dict[type, str] = {
    list: "an array: write one object to a line",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a truth value",
}


def _parse(text: str) -> Any:
    # A value is no deeper than it has brackets, so most texts need no closer look.
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise MessageError(f"the JSON is nested deeper than {MAX_DEPTH}")
    try:
        value, end = _scan(text, 0)
    except StopIteration as stop:
        raise MessageError(f"broken JSON at column {stop.value + 1}: expected a value") from None
    except json.JSONDecodeError as error:
        what = error.msg[0].lower() + error.msg[1:]
        raise MessageError(f"broken JSON at column {error.pos + 1}: {what}") from None
    except ValueError:
        raise MessageError("the JSON holds an integer of thousands of digits") from None
    if end != len(text):
        raise MessageError(f"broken JSON at column {end + 1}: more text after the value")
    return value


def _depth(text: str) -> int:
    """How deep brackets nest; those inside strings are not brackets."""
    deepest = depth = 0
    quoted = escaped = False
    for c in text:
        if quoted:
            quoted = escaped or c != '"'
            escaped = not escaped and c == "\\"
        elif c == '"':
            quoted = True
        elif c in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif c in "]}":
            depth -= 1
    return deepest

"""The playground: selectors, messages and a schema, and what comes of them. No broker is needed."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import msgspec
from markupsafe import Markup

from tamis.engine.matcher import Matcher
from tamis.errors import InputError, SchemaError, SelectorError, TamisError
from tamis.language import Condition, Limits, canonical, check, parse
from tamis.language.parsing import Dialect
from tamis.logic import Explanation, Semantics, explain
from tamis.schema import Schema
from tamis.server.pages.diagrams import drawn

SEMANTICS: tuple[Semantics, ...] = ("sql", "strict", "default", "total")
MOST = 20  # selectors, messages, and attributes
LONGEST = 10_000  # characters of a field
_LIMITS = Limits()
EXAMPLE = {
    "schema": "symbol string\nprice double\nvolume int",
    "selectors": "price < 100 AND symbol = 'IBM'\nNOT (volume > 500)\nprice * volume >= 1000000",
    "messages": '{"symbol": "IBM", "price": 95.0, "volume": 300}\n{"symbol": "T", "price": 35.5}\n'
    '{"symbol": "IBM", "volume": 90000}',
}


@dataclass
class Read:
    """One selector as it was read, or why it cannot be."""

    text: str
    condition: Condition | None = None
    reads: str = ""
    note: str = ""
    error: TamisError | None = None


@dataclass
class Played:
    """`truths[message][selector][semantics]`: true, false, or why that cannot be said."""

    selectors: list[Read] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    truths: list[list[list[bool | str]]] = field(default_factory=list)
    error: TamisError | None = None
    explained: Explanation | None = None
    drawing: Markup = field(default_factory=Markup)


def play(
    schema: str, selectors: str, messages: str, dialect: Dialect, chosen: tuple[int, int]
) -> Played:
    """`chosen`: the selector and the message that are explained."""
    found = Played()
    try:
        for text in (schema, selectors, messages):
            if len(text) > LONGEST:
                raise InputError(f"the playground takes up to {LONGEST:,} characters a field")
        types = read_schema(schema)
        found.messages = _messages(messages)
        found.selectors = [_read(text, types, dialect) for text in _lines(selectors)]
    except TamisError as error:
        found.error = error
        return found
    for message in found.messages:
        found.truths.append([_truths(one.condition, message, types) for one in found.selectors])
    _explain(found, types, chosen)
    return found


def read_schema(text: str) -> Schema | None:
    """One attribute on each line: a name and its type. None: nothing is declared."""
    kinds = {}
    for row in _lines(text):
        name, _, kind = row.replace(":", " ").partition(" ")
        kinds[name] = kind.strip() or "string"
    try:
        return Schema.of(kinds) if kinds else None
    except (SchemaError, TypeError) as error:
        raise SchemaError(f"the schema cannot be used: {error}") from None


def _lines(text: str) -> list[str]:
    found = [line.strip() for line in text.splitlines() if line.strip()]
    if len(found) > MOST:
        raise InputError(f"the playground takes up to {MOST} lines a field: use tamis match")
    return found


def _messages(text: str) -> list[dict[str, Any]]:
    found = []
    for row in _lines(text):
        try:
            found.append(msgspec.json.decode(row, type=dict[str, Any]))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InputError(f"{row[:60]!r} is not a message: {error}") from None
    return found


def _read(text: str, schema: Schema | None, dialect: Dialect) -> Read:
    try:
        condition = parse(text, dialect=dialect, limits=_LIMITS)
        check(condition, schema, text=text)
        matcher = Matcher(schema, dialect=dialect)
        notice = matcher.add(0, text)
        return Read(text, condition, canonical(condition), str(notice) if notice else "")
    except SelectorError as error:
        return Read(text, error=error)


def _truths(
    condition: Condition | None, message: dict[str, Any], schema: Schema | None
) -> list[bool | str]:
    if condition is None:
        return ["cannot be read"] * len(SEMANTICS)
    found: list[bool | str] = []
    for semantics in SEMANTICS:
        if semantics in ("default", "total") and schema is None:
            found.append("needs a schema")
            continue
        try:
            found.append(explain(condition, message, schema, semantics).matches)
        except TamisError as error:
            found.append(str(error))
    return found


def _explain(found: Played, schema: Schema | None, chosen: tuple[int, int]) -> None:
    s, m = chosen
    if not (0 <= s < len(found.selectors) and 0 <= m < len(found.messages)):
        return
    condition = found.selectors[s].condition
    if condition is None:
        return
    with contextlib.suppress(TamisError):
        found.explained = explain(condition, found.messages[m], schema, "sql")
        found.drawing = drawn(condition, schema, "sql", found.messages[m])

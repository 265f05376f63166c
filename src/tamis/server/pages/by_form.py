"""Selectors as rows of a form, one for each predicate, for people who write no Boolean text."""

from __future__ import annotations

from typing import NamedTuple

from tamis.errors import InputError, TamisError
from tamis.language import canonical, parse
from tamis.language.parsing import Dialect
from tamis.language.tree import (
    And,
    Attribute,
    Compare,
    Condition,
    In,
    IsNull,
    Literal,
    Not,
    Text,
)
from tamis.schema import Type

OPS = ("=", "<>", "<", "<=", ">", ">=", "CONTAINS", "STARTS WITH", "ENDS WITH", "IN",
       "IS NULL", "IS NOT NULL")  # fmt: skip
_TEXTS = ("string", "chararray")


class Row(NamedTuple):
    attribute: str
    op: str
    value: str


def rows_of(selector: str, dialect: Dialect) -> list[Row] | None:
    """The rows that mean the same; None: the selector is not a plain conjunction."""
    if not selector.strip():
        return []
    try:
        condition = parse(selector, dialect=dialect)
    except TamisError:
        return None
    rows = [_row(part) for part in (condition.parts if isinstance(condition, And) else [condition])]
    return None if None in rows else [row for row in rows if row is not None]


def _row(part: Condition) -> Row | None:
    match part:
        case Compare(Attribute(name), op, Literal() as literal):
            return Row(name, op, _text(literal))
        case Text(Attribute(name), ("CONTAINS" | "STARTS WITH" | "ENDS WITH") as op,
                  Literal() as literal):  # fmt: skip
            return Row(name, op, _text(literal))
        case In(Attribute(name), values):
            return Row(name, "IN", ", ".join(map(_text, values)))
        case IsNull(Attribute(name)):
            return Row(name, "IS NULL", "")
        case Not(IsNull(Attribute(name))):
            return Row(name, "IS NOT NULL", "")
    return None


def _text(literal: Literal) -> str:
    """As people write it in a form; a text that looks like a number keeps its quotes."""
    if literal.type is not Type.STRING:
        return canonical(Compare(Attribute("x"), "=", literal)).removeprefix("x = ")
    text = str(literal.value)
    bare = bool(text) and text == text.strip() and "'" not in text and "," not in text
    return text if bare and not _is_number(text) and not _is_bool(text) else _quoted(text)


def selector_of(rows: list[Row], types: dict[str, str]) -> str:
    """The text that the rows mean; `types` are those that the channel declares."""
    return " AND ".join(_predicate(row, types.get(row.attribute, "")) for row in rows)


def _predicate(row: Row, kind: str) -> str:
    name, op, value = row
    if op not in OPS:
        raise InputError(f"{op[:40]!r} is no operator: choose one of the list")
    name = canonical(IsNull(Attribute(name))).removesuffix(" IS NULL")
    if op.endswith("NULL"):
        return f"{name} {op}"
    if op == "IN":
        return f"{name} IN ({', '.join(_value(v, kind) for v in _listed(value))})"
    if op in ("CONTAINS", "STARTS WITH", "ENDS WITH"):
        return f"{name} {op} {value if _is_quoted(value) else _quoted(value)}"
    return f"{name} {op} {_value(value, kind)}"


def _listed(text: str) -> list[str]:
    """What commas outside of quotes divide."""
    found, quoted = [""], False
    for sign in text:
        quoted ^= sign == "'"
        if sign == "," and not quoted:
            found.append("")
        else:
            found[-1] += sign
    return [one.strip() for one in found]


def _value(text: str, kind: str) -> str:
    text = text.strip()
    if _is_quoted(text) or kind not in ("", *_TEXTS):
        return text  # a number, a time or a Boolean
    loose = not kind and (_is_number(text) or _is_bool(text) or text.startswith("TIMESTAMP '"))
    return text if loose else _quoted(text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] == "'"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_bool(text: str) -> bool:
    return text.upper() in ("TRUE", "FALSE")

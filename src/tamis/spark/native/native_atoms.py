"""An atom as a Column: true where it holds, false or NULL where it does not.

The constants of an atom are canonical for the type that the schema gave to its term. Here the
type is that of the Column, so they are brought onto its line of numbers once more. They are given
to Spark as they are: a Column for each would be another four calls into Java.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.language.patterns import like_parts
from tamis.logic import numbers
from tamis.logic.atoms import Atom, Kind, family_of
from tamis.logic.wildcards import ESCAPE
from tamis.schema import Type
from tamis.spark.native.borrowed import matches
from tamis.spark.native.native_values import DAY, FIRST, LAST, NotNative, Value, moment

NEVER = None


def atom_column(atom: Atom, value: Value, *, python: bool) -> Column | None:
    """Where the atom holds for the value; NEVER where it cannot. `python` may do regex."""
    if atom.kind is Kind.DEFINED:
        return value.defined
    if value.type is None or family_of(value.type) is not atom.family:
        return NEVER
    if atom.kind is Kind.PATTERN and python:
        return matches(str(atom.constant), value.column)
    return _KINDS[atom.kind](value, atom.constant)


def denied(atom: Atom, value: Value) -> Column | None:
    """Where the atom does not hold though the value is defined, NULL where it is not; None where
    that has no expression of its own."""
    line = value.type
    if line is None or not line.numeric or atom.family is not family_of(line):
        return None
    if atom.kind is not Kind.BELOW:
        return None
    threshold = numbers.at_least(atom.constant, line)  # type: ignore[arg-type]
    if numbers.never_below(threshold, line) or numbers.always_below(threshold, line):
        return None
    return value.column >= _number(threshold, line)


def _below(value: Value, constant: Any) -> Column | None:
    match value.type:
        case Type.INT | Type.DOUBLE:
            return _number_below(value, numbers.at_least(constant, value.type))
        case Type.TIMESTAMP:
            return _moment_below(value, constant)
    text = str(constant)
    if text.endswith("\0"):  # below the next string is: not above this one
        return value.column <= text[:-1]
    return value.column < text


def _number_below(value: Value, threshold: Any) -> Column | None:
    if numbers.never_below(threshold, value.type):
        return NEVER
    if numbers.always_below(threshold, value.type):
        return value.defined
    # NaN is the largest number for Spark, so it is never below.
    return value.column < _number(threshold, value.type)


def _number(constant: Any, line: Type | None) -> int | float:
    return float(constant) if line is Type.DOUBLE else int(constant)


def _moment_below(value: Value, micros: int) -> Column | None:
    if micros <= FIRST:
        return NEVER
    return value.defined if micros > LAST else value.column < moment(micros, value.clock)


def _member(value: Value, constants: Any) -> Column | None:
    match value.type:
        case Type.INT | Type.DOUBLE:
            kept = [c for c in constants if numbers.on_line(c, value.type)]
            return _one_of(value, [_number(c, value.type) for c in kept])
        case Type.TIMESTAMP:
            midnights = [c for c in constants if value.clock != "date" or c % DAY == 0]
            return _one_of(value, [moment(c, value.clock) for c in midnights])
    return _one_of(value, list(constants))


def _one_of(value: Value, constants: list[Any]) -> Column | None:
    if not constants:
        return NEVER
    return value.column == constants[0] if len(constants) == 1 else value.column.isin(constants)


def _pattern(value: Value, constant: Any) -> Column | None:
    raise NotNative("MATCHES follows RE2, and Spark has Java's regular expressions only")


def _like(value: Value, constant: Any) -> Column:
    """By a regular expression that never goes back: each part between two % is looked for behind
    the one before, and its first place is as good as any later one."""
    parts = [".".join(map(_quoted, texts)) for texts in like_parts(constant, ESCAPE)]
    if len(parts) == 1:
        return F.rlike(value.column, F.lit(rf"(?s)\A{parts[0]}\z"))
    first, *between, last = parts
    middle = "".join(f"(?>.*?{part})" for part in between if part)
    return F.rlike(value.column, F.lit(rf"(?s)\A{first}{middle}.*{last}\z"))


_SIGNS = re.compile(r"[!-/:-@\[-^`{-~]")


def _quoted(text: str) -> str:
    return _SIGNS.sub(r"\\\g<0>", text)


_KINDS: dict[Kind, Callable[[Value, Any], Column | None]] = {
    Kind.TYPED: lambda value, constant: value.defined,
    Kind.BELOW: _below,
    Kind.MEMBER: _member,
    Kind.PREFIX: lambda value, constant: value.column.startswith(constant),
    Kind.SUFFIX: lambda value, constant: value.column.endswith(constant),
    Kind.CONTAINS: lambda value, constant: value.column.contains(constant),
    Kind.WITHIN: lambda value, constant: F.contains(F.lit(constant), value.column),
    Kind.PATTERN: _pattern,
    Kind.LIKE: _like,
}

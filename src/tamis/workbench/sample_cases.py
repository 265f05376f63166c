"""Tests of a set of subscriptions: sample messages, and the ids that each must match.

In TOML, with the subscriptions in the same file or named there:

    subscriptions = "rules.jsonl"

    [[test]]
    name = "a cheap trade"
    message = { symbol = "IBM", price = 10.0 }
    matches = ["cheap", "ibm"]

In JSON lines, one test to a line: {"message": {...}, "matches": [...]}. `matches` lists all ids;
`includes` and `excludes` list some that must and must not be among them.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.engine import Id, Matcher
from tamis.errors import InputError, MessageError, SubscriptionError

_KEYS = ("matches", "includes", "excludes")
_KNOWN = frozenset((*_KEYS, "message", "name"))


@dataclass(frozen=True, slots=True)
class Case:
    """One message and what it must match; None: not asked."""

    name: str
    message: Mapping[str, Any]
    matches: tuple[Id, ...] | None = None
    includes: tuple[Id, ...] = ()
    excludes: tuple[Id, ...] = ()

    @property
    def ids(self) -> tuple[Id, ...]:
        return (*(self.matches or ()), *self.includes, *self.excludes)


@dataclass(frozen=True, slots=True)
class Cases:
    """The tests of a file, and the subscriptions that it has or names."""

    cases: list[Case]
    file: Path | None = None
    pairs: tuple[tuple[Id, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    case: Case
    missing: tuple[Id, ...]
    unexpected: tuple[Id, ...]
    error: str = ""


def read_cases(path: Path) -> Cases:
    """The tests of a .toml or .jsonl file; InputError with the place of what is wrong."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8") from None
    return _from_toml(path, text) if path.suffix == ".toml" else _from_lines(path, text)


def failures(matcher: Matcher, cases: Iterable[Case]) -> Iterator[Failure]:
    """The tests that fail."""
    for case in cases:
        unknown = [id for id in case.ids if id not in matcher]
        if unknown:
            yield Failure(case, (), (), f"there is no subscription {unknown[0]!r}")
            continue
        try:
            found = matcher.match(case.message)
        except MessageError as error:
            yield Failure(case, (), (), str(error))
            continue
        wanted = case.includes if case.matches is None else (*case.matches, *case.includes)
        missing = tuple(id for id in wanted if id not in found)
        unexpected = tuple(
            id
            for id in found
            if id in case.excludes or (case.matches is not None and id not in case.matches)
        )
        if missing or unexpected:
            yield Failure(case, missing, unexpected)


def _from_toml(path: Path, text: str) -> Cases:
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: {error}") from None
    unknown = said.keys() - {"subscriptions", "subscription", "test"}
    if unknown:
        raise InputError(f"{path}: unknown {sorted(unknown)[0]!r}: expected subscriptions, test")
    tests = said.get("test", [])
    if not isinstance(tests, list):
        raise InputError(f"{path}: write tests as [[test]]")
    cases = [_case(f"{path}: test {i}", i, row) for i, row in enumerate(tests, 1)]
    named = said.get("subscriptions")
    if named is not None and not isinstance(named, str):
        raise InputError(f"{path}: subscriptions is the name of a file")
    rows = said.get("subscription", [])
    pairs = tuple(_pair(f"{path}: subscription {i}", row) for i, row in enumerate(rows, 1))
    return Cases(cases, None if named is None else path.parent / named, pairs)


def _from_lines(path: Path, text: str) -> Cases:
    cases = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(f"{where}: {error}") from None
            cases.append(_case(where, number, row))
    return Cases(cases)


def _case(where: str, number: int, row: Any) -> Case:
    if not isinstance(row, dict) or not isinstance(row.get("message"), dict):
        raise InputError(f"{where}: there is no message")
    unknown = row.keys() - _KNOWN
    if unknown:
        raise InputError(f"{where}: unknown {sorted(unknown)[0]!r}: expected {', '.join(_KEYS)}")
    if not row.keys() & set(_KEYS):
        raise InputError(f"{where}: say what must match: {', '.join(_KEYS)}")
    lists = {key: _ids(where, key, row[key]) for key in _KEYS if key in row}
    return Case(str(row.get("name", f"test {number}")), row["message"], **lists)


def _ids(where: str, key: str, said: Any) -> tuple[Id, ...]:
    good = isinstance(said, list) and all(type(id) in (str, int) for id in said)
    if not good:
        raise InputError(f"{where}: {key} is a list of ids")
    return tuple(said)


def _pair(where: str, row: Any) -> tuple[Id, str]:
    if not isinstance(row, dict) or type(row.get("id")) not in (str, int):
        raise SubscriptionError(f"{where}: there is no id")
    if not isinstance(row.get("selector"), str):
        raise SubscriptionError(f"{where}: there is no selector")
    return row["id"], row["selector"]

"""Tests with sample rows: `test 'name'` and its lines `given`, `with` and `expect`."""

from __future__ import annotations

from tamis.flow.model.elements import Entries, Row, Sample, Test
from tamis.flow.text.flow_parser import StatementParser
from tamis.language import Literal
from tamis.language.lexer import unquote
from tamis.schema import Scalar


def test(p: StatementParser, at: int) -> Test:
    """`test 'name' { given SPACE (row), ... | with LOOKUP key -> value, ... | expect ... }`."""
    if p.kinds[p.i] != "string":
        p.fail_here("expected the name of the test", "write test 'large trades pass'")
    name = unquote(p.take()[1])
    p.title = f"test {name!r}"
    given: list[Sample] = []
    expected: list[Sample] = []
    entries: list[Entries] = []
    while p.kinds[p.i] != "end":
        place = p.at
        if p.word("given"):
            given.append(_sample(p, place))
        elif p.word("with"):
            entries.append(_entries(p, place))
        elif p.word("expect"):
            expected.append(_sample(p, place))
        else:
            p.fail_here("expected given, with or expect")
    if not expected:
        p.fail("a test without expect tests nothing", at, "write expect SPACE (...), or nothing")
    return Test(name, tuple(given), tuple(expected), tuple(entries), at)


test.__test__ = False  # type: ignore[attr-defined]  # pytest: this reads one


def _sample(p: StatementParser, at: int) -> Sample:
    space, _ = p.identifier("the name of a space")
    if p.word("nothing"):
        return Sample(space, (), at)
    return Sample(space, p.listed_items(lambda: _row(p)), at)


def _row(p: StatementParser) -> Row:
    p.need("(", "and a row", "write ('IBM', 120.5, NULL), or nothing")
    values = p.listed_items(lambda: _value(p))
    p.need(")", "after the row")
    return values


def _entries(p: StatementParser, at: int) -> Entries:
    lookup, _ = p.identifier("the name of a lookup")
    return Entries(lookup, p.listed_items(lambda: _pair(p)), at)


def _pair(p: StatementParser) -> tuple[Scalar, Scalar]:
    key = _constant(p)
    p.need("->", "and the value of that key")
    return key, _constant(p)


def _value(p: StatementParser) -> Scalar | None:
    return None if p.sign("NULL") else _constant(p)


def _constant(p: StatementParser) -> Scalar:
    at = p.at
    found = p.whole_term()
    if not isinstance(found, Literal):
        p.fail("sample rows hold constants only", at, "a string stands in quotes")
    return found.value

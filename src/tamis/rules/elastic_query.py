"""The query DSL of Elasticsearch and OpenSearch as conditions: what filters do, without scores.

A field may always hold several values, and a query holds if it holds of one of them. There are
two truth values: `must_not` holds of a document that lacks the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NoReturn

from tamis.errors import RuleError
from tamis.language import Attribute, Compare, Condition, Constant, Literal, Regex, Term, Text
from tamis.language.literals import ConstantError, timestamp
from tamis.language.tree import CompareOp
from tamis.rules.conditions import (
    ONE,
    all_of,
    any_of,
    equal,
    forms_of,
    like,
    number,
    refuted,
    string,
    within,
)
from tamis.rules.shapes import Predicate, Shapes
from tamis.schema import Scalar, Shape, Type

MAX_CHOICES = 500  # of `minimum_should_match`
_IGNORED = frozenset(("boost", "_name", "rewrite", "ignore_unmapped", "score_mode"))
_BOUNDS: dict[str, CompareOp] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_LUCENE = re.compile(r'[~&@#<>"$]|(?<!\[)\^')  # what means something else, or nothing, in RE2
_FRACTION = re.compile(r"\.\d{3,}(?:Z|[+-]\d\d:\d\d)$")


class Query:
    """One query on its way."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes

    def whole(self, node: object, at: str = "query") -> Condition:
        if not isinstance(node, dict):
            _fail("a query is a JSON object", "form", at)
        if len(node) != 1:
            _fail("a query has one name", "form", at)
        ((name, body),) = node.items()
        read = QUERIES.get(name)
        if read is None:
            what = _WORDS if name in _ON_WORDS else f"the query {name!r} is not supported"
            _fail(what, str(name)[:40], at)
        return read(self, body, f"{at}.{name}")

    def several(self, node: object, at: str) -> list[Condition]:
        nodes = node if isinstance(node, list) else [node]
        return [self.whole(one, f"{at}[{i}]") for i, one in enumerate(nodes)]

    # --- compound queries -----------------------------------------------------

    def boolean(self, body: Any, at: str) -> Condition:
        known = {"must", "filter", "should", "must_not", "minimum_should_match"}
        options = self.options(body, known, at)
        needed = [
            part
            for name in ("must", "filter")
            if name in options
            for part in self.several(options[name], f"{at}.{name}")
        ]
        banned = self.several(options.get("must_not", []), f"{at}.must_not")
        should = self.several(options.get("should", []), f"{at}.should")
        least = 0 if not should or "must" in options or "filter" in options else 1
        if "minimum_should_match" in options:
            least = _least(options["minimum_should_match"], len(should), at)
        return all_of([*needed, *map(refuted, banned), self.at_least(least, should, at)])

    def at_least(self, least: int, parts: Sequence[Condition], at: str) -> Condition:
        if least <= 0:
            return Constant(True)
        if math.comb(len(parts), least) > MAX_CHOICES:
            what = f"{least} of {len(parts)} are more than {MAX_CHOICES} choices"
            _fail(what, "minimum_should_match", at)
        return any_of(map(all_of, combinations(parts, least)))

    def constant_score(self, body: Any, at: str) -> Condition:
        options = self.options(body, {"filter"}, at)
        return self.whole(options.get("filter"), f"{at}.filter")

    def dis_max(self, body: Any, at: str) -> Condition:
        options = self.options(body, {"queries", "tie_breaker"}, at)
        return any_of(self.several(options.get("queries", []), f"{at}.queries"))

    def boosting(self, body: Any, at: str) -> Condition:
        options = self.options(body, {"positive", "negative", "negative_boost"}, at)
        return self.whole(options.get("positive"), f"{at}.positive")

    def nested(self, body: Any, at: str) -> Condition:
        """Of one field it is what holds of one element; of several it is the same element."""
        options = self.options(body, {"path", "query"}, at)
        inner = options.get("query")
        while isinstance(inner, dict) and len(inner) == 1 and "bool" in inner:
            clauses = inner["bool"] if isinstance(inner["bool"], dict) else {}
            parts = [one for name in ("must", "filter") for one in _listed(clauses.get(name))]
            if set(clauses) - {"must", "filter"} - _IGNORED or len(parts) != 1:
                _fail("several conditions on the same element", "nested", at)
            inner = parts[0]
        if not isinstance(inner, dict) or not set(inner) <= _OF_ONE_FIELD:
            _fail("several conditions on the same element", "nested", at)
        return self.whole(inner, f"{at}.query")

    def match_all(self, body: Any, at: str) -> Condition:
        self.options(body, set(), at)
        return Constant(True)

    def match_none(self, body: Any, at: str) -> Condition:
        self.options(body, set(), at)
        return Constant(False)

    # --- queries on one field -------------------------------------------------

    def term(self, body: Any, at: str) -> Condition:
        field, options = self.field(body, "value", {"value", "case_insensitive"}, at)
        value = self.value(options.get("value"), at)
        if options.get("case_insensitive") and isinstance(value, str):
            return self.texts(field, lambda t: like(t, value, any_case=True), at)
        return self.among(field, [value], at)

    def terms(self, body: Any, at: str) -> Condition:
        fields = self.options(body, set(body) if isinstance(body, dict) else set(), at)
        if len(fields) != 1:
            _fail("terms takes one field", "terms", at)
        ((field, values),) = fields.items()
        if not isinstance(values, list):
            _fail("terms of another document", "terms lookup", at)
        return self.among(field, [self.value(one, at) for one in values], at)

    def among(self, field: str, values: Sequence[Scalar], at: str) -> Condition:
        if not values:
            return Constant(False)
        kind = self.shapes.type(field)
        if kind is Type.TIMESTAMP:
            _fail("a term that is a date: use a range", "dates", at)
        forms = [form for value in values for form in forms_of(value, kind)]
        if not forms:
            return Constant(False)
        return self.shapes.some(field, lambda t: _one_of(t, forms), at)

    def ids(self, body: Any, at: str) -> Condition:
        values = self.options(body, {"values"}, at).get("values")
        return self.among("_id", [self.value(one, at) for one in _listed(values)], at)

    def exists(self, body: Any, at: str) -> Condition:
        field = self.options(body, {"field"}, at).get("field")
        if not isinstance(field, str):
            _fail("exists takes a field", "exists", at)
        return self.shapes.there(string(field, at), at)

    def prefix(self, body: Any, at: str) -> Condition:
        field, options = self.field(body, "value", {"value", "case_insensitive"}, at)
        text = self.text(options.get("value"), at)
        if options.get("case_insensitive"):
            return self.texts(field, lambda t: like(t, text, None, any_case=True), at)
        return self.texts(field, lambda t: Text(t, "STARTS WITH", Literal.of(text)), at)

    def wildcard(self, body: Any, at: str) -> Condition:
        field, options = self.field(body, "value", {"value", "wildcard", "case_insensitive"}, at)
        parts = _parts(self.text(options.get("value", options.get("wildcard")), at))
        any_case = bool(options.get("case_insensitive"))
        return self.texts(field, lambda t: like(t, *parts, any_case=any_case), at)

    def regexp(self, body: Any, at: str) -> Condition:
        known = {"value", "case_insensitive", "flags", "max_determinized_states"}
        field, options = self.field(body, "value", known, at)
        pattern = self.text(options.get("value"), at)
        if _LUCENE.search(pattern):
            _fail("a sign that only Lucene's expressions have", "regexp", at)
        flags = "is" if options.get("case_insensitive") else "s"
        return self.texts(field, lambda t: Regex(t, rf"\A(?{flags}:{pattern})\z"), at)

    def texts(self, field: str, predicate: Predicate, at: str) -> Condition:
        if self.shapes.type(field) not in (None, Type.STRING):
            return Constant(False)
        return self.shapes.some(field, predicate, at)

    # --- ranges ---------------------------------------------------------------

    def range(self, body: Any, at: str) -> Condition:
        field, options = self.field(body, "", {*_BOUNDS, "relation"}, at)
        if options.get("relation", "INTERSECTS") != "INTERSECTS":
            _fail("ranges of ranges", "relation", at)
        given = [(name, value) for name, value in options.items() if name in _BOUNDS]
        bounds = [(name, value) for name, value in given if value is not None]
        kind = self.shapes.type(field)
        found = [(_BOUNDS[name], self.bound(name, value, kind, at)) for name, value in bounds]
        if not found:
            return self.shapes.there(field, at)
        over = [one for one in found if one[0] in (">", ">=")]
        under = [one for one in found if one[0] in ("<", "<=")]
        if len(over) > 1 or len(under) > 1:
            _fail("two bounds on one side", "range", at)
        return self.shapes.some(field, self.inside(over, under, field, at), at)

    def inside(self, over: Any, under: Any, field: str, at: str) -> Predicate:
        if over and under:
            (low_op, low), (high_op, high) = over[0], under[0]
            if isinstance(low, int | float) and isinstance(high, int | float):
                return within(low, low_op == ">", high, high_op == "<", at)
            if self.shapes.known(field, at) is not Shape.SCALAR:
                _fail("both bounds of one element of a list", "same element", at)
        tests = [*over, *under]
        return lambda t: all_of(Compare(t, op, Literal.of(bound)) for op, bound in tests)

    def bound(self, name: str, value: object, kind: Type | None, at: str) -> Scalar:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if kind is not None and not kind.numeric:
                _fail("a number as the bound of what is no number", "range", at)
            return number(value, at)
        text = self.text(value, at)
        if kind is Type.STRING:
            return text
        if kind is not Type.TIMESTAMP:
            _fail("a text as a bound: a keyword or a date? a schema tells", "dates", at)
        if name in ("gt", "lte") and not _FRACTION.search(text):
            _fail("a date that gt and lte round up: write its milliseconds", "dates", at)
        try:
            return timestamp(text)
        except ConstantError as error:
            _fail(f"{error.what} (date math and formats are not supported)", "dates", at)

    # --- parts of queries -----------------------------------------------------

    def options(self, body: object, known: set[str], at: str) -> dict[str, Any]:
        if not isinstance(body, dict):
            _fail("it must be an object", "form", at)
        more = [str(name)[:40] for name in body if name not in known | _IGNORED]
        if more:
            _fail(f"the option {more[0]!r} is not supported", more[0], at)
        return {name: value for name, value in body.items() if name in known - _IGNORED}

    def field(self, body: Any, short: str, known: set[str], at: str) -> tuple[str, dict[str, Any]]:
        """The field, and its options; a value alone is the option `short`."""
        fields = {k: v for k, v in body.items() if k not in _IGNORED} if type(body) is dict else {}
        if len(fields) != 1:
            _fail("it takes one field", "form", at)
        ((name, options),) = fields.items()
        if short and not isinstance(options, dict):
            options = {short: options}
        return string(name, at), self.options(options, known, f"{at}.{name}")

    def value(self, value: object, at: str) -> str | bool | int | float:
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return number(value, at)
        return self.text(value, at)

    def text(self, value: object, at: str) -> str:
        if not isinstance(value, str):
            _fail("it must be a text", "form", at)
        return string(value, at)


def _one_of(term: Term, forms: Sequence[Scalar]) -> Condition:
    """Equality, each by its own type."""
    kinds = (str,), (bool,), (int, float)
    groups = [[one for one in forms if type(one) in own] for own in kinds]
    if isinstance(term, Attribute):
        return any_of([equal(term, forms)])
    return any_of(equal(term, group) for group in groups if group)


def _least(given: object, count: int, at: str) -> int:
    """The number of `should` that must hold."""
    text = str(given).strip()
    if not isinstance(given, int | str) or not re.fullmatch(r"-?\d{1,6}%?", text):
        _fail("it is a number or a percentage", "minimum_should_match", at)
    value = int(text.rstrip("%"))
    if text.endswith("%"):
        value = -(count * -value // 100) if value < 0 else count * value // 100
    return max(count + value, 0) if text.startswith("-") else value


def _parts(pattern: str) -> list[Any]:
    """The texts and signs of a wildcard; a backslash takes the next sign as it is."""
    parts: list[Any] = []
    signs = iter(pattern)
    for sign in signs:
        if sign in "*?":
            parts.append(None if sign == "*" else ONE)
            continue
        text = next(signs, "\\") if sign == "\\" else sign
        if parts and isinstance(parts[-1], str):
            parts[-1] += text
        else:
            parts.append(text)
    return parts or [""]


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _fail(what: str, construct: str, at: str) -> NoReturn:
    raise RuleError(what, construct=construct, at=at)


_WORDS = "it looks for words, which the language cannot do yet"
_ON_WORDS = frozenset(
    ("match", "match_phrase", "match_phrase_prefix", "match_bool_prefix", "multi_match")
) | {"query_string", "simple_query_string", "combined_fields", "intervals", "common"}
_OF_ONE_FIELD = frozenset(("term", "terms", "prefix", "wildcard", "regexp", "range", "exists"))
QUERIES: dict[object, Callable[[Query, Any, str], Condition]] = {
    "bool": Query.boolean,
    "constant_score": Query.constant_score,
    "dis_max": Query.dis_max,
    "boosting": Query.boosting,
    "nested": Query.nested,
    "match_all": Query.match_all,
    "match_none": Query.match_none,
    "term": Query.term,
    "terms": Query.terms,
    "ids": Query.ids,
    "exists": Query.exists,
    "prefix": Query.prefix,
    "wildcard": Query.wildcard,
    "regexp": Query.regexp,
    "range": Query.range,
}

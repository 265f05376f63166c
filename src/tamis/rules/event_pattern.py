"""EventBridge patterns and SNS filter policies: one language, with small differences.

A pattern is a JSON object in the form of the events that it matches. Each leaf is an array of
values and operators of which one must hold; all leaves must hold. An event's array is as good as
any of its elements. JSON null is not told from a missing attribute here, so `null` is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tamis.errors import RuleError
from tamis.language import (
    Attribute,
    Call,
    Compare,
    Condition,
    Constant,
    IsNull,
    Literal,
    Term,
    Text,
)
from tamis.language.tree import CompareOp
from tamis.rules.conditions import all_of, any_of, equal, in_cidr, like, number, string, within
from tamis.rules.shapes import Predicate, Shapes
from tamis.schema import Shape, Type

OR = "$or"
COMPARISONS = ("<", "<=", "=", ">=", ">")
_WORDS = """
    exactly equals-ignore-case prefix suffix anything-but exists wildcard numeric cidr
    regex not-wildcard not-equals-ignore-case date-after date-on-or-after date-before
    date-on-or-before in-date-range ip-address-in-range ip-address-not-in-range
"""
RESERVED = frozenset((*COMPARISONS, *_WORDS.split()))  # no names of fields inside $or


@dataclass(frozen=True, slots=True)
class Service:
    """What EventBridge and SNS have different. `root`: objects that are never in an array."""

    name: str
    largest: float
    operators: frozenset[str]
    nested: bool = True
    root: tuple[str, ...] = ()


_BOTH = {"prefix", "suffix", "equals-ignore-case", "anything-but", "numeric", "exists", "cidr"}
EVENTBRIDGE = Service(
    "EventBridge", 5e9, frozenset({*_BOTH, "wildcard", "exactly"}), root=("detail",)
)
SNS_BODY = Service("SNS", 1e9, frozenset(_BOTH))
SNS_ATTRIBUTES = Service("SNS", 1e9, frozenset(_BOTH), nested=False)


def condition_of(pattern: object, service: Service, shapes: Shapes) -> Condition:
    """What the pattern asks for."""
    return Pattern(service, shapes).whole(pattern)


class Pattern:
    """One pattern on its way; `at` is always the path of what is read."""

    def __init__(self, service: Service, shapes: Shapes) -> None:
        self.service, self.shapes = service, shapes

    def whole(self, pattern: object) -> Condition:
        if not isinstance(pattern, dict):
            _fail("a pattern is a JSON object", "form", "")
        condition = self.fields(pattern, (), reserved=False)
        return all_of([condition, *self.same_objects(pattern)])

    def fields(self, node: dict[str, Any], path: tuple[str, ...], reserved: bool) -> Condition:
        at = ".".join(path)
        if not node:
            _fail("an empty object asks nothing", "empty object", at)
        parts = []
        for key, value in node.items():
            below = (*path, string(key, at))
            place = ".".join(below)
            if key == OR:
                parts.append(self.alternatives(value, path))
                continue
            if reserved and key in RESERVED:
                _fail(f"{key} is a reserved name inside $or", "$or", place)
            if isinstance(value, dict):
                if not self.service.nested:
                    _fail("message attributes are not nested", "nested policy", place)
                parts.append(self.fields(value, below, reserved))
            elif isinstance(value, list):
                parts.append(self.leaf(value, place))
            else:
                _fail("it must be an object or an array", "form", place)
        return all_of(parts)

    def alternatives(self, value: object, path: tuple[str, ...]) -> Condition:
        at = ".".join((*path, OR))
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            _fail("it must be an array of objects", "$or", at)
        if len(value) < 2:
            _fail("it must have two objects at least", "$or", at)
        return any_of([self.fields(one, path, reserved=True) for one in value])

    # --- one object: fields of it may not come from different elements of an array ---

    def same_objects(self, pattern: dict[str, Any]) -> Iterator[Condition]:
        """Two fields below one object must be of one element, if an array of objects is there."""
        shared = [path for path, count in _counts(pattern, ()).items() if count > 1]
        for path in shared:
            if self.shapes.schema is None:
                if path not in {(), *((name,) for name in self.service.root)}:
                    yield IsNull(Call("size", (Attribute(".".join(path)),)))
            elif path:
                self.refuse_lists(pattern, path)

    def refuse_lists(self, pattern: dict[str, Any], path: tuple[str, ...]) -> None:
        within = [name for name in _leaves(pattern, ()) if name[: len(path)] == path]
        names = dict.fromkeys(".".join(name) for name in within)
        lists = [one for one in names if self.shapes.known(one, one) is Shape.LIST]
        if len(lists) > 1:
            what = f"{' and '.join(lists[:3])} may have to be of the same element of an array"
            _fail(what, "same element", ".".join(path))

    # --- leaves ---------------------------------------------------------------

    def leaf(self, values: list[Any], name: str) -> Condition:
        if not values:
            _fail("an empty array matches nothing", "empty array", name)
        plain = [one for one in values if not isinstance(one, dict)]
        parts = [self.operator(one, name, i) for i, one in enumerate(values) if type(one) is dict]
        if plain:
            constants = [self.constant(one, name) for one in plain]
            parts.insert(0, self.shapes.some(name, lambda t: self.among(t, constants, name), name))
        return any_of(parts)

    def among(self, term: Term, constants: Sequence[Any], name: str) -> Condition:
        """Equality with one of them, each by its own type."""
        kind = self.shapes.type(name)
        kinds = (str,), (bool,), (int, float)
        groups = [[c for c in constants if type(c) in own] for own in kinds]
        fits = [g for g in groups if g and (kind is None or Literal.of(g[0]).type.like(kind))]
        return any_of([equal(term, group) for group in fits])

    def constant(self, value: object, at: str) -> str | bool | int | float:
        if value is None:
            what = "JSON null is a missing attribute to Tamis, which the service tells from it"
            _fail(what, "null", at)
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return number(value, at)
        if isinstance(value, str):
            return string(value, at)
        _fail("a value is a string, a number, true, false or null", "form", at)

    def operator(self, operator: dict[str, Any], name: str, i: int) -> Condition:
        at = f"{name}[{i}]"
        if len(operator) != 1:
            _fail("one operator to an object", "form", at)
        ((word, value),) = operator.items()
        if word not in self.service.operators:
            _fail(f"{self.service.name} has no operator {word!r}", str(word)[:40], at)
        if word == "exists":
            if not isinstance(value, bool):
                _fail("exists is true or false", "exists", at)
            return self.shapes.there(name, at) if value else self.shapes.absent(name, at)
        if word == "anything-but":
            return self.shapes.some_not(name, self.unwanted(value, name, at), at)
        return self.shapes.some(name, self.predicate(word, value, name, at), at)

    def predicate(self, word: str, value: object, name: str, at: str) -> Predicate:
        if word == "numeric":
            return self.range(value, name, at)
        if word == "cidr":
            if not isinstance(value, str) or "/" not in value:
                _fail("cidr takes a network such as '10.0.0.0/8'", "cidr", at)
            return self.on_texts(in_cidr(value, at), name)
        make = _TEXTS[word]
        if word in ("prefix", "suffix") and isinstance(value, dict):
            if list(value) != ["equals-ignore-case"]:
                _fail(f"{word} takes a string or equals-ignore-case", word, at)
            value, make = value["equals-ignore-case"], _TEXTS[f"{word} any case"]
        if not isinstance(value, str):
            _fail(f"{word} takes a string", word, at)
        return self.on_texts(make(string(value, at), at), name)

    def on_texts(self, predicate: Predicate, name: str) -> Predicate:
        """False of an attribute that the schema calls something else."""
        if self.shapes.type(name) in (None, Type.STRING):
            return predicate
        return lambda term: Constant(False)

    def range(self, value: object, name: str, at: str) -> Predicate:
        """`numeric`: one comparison, or one from below and one from above."""
        bounds = self.bounds(value, at)
        kind = self.shapes.type(name)
        if kind is not None and not kind.numeric:
            return lambda term: Constant(False)
        if len(bounds) == 1:
            ((op, bound),) = bounds
            return lambda term: Compare(term, op, Literal.of(bound))
        (over, low), (under, high) = bounds
        if over not in (">", ">=") or under not in ("<", "<="):
            _fail("a range goes from > or >= to < or <=", "numeric", at)
        if low >= high:
            _fail("the bottom must be less than the top", "numeric", at)
        return within(low, over == ">", high, under == "<", at)

    def bounds(self, value: object, at: str) -> list[tuple[CompareOp, int | float]]:
        if not isinstance(value, list) or len(value) not in (2, 4):
            _fail("numeric takes one or two comparisons", "numeric", at)
        pairs = list(zip(value[::2], value[1::2], strict=True))
        for op, bound in pairs:
            if op not in COMPARISONS:
                _fail(f"numeric has no comparison {op!r}", "numeric", at)
            if isinstance(bound, bool) or not isinstance(bound, int | float):
                _fail("numeric compares with numbers", "numeric", at)
            number(bound, at, self.service.largest)
        if len(pairs) == 2 and pairs[0][0] == "=":
            _fail("= stands alone in numeric", "numeric", at)
        return pairs

    # --- anything-but ---------------------------------------------------------

    def unwanted(self, value: object, name: str, at: str) -> Predicate:
        """What the value must not be: constants, or texts of one kind."""
        if isinstance(value, dict):
            if len(value) != 1:
                _fail("one operator to an object", "anything-but", at)
            ((word, inner),) = value.items()
            return self.unwanted_texts(word, inner if type(inner) is list else [inner], name, at)
        values = value if isinstance(value, list) else [value]
        if not values or not (_all(values, str) or _all(values, int, float)):
            what = "anything-but takes strings alone or numbers alone, one at least"
            _fail(what, "anything-but", at)
        for one in values:
            if isinstance(one, int | float):
                number(one, at, self.service.largest)
        constants = [self.constant(one, at) for one in values]
        return lambda term: self.among(term, constants, name)

    def unwanted_texts(self, word: object, values: list[Any], name: str, at: str) -> Predicate:
        allowed = ("prefix", "suffix", "equals-ignore-case", "wildcard")
        if word not in allowed or word not in self.service.operators:
            _fail(f"anything-but does not take {word!r}", f"anything-but {word}"[:40], at)
        if not values or not _all(values, str):
            _fail(f"{word} takes strings", f"anything-but {word}", at)
        if word in ("prefix", "suffix") and "" in values:
            _fail(f"anything-but takes no empty {word}", f"anything-but {word}", at)
        found = [_TEXTS[str(word)](string(one, at), at) for one in values]
        return self.on_texts(lambda term: any_of([one(term) for one in found]), name)


def _counts(node: dict[str, Any], path: tuple[str, ...]) -> Counter[tuple[str, ...]]:
    """For each object of the pattern of how many leaves, anywhere below, it has to be the object;
    of alternatives the one with the most counts."""
    counts: Counter[tuple[str, ...]] = Counter()
    for key, value in node.items():
        if key == OR and isinstance(value, list):
            most: Counter[tuple[str, ...]] = Counter()
            for one in value:
                most |= _counts(one, path)
            counts += most
        elif isinstance(value, dict):
            counts += _counts(value, (*path, key))
        else:
            counts += Counter((*path, key)[:length] for length in range(len(path) + 1))
    return counts


def _leaves(node: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of the leaves, each once."""
    found: dict[tuple[str, ...], None] = {}
    waiting = [(path, node)]
    while waiting:
        path, node = waiting.pop()
        for key, value in node.items():
            if key == OR and isinstance(value, list):
                waiting.extend((path, one) for one in value if isinstance(one, dict))
            elif isinstance(value, dict):
                waiting.append(((*path, key), value))
            else:
                found[(*path, key)] = None
    return iter(found)


# --- operators on texts -------------------------------------------------------


def _starts(text: str, at: str) -> Predicate:
    return lambda term: Text(term, "STARTS WITH", Literal.of(text))


def _ends(text: str, at: str) -> Predicate:
    return lambda term: Text(term, "ENDS WITH", Literal.of(text))


def _exactly(text: str, at: str) -> Predicate:
    return lambda term: equal(term, [text])


def _is_in_any_case(text: str, at: str) -> Predicate:
    return lambda term: like(term, text, any_case=True)


def _starts_in_any_case(text: str, at: str) -> Predicate:
    return lambda term: like(term, text, None, any_case=True)


def _ends_in_any_case(text: str, at: str) -> Predicate:
    return lambda term: like(term, None, text, any_case=True)


def _wildcard(text: str, at: str) -> Predicate:
    parts = _wildcard_parts(text, at)
    return lambda term: like(term, *parts)


def _wildcard_parts(text: str, at: str) -> list[str | None]:
    """The texts of a wildcard, and None for each star. A backslash escapes a star or itself."""
    parts: list[str | None] = []
    signs = iter(text)
    for sign in signs:
        if sign == "*":
            if parts and parts[-1] is None:
                _fail("two stars follow each other", "wildcard", at)
            parts.append(None)
            continue
        if sign == "\\":
            sign = next(signs, "")
            if sign not in ("*", "\\"):
                _fail("a backslash escapes a star or a backslash only", "wildcard", at)
        if parts and parts[-1] is not None:
            parts[-1] += sign
        else:
            parts.append(sign)
    return parts or [""]


_TEXTS: dict[str, Callable[[str, str], Predicate]] = {
    "prefix": _starts,
    "suffix": _ends,
    "exactly": _exactly,
    "equals-ignore-case": _is_in_any_case,
    "prefix any case": _starts_in_any_case,
    "suffix any case": _ends_in_any_case,
    "wildcard": _wildcard,
}


def _all(values: Sequence[object], *kinds: type) -> bool:
    return all(type(one) in kinds for one in values)


def _fail(what: str, construct: str, at: str) -> NoReturn:
    raise RuleError(what, construct=construct, at=at)

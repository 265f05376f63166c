"""Terms backwards: which attributes give a term a wanted value.

Arithmetic is undone step by step, functions by their usual inverses. Nothing here is certain
(rounding, overflow, lookups): whoever uses an assignment checks it.
"""

from __future__ import annotations

import datetime
import ipaddress
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from tamis.errors import SelectorError
from tamis.language.addresses import V6
from tamis.language.functions import CALENDAR
from tamis.language.tree import (
    Arithmetic,
    Attribute,
    Call,
    Compare,
    Negate,
    Text,
    attributes,
    quantified,
)
from tamis.logic import Derived, Lookups, value
from tamis.logic.comparing import compare, text_test
from tamis.logic.lists import EXTREMES, FOREIGN, WHOLE
from tamis.logic.terms import negate
from tamis.schema import INT_MAX, INT_MIN, Type, type_of

Known = Mapping[str, object]  # attributes that are settled; None: undefined
GUESSES = 8  # values tried for what nothing is known of
_KEYS = 2000  # entries of a lookup that are looked at


@dataclass(slots=True)
class Inverse:
    """`choices(name)` are values worth trying for an attribute, `fits` says what it may be.

    After so many `tries` nothing more is found.
    """

    choices: Callable[[str], Sequence[object]]
    fits: Callable[[str, object], bool]
    lookups: Lookups
    tries: int

    def settings(self, term: Derived, target: object, known: Known) -> Iterator[Known]:
        """`known` with more attributes, such that `term` is likely to be worth `target`."""
        self.tries -= 1
        if self.tries < 0:
            return
        if all(name in known for name in attributes(term)):
            yield known
            return
        if target is None and not isinstance(term, Attribute):
            yield from self._undefined(term, known)
            return
        match term:
            case Attribute(name):
                if self.fits(name, target):
                    yield {**known, name: target}
            case Negate(inner):
                yield from self.settings(inner, negate(target), known)
            case Call(name, arguments):
                yield from self._call(name, arguments, target, known)
            case Arithmetic(op, left, right):
                yield from self._arithmetic(op, left, right, target, known)
            case Compare(left, op, right) if quantified(term) is None:
                yield from self._pair(left, right, known, lambda x, y: compare(x, op, y) == target)
            case Text(left, op, right) if quantified(term) is None:
                yield from self._pair(
                    left, right, known, lambda x, y: text_test(x, op, y) == target
                )
            case _:
                yield from self._guessed(term, known)

    def worth(self, term: Derived, known: Known) -> object:
        """The value of a term whose attributes are all known; None also where nobody can say."""
        try:
            return value(term, known.get, self.lookups)
        except SelectorError:
            return None

    def _undefined(self, term: Derived, known: Known) -> Iterator[Known]:
        for name in attributes(term):
            if name not in known:
                for nothing in (None, "a", 0):
                    if self.fits(name, nothing):
                        yield {**known, name: nothing}
        yield from self._guessed(term, known)

    def _guessed(self, term: Derived, known: Known) -> Iterator[Known]:
        """Any values for the attributes of the term."""
        self.tries -= 1
        if self.tries < 0:
            return
        name = next((n for n in attributes(term) if n not in known), None)
        if name is None:
            yield known
            return
        for guess in self.choices(name)[:GUESSES]:
            yield from self._guessed(term, {**known, name: guess})

    def _call(
        self, name: str, arguments: tuple[Derived, ...], target: object, known: Known
    ) -> Iterator[Known]:
        for argument in islice(self._arguments(name, target), _KEYS):
            yield from self.settings(arguments[0], argument, known)
        yield from self._guessed(Call(name, arguments), known)  # type: ignore[arg-type]

    def _arguments(self, name: str, target: object) -> Iterator[object]:
        lookup = self.lookups.get(name)
        match name:
            case "lower" | "upper" | "casefold" | "trim" | "substr" if isinstance(target, str):
                yield from dict.fromkeys([target, target.upper(), target.lower()])
            case "coalesce":
                yield target
            case "any":
                yield list(target) if isinstance(target, list) else []
            case "size" if isinstance(target, int) and 0 <= target <= 1_000:
                yield [None] * target
            case "[]":
                yield from ()
            case _ if name in EXTREMES:
                yield [target]
            case _ if name == WHOLE:
                yield [] if target is True else [None]
            case _ if name in FOREIGN:
                yield [[]] if target is True else []
            case _ if name in CALENDAR and type_of(target) is Type.INT:
                yield from _moments(name, target)  # type: ignore[arg-type]
            case "length" if isinstance(target, int) and 0 <= target <= 10_000:
                yield from ("a" * target, "A" * target, "x" * target)
            case "ipv4" | "ipv6_high" | "ipv6_low" if type_of(target) is Type.INT:
                yield from _addresses(name, target)  # type: ignore[arg-type]
            case "abs":
                yield from (target, negate(target))
            case _ if isinstance(lookup, Mapping):
                yield from (key for key, found in lookup.items() if found == target)

    def _arithmetic(
        self, op: str, left: Derived, right: Derived, target: object, known: Known
    ) -> Iterator[Known]:
        for more in self._guessed(right, known):
            for x in _lefts(op, self.worth(right, more), target):
                yield from self.settings(left, x, more)
        for more in self._guessed(left, known):
            for y in _rights(op, self.worth(left, more), target):
                yield from self.settings(right, y, more)

    def _pair(
        self,
        left: Derived,
        right: Derived,
        known: Known,
        fine: Callable[[object, object], bool],
    ) -> Iterator[Known]:
        """Two terms that stand in a relation: guess one, take the other from around it."""
        if all(name in known for name in attributes(left)):
            yield from self._pair(right, left, known, lambda y, x: fine(x, y))
            return
        for more in self._guessed(right, known):
            y = self.worth(right, more)
            for x in _around(y):
                if fine(x, y):
                    yield from self.settings(left, x, more)
        yield from self._guessed(Compare(left, "=", right), known)  # type: ignore[arg-type]


def _lefts(op: str, right: object, target: object) -> list[object]:
    """What x may be where x op right = target."""
    y, t = _number(right), _number(target)
    if y is None or t is None:
        return []
    match op:
        case "+":
            return _both(t - y)
        case "-":
            return _both(t + y)
        case "*":
            return _both(*_quotient(t, y))
        case "%":
            return _both(t, t + y, t - y)
    return _both(t * y) if y != 0 else []


def _rights(op: str, left: object, target: object) -> list[object]:
    """What y may be where left op y = target."""
    x, t = _number(left), _number(target)
    if x is None or t is None:
        return []
    match op:
        case "+":
            return _both(t - x)
        case "-":
            return _both(x - t)
        case "*":
            return _both(*_quotient(t, x))
    return _both(*_quotient(x, t), 1)


def _addresses(name: str, target: int) -> Iterator[str]:
    """Addresses of which that number is `target`."""
    if name != "ipv4":
        half = target + (1 << 63)
        yield str(ipaddress.IPv6Address(half << 64 if name == "ipv6_high" else half))
    elif target == V6:
        yield "::"
    elif 0 <= target < 1 << 32:
        yield str(ipaddress.IPv4Address(target))


def _moments(name: str, target: int) -> Iterator[object]:
    """Moments of which the part of the calendar is `target`."""
    start = datetime.datetime(2000, 1, 3, tzinfo=datetime.UTC)  # a Monday
    try:
        if name == "weekday":
            yield start + datetime.timedelta(days=target)
        else:
            yield start.replace(**{name: target})  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return


def _quotient(above: float, below: float) -> list[float]:
    """above / below, and whole numbers around it."""
    if below == 0 or not math.isfinite(above) or not math.isfinite(below):
        return [0, 1, above]
    if isinstance(above, int) and isinstance(below, int):
        near = above // below
        return [near, near + 1, above / below]
    exact = above / below
    if not math.isfinite(exact):
        return [exact]
    return [exact, math.floor(exact), math.ceil(exact), math.nextafter(exact, math.inf)]


def _both(*numbers: float) -> list[object]:
    """Numbers as they may stand in a message: in range, whole ones as integers and as doubles."""
    found: list[object] = []
    for number in numbers:
        if isinstance(number, int) and INT_MIN <= number <= INT_MAX:
            found += [number, float(number)]
        elif isinstance(number, float) and number.is_integer() and abs(number) < 2**63:
            found += [number, int(number)]
        else:
            found.append(float(number))
    return found


def _number(given: object) -> int | float | None:
    return given if type_of(given) in (Type.INT, Type.DOUBLE) else None  # type: ignore[return-value]


def _around(given: object) -> list[object]:
    """A value and some that are less, more or otherwise different."""
    match given:
        case bool():
            return [given, not given]
        case int():
            return [given, *(n for n in (given - 1, given + 1) if INT_MIN <= n <= INT_MAX)]
        case float():
            return [
                given,
                given - 1,
                given + 1,
                *(math.nextafter(given, d) for d in (-math.inf, math.inf)),
            ]
        case str():
            return [given, given + "a", given[:-1], "~" + given, "", "\U0010ffff"]
    return [given]

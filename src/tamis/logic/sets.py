"""Sets of values that one attribute may have: a range, a list of members, or all but a few.

Bounds are closed and stand on the attribute's own line: `v < 10` of an int is `v <= 9`, of a
double it is the largest double below 10. Strings have no largest value below 'b', so `v < 'b'` is
`v <= 'b'` without 'b'. Equal sets of one form are equal values. An empty set is None, everywhere.
"""

from __future__ import annotations

import datetime
import enum
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from tamis.logic import numbers
from tamis.logic.atoms import Family, family_of, microseconds, plain
from tamis.schema import INT_MAX, INT_MIN, Type, type_of


class Line(enum.IntEnum):
    """What the values of a set are: of one type, or of none."""

    INT = 0
    DOUBLE = 1
    NUMBER = 2  # of an attribute without a declared type: ints and doubles, compared exactly
    STRING = 3
    BOOL = 4
    TIMESTAMP = 5  # microseconds since 1970
    OTHER = 6  # a value of no type of ours: only its presence counts
    ANY = 7  # any value at all
    ABSENT = 8  # no value
    FREE = 9  # a value or none: what is not restricted. Never stored.

    __hash__ = int.__hash__


Plain = bool | int | float | str
ORDERED = frozenset((Line.INT, Line.DOUBLE, Line.NUMBER, Line.TIMESTAMP))
_NUMBERS = {Line.INT: Type.INT, Line.DOUBLE: Type.DOUBLE, Line.NUMBER: None}
_LINES = {
    Type.INT: Line.INT,
    Type.DOUBLE: Line.DOUBLE,
    Type.STRING: Line.STRING,
    Type.BOOL: Line.BOOL,
    Type.TIMESTAMP: Line.TIMESTAMP,
}
_FAMILIES = {
    Line.INT: Family.NUMBER,
    Line.DOUBLE: Family.NUMBER,
    Line.NUMBER: Family.NUMBER,
    Line.STRING: Family.STRING,
    Line.BOOL: Family.BOOL,
    Line.TIMESTAMP: Family.TIMESTAMP,
}


_ENDS: dict[Line, tuple[Any, Any]] = {
    Line.INT: (INT_MIN, INT_MAX),
    Line.DOUBLE: (-math.inf, math.inf),
    Line.NUMBER: (-math.inf, math.inf),
    Line.STRING: ("", None),
    Line.TIMESTAMP: (
        microseconds(datetime.datetime.min.replace(tzinfo=datetime.UTC)),
        microseconds(datetime.datetime.max.replace(tzinfo=datetime.UTC)),
    ),
}


class Values(NamedTuple):
    """The values from `low` to `high` (None: no bound) without some, or just the `members`.

    `members` and `without` are sorted. Made by `span` and `among`, so one set has one form.
    """

    line: Line
    low: Any = None
    high: Any = None
    members: tuple[Any, ...] | None = None
    without: tuple[Any, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing of the line is left out."""
        return self.low is None and self.high is None and self.members is None and not self.without


ANY, ABSENT, FREE, OTHER = (Values(x) for x in (Line.ANY, Line.ABSENT, Line.FREE, Line.OTHER))


class Domain(NamedTuple):
    """What an attribute can be: the line of its type (ANY if undeclared), and perhaps absent."""

    line: Line = Line.ANY
    optional: bool = True

    @property
    def present(self) -> Values:
        return Values(self.line)


def line_of_type(kind: Type) -> Line:
    """The line of an attribute of a declared type."""
    return _LINES[kind]


def line_of_family(family: Family) -> Line:
    """The line of values of the family in an attribute without a declared type."""
    return _UNDECLARED[family]


_UNDECLARED = {
    Family.NUMBER: Line.NUMBER,
    Family.STRING: Line.STRING,
    Family.BOOL: Line.BOOL,
    Family.TIMESTAMP: Line.TIMESTAMP,
}

# --- making -------------------------------------------------------------------


def among(line: Line, members: Iterable[Plain]) -> Values | None:
    """Just these values."""
    found = tuple(sorted(set(members)))
    if not found:
        return None
    if line is Line.BOOL and len(found) == 2:
        return Values(line)
    return Values(line, members=found)


def span(
    line: Line, low: Any = None, high: Any = None, without: Iterable[Any] = ()
) -> Values | None:
    """The values from low to high, bounds included, without some."""
    if line is Line.BOOL:
        return among(line, {False, True}.difference(without))
    least, most = _ENDS[line]
    if (high is not None and high < least) or (low is not None and most is not None and low > most):
        return None
    low = None if low is not None and low <= least else low
    high = None if high is not None and most is not None and high >= most else high
    out = {v for v in without if (low is None or low <= v) and (high is None or v <= high)}
    if out:
        low, high = _trimmed(line, low, high, out)
    if low is not None and high is not None:
        if low > high:
            return None
        if low == high:
            return None if low in out else Values(line, members=(low,))
    elif line is Line.STRING and high == "":
        return Values(line, members=("",))
    if out:
        out = {v for v in out if (low is None or low < v) and (high is None or v <= high)}
    return Values(line, low, high, None, tuple(sorted(out)))


def _trimmed(line: Line, low: Any, high: Any, out: set[Any]) -> tuple[Any, Any]:
    """The bounds moved past what is left out."""
    least, most = _ENDS[line]
    low = least if low is None and least in out else low
    high = most if high is None and most is not None and most in out else high
    while low is not None and low in out:
        low = after(line, low)
    while high is not None and high in out:
        smaller = before(line, high)
        if smaller is None:
            break
        high = smaller
    return low, high


def after(line: Line, value: Any) -> Any:
    """The next value of the line."""
    if line is Line.STRING:
        return value + "\0"
    return value + 1 if line is Line.TIMESTAMP else numbers.above(value, _NUMBERS[line])


def before(line: Line, value: Any) -> Any:
    """The value just before; None where there is none, as for most strings."""
    if line is Line.STRING:
        return value[:-1] if value.endswith("\0") else None
    return value - 1 if line is Line.TIMESTAMP else -numbers.above(-value, _NUMBERS[line])


def below(line: Line, threshold: Any) -> Values | None:
    """The values < threshold."""
    smaller = before(line, threshold)
    if smaller is None:
        return span(line, None, threshold, (threshold,))
    return span(line, None, smaller)


# --- asking -------------------------------------------------------------------


def holds(values: Values, value: object) -> bool:
    """Whether a message's value (None: undefined) is in the set."""
    if values.line >= Line.OTHER:
        return _holds_presence(values.line, value)
    kind = type_of(value)
    if kind is None or family_of(kind) is not _FAMILIES[values.line]:
        return False
    return has(values, plain(value))


def _holds_presence(line: Line, value: object) -> bool:
    if line is Line.OTHER:
        return value is not None and type_of(value) is None
    return (value is None) == (line is Line.ABSENT) or line is Line.FREE


def has(values: Values, value: Any) -> bool:
    """Whether a value of the set's own line is in it."""
    if values.members is not None:
        return value in values.members
    return (
        (values.low is None or values.low <= value)
        and (values.high is None or value <= values.high)
        and value not in values.without
    )


def contains(a: Values, b: Values) -> bool:
    """Whether every value of b is in a."""
    if a.line is not b.line:
        return a.line is Line.ANY and b.line is not Line.ABSENT
    if b.members is not None:
        return all(has(a, v) for v in b.members)
    if a.members is not None:
        return _finite(b) <= len(a.members) and all(has(a, v) for v in range(b.low, b.high + 1))
    if a.low is not None and (b.low is None or b.low < a.low):
        return False
    if a.high is not None and (b.high is None or b.high > a.high):
        return False
    return not any(has(b, v) for v in a.without)


def _finite(b: Values) -> float:
    """How many values a range of integers has."""
    if b.line not in (Line.INT, Line.TIMESTAMP) or b.low is None or b.high is None or b.without:
        return math.inf
    return int(b.high - b.low) + 1


# --- combining ----------------------------------------------------------------


def intersect(a: Values, b: Values) -> Values | None:
    if a == b:
        return a
    if a.line is not b.line:
        if a.line is Line.ANY and b.line is not Line.ABSENT:
            return b
        return a if b.line is Line.ANY and a.line is not Line.ABSENT else None
    if a.members is not None:
        return among(a.line, [v for v in a.members if has(b, v)])
    if b.members is not None:
        return among(a.line, [v for v in b.members if has(a, v)])
    low = b.low if a.low is None or (b.low is not None and b.low > a.low) else a.low
    high = b.high if a.high is None or (b.high is not None and b.high < a.high) else a.high
    return span(a.line, low, high, a.without + b.without)


def complement(values: Values, domain: Domain) -> tuple[Values, ...]:
    """Everything else that the attribute can be, in parts that have nothing in common."""
    parts = [] if values.line is Line.ABSENT or not domain.optional else [ABSENT]
    if values.line is Line.ABSENT:
        return (domain.present,)
    if values.line is Line.ANY:
        return tuple(parts)
    if domain.line is Line.ANY:
        lines = [*_UNDECLARED.values(), Line.OTHER]
        parts += [Values(line) for line in lines if line is not values.line]
    return (*parts, *_rest(values))


def _rest(values: Values) -> list[Values]:
    """The values of the same line that are not in the set."""
    line = values.line
    if values.members is not None:
        found = [span(line, without=values.members)]
    elif line >= Line.OTHER:
        return []
    else:
        found = [among(line, values.without)]
        if values.low is not None:
            found.append(below(line, values.low))
        if values.high is not None:
            found.append(span(line, after(line, values.high)))
    return [part for part in found if part is not None]


def ranges(values: Values) -> list[Values]:
    """The positive form: `!= 80` as `<= 79` and `>= 81`. Strings keep what they are without."""
    if not values.without or values.line not in ORDERED:
        return [values]
    low, parts = values.low, []
    for gap in values.without:
        parts.append(span(values.line, low, before(values.line, gap)))
        low = after(values.line, gap)
    parts.append(span(values.line, low, values.high))
    return [part for part in parts if part is not None]


def joined(a: Values, b: Values, domain: Domain) -> Values | None:
    """The union of both where it is a set of one form, FREE where that is all; else None."""
    if contains(a, b):
        return _freed(a, domain)
    if contains(b, a):
        return _freed(b, domain)
    if Line.ABSENT in (a.line, b.line):
        other = a if b.line is Line.ABSENT else b
        return FREE if other == domain.present else None
    if a.line is not b.line:
        return None
    if a.members is not None and b.members is not None:
        return among(a.line, a.members + b.members)
    if not touching(a, b):
        return None
    hulled = hull(a, b, domain)
    return _freed(hulled, domain)


def _freed(values: Values, domain: Domain) -> Values:
    return FREE if not domain.optional and values == domain.present else values


def touching(a: Values, b: Values) -> bool:
    """Whether nothing lies between the two: then their hull is their union."""
    if a.members is not None or b.members is not None:
        return _extends(a, b)
    first, second = (a, b) if a.low is None or (b.low is not None and a.low <= b.low) else (b, a)
    if first.high is None or second.low is None or second.low <= first.high:
        return True
    return bool(after(a.line, first.high) == second.low)


def _extends(a: Values, b: Values) -> bool:
    """Whether members and a range make one range: every member outside is next to a bound."""
    listed, ranged = (a, b) if a.members is not None else (b, a)
    assert listed.members is not None
    low, high = ranged.low, ranged.high
    outside = [v for v in listed.members if not has(ranged, v) and v not in ranged.without]
    for v in [v for v in outside if high is not None and v > high]:
        if after(a.line, high) != v:
            return False
        high = v
    for v in reversed([v for v in outside if low is not None and v < low]):
        if after(a.line, v) != low:
            return False
        low = v
    return True


def hull(a: Values, b: Values, domain: Domain) -> Values:
    """The smallest set of one form that contains both; it may contain more."""
    if a == b:
        return _freed(a, domain)
    if a.line is not b.line:
        return _freed(ANY, domain) if Line.ABSENT not in (a.line, b.line) else FREE
    if a.members is not None and b.members is not None:
        union = among(a.line, a.members + b.members)
        assert union is not None
        return union
    (low_a, high_a), (low_b, high_b) = bounds(a), bounds(b)
    low = None if low_a is None or low_b is None else min(low_a, low_b)
    high = None if high_a is None or high_b is None else max(high_a, high_b)
    if not (a.members or b.members or a.without or b.without):
        return Values(a.line, low, high)  # two ranges that differ: not a point, not empty
    neither = [v for v in (*a.without, *b.without) if not has(a, v) and not has(b, v)]
    found = span(a.line, low, high, neither)
    assert found is not None
    return found


def bounds(values: Values) -> tuple[Any, Any]:
    if values.members is not None:
        return values.members[0], values.members[-1]
    return values.low, values.high

"""Conjunctions: for each of some attributes the set that its value must be in.

A conjunction is a tuple of (attribute, values), sorted by attribute; the empty one is always true.
What is never true has no conjunction: it is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import log2

from tamis.logic import sets
from tamis.logic.sets import FREE, Domain, Line, Values

Test = tuple[str, Values]
Conjunction = tuple[Test, ...]
ALWAYS: Conjunction = ()
_PIECES = 4096  # parts into which `covered` cuts what is left, before it gives up


class Domains:
    """What each attribute can be. Unknown names have no declared type and may be absent."""

    __slots__ = ("_known",)
    _unknown = Domain()

    def __init__(self, known: Mapping[str, Domain] | None = None) -> None:
        self._known = dict(known or {})

    def __getitem__(self, name: str) -> Domain:
        return self._known.get(name, self._unknown)


ANYTHING = Domains()


def conjoin(a: Conjunction, b: Conjunction) -> Conjunction | None:
    """Both at once; None where they exclude each other."""
    if not a or not b:
        return a or b
    found = dict(a)
    for name, values in b:
        known = found.get(name)
        both = values if known is None else sets.intersect(known, values)
        if both is None:
            return None
        found[name] = both
    return tuple(sorted(found.items())) if len(found) > len(a) else tuple(found.items())


def includes(a: Conjunction, b: Conjunction) -> bool:
    """Whether every message of b is one of a, set by set: what is left out by a alone is not."""
    if len(a) > len(b):
        return False
    known = dict(b)
    for name, values in a:
        other = known.get(name)
        if other is None or not sets.contains(values, other):
            return False
    return True


def satisfied(conjunction: Conjunction, find: Callable[[str], object]) -> bool:
    """Whether the message whose attributes `find` gives (None: undefined) has all the values."""
    return all(sets.holds(values, find(name)) for name, values in conjunction)


def key(conjunction: Conjunction) -> tuple[object, ...]:
    """What conjunctions are sorted by: attributes, then lists, then bounds."""
    names = tuple([name for name, _ in conjunction])
    return (len(names), names, *[_values_key(values) for _, values in conjunction])


def _values_key(v: Values) -> tuple[object, ...]:
    low = (0,) if v.low is None else (1, v.low)
    high = (1,) if v.high is None else (0, v.high)
    return int(v.line), v.members is None, v.members or (), low, high, v.without


# --- fewer of them --------------------------------------------------------------


def without_included(conjunctions: Iterable[Conjunction]) -> list[Conjunction]:
    """Those that no other includes, in their order. Of equal ones the first stays."""
    kept: list[Conjunction] = []
    for one in dict.fromkeys(conjunctions):
        if any(includes(other, one) for other in kept):
            continue
        kept = [other for other in kept if not includes(one, other)]
        kept.append(one)
    return kept


def joined(a: Conjunction, b: Conjunction, domains: Domains) -> Conjunction | None:
    """One that means `a OR b`, where they differ in one attribute and its sets unite; else None."""
    differing = differing_attribute(a, b)
    if differing is None:
        return None
    left, right = dict(a), dict(b)
    union = sets.joined(left[differing], right[differing], domains[differing])
    return None if union is None else replaced(a, differing, union)


def differing_attribute(a: Conjunction, b: Conjunction) -> str | None:
    """The one attribute in which the two differ."""
    if len(a) != len(b):
        return None
    found = None
    for (name, left), (other, right) in zip(a, b, strict=True):
        if name != other or (left != right and found is not None):
            return None
        if left != right:
            found = name
    return found


def replaced(conjunction: Conjunction, name: str, values: Values) -> Conjunction:
    """The same with other values for one of its attributes; FREE takes it out."""
    if values is FREE:
        return tuple([test for test in conjunction if test[0] != name])
    return tuple([(n, values if n == name else v) for n, v in conjunction])


def hull(a: Conjunction, b: Conjunction, domains: Domains) -> Conjunction:
    """The narrowest conjunction that includes both."""
    other, found = dict(b), []
    for name, values in a:
        if name in other:
            both = sets.hull(values, other[name], domains[name])
            if both is not FREE:
                found.append((name, both))
    return tuple(found)


def narrowed_to(
    conjunctions: Sequence[Conjunction], limit: int, domains: Domains
) -> list[Conjunction]:
    """At most `limit` conjunctions that include all the given ones, and little more.

    Neighbours in the order of `key` are united, the cheapest first (see `loss`).
    """
    ordered = sorted(conjunctions, key=key)
    while len(ordered) > limit:
        losses = [loss(a, b, domains) for a, b in pairwise(ordered)]
        cut = sorted(losses)[min(len(ordered) - limit, len(losses)) - 1]
        ordered = without_included(_united(ordered, losses, cut, limit, domains))
    return ordered


def _united(
    ordered: list[Conjunction], losses: list[float], cut: float, limit: int, domains: Domains
) -> list[Conjunction]:
    """Neighbours whose loss is `cut` at most are united, until there are few enough."""
    found, excess = [ordered[0]], len(ordered) - limit
    for one, lost in zip(ordered[1:], losses, strict=True):
        if excess > 0 and lost <= cut:
            found[-1] = hull(found[-1], one, domains)
            excess -= 1
        else:
            found.append(one)
    return found


def loss(a: Conjunction, b: Conjunction, domains: Domains) -> float:
    """How much more the hull of the two lets through than they do: a guess, in bits."""
    wider = hull(a, b, domains)
    return weight(a) + weight(b) - 2 * weight(wider) + _drift(a, b)


def weight(conjunction: Conjunction) -> float:
    """How selective it is, in bits, as far as its form tells."""
    return sum(_selectivity(values) for _, values in conjunction)


def _selectivity(values: Values) -> float:
    if values.members is not None:
        return max(1.0, 10.0 - log2(len(values.members)))
    if values.line is Line.ABSENT:
        return 2.0
    sides = (values.low is not None) + (values.high is not None)
    return 0.5 + 2.0 * sides + (0.1 if values.without else 0.0)


def _drift(a: Conjunction, b: Conjunction) -> float:
    """How far bounds lie apart, at most one for each attribute."""
    other, total = dict(b), 0.0
    for name, values in a:
        if name in other:
            pairs = zip(sets.bounds(values), sets.bounds(other[name]), strict=True)
            total += sum(_apart(x, y) for x, y in pairs) / 2
    return total


def _apart(x: object, y: object) -> float:
    if x == y or x is None or y is None:
        return 0.0
    if isinstance(x, int | float) and isinstance(y, int | float):
        scale = max(abs(x), abs(y))
        return min(1.0, abs(x - y) / scale) if scale < 1e300 else 1.0
    return 1.0


# --- covering -------------------------------------------------------------------


def covered(one: Conjunction, by: Sequence[Conjunction], domains: Domains = ANYTHING) -> bool:
    """Whether every message of `one` is one of some of `by`: exact, but False where it takes long.

    What is left of `one` is cut along the attributes of each of the others in turn.
    """
    if any(includes(other, one) for other in by):
        return True
    left, made = [one], 0
    for other in by:
        pieces: list[Conjunction] = []
        for part in left:
            pieces += difference(part, other, domains)
            if made + len(pieces) > _PIECES:
                return False
        left = pieces
        made += len(pieces)
        if not left:
            return True
    return False


def difference(one: Conjunction, other: Conjunction, domains: Domains) -> list[Conjunction]:
    """What `one` has and `other` has not, in parts that have nothing in common."""
    if conjoin(one, other) is None:
        return [one]
    parts, inside = [], one
    for name, values in other:
        for rest in sets.complement(values, domains[name]):
            part = conjoin(inside, ((name, rest),))
            if part is not None:
                parts.append(part)
        narrower = conjoin(inside, ((name, values),))
        assert narrower is not None
        inside = narrower
    return parts

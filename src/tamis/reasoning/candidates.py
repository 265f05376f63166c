"""Values that one term can have when some atoms are said to hold of it and others not.

Numbers, timestamps, Booleans, and strings that are only compared, are decided exactly: where no
value is found, there is none. Prefixes, patterns and their kin are tried.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import islice, permutations, product, zip_longest

from tamis.logic import Atom, Family, Kind
from tamis.logic.atoms import family_of, microseconds
from tamis.logic.lists import Several
from tamis.logic.numbers import Number, above
from tamis.reasoning.samples import like_samples, samples
from tamis.schema import INT_MAX, INT_MIN, Type

Asked = Sequence[tuple[Atom, bool]]
MOST = 16  # values that are offered
CHAIN = 4096  # excluded constants that are stepped over
TRIES = 600  # texts that are tried
OTHER: list[object] = []  # a value that is of none of the five types

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST = microseconds(datetime.datetime.min.replace(tzinfo=datetime.UTC))
_LAST = microseconds(datetime.datetime.max.replace(tzinfo=datetime.UTC))
_ORDERED = (Kind.DEFINED, Kind.TYPED, Kind.BELOW, Kind.MEMBER)
_NOTHING = object()
_GLUE = ("", " ", "a", "0", "~", "\0")


def candidates(asked: Asked, line: Type | None, *, undefined: bool) -> tuple[list[object], bool]:
    """Up to MOST values that answer `asked` so, and whether none found means that there is none.

    `line` is the type of the term, None if it may be any; `undefined`: it may also have no value.
    """
    if _contradictory(asked):
        return [], True
    offers: list[list[object]] = []
    sure = True
    for family in _families(asked, line):
        values, exact = _MAKERS[family]([a for a in asked if a[0].family is family], line)
        offers.append(list(islice((v for v in values if answers(asked, v)), MOST)))
        sure &= exact
    # where any type will do, the first few values are of all types
    mixed = [v for row in zip_longest(*offers, fillvalue=_NOTHING) for v in row]
    found = [v for v in mixed if v is not _NOTHING]
    last: list[object] = [OTHER] if line is None else []
    last += [None] if undefined else []
    return found + [v for v in last if answers(asked, v)], sure


def several_candidates(asked: Asked, line: Type | None) -> list[object]:
    """Some values at once that answer `asked` so: one for each atom that is to hold of one."""
    refused = [(atom, truth) for atom, truth in asked if not truth and atom.kind > Kind.TYPED]
    chosen: list[object] = []
    for atom, truth in asked:
        if truth:
            chosen += candidates([(atom, True), *refused], line, undefined=False)[0][:1]
    found: list[object] = [Several(chosen)] if chosen else []
    return [one for one in [*found, None] if answers(asked, one)]


def _contradictory(asked: Asked) -> bool:
    """An atom is said to hold and not to hold, or to hold of a value that is not there."""
    if len({atom for atom, _ in asked}) < len(set(asked)):
        return True
    must = {atom.family for atom, truth in asked if truth}
    missing = {atom.family for atom, truth in asked if not truth and atom.kind <= Kind.TYPED}
    return bool(must & missing) or (bool(must) and Family.ANY in missing)


def answers(asked: Asked, value: object) -> bool:
    return all(atom.holds(value) == truth for atom, truth in asked)


def _families(asked: Asked, line: Type | None) -> list[Family]:
    """The families that a value can belong to; two that must hold exclude each other."""
    must = {atom.family for atom, truth in asked if truth} - {Family.ANY}
    if len(must) > 1:
        return []
    may = [f for f in Family if f is not Family.ANY] if line is None else [family_of(line)]
    return [f for f in may if not must or f in must]


# --- ordered values ----------------------------------------------------------

Made = tuple[Iterable[object], bool]


def _numbers(asked: Asked, line: Type | None) -> Made:
    low, high, excluded = _range(asked)
    start = low if low is not None else INT_MIN if line is Type.INT else -math.inf
    near = _near(low, high)
    chain = _chain(start, len(excluded), lambda n: above(n, line))
    made = (_on_line(n, line) for n in [*_members(asked), *near, *chain])
    return (n for n in made if n is not None), len(excluded) < CHAIN


def _timestamps(asked: Asked, line: Type | None) -> Made:
    low, high, excluded = _range(asked)
    start = _FIRST if low is None else low
    chain = _chain(start, len(excluded), lambda n: n + 1)
    near = _near(low, high)
    whole = (int(n) for n in [*_members(asked), *near, *chain] if math.isfinite(n))
    made = (_EPOCH + datetime.timedelta(microseconds=n) for n in whole if _FIRST <= n <= _LAST)
    return made, len(excluded) < CHAIN


def _booleans(asked: Asked, line: Type | None) -> Made:
    return (True, False), True


def _range(asked: Asked) -> tuple[Number | None, Number | None, set[Number]]:
    """low <= value < high, without the excluded ones."""
    above = [a.constant for a, truth in asked if a.kind is Kind.BELOW and not truth]
    below = [a.constant for a, truth in asked if a.kind is Kind.BELOW and truth]
    no = {c for a, truth in asked if a.kind is Kind.MEMBER and not truth for c in a.constant}  # type: ignore[union-attr]
    return max(above, default=None), min(below, default=None), no  # type: ignore[type-var, return-value]


def _members(asked: Asked) -> list[Number]:
    return [c for a, truth in asked if a.kind is Kind.MEMBER and truth for c in a.constant]  # type: ignore[union-attr, misc]


def _near(low: Number | None, high: Number | None) -> Iterator[Number]:
    """Numbers that a person would choose, some of them in the range."""
    if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
        yield (low + high) // 2
        yield low / 2 + high / 2
    if low is not None and math.isfinite(low):
        yield from (math.floor(low) + 1, low, math.floor(low) + 2)
    if high is not None and math.isfinite(high):
        yield from (math.ceil(high) - 1, math.ceil(high) - 2, math.nextafter(high, -math.inf))
    yield from (1, 2, 0, 10, -1, 100, 0.5, -0.5, 1000, 1_000_000, -100, 1e12, -1e12)


def _chain(start: Number, excluded: int, step: object) -> Iterator[Number]:
    """The first numbers of the line from `start` on: one more than are excluded."""
    at = start
    for _ in range(min(excluded, CHAIN) + 1):
        yield at
        at = step(at)  # type: ignore[operator]


def _on_line(number: Number, line: Type | None) -> Number | None:
    """The value of the line that equals number."""
    if line is Type.DOUBLE:
        return float(number)
    if isinstance(number, float) and number.is_integer() and INT_MIN <= number <= INT_MAX:
        number = int(number)
    if isinstance(number, int) and not INT_MIN <= number <= INT_MAX:
        number = float(number)
    return None if line is Type.INT and isinstance(number, float) else number


# --- strings -----------------------------------------------------------------


def _strings(asked: Asked, line: Type | None) -> Made:
    yes = {kind: [str(a.constant) for a, t in asked if t and a.kind is kind] for kind in Kind}
    low, high, excluded = _range(asked)
    start = "" if low is None else str(low)
    if any(_beyond(prefix, low, high) for prefix in yes[Kind.PREFIX]):
        return [], True
    chain = (start + "\0" * i for i in range(min(len(excluded), CHAIN) + 1))
    if members := _members(asked):
        return list(map(str, members)), True
    if within := yes[Kind.WITHIN]:
        return _substrings(min(within, key=len))
    friendly = ["a", "b", "A", "x", start + "a", start + "b", start, "10", "", "~", "\U0010ffff"]
    ordered = all(atom.kind in _ORDERED for atom, _ in asked)
    texts = [] if ordered else islice(_texts(yes, start), TRIES)
    return (t for part in (texts, friendly, chain) for t in part), ordered and len(excluded) < CHAIN


def _beyond(prefix: str, low: object, high: object) -> bool:
    """All texts with the prefix are below `low`, or all are `high` or above."""
    if high is not None and prefix >= str(high):
        return True
    return low is not None and prefix < str(low) and not str(low).startswith(prefix)


def _substrings(text: str) -> Made:
    whole = len(text) <= 48
    sizes = range(len(text) + 1) if whole else (0, 1, 2, 3, len(text))
    made = (text[i : i + n] for n in sizes for i in range(len(text) - n + 1))
    return [text, *islice(dict.fromkeys(made), 4 * TRIES)], whole


def _texts(yes: dict[Kind, list[str]], start: str) -> Iterator[str]:
    """Texts with all that they must start with, end with, contain and match."""
    head = max(yes[Kind.PREFIX], key=len, default="")
    tail = max(yes[Kind.SUFFIX], key=len, default="")
    heads = dict.fromkeys([head, start if start.startswith(head) else head])
    parts = [p for p in yes[Kind.CONTAINS] if p not in head and p not in tail]
    parts = [p for p in parts if not any(p in q and p != q for q in parts)]
    fills = dict.fromkeys(["", "".join(parts), " ".join([head, *parts, tail])])
    for fill in fills:
        matching = [samples(pattern, fill) for pattern in yes[Kind.PATTERN]]
        matching += [like_samples(pattern, fill) for pattern in yes[Kind.LIKE]]
        for chosen in islice(product(*matching), 24):
            yield from chosen
            for first in heads:
                yield from _joined(first, [*chosen, *parts], tail)


def _joined(head: str, parts: list[str], tail: str) -> Iterator[str]:
    for some in islice(permutations(parts), 6):
        yield reduce(_overlapped, [head, *some, tail])
        for glue in _GLUE:
            yield glue.join([head, *some, tail])
            yield head + glue.join(some) + glue + tail


def _overlapped(left: str, right: str) -> str:
    """The shortest text that starts with left and ends with right, or left if it has right."""
    if right in left:
        return left
    size = next(n for n in range(min(len(left), len(right)), -1, -1) if left.endswith(right[:n]))
    return left + right[size:]


_MAKERS = {
    Family.NUMBER: _numbers,
    Family.STRING: _strings,
    Family.BOOL: _booleans,
    Family.TIMESTAMP: _timestamps,
}

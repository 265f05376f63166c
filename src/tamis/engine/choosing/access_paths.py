"""Ways into a condition: what must be true of a message before the condition can be.

A way has sides, one of which must be true: an event (`symbol = 'IBM'`), or bounds of keys (`lat
BETWEEN 1 AND 2 AND lon > 3`). A conjunction takes the best way of its parts, a disjunction needs
one of every part: so `a = 1 OR d BETWEEN 3 AND 4` has two sides.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tamis.diagram import packed
from tamis.logic import Kind

NEVER = 2.0  # the cost of what gives no access: more than all


class Side(NamedTuple):
    event: int  # number of the literal, or -1: then these are bounds
    bounds: tuple[int, ...] = ()  # numbers of literals
    flags: tuple[int, ...] = ()  # words: literals that ask for flags
    exact: bool = True  # whether the condition holds where the side and the flags do


class AccessPath(NamedTuple):
    cost: float  # the share of the subscriptions that a message is expected to meet
    sides: tuple[Side, ...]


class Costs(Protocol):
    def event(self, literal: int) -> float: ...
    def bounds(self, literals: tuple[int, ...], exact: bool) -> float: ...


class _Literal(NamedTuple):
    word: int
    number: int

    @property
    def kind(self) -> int:
        kind: int = packed.kind(packed.asked(self.word))
        return kind


class _Join(NamedTuple):
    either: bool
    parts: tuple[_Literal | _Join, ...]


def best_access(words: tuple[int, ...], costs: Costs) -> AccessPath | None:
    """The cheapest way into the condition of a template, None where there is none."""
    return _access(_tree(words), costs)


def _tree(words: tuple[int, ...]) -> _Literal | _Join:
    """The condition; a join in a join of the same kind is one with it."""
    stack: list[_Literal | _Join] = []
    literal = 0
    for word in words:
        if packed.is_literal(word):
            stack.append(_Literal(word, literal))
            literal += 1
            continue
        first, either = len(stack) - packed.width(word), bool(packed.is_or(word))
        parts: list[_Literal | _Join] = []
        for part in stack[first:]:
            alike = isinstance(part, _Join) and part.either == either
            parts += part.parts if alike and isinstance(part, _Join) else (part,)
        stack[first:] = [parts[0] if len(parts) == 1 else _Join(either, tuple(parts))]
    return stack[0]


def _access(node: _Literal | _Join, costs: Costs) -> AccessPath | None:
    if isinstance(node, _Literal):
        return _of_literal(node, costs)
    return _of_any(node.parts, costs) if node.either else _of_all(node.parts, costs)


def _of_literal(node: _Literal, costs: Costs) -> AccessPath | None:
    if node.kind < Kind.BELOW:
        return None
    if node.kind == Kind.BELOW:
        return _good(costs.bounds((node.number,), True), (Side(-1, (node.number,)),))
    if packed.negated(node.word):
        return None
    return _good(costs.event(node.number), (Side(node.number),))


def _good(cost: float, sides: tuple[Side, ...]) -> AccessPath | None:
    return None if cost >= NEVER else AccessPath(cost, sides)


def _of_any(parts: tuple[_Literal | _Join, ...], costs: Costs) -> AccessPath | None:
    ways = [_access(part, costs) for part in parts]
    if not ways or None in ways:
        return None
    found = [way for way in ways if way is not None]
    return AccessPath(sum(w.cost for w in found), tuple(side for w in found for side in w.sides))


def _of_all(parts: tuple[_Literal | _Join, ...], costs: Costs) -> AccessPath | None:
    literals = [part for part in parts if isinstance(part, _Literal)]
    below = tuple(p.number for p in literals if p.kind == Kind.BELOW)
    flags = tuple(p.word for p in literals if p.kind < Kind.BELOW)
    others = [p for p in parts if not (isinstance(p, _Literal) and p.kind <= Kind.BELOW)]
    ways = [_access(part, costs) for part in others]
    if below:
        ways.append(_good(costs.bounds(below, not others), (Side(-1, below, (), not others),)))
    best = min((w for w in ways if w is not None), key=lambda w: w.cost, default=None)
    if best is None:
        return None
    whole = (not below and len(others) == 1) or not others
    sides = tuple(s._replace(flags=s.flags + flags, exact=s.exact and whole) for s in best.sides)
    return AccessPath(best.cost, sides)

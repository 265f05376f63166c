"""Templates: programs without their constants. Most subscriptions share one with many others."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np

from tamis.diagram import packed
from tamis.diagram.questions import AMONG
from tamis.engine.ground.layout import I4, I8
from tamis.logic import Kind

_SHORT = 16  # words that Python goes through sooner than numpy
_CHOICES = 8  # ways into one condition that are remembered
_EVENT_KINDS = {
    Kind.MEMBER,
    Kind.PREFIX,
    Kind.SUFFIX,
    Kind.CONTAINS,
    Kind.WITHIN,
    Kind.PATTERN,
    Kind.LIKE,
    AMONG,
}
Choice = tuple[int, ...]  # numbers of literals: one of them must be true


@dataclass(frozen=True, slots=True)
class Template:
    """Words (as bytes of 32-bit integers, to be small) and the numbers of the required terms."""

    packed: bytes
    required: tuple[int, ...]

    @property
    def words(self) -> tuple[int, ...]:
        return tuple(array("i", self.packed))

    @property
    def asked(self) -> tuple[int, ...]:
        """The question of each literal."""
        if len(self.packed) <= 4 * _SHORT:
            return tuple([packed.asked(word) for word in self.words if packed.is_literal(word)])
        words = np.frombuffer(self.packed, np.int32)
        return tuple(packed.asked(words[packed.is_literal(words)]).tolist())

    @property
    def contingent(self) -> bool:
        """Whether it is plain, whatever the constants, that some messages match and some do not: a
        conjunction of literals about values of different terms."""
        asked = self.asked
        if not asked or any(not packed.is_literal(w) and packed.is_or(w) for w in self.words):
            return False  # with a disjunction, or FALSE
        terms = {packed.term(q) for q in asked if packed.kind(q) >= Kind.BELOW}
        return len(terms) == len(asked)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Ways in, each necessary: where none of its literals is true, there is no match."""
        return _choices(self.words)


@dataclass(frozen=True, slots=True)
class Used:
    """The templates of some subscriptions: `which` of the items each has, and the words of item i
    are words[offsets[i]:offsets[i + 1]]."""

    items: list[Template]
    which: I4
    offsets: I8
    words: I4


@dataclass(slots=True)
class Templates:
    """All templates of a matcher, numbered; append-only."""

    items: list[Template] = field(default_factory=list)
    numbers: dict[Template, int] = field(default_factory=dict)
    _required: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

    def number(self, packed: bytes, required: tuple[int, ...]) -> int:
        found = self.numbers.get(Template(packed, required))
        return self.enter(packed, required) if found is None else found

    def enter(self, packed: bytes, required: tuple[int, ...]) -> int:
        """Give a template the next number."""
        template = Template(packed, self._required.setdefault(required, required))
        number = len(self.items)
        self.items.append(template)  # first: an interrupt leaves an item that nobody uses
        self.numbers[template] = number
        return number

    def used(self, template: I4) -> Used:
        """Those that have such numbers. Costs these, however many there are in all."""
        numbers, which = np.unique(template, return_inverse=True)
        items = [self.items[t] for t in numbers.tolist()]
        offsets = np.zeros(len(items) + 1, np.int64)
        np.cumsum([len(t.packed) // 4 for t in items], out=offsets[1:])
        words = np.frombuffer(b"".join(t.packed for t in items), np.int32)
        return Used(items, which.astype(np.int32), offsets, words)


def _choices(words: tuple[int, ...]) -> tuple[Choice, ...]:
    """Sets of event literals of which at least one must be true: the ways into a condition."""
    stack: list[list[Choice]] = []
    literal = 0
    for word in words:
        if packed.is_literal(word):
            kind = packed.kind(packed.asked(word))
            positive_event = not packed.negated(word) and kind in _EVENT_KINDS
            stack.append([(literal,)] if positive_event else [])
            literal += 1
            continue
        width, is_or = packed.width(word), packed.is_or(word)
        parts = stack[len(stack) - width :]
        del stack[len(stack) - width :]
        if is_or:
            stack.append(_either(parts))
        else:
            stack.append([c for part in parts for c in part][:_CHOICES])
    return tuple(stack[0]) if stack else ()


def _either(parts: list[list[Choice]]) -> list[Choice]:
    """Every part needs a way in; the i-th way of each (or its last) joined with the others'."""
    if not parts or not all(parts):
        return []
    ways = max(map(len, parts))
    return [
        tuple(lit for part in parts for lit in part[min(i, len(part) - 1)]) for i in range(ways)
    ][:_CHOICES]

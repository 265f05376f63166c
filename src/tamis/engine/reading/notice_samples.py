"""A message that a condition matches, where one is plain to see: it spares a diagram.

Of every OR the first part is chosen, and each term gets a value that makes the chosen literals
true: a text put together from prefix, parts and suffix, or the constant of an equality. Then the
condition is evaluated; only where that is true, something is proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.diagram import packed
from tamis.diagram.questions import Vocabulary
from tamis.engine.reading.templates import Template
from tamis.language.tree import Attribute, Call, attributes
from tamis.logic import Derived, Family, Kind
from tamis.logic.atoms import HOLDS

_DEFINED, _TYPED, _MEMBER = int(Kind.DEFINED), int(Kind.TYPED), int(Kind.MEMBER)
_PARTS = (int(Kind.PREFIX), int(Kind.CONTAINS), int(Kind.SUFFIX))
_STRING = int(Family.STRING)
_ANY_TEXT = ""
Chosen = dict[int, list[tuple[int, int, Any]]]  # term -> kind, family, constant (or key)


def plainly_contingent(vocabulary: Vocabulary, template: Template, keys: Sequence[int]) -> bool:
    """Whether it was easy to see that some messages match and some do not."""
    words = template.words
    if not template.required and _holds(words, [False] * len(keys)):
        return False  # the empty message matches: perhaps all do
    literals = [packed.asked(word) for word in words if packed.is_literal(word)]
    values = _values(vocabulary, literals, keys, _choose(words))
    if values is None or not values.keys() >= set(template.required):
        return False
    truths = [
        _true(vocabulary, asked, key, values) for asked, key in zip(literals, keys, strict=True)
    ]
    return None not in truths and _holds(words, truths)


def _holds(words: Sequence[int], truths: Sequence[bool | None]) -> bool:
    """The condition, given what is true of its literals' atoms."""
    stack: list[bool] = []
    literal = 0
    for word in words:
        if packed.is_literal(word):
            stack.append(bool(truths[literal]) != bool(packed.negated(word)))
            literal += 1
            continue
        first = len(stack) - packed.width(word)
        join = any if packed.is_or(word) else all
        stack[first:] = [join(stack[first:])]
    return stack[0]


def _choose(words: Sequence[int]) -> list[int]:
    """Numbers of positive literals, one part of every OR."""
    stack: list[list[int]] = []
    literal = 0
    for word in words:
        if packed.is_literal(word):
            stack.append([] if packed.negated(word) else [literal])
            literal += 1
            continue
        first = len(stack) - packed.width(word)
        parts = stack[first:]
        if packed.is_or(word):
            stack[first:] = [parts[0] if parts else []]
        else:
            stack[first:] = [[number for part in parts for number in part]]
    return stack[0]


def _values(
    vocabulary: Vocabulary, literals: list[int], keys: Sequence[int], chosen: list[int]
) -> dict[int, Any] | None:
    """A value for each term of the chosen literals; None where that is not plain."""
    found: Chosen = {}
    for number in chosen:
        asked = literals[number]
        term, kind, family = packed.term(asked), packed.kind(asked), packed.family(asked)
        constant: Any = keys[number]
        if kind > _TYPED and not vocabulary.terms.direct(term, family):
            constant = vocabulary.pool.values[constant]
        found.setdefault(int(term), []).append((int(kind), int(family), constant))
    terms = vocabulary.terms.terms
    names = [_name(terms[term]) for term in found]
    if None in names or len(set(names)) < len(names):
        return None  # two terms of one attribute depend on one another
    values = {term: _value(terms[term], own) for term, own in found.items()}
    return None if None in values.values() else values


def _name(term: Derived) -> str | None:
    match term:
        case Attribute(name) | Call("lower", (Attribute(name),)):
            return name
    return None


def _value(term: Derived, asked: list[tuple[int, int, Any]]) -> Any:
    """A value of which all of this is true, as far as one can see; None: not plain."""
    members = [(family, constant) for kind, family, constant in asked if kind == _MEMBER]
    if members:
        value = members[0]
    else:
        parts = {kind: [c for k, _, c in asked if k == kind] for kind in _PARTS}
        prefix, inner, suffix = (parts[kind] for kind in _PARTS)
        if len(prefix) > 1 or len(suffix) > 1:
            return None
        value = _STRING, "".join([*prefix, *inner, *suffix]) or _ANY_TEXT
    if isinstance(term, Call) and (not isinstance(value[1], str) or value[1].lower() != value[1]):
        return None
    return value


def _true(vocabulary: Vocabulary, asked: int, key: int, values: dict[int, Any]) -> bool | None:
    """Whether the atom is true of the values; None where that is not plain."""
    term, kind, family = int(packed.term(asked)), packed.kind(asked), packed.family(asked)
    if term not in values:
        assigned = {name for t in values for name in attributes(vocabulary.terms.terms[t])}
        return None if assigned & {*attributes(vocabulary.terms.terms[term])} else False
    own, value = values[term]
    if kind == _DEFINED:
        return True
    if kind == _TYPED or own != family:
        return bool(own == family)
    if own != _STRING:
        same = vocabulary.terms.direct(term, family)
        return (
            bool((key if same else vocabulary.pool.values[key]) == value)
            if kind == _MEMBER
            else None
        )
    constant = vocabulary.pool.values[key]
    if kind == _MEMBER:
        return bool(value == constant)
    if kind not in _TEXTUAL:
        return None
    return bool(HOLDS[Kind(kind)](value, constant))


_TEXTUAL = {int(k) for k in (Kind.BELOW, Kind.PREFIX, Kind.SUFFIX, Kind.CONTAINS, Kind.WITHIN)}
_TEXTUAL |= {int(Kind.LIKE), int(Kind.PATTERN)}

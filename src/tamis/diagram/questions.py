"""Atoms as numbers: a question (what is asked of which term) and a key (the constant).

A question packs term number, family and kind; a key is 64 bits. Constants whose type
is known (integers, doubles, timestamps, Booleans) are their own order-preserving
key; strings, sets and numbers of no declared type are numbered in a pool. Formulas
become programs: postfix words over questions, with the keys beside them.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tamis.language import canonical
from tamis.logic import All, Atom, Derived, Family, Formula, Kind, Literal, static_type
from tamis.schema import Schema, Type

_DEFINED, _MEMBER, _NUMBER, _STRING = Kind.DEFINED, Kind.MEMBER, Family.NUMBER, Family.STRING
AMONG = 10  # MEMBER of more than one constant: the key is the pool's number of the tuple


def question(term: int, family: int, kind: int) -> int:
    return (term << 8) | (family << 4) | kind


def double_key(number: float) -> int:
    """An integer that orders as the double does; one step up is the next double."""
    bits: int = struct.unpack("<q", struct.pack("<d", number + 0.0))[0]
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF


@dataclass(slots=True)
class Pool:
    """Numbered constants, those of each family in a dict of its own. Numbers are never given twice,
    so readers need no lock.

    Compiling may number the constants of an IN, in whatever thread it happens.
    """

    values: list[Any] = field(default_factory=list)
    numbers: tuple[dict[Any, int], ...] = field(default_factory=lambda: tuple({} for _ in Family))
    _lock: threading.Lock = field(
        default_factory=threading.Lock, init=False, repr=False, compare=False
    )

    def number(self, family: int, value: Any) -> int:
        found = self.numbers[family].get(value)
        return self._give(family, value) if found is None else found

    def _give(self, family: int, value: Any) -> int:
        with self._lock:
            found = self.numbers[family].get(value)
            if found is None:
                found = len(self.values)
                self.values.append(value)
                self.numbers[family][value] = found
            return found


@dataclass(slots=True)
class Terms:
    """The terms that conditions ask about, numbered, with the type each has (None: it depends)."""

    schema: Schema | None
    terms: list[Derived] = field(default_factory=list)
    types: list[Type | None] = field(default_factory=list)
    numbers: dict[Derived, int] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _last: tuple[Derived | None, int] = (None, -1)  # atoms of one predicate share their term

    def number(self, term: Derived) -> int:
        last, found_last = self._last
        if term is last:
            return found_last
        found = self.numbers.get(term)
        if found is None:
            found = len(self.terms)
            self.terms.append(term)
            self.types.append(static_type(term, self.schema))
            self.numbers[term] = found
        self._last = (term, found)
        return found

    def name(self, term: int) -> str:
        """The term's canonical text, by which terms are put in order."""
        found = self._names.get(term)
        if found is None:
            found = self._names[term] = canonical(self.terms[term])
        return found

    def direct(self, term: int, family: int) -> bool:
        """Whether the constants that the term is compared with are their own keys."""
        if family == _STRING:
            return False
        return family != _NUMBER or self.types[term] is not None


@dataclass(frozen=True, slots=True)
class Program:
    """A formula in postfix words; the i-th literal has the i-th key.

    A word >= 0 is 2 * question (+ 1 where negated); -2n - 1 is AND, -2n - 2 OR of the last n.
    `required` numbers the terms that must be defined for the formula to be true.
    """

    words: tuple[int, ...]
    keys: tuple[int, ...]
    required: tuple[int, ...]


@dataclass(slots=True)
class Vocabulary:
    """Terms and constants of one matcher, and how formulas are written with them."""

    terms: Terms
    pool: Pool = field(default_factory=Pool)

    def program(self, formula: Formula, *, whole: bool = False) -> Program:
        """The program of a formula; `whole`: with every DEFINED in it, and nothing required."""
        required = frozenset() if whole else frozenset(required_terms(formula))
        words: list[int] = []
        keys: list[int] = []
        self._write(formula, required, words, keys)
        numbers = sorted(self.terms.number(term) for term in required)
        return Program(tuple(words), tuple(keys), tuple(numbers))

    def _write(
        self, formula: Formula, required: frozenset[Derived], words: list[int], keys: list[int]
    ) -> None:
        if isinstance(formula, Literal):
            atom = formula.atom
            if atom.kind is _DEFINED and atom.term in required:
                words.append(-1 if formula.positive else -2)  # the requirement says it already
                return
            asked, key = self.ask(atom)
            words.append(2 * asked + (not formula.positive))
            keys.append(key)
            return
        for part in formula.parts:
            self._write(part, required, words, keys)
        words.append(-2 * len(formula.parts) - (1 if isinstance(formula, All) else 2))

    def ask(self, atom: Atom) -> tuple[int, int]:
        """The question and key of an atom."""
        term, kind, constant = self.terms.number(atom.term), int(atom.kind), atom.constant
        if kind == _MEMBER:
            assert isinstance(constant, tuple)
            if len(constant) == 1:
                constant = constant[0]
            else:
                kind = AMONG
        return question(term, atom.family, kind), self.key(term, atom.family, kind, constant)

    def key(self, term: int, family: int, kind: int, constant: Any) -> int:
        if constant is None:
            return 0
        if kind != AMONG and self.terms.direct(term, family):
            if self.terms.types[term] is Type.DOUBLE:
                return double_key(constant)
            return int(constant)
        return self.pool.number(family, constant)

    def members(self, family: int, term: int, key: int) -> list[int]:
        """The keys of the single constants of an AMONG."""
        values: Sequence[Any] = self.pool.values[key]
        return [self.key(term, family, int(Kind.MEMBER), value) for value in values]


def required_terms(formula: Formula) -> set[Derived]:
    """Terms without which the formula cannot be true."""
    if isinstance(formula, Literal):
        return {formula.atom.term} if formula.positive else set()
    parts = [required_terms(part) for part in formula.parts]
    if isinstance(formula, All):
        return set().union(*parts)
    return set.intersection(*parts) if parts else set()

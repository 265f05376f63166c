"""Atoms as numbers: a question (what is asked of which term) and a key (the constant).

A question packs term number, family and kind; a key is 64 bits. Constants whose type
is known (integers, doubles, timestamps, Booleans) are their own order-preserving
key; strings, sets and numbers of no declared type are numbered in a pool. Formulas
become programs: postfix words over questions, with the keys beside them.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tamis.critical_section import GATE
from tamis.diagram import packed
from tamis.diagram.packed import FALSE, TRUE
from tamis.language import canonical
from tamis.logic import All, Atom, Derived, Family, Formula, Kind, Literal, static_type
from tamis.logic.atoms import all_of, any_of
from tamis.logic.numbers import simplest
from tamis.schema import Schema, Type

_DEFINED, _MEMBER, _NUMBER, _STRING = Kind.DEFINED, Kind.MEMBER, Family.NUMBER, Family.STRING
_NUMBER_BYTES = array("i").itemsize
AMONG = 10  # MEMBER of more than one constant: the key is the pool's number of the tuple


def double_key(number: float) -> int:
    """An integer that orders as the double does; one step up is the next double."""
    bits: int = struct.unpack("<q", struct.pack("<d", number + 0.0))[0]
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF


def double_of(key: int) -> float:
    """The double of a `double_key`."""
    bits = key if key >= 0 else key ^ 0x7FFFFFFFFFFFFFFF
    number: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return number


@dataclass(slots=True)
class Pool:
    """Numbered constants, those of each family in a dict of its own. Numbers are never given twice,
    so readers need no lock.

    A list of constants is a tuple; one whose constants are numbered too is kept as these numbers,
    four bytes each. Compiling may number the constants of an IN, in whatever thread it happens.
    """

    values: list[Any] = field(default_factory=list)
    numbers: tuple[dict[Any, int], ...] = field(default_factory=lambda: tuple({} for _ in Family))

    def number(self, family: int, value: Any) -> int:
        found = self.numbers[family].get(value)
        return self._give(family, value) if found is None else found

    def number_list(self, family: int, constants: Sequence[Any]) -> int:
        """The number of a list of constants, all of them numbered."""
        numbers = array("i", [self.number(family, c) for c in constants])
        return self.number(family, numbers.tobytes())

    def listed(self, number: int) -> tuple[Any, ...]:
        """The constants of a list."""
        held = self.values[number]
        if isinstance(held, tuple):
            return held
        return tuple([self.values[i] for i in numbers_in(held)])

    def size(self, number: int) -> int:
        """How many constants a list has."""
        held = self.values[number]
        return len(held) if isinstance(held, tuple) else len(held) // _NUMBER_BYTES

    def _give(self, family: int, value: Any) -> int:
        with GATE:
            found = self.numbers[family].get(value)
            if found is None:
                found = len(self.values)
                self.values.append(value)  # first: an interrupt leaves a value that nobody uses
                self.numbers[family][value] = found
            return found


def numbers_in(held: bytes) -> list[int]:
    """The numbers that stand for a list in a pool."""
    return memoryview(held).cast("i").tolist()


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
            found = self._give(term, static_type(term, self.schema))
        self._last = (term, found)
        return found

    def _give(self, term: Derived, type: Type | None) -> int:
        """The next number. It is given by the last step: what an interrupt left is dropped."""
        with GATE:
            found = len(self.numbers)
            del self.terms[found:], self.types[found:]
            self.terms.append(term)
            self.types.append(type)
            self.numbers[term] = found
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

    Its words ask questions (see diagram/packed.py).
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
                words.append(TRUE if formula.positive else FALSE)  # the requirement says it already
                return
            asked, key = self.ask(atom)
            words.append(packed.literal(asked, not formula.positive))
            keys.append(key)
            return
        for part in formula.parts:
            self._write(part, required, words, keys)
        join = packed.conjunction if isinstance(formula, All) else packed.disjunction
        words.append(join(len(formula.parts)))

    def ask(self, atom: Atom) -> tuple[int, int]:
        """The question and key of an atom."""
        term, kind, constant = self.terms.number(atom.term), int(atom.kind), atom.constant
        if kind == _MEMBER:
            assert isinstance(constant, tuple)
            if len(constant) == 1:
                constant = constant[0]
            else:
                kind = AMONG
                if not self.terms.direct(term, atom.family):
                    asked = packed.question(term, atom.family, kind)
                    return asked, self.pool.number_list(atom.family, constant)
        return packed.question(term, atom.family, kind), self.key(term, atom.family, kind, constant)

    def key(self, term: int, family: int, kind: int, constant: Any) -> int:
        if constant is None:
            return 0
        if kind != AMONG and self.terms.direct(term, family):
            if self.terms.types[term] is Type.DOUBLE:
                return double_key(constant)
            return int(constant)
        return self.pool.number(family, constant)

    def formula(
        self, words: Sequence[int], keys: Sequence[int], required: Sequence[int]
    ) -> Formula:
        """What a program says: a formula that is true where the one that it was made of is."""
        parts: list[Formula] = []
        following = iter(keys)
        for word in words:
            if packed.is_literal(word):
                atom = self.atom(packed.asked(word), next(following))
                parts.append(Literal(atom, not packed.negated(word)))
                continue
            first = len(parts) - packed.width(word)
            join = any_of if packed.is_or(word) else all_of
            parts[first:] = [join(parts[first:])]
        (found,) = parts
        known = {self.terms.number(term) for term in required_terms(found)}
        terms = [self.terms.terms[number] for number in required if number not in known]
        defined = [Literal(Atom(term, _DEFINED, Family.ANY)) for term in terms]
        return all_of([*defined, found]) if defined else found

    def atom(self, question: int, key: int) -> Atom:
        """The atom that `ask` makes this question and key of."""
        term, kind = packed.term(question), packed.kind(question)
        family = Family(packed.family(question))
        if kind <= Kind.TYPED:
            return Atom(self.terms.terms[term], Kind(kind), family)
        if kind == AMONG:
            return Atom(self.terms.terms[term], _MEMBER, family, self.pool.listed(key))
        constant = self._constant(term, family, key)
        if kind == _MEMBER:
            constant = (constant,)
        return Atom(self.terms.terms[term], Kind(kind), family, constant)

    def _constant(self, term: int, family: Family, key: int) -> Any:
        if not self.terms.direct(term, family):
            return self.pool.values[key]
        if self.terms.types[term] is Type.DOUBLE:
            return simplest(double_of(key))
        return bool(key) if family is Family.BOOL else key

    def members(self, family: int, term: int, key: int) -> list[int]:
        """The keys of the single constants of an AMONG."""
        held = self.pool.values[key]
        if isinstance(held, bytes) and not self.terms.direct(term, family):
            return numbers_in(held)
        return [self.key(term, family, int(Kind.MEMBER), c) for c in self.pool.listed(key)]


def required_terms(formula: Formula) -> set[Derived]:
    """Terms without which the formula cannot be true."""
    if isinstance(formula, Literal):
        return {formula.atom.term} if formula.positive else set()
    parts = [required_terms(part) for part in formula.parts]
    if isinstance(formula, All):
        return set().union(*parts)
    return set.intersection(*parts) if parts else set()

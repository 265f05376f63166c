"""Conditions that one value leads to, such as `symbol = S AND price < P`, cut into cells.

Every condition asks for a value of one attribute, the key, and beside that only on which side of
constants some terms lie. The constants that occur with one value of the key cut the values of each
term into places: 0 is for undefined, 1 is below all constants, 2 reaches from the first constant to
the second, and so on. A cell is a place for each term, and matches the same conditions throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.language.tree import Attribute
from tamis.logic import Derived, numbers
from tamis.logic.atoms import FALSE, All, Atom, Formula, Kind, Literal, atoms, family_of
from tamis.schema import Type
from tamis.spark.native.native_conditions import Translation
from tamis.spark.native.native_values import NotNative, Value

Bits = npt.NDArray[np.bool_]
Constant = Any  # int, float or str
Parts = Sequence[Formula]  # a condition as a conjunction
_MOST_TERMS = 2
_MOST_CELLS = 1 << 17


Box = tuple[tuple[int, int], ...]  # the places of each term: from, and up to but without


@dataclass(frozen=True, slots=True)
class Cluster:
    """The constants of each term, ascending, and the cells that each rule matches."""

    cuts: tuple[list[Constant], ...]
    rules: list[int]  # positions in the list of formulas, ascending
    matched: Bits  # rules x cells
    boxes: list[Box] | None  # what they match, where that is a box for each of the rules


def clusters_of(
    formulas: Parts, translation: Translation, most_cuts: int
) -> tuple[str, Value, tuple[Value, ...], dict[Constant, Cluster]]:
    """The key, the terms, and the cluster of each value of the key that a formula asks for."""
    rules = {i: _parts(f) for i, f in enumerate(formulas) if f != FALSE}
    key = _key(list(rules.values()), translation)
    found = {a.term for parts in rules.values() for part in parts for a in atoms(part)} - {key}
    if len(found) > _MOST_TERMS:
        raise NotNative(f"conditions ask for more than {_MOST_TERMS} terms beside {key.name}")
    terms = {term: _value(term, translation) for term in sorted(found, key=str)}
    reader = _Reader(key, translation.value(key), terms, most_cuts)
    by_value: dict[Constant, dict[int, Parts]] = {}
    for i, parts in rules.items():
        for constant in reader.asked(parts):
            by_value.setdefault(constant, {})[i] = parts
    clusters = {constant: reader.cluster(own, constant) for constant, own in by_value.items()}
    if sum(c.matched.shape[1] for c in clusters.values()) > _MOST_CELLS:
        raise NotNative(f"there would be more than {_MOST_CELLS:,} cells")
    return key.name, reader.value, tuple(terms.values()), clusters


def _parts(formula: Formula) -> Parts:
    return formula.parts if isinstance(formula, All) else (formula,)


def _value(term: Derived, translation: Translation) -> Value:
    value = translation.derived(term)
    if value.type is None:
        raise NotNative(f"{term} has no type")
    return value


def _key(rules: Sequence[Parts], translation: Translation) -> Attribute:
    """The attribute that all rules ask for a value of; of several, that with most values."""
    asked: dict[Attribute, list[tuple[Constant, ...]]] = {}
    for parts in rules:
        own = {a.term: a.constant for a in _memberships(parts) if isinstance(a.term, Attribute)}
        for term, constants in own.items():
            asked.setdefault(term, []).append(constants)  # type: ignore[arg-type]
    able = [a for a, lists in asked.items() if len(lists) == len(rules)]
    able = [a for a in able if translation.value(a).type not in (None, Type.BOOL)]
    if not able:
        raise NotNative("not every condition asks for a value of one and the same attribute")
    return max(able, key=lambda a: len({c for constants in asked[a] for c in constants}))


def _memberships(parts: Parts) -> list[Atom]:
    """The memberships that must hold, whatever else."""
    literals = [p for p in parts if isinstance(p, Literal) and p.positive]
    return [p.atom for p in literals if p.atom.kind is Kind.MEMBER]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads what is left of conditions where the value of the key is known."""

    key: Attribute
    value: Value  # of the key
    terms: Mapping[Derived, Value]
    most_cuts: int

    def asked(self, parts: Parts) -> list[Constant]:
        """The values of the key with which the condition can be true, in their type."""
        kind = self.value.type
        assert kind is not None
        own = next(a for a in _memberships(parts) if a.term == self.key)
        if family_of(kind) is not own.family:
            return []
        constants: Any = own.constant
        if kind.numeric:
            constants = [c for c in constants if numbers.on_line(c, kind)]
        return [float(c) for c in constants] if kind is Type.DOUBLE else list(constants)

    def cluster(self, rules: Mapping[int, Parts], constant: Constant) -> Cluster:
        cuts = tuple(self._cuts(term, rules) for term in self.terms)
        shape = tuple(len(found) + 2 for found in cuts)
        if np.prod(shape, initial=1) > _MOST_CELLS:
            raise NotNative(f"there would be more than {_MOST_CELLS:,} cells")
        places = [{cut: i + 1 for i, cut in enumerate(found)} for found in cuts]
        boxes = [self._box(parts, constant, places) for parts in rules.values()]
        matched = np.ones((len(rules), *shape), bool)
        for i, (parts, box) in enumerate(zip(rules.values(), boxes, strict=True)):
            if box is None:
                matched[i] = self._all(parts, constant, cuts)
        all_boxes = [box for box in boxes if box is not None]
        are = np.array([box is not None for box in boxes])
        matched[are] = _inside(all_boxes, shape)
        whole = all_boxes if len(all_boxes) == len(boxes) else None
        return Cluster(cuts, list(rules), matched.reshape(len(rules), -1), whole)

    def _box(
        self, parts: Parts, constant: Constant, places: Sequence[Mapping[Constant, int]]
    ) -> Box | None:
        """The places that a plain conjunction leaves of each term; None where it is none."""
        low, high = [0] * len(places), [len(found) + 2 for found in places]
        terms = {term: i for i, term in enumerate(self.terms)}
        literals = [part for part in parts if isinstance(part, Literal)]
        if len(literals) < len(parts):
            return None
        for part in sorted(literals, key=lambda part: not part.positive):
            if part.atom.term == self.key:
                if self._of_key(part.atom, constant) is not part.positive:
                    return tuple((0, 0) for _ in places)
                continue
            i, limit = terms[part.atom.term], self._limit(part.atom)
            end = len(places[i]) + 2
            last = end - 1 if limit is True else 0 if limit is False else places[i][limit]
            if part.positive:
                low[i], high[i] = max(low[i], 1), min(high[i], last + 1)
            elif last == end - 1:
                high[i] = min(high[i], 1)
            elif last and not low[i]:
                return None  # undefined, or beyond the constant
            else:
                low[i] = max(low[i], last + 1) if last else low[i]
        return tuple(zip(low, high, strict=True))

    def _cuts(self, term: Derived, rules: Mapping[int, Parts]) -> list[Constant]:
        own = {a for parts in rules.values() for p in parts for a in atoms(p) if a.term == term}
        limits = [self._limit(atom) for atom in own]  # no set: 1 and True are one there
        cuts = sorted({limit for limit in limits if not isinstance(limit, bool)})
        if len(cuts) > self.most_cuts:
            raise NotNative(f"a value has more than {self.most_cuts} constants of one term")
        return cuts

    def _limit(self, atom: Atom) -> Constant | bool:
        """The constant that the term is to be below; True or False where its being defined is all
        that is asked, or nothing will do."""
        kind = self.terms[atom.term].type
        assert kind is not None
        if atom.kind is Kind.DEFINED:
            return True
        if family_of(kind) is not atom.family:
            return False
        if atom.kind is Kind.TYPED:
            return True
        if atom.kind is not Kind.BELOW or kind is Type.BOOL:
            raise NotNative(f"{atom.kind.name.lower()} is not a question of below or not")
        if not kind.numeric:
            return atom.constant
        limit = numbers.at_least(atom.constant, kind)  # type: ignore[arg-type]
        if numbers.never_below(limit, kind) or numbers.always_below(limit, kind):
            return numbers.always_below(limit, kind)
        return float(limit) if kind is Type.DOUBLE else limit

    # --- truth in every cell ---

    def _all(self, parts: Parts, constant: Constant, cuts: tuple[list[Constant], ...]) -> Bits:
        found = np.ones([len(c) + 2 for c in cuts], bool)
        for part in parts:
            found &= self._truth(part, constant, cuts)
        return found

    def _truth(
        self, formula: Formula, constant: Constant, cuts: tuple[list[Constant], ...]
    ) -> Bits:
        if isinstance(formula, Literal):
            held = self._atom(formula.atom, constant, cuts)
            return held if formula.positive else ~held
        if isinstance(formula, All):
            return self._all(formula.parts, constant, cuts)
        found = np.zeros([len(c) + 2 for c in cuts], bool)
        for part in formula.parts:
            found |= self._truth(part, constant, cuts)
        return found

    def _atom(self, atom: Atom, constant: Constant, cuts: tuple[list[Constant], ...]) -> Bits:
        shape = [len(c) + 2 for c in cuts]
        if atom.term == self.key:
            return np.full(shape, self._of_key(atom, constant))
        term, limit = list(self.terms).index(atom.term), self._limit(atom)
        last = (
            shape[term] if limit is True else 0 if limit is False else cuts[term].index(limit) + 1
        )
        places = np.arange(shape[term])
        held = (places > 0) & (places <= last)
        axes = [-1 if i == term else 1 for i in range(len(shape))]
        return np.broadcast_to(held.reshape(axes), shape)

    def _of_key(self, atom: Atom, constant: Constant) -> bool:
        assert self.value.type is not None
        if atom.kind is Kind.DEFINED:
            return True
        if family_of(self.value.type) is not atom.family:
            return False
        if atom.kind in (Kind.TYPED, Kind.MEMBER):
            return atom.kind is Kind.TYPED or constant in _constants(atom)
        raise NotNative(f"a condition asks for more than values of {self.key.name}")


def _inside(boxes: Sequence[Box], shape: Sequence[int]) -> Bits:
    """boxes x cells: whether the cell is inside the box."""
    found = np.ones((len(boxes), *shape), bool)
    for term, size in enumerate(shape):
        bounds = np.array([box[term] for box in boxes]).reshape(-1, 2)
        places = np.arange(size)
        held = (places >= bounds[:, :1]) & (places < bounds[:, 1:])
        axes = [1] * len(shape)
        axes[term] = size
        found &= held.reshape(len(boxes), *axes)
    return found


def _constants(atom: Atom) -> Iterable[Constant]:
    return atom.constant  # type: ignore[return-value]

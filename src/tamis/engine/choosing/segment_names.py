"""What the numbers of a segment stand for: events, thresholds, flags and requirements as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tamis.diagram.questions import Vocabulary
from tamis.diagram.variables import Atoms
from tamis.diagram.wording import atom_of, atom_text, condition_of, constant_of, text_of
from tamis.engine.lookup.term_index import Index, TermIndex
from tamis.language import canonical
from tamis.language.tree import Compare, CompareOp, Not
from tamis.logic import Atom, Family, Kind

_NOT_BELOW: dict[CompareOp, CompareOp] = {"<": ">=", "<=": ">"}


@dataclass(frozen=True, slots=True)
class Names:
    vocabulary: Vocabulary
    atoms: Atoms
    index: Index  # as it was while the segment was compiled: with the place of each variable

    @property
    def events(self) -> list[str]:
        """The text of every event, by its number."""
        return [atom_text(self, int(v)) for v in np.flatnonzero(self.atoms.kind > Kind.BELOW)]

    def bound(self, column: int, threshold: int, *, below: bool) -> str:
        """That a key stands below a threshold of its column, or that it does not."""
        asked = (self.atoms.kind == Kind.BELOW) & (self.index.place == column)
        found = np.flatnonzero(asked & (self.index.threshold == threshold))
        if not len(found):
            return f"key {column} {'<' if below else '>='} {threshold}, which nobody asks"
        return _bound(atom_of(self, int(found[0])), below=below)

    def flag(self, column: int, bit: int) -> str:
        """That a term is defined (bit 1), or of a family."""
        term = self.index.terms[column].term
        if bit == 1:
            return text_of(Atom(term, Kind.DEFINED, Family.ANY))
        return text_of(Atom(term, Kind.TYPED, Family(bit.bit_length() - 2)))

    def lines(self) -> Iterator[str]:
        """What is looked up of each term, a line for each of its constants and texts."""
        for column, own in enumerate(self.index.terms):
            kind = f": {own.type.value}" if own.type else ""
            yield f"column {column}: {canonical(own.term)}{kind}"
            for family, (keys, _) in own.below.items():
                yield f"  {Family(family).name.lower()} keys {keys}"
            yield from self._points(own)

    def _points(self, own: TermIndex) -> Iterator[str]:
        for family, points in own.points.items():
            for i, key in enumerate(points.keys.tolist()):
                value = constant_of(self.vocabulary, own.number, Family(family), key)
                fired = points.events[points.offsets[i] : points.offsets[i + 1]].tolist()
                yield f"  {value!r} fires {', '.join(map(str, fired))}"


def _bound(atom: Atom, *, below: bool) -> str:
    condition = condition_of(atom)
    if below:
        return canonical(condition)
    if isinstance(condition, Compare) and condition.op in _NOT_BELOW:
        return canonical(Compare(condition.left, _NOT_BELOW[condition.op], condition.right))
    return canonical(Not(condition))

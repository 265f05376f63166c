"""The search for a message of which a formula is true, or the proof that there is none.

A path from the root of the restricted diagram to TRUE says what must hold of each term. The
search follows paths, keeps a value for every term, and turns back where a term has none; the
values of attributes then make a message, which is checked. Where all paths end in terms that
provably have no value, no message exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tamis.diagram.conditions import Diagram, diagram_of_formulas
from tamis.diagram.wording import atom_of
from tamis.errors import MessageError, SelectorError
from tamis.language.tree import Attribute
from tamis.logic import Atom, Derived, Formula, Lookups, Semantics, finder, satisfied, static_type
from tamis.logic.lists import has_several
from tamis.messages.message_values import fitted
from tamis.reasoning.candidates import answers, candidates, several_candidates
from tamis.reasoning.inverse import Inverse, Known
from tamis.schema import Schema, Shape, Type

BUILDING = 1 << 16  # steps for the diagram: more than a matcher spends on one condition
STEPS = 6000  # nodes visited; finding new values for a term counts as ten
TRIES = 20_000  # values that derived terms are tried with, in all
SETTINGS = 2000  # the same for one path
_FILL: dict[Type, object] = {Type.INT: 1, Type.DOUBLE: 1.0, Type.STRING: "a", Type.BOOL: True}

Message = dict[str, object]
Literals = tuple[tuple[Atom, bool], ...]


@dataclass(frozen=True, slots=True)
class Path:
    """Where a walk stands: at a node that should become `wanted`, with nodes still to visit."""

    node: int
    wanted: bool
    later: tuple[tuple[int, bool], ...]
    asked: Mapping[Derived, Literals]
    values: Mapping[Derived, object]


@dataclass(slots=True)
class Search:
    """One search. After `message`, `sure` tells whether None means that there is no message."""

    formula: Formula
    schema: Schema | None
    semantics: Semantics
    lookups: Lookups
    sure: bool = True
    steps: int = STEPS
    tries: int = TRIES
    atoms: dict[int, Atom] = field(default_factory=dict)

    def message(self) -> Message | None:
        diagram = diagram_of_formulas([self.formula], self.schema, budget=BUILDING)
        stack = [Path(int(diagram.shared.roots[0]), True, (), {}, {})]
        while stack:
            self.steps -= 1
            if self.steps < 0 or self.tries < 0:
                self.sure = False
                return None
            path = stack.pop()
            if path.node > 1:
                stack.extend(self._onward(diagram, path))
            elif path.node == path.wanted and path.later:
                (node, wanted), *later = path.later
                stack.append(Path(node, wanted, tuple(later), path.asked, path.values))
            elif path.node == path.wanted:
                found = self._completed(path)
                if found is not None:
                    return found
        return None

    def _onward(self, diagram: Diagram, path: Path) -> Iterator[Path]:
        """The two ways from a node; the last one is taken first."""
        shared = diagram.shared
        test = int(shared.test[path.node])
        for truth, child in ((False, shared.low), (True, shared.high)):
            node = int(child[path.node])
            if node == (not path.wanted):
                continue
            if test >= shared.atoms:
                later = (*path.later, (test - shared.atoms, truth))
                yield Path(node, path.wanted, later, path.asked, path.values)
                continue
            if test not in self.atoms:
                self.atoms[test] = atom_of(diagram, test)
            onward = self._told(path, node, self.atoms[test], truth)
            if onward is not None:
                yield onward

    def _told(self, path: Path, node: int, atom: Atom, truth: bool) -> Path | None:
        """The path with one more thing said of a term; None where the term then has no value."""
        term = atom.term
        literals = (*path.asked.get(term, ()), (atom, truth))
        values = path.values
        if term not in values or atom.holds(values[term]) != truth:
            self.steps -= 10 + len(literals) // 10
            found, sure = self._candidates(term, literals)
            if not found:
                self.sure &= sure
                return None
            values = {**values, term: found[0]}
        return Path(node, path.wanted, path.later, {**path.asked, term: literals}, values)

    def _candidates(self, term: Derived, literals: Literals) -> tuple[list[object], bool]:
        line = static_type(term, self.schema)
        if has_several(term):
            return several_candidates(literals, line), False
        if isinstance(term, Attribute) and self._shape(term.name) is not Shape.SCALAR:
            held: object = [] if self._shape(term.name) is Shape.LIST else {}
            offers = [held, None] if self._may_be_undefined(term) else [held]
            return [one for one in offers if answers(literals, one)], False
        return candidates(literals, line, undefined=self._may_be_undefined(term))

    def _shape(self, name: str) -> Shape:
        own = self.schema[name] if self.schema is not None and name in self.schema else None
        return Shape.SCALAR if own is None else own.shape

    def _may_be_undefined(self, term: Derived) -> bool:
        if not isinstance(term, Attribute) or self.schema is None or term.name not in self.schema:
            return True
        has_default = self.schema[term.name].default is not None
        return not (self.semantics == "total" or (self.semantics == "default" and has_default))

    # --- from what is asked to a message -----------------------------------------

    def _completed(self, path: Path) -> Message | None:
        """A message that goes this path. Derived terms must agree with their attributes."""
        plain = {term.name: value for term, value in path.values.items() if _is_plain(term)}  # type: ignore[union-attr]
        derived = [term for term in path.asked if not _is_plain(term)]
        if not derived:
            found = self._checked(plain)
            self.sure &= found is not None
            return found
        inverse = Inverse(
            lambda name: self._choices(path, name),
            lambda name, value: self._fits(path, name, value),
            self.lookups,
            SETTINGS,
        )
        settings = self._settings(inverse, path, derived, {})
        tried = (self._checked({**plain, **known}) for known in settings)
        found = next((message for message in tried if message is not None), None)
        self.tries -= SETTINGS - inverse.tries
        self.sure &= found is not None
        return found

    def _settings(
        self, inverse: Inverse, path: Path, derived: list[Derived], known: Known
    ) -> Iterator[Known]:
        """Attributes that give all derived terms a value that they may have."""
        if not derived:
            yield known
            return
        term, *others = derived
        for target in self._candidates(term, path.asked[term])[0]:
            for more in inverse.settings(term, target, known):
                if answers(path.asked[term], inverse.worth(term, more)):
                    yield from self._settings(inverse, path, others, more)

    def _choices(self, path: Path, name: str) -> list[object]:
        term = Attribute(name)
        return self._candidates(term, path.asked.get(term, ()))[0]

    def _fits(self, path: Path, name: str, value: object) -> bool:
        term = Attribute(name)
        if value is None and not self._may_be_undefined(term):
            return False
        if self.schema is not None and name in self.schema:
            try:
                value = fitted(self.schema, name, value)
            except MessageError:
                return False
        return answers(path.asked.get(term, ()), value)

    def _checked(self, values: Mapping[str, object]) -> Message | None:
        """The message of these values, if the formula is true of it."""
        message = {name: value for name, value in values.items() if value is not None}
        if self.semantics == "total":
            message = {**self._filling(), **message}
        try:
            find = finder(message, self.semantics, self.schema)
            for name in message:
                find(name)  # whatever does not fit the schema is an error
            return message if satisfied(self.formula, find, self.lookups) else None
        except (MessageError, SelectorError):
            return None

    def _filling(self) -> Message:
        """Some value for every attribute of the schema: total messages define them all."""
        found: Message = {}
        for name, attribute in (self.schema or {}).items():
            if attribute.shape is not Shape.SCALAR:
                found[name] = [] if attribute.shape is Shape.LIST else {}
                continue
            fill = _FILL.get(attribute.type)
            found[name] = (
                candidates((), attribute.type, undefined=False)[0][0] if fill is None else fill
            )
        return found


def _is_plain(term: Derived) -> bool:
    return isinstance(term, Attribute)

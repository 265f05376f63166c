"""A matcher from the arrays of a snapshot. Nothing is used before it was checked."""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tamis.diagram.questions import Terms, Vocabulary
from tamis.diagram.variables import Atoms
from tamis.engine import paths
from tamis.engine.choosing.path import Frame
from tamis.engine.ground.layout import U1, Access, Requirements
from tamis.engine.ground.sound import demand, tiling, within
from tamis.engine.ground.sources import Kept, narrow
from tamis.engine.live.id_array import IdNames
from tamis.engine.live.id_table import Slots
from tamis.engine.live.state import State
from tamis.engine.lookup.term_index import indexes
from tamis.engine.paths.segment import Segment
from tamis.engine.reading.templates import Template, Templates
from tamis.engine.snapshot import checks
from tamis.engine.snapshot.codecs import Constants, Growing, Ids, SavedTemplates, Texts
from tamis.engine.snapshot.file import Arrays
from tamis.engine.snapshot.saving import (
    Savable,
    empty,
    living,
    segment_arrays,
    snapshot_arrays,
    term_of,
)
from tamis.errors import SnapshotError
from tamis.language import Attribute, Call, IsNull, Limits, Predicate, check
from tamis.language.tree import quantifier
from tamis.logic import FUNCTIONS, SEMANTICS, Derived, Lookups
from tamis.logic.lists import FACTS
from tamis.logic.terms import called
from tamis.schema import Scalar, Schema

M = TypeVar("M", bound=Savable)
_DIALECTS = ("tamis", "jms")


def matcher_of(kind: type[M], path: Path, arrays: Arrays, lookups: Lookups) -> M:
    """The matcher that the arrays were taken from; errors of any kind where there is none."""
    for name, (number, width) in snapshot_arrays().items():
        demand(name in arrays and arrays[name].dtype == number, f"there is no {name}")
        demand(
            arrays[name].shape[1:] == empty(number, width).shape[1:], f"{name} is of another shape"
        )
    meta = json.loads(arrays["meta"].tobytes())
    missing = [name for name in meta["lookups"] if name not in lookups]
    if missing:
        hint = "give them as load(path, lookups={...}): functions are not saved"
        raise SnapshotError(path, f"needs the lookups {', '.join(map(repr, missing))}", hint)
    demand(meta["semantics"] in SEMANTICS and meta["dialect"] in _DIALECTS, "no such semantics")
    matcher = kind(
        schema_of(meta["schema"]),
        semantics=meta["semantics"],
        dialect=meta["dialect"],
        limits=limits_of(meta["limits"]),
        lookups=lookups,
    )
    _fill(matcher, arrays)
    return matcher


def schema_of(said: list[Any] | None) -> Schema | None:
    if said is None:
        return None
    demand(all(isinstance(row[0], str) for row in said), "a name is no text")
    return Schema.of({row[0]: (row[1], _default(*row[2:])) for row in said})


def _default(form: str, said: Any) -> Scalar | None:
    if form == "float":
        return float.fromhex(said)
    if form == "time":
        return datetime.datetime.fromisoformat(said)
    demand(said is None or isinstance(said, bool | int | str), "a default is no value")
    return said  # type: ignore[no-any-return]


def limits_of(said: dict[str, Any]) -> Limits:
    demand(all(type(value) is int for value in said.values()), "a limit is no number")
    return Limits(**said)


def _fill(matcher: Savable, arrays: Arrays) -> None:
    """Give an empty matcher what was saved."""
    constants = _loaded_constants(arrays)
    terms = _loaded_terms(arrays, matcher)
    vocabulary = Vocabulary(terms, constants.pool())
    ids = _loaded_ids(arrays)
    texts = Texts(arrays["selector_bytes"], arrays["selector_offsets"])
    checks.texts(texts, "selectors")
    demand(len(texts) == len(ids), "ids and selectors do not fit")
    templates = _loaded_templates(arrays, len(terms.terms))
    loader = _Loader(arrays, vocabulary, constants, len(ids))
    state = State(*loader.segments())
    alive = living(state)
    demand(bool((alive[1:] > alive[:-1]).all()), "a subscription occurs twice")
    inside: Any = matcher._contents  # these do what it does with a list
    inside.ids, inside.texts = Growing(ids), Growing(texts)
    inside.slots = Slots(inside.ids, alive)
    inside.names = IdNames(inside.ids, ids.names(), mixed=len(ids.whole) > 0)
    inside.intake.vocabulary, inside.intake.templates = vocabulary, templates
    inside.merging.state = state


def _loaded_constants(arrays: Arrays) -> Constants:
    constants = Constants(
        arrays["family"],
        arrays["grouped"],
        arrays["item_starts"],
        arrays["kind"],
        Texts(arrays["item_bytes"], arrays["item_offsets"]),
        arrays["integers"],
        arrays["doubles"],
        arrays["links"],
    )
    checks.constants(constants)
    return constants


def _loaded_terms(arrays: Arrays, matcher: Savable) -> Terms:
    texts = Texts(arrays["term_bytes"], arrays["term_offsets"])
    checks.texts(texts, "terms")
    terms, lookups = Terms(matcher.schema), tuple(matcher.lookups)
    for i, (text, form) in enumerate(zip(texts, arrays["term_form"].tolist(), strict=True)):
        term = term_of(text, form)
        check(_checked(term, lookups), matcher.schema, lookups=lookups)
        demand(terms.number(term) == i, "a term occurs twice")
    return terms


def _checked(term: Derived, lookups: Collection[str]) -> Predicate:
    """A condition that has the term in it; of a fact about a list, or what has several values, a
    condition on the list."""
    if isinstance(term, Predicate):
        return term
    call = quantifier(term)
    if isinstance(term, Call) and term.name in FACTS:
        call = term
    if call is None:
        return IsNull(term)
    demand(called(term) <= {*FUNCTIONS, *lookups}, "a term calls what is not there")
    demand(len(call.arguments) == 1 and isinstance(call.arguments[0], Attribute), "no list's name")
    return IsNull(call.arguments[0])


def _loaded_ids(arrays: Arrays) -> Ids:
    texts = Texts(arrays["id_bytes"], arrays["id_offsets"])
    checks.texts(texts, "ids")
    ids = Ids(arrays["id_numbers"], arrays["id_whole"], texts)
    sizes = {len(ids.numbers), len(ids.whole), len(texts)} - {0}
    demand(len(sizes) <= 1 and (len(ids.whole) in (0, len(ids.numbers))), "ids do not fit")
    return ids


def _loaded_templates(arrays: Arrays, terms: int) -> Templates:
    offsets, words = arrays["word_offsets"], arrays["words"]
    required_offsets, required = arrays["required_offsets"], arrays["required"]
    checks.programs(offsets, words, terms)
    tiling(required_offsets, len(required), "requirements of templates")
    within(required, terms, "required terms")
    demand(len(required_offsets) == len(offsets), "requirements of templates do not fit")
    return SavedTemplates((offsets, words), (required_offsets, required))


class _Loader:
    """Makes the segments, each checked before it is used."""

    def __init__(
        self, arrays: Arrays, vocabulary: Vocabulary, constants: Constants, slots: int
    ) -> None:
        self.arrays, self.vocabulary, self.constants = arrays, vocabulary, constants
        self.slots = slots
        self.literals = checks.literals(arrays["word_offsets"], arrays["words"])

    def segments(self) -> tuple[tuple[Segment, ...], tuple[U1, ...]]:
        bounds, names = self.arrays["bounds"], list(segment_arrays())
        for i, name in enumerate(names):
            tiling(bounds[:, i], len(self.arrays[name]), "segments")
        cuts = [
            {n: self.arrays[n][a:b] for n, a, b in zip(names, first, last, strict=True)}
            for first, last in pairwise(bounds.tolist())
        ]
        return tuple(map(self._segment, cuts)), tuple(cut["alive"] for cut in cuts)

    def _segment(self, cut: Arrays) -> Segment:
        atoms = self._atoms(cut)
        source = self._source(cut, atoms)
        index = indexes(self.vocabulary, atoms, self._required(source)).compiled()
        access = Access(cut["access_offsets"], cut["access_clusters"])
        requirements = Requirements(cut["requirement_offsets"], cut["requirement_columns"])
        checks.links(access, requirements, index)
        frame = Frame(index, requirements, access, len(source))
        for kind in paths.PATHS:
            frame.paths.append(kind.check(cut, frame))
        demand(len(cut["overlap"]) == 1, "overlap does not fit")
        return Segment(source, frame, bool(cut["overlap"][0]))

    def _source(self, cut: Arrays, atoms: Atoms) -> Kept:
        slot, template, literal = cut["slot"], cut["template"], cut["literal"]
        within(slot, self.slots, "slots")
        demand(bool((slot[1:] > slot[:-1]).all()), "slots are out of order")
        demand(len(slot) == len(template) == len(cut["alive"]), "subscriptions do not fit")
        within(cut["alive"], 2, "marks of the living")
        sizes = checks.literals_of(template, literal, atoms.question, *self.literals)
        return Kept(slot, template, narrow(sizes), literal, atoms.key)

    def _atoms(self, cut: Arrays) -> Atoms:
        question, key = cut["question"], cut["key"]
        demand(len(question) == len(key), "atoms do not fit")
        checks.questions(question, len(self.vocabulary.terms.terms))
        checks.keys(question, key, self.vocabulary.terms, self.constants)
        unknown: Any = None  # what only compiling needs to know of them
        return Atoms(question, key, unknown)

    def _required(self, source: Kept) -> list[Template]:
        """One template that requires all that the templates of the source do."""
        offsets, required = self.arrays["required_offsets"], self.arrays["required"]
        used = np.zeros(len(offsets) - 1, bool)
        used[source.template] = True
        terms = np.unique(required[np.repeat(used, np.diff(offsets))])
        return [Template(b"", tuple(terms.tolist()))]

"""Snapshots: a matcher as one file, and the file as a matcher again.

What was compiled is kept as it is, and mapped. What is quick to make again (terms from
their text, the index of each segment from its atoms) is not. Functions cannot be saved.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tamis.diagram.questions import Terms, Vocabulary
from tamis.diagram.variables import Atoms, order
from tamis.engine import compile as kernels
from tamis.engine import integrity
from tamis.engine.container import Arrays, Parts, read, write
from tamis.engine.index import indexes
from tamis.engine.integrity import demand
from tamis.engine.layout import I4, I8, U1, Access, Clusters, Requirements
from tamis.engine.segment import Segment, Source, roots_by_need
from tamis.engine.state import State
from tamis.engine.stored import (
    Constants,
    Growing,
    Ids,
    SavedTemplates,
    Slots,
    Texts,
    families,
)
from tamis.engine.templates import Template, Templates
from tamis.errors import SnapshotError
from tamis.language import Attribute, Compare, IsNull, Limits, Text, canonical, parse
from tamis.logic import SEMANTICS, Derived, Lookups
from tamis.schema import Attribute as Column
from tamis.schema import Scalar, Schema, Type

if TYPE_CHECKING:
    from tamis.engine.matcher import Matcher

_DIALECTS = ("tamis", "jms")
_UNBOUNDED = Limits(length=1 << 40, depth=100_000)
_NAME, _TERM, _CONDITION = range(3)  # how the text of a term is to be read

# The arrays of all segments stand one behind the other; `bounds` has where each segment begins.
_SEGMENT = (
    *("slot", "template", "offsets", "keys", "alive", "question", "key"),
    *Clusters._fields,
    *("access_offsets", "access_clusters", "requirement_offsets", "requirement_columns"),
)
_WIDTHS = {"starts": 8, "group": 3, "flag": 2, "node": 3, "root": 4, "bounds": len(_SEGMENT)}
_TYPES: dict[str, str] = {
    **dict.fromkeys(("meta", "term_bytes", "term_form", "id_bytes", "id_whole"), "uint8"),
    **dict.fromkeys(("selector_bytes", "family", "grouped", "kind", "item_bytes"), "uint8"),
    **dict.fromkeys(("term_offsets", "id_offsets", "id_numbers", "selector_offsets"), "int64"),
    **dict.fromkeys(("item_starts", "item_offsets", "integers"), "int64"),
    **dict.fromkeys(("word_offsets", "required_offsets", "bounds"), "int64"),
    **dict.fromkeys(("words", "required"), "int32"),
    "doubles": "float64",
    **dict.fromkeys(_SEGMENT, "int32"),
    "alive": "uint8",
    **dict.fromkeys(("offsets", "keys", "key", "starts", "threshold"), "int64"),
    **dict.fromkeys(("access_offsets", "requirement_offsets"), "int64"),
}


def save(matcher: Matcher, path: str | os.PathLike[str]) -> None:
    """Write the matcher to `path`: all of it, or nothing. Others may go on using the matcher."""
    target = Path(path)
    try:
        write(target, _arrays(_taken(matcher)))
    except UnicodeEncodeError as error:
        what = f"cannot be written: {error.object!r} is no text"
        raise SnapshotError(target, what, "give the subscription another id") from error


def load(
    path: str | os.PathLike[str], *, lookups: Lookups | None = None, verify: bool = True
) -> Matcher:
    """The matcher that was saved to `path`, its arrays mapped: processes share the pages.

    `lookups` are the functions that its selectors call. `verify=False` skips the checksums of
    the contents; that every number is within its bounds is checked all the same.
    """
    arrays = read(Path(path), verify=verify)
    try:
        return _matcher(Path(path), arrays, lookups or {})
    except SnapshotError:
        raise
    except Exception as error:
        hint = "it was not made by Tamis, or by another version: save the matcher again"
        raise SnapshotError(path, f"holds what no matcher has: {error}", hint) from error


# --- saving ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Taken:
    """A matcher at one moment. What only grows is taken with its length."""

    matcher: Matcher
    state: State
    slots: int
    templates: int
    terms: int
    values: int


def _taken(matcher: Matcher) -> _Taken:
    with matcher._folding.lock:
        intake = matcher._intake
        return _Taken(
            matcher,
            matcher._folding.state,
            len(matcher._ids),
            len(intake.templates.items),
            len(intake.vocabulary.terms.terms),
            len(intake.vocabulary.pool.values),
        )


def _arrays(taken: _Taken) -> Iterator[tuple[str, Parts]]:
    segments = [_columns(taken, s, a) for s, a in zip(*_parts_of(taken.state), strict=True)]
    single = {
        "meta": np.frombuffer(_meta(taken.matcher), np.uint8),
        **_terms(taken),
        **_constants(taken),
        **_templates(taken),
        **_subscriptions(taken),
        "bounds": _bounds(segments),
    }
    for name, array in single.items():
        yield name, [array]
    for name in _SEGMENT:
        yield name, [_empty(name), *(columns[name] for columns in segments)]


def _parts_of(state: State) -> tuple[tuple[Segment, ...], tuple[U1, ...]]:
    return state.segments, state.alive


def _bounds(segments: list[Arrays]) -> I8:
    sizes = [[len(columns[name]) for name in _SEGMENT] for columns in segments]
    return np.cumsum([[0] * len(_SEGMENT), *sizes], axis=0, dtype=np.int64)


def _empty(name: str) -> Any:
    width = _WIDTHS.get(name)
    return np.empty(0 if width is None else (0, width), _TYPES[name])


def _meta(matcher: Matcher) -> bytes:
    schema = matcher.schema
    said = {
        "schema": None if schema is None else [_column_said(a) for a in schema.values()],
        "semantics": matcher.semantics,
        "dialect": matcher.dialect,
        "limits": dataclasses.asdict(matcher.limits),
        "lookups": sorted(matcher.lookups),
    }
    return json.dumps(said).encode()


def _column_said(column: Column) -> list[object]:
    default = column.default
    if isinstance(default, float):
        return [column.name, column.type.value, "float", default.hex()]
    if isinstance(default, datetime.datetime):
        return [column.name, column.type.value, "time", default.isoformat()]
    return [column.name, column.type.value, "plain", default]


def _terms(taken: _Taken) -> Arrays:
    terms = taken.matcher._intake.vocabulary.terms.terms[: taken.terms]
    forms = [_form(term) for term in terms]
    texts = Texts.of(_text(term) for term in terms)
    for term, form, text in zip(terms, forms, texts, strict=True):
        assert _term(text, form) == term, text
    return {
        "term_bytes": texts.data,
        "term_offsets": texts.offsets,
        "term_form": np.array(forms, np.uint8),
    }


def _form(term: Derived) -> int:
    if isinstance(term, Attribute):
        return _NAME
    return _CONDITION if isinstance(term, Compare | Text) else _TERM


def _text(term: Derived) -> str:
    return term.name if isinstance(term, Attribute) else canonical(term)


def _constants(taken: _Taken) -> Arrays:
    pool = taken.matcher._intake.vocabulary.pool
    values = pool.values[: taken.values]
    found = Constants.of(list(zip(families(pool, taken.values), values, strict=True)))
    return {
        "family": found.family,
        "grouped": found.grouped,
        "kind": found.kind,
        "item_starts": found.starts,
        "item_bytes": found.texts.data,
        "item_offsets": found.texts.offsets,
        "integers": found.integers,
        "doubles": found.doubles,
    }


def _templates(taken: _Taken) -> Arrays:
    items = taken.matcher._intake.templates.items[: taken.templates]
    word_offsets = np.zeros(len(items) + 1, np.int64)
    np.cumsum([len(t.packed) // 4 for t in items], out=word_offsets[1:])
    required_offsets = np.zeros(len(items) + 1, np.int64)
    np.cumsum([len(t.required) for t in items], out=required_offsets[1:])
    return {
        "word_offsets": word_offsets,
        "words": np.frombuffer(b"".join(t.packed for t in items), np.int32),
        "required_offsets": required_offsets,
        "required": np.array([n for t in items for n in t.required], np.int32),
    }


def _subscriptions(taken: _Taken) -> Arrays:
    """Ids by slot, and the selectors of those that are alive."""
    ids = Ids.of(list(islice(taken.matcher._ids, taken.slots)))
    alive = np.zeros(taken.slots, bool)
    alive[_living(taken.state)] = True
    selectors = islice(taken.matcher._texts, taken.slots)
    texts = Texts.of(
        text if lives else "" for text, lives in zip(selectors, alive.tolist(), strict=True)
    )
    return {
        "id_numbers": ids.numbers,
        "id_whole": ids.whole,
        "id_bytes": ids.texts.data,
        "id_offsets": ids.texts.offsets,
        "selector_bytes": texts.data,
        "selector_offsets": texts.offsets,
    }


def _living(state: State) -> I4:
    """The slots of the living subscriptions, ascending."""
    own = [s.source.slot[a.view(bool)] for s, a in zip(*_parts_of(state), strict=True)]
    return np.sort(np.concatenate([np.empty(0, np.int32), *own]))


def _columns(taken: _Taken, segment: Segment, alive: U1) -> Arrays:
    atoms = _atoms(taken.matcher, segment)
    source = segment.source
    own = (source.slot, source.template, source.offsets, source.keys, alive)
    arrays = (*own, atoms.question, atoms.key, *segment.clusters)
    links = (*segment.access, *segment.requirements)
    return dict(zip(_SEGMENT, (*arrays, *links), strict=True))


def _atoms(matcher: Matcher, segment: Segment) -> Atoms:
    """The atoms that the segment was compiled from; its index must follow from them again."""
    vocabulary, templates = matcher._intake.vocabulary, matcher._intake.templates
    source = segment.source
    asked = np.empty(len(source.keys), np.int32)
    kernels.literals(*templates.arrays(), source.template, asked)
    atoms, _ = order(vocabulary, asked, source.keys)
    used = [templates.items[t] for t in np.unique(source.template)]
    again, known = indexes(vocabulary, atoms, used), segment.index
    assert np.array_equal(again.place, known.place)
    assert np.array_equal(again.threshold, known.threshold)
    assert [t.number for t in again.terms] == [t.number for t in known.terms]
    return atoms


# --- loading -----------------------------------------------------------------


def _matcher(path: Path, arrays: Arrays, lookups: Lookups) -> Matcher:
    from tamis.engine.matcher import Matcher

    for name, kind in _TYPES.items():
        demand(name in arrays and arrays[name].dtype.name == kind, f"there is no {name}")
        demand(arrays[name].shape[1:] == _empty(name).shape[1:], f"{name} is of another shape")
    meta = json.loads(arrays["meta"].tobytes())
    missing = [name for name in meta["lookups"] if name not in lookups]
    if missing:
        hint = "give them as load(path, lookups={...}): functions are not saved"
        raise SnapshotError(path, f"needs the lookups {', '.join(map(repr, missing))}", hint)
    demand(meta["semantics"] in SEMANTICS and meta["dialect"] in _DIALECTS, "no such semantics")
    matcher = Matcher(
        _schema(meta["schema"]),
        semantics=meta["semantics"],
        dialect=meta["dialect"],
        limits=_limits(meta["limits"]),
        lookups=lookups,
    )
    _fill(matcher, arrays)
    return matcher


def _schema(said: list[Any] | None) -> Schema | None:
    if said is None:
        return None
    demand(all(isinstance(row[0], str) for row in said), "a name is no text")
    return Schema(tuple(Column(row[0], Type(row[1]), _default(*row[2:])) for row in said))


def _default(form: str, said: Any) -> Scalar | None:
    if form == "float":
        return float.fromhex(said)
    if form == "time":
        return datetime.datetime.fromisoformat(said)
    demand(said is None or isinstance(said, bool | int | str), "a default is no value")
    return said  # type: ignore[no-any-return]


def _limits(said: dict[str, Any]) -> Limits:
    demand(all(type(value) is int for value in said.values()), "a limit is no number")
    return Limits(**said)


def _fill(matcher: Matcher, arrays: Arrays) -> None:
    """Give an empty matcher what was saved."""
    constants = _loaded_constants(arrays)
    terms = _loaded_terms(arrays, matcher.schema)
    vocabulary = Vocabulary(terms, constants.pool())
    ids = _loaded_ids(arrays)
    texts = Texts(arrays["selector_bytes"], arrays["selector_offsets"])
    integrity.texts(texts, "selectors")
    demand(len(texts) == len(ids), "ids and selectors do not fit")
    templates = _loaded_templates(arrays, len(terms.terms))
    loader = _Loader(arrays, vocabulary, constants, len(ids))
    state = State(*loader.segments())
    living = _living(state)
    demand(bool((living[1:] > living[:-1]).all()), "a subscription occurs twice")
    inside: Any = matcher  # these do what the matcher does with a list and a dict
    inside._ids, inside._texts, inside._slots = Growing(ids), Growing(texts), Slots(ids, living)
    inside._known_names = ids.names()
    inside._intake.vocabulary, inside._intake.templates = vocabulary, templates
    inside._folding.state = state


def _loaded_constants(arrays: Arrays) -> Constants:
    constants = Constants(
        arrays["family"],
        arrays["grouped"],
        arrays["item_starts"],
        arrays["kind"],
        Texts(arrays["item_bytes"], arrays["item_offsets"]),
        arrays["integers"],
        arrays["doubles"],
    )
    integrity.constants(constants)
    return constants


def _loaded_terms(arrays: Arrays, schema: Schema | None) -> Terms:
    texts = Texts(arrays["term_bytes"], arrays["term_offsets"])
    integrity.texts(texts, "terms")
    terms = Terms(schema)
    for i, (text, form) in enumerate(zip(texts, arrays["term_form"].tolist(), strict=True)):
        demand(terms.number(_term(text, form)) == i, "a term occurs twice")
    return terms


def _term(text: str, form: int) -> Derived:
    if form == _NAME:
        return Attribute(text)
    if form == _TERM:
        condition = parse(f"{text} IS NULL", limits=_UNBOUNDED)
        assert isinstance(condition, IsNull)
        return condition.term
    condition = parse(text, limits=_UNBOUNDED)
    assert isinstance(condition, Compare | Text)
    return condition


def _loaded_ids(arrays: Arrays) -> Ids:
    texts = Texts(arrays["id_bytes"], arrays["id_offsets"])
    integrity.texts(texts, "ids")
    ids = Ids(arrays["id_numbers"], arrays["id_whole"], texts)
    sizes = {len(ids.numbers), len(ids.whole), len(texts)} - {0}
    demand(len(sizes) <= 1 and (len(ids.whole) in (0, len(ids.numbers))), "ids do not fit")
    return ids


def _loaded_templates(arrays: Arrays, terms: int) -> Templates:
    offsets, words = arrays["word_offsets"], arrays["words"]
    required_offsets, required = arrays["required_offsets"], arrays["required"]
    integrity.programs(offsets, words, terms)
    integrity.tiling(required_offsets, len(required), "requirements of templates")
    integrity.within(required, terms, "required terms")
    demand(len(required_offsets) == len(offsets), "requirements of templates do not fit")
    return SavedTemplates((offsets, words), (required_offsets, required))


class _Loader:
    """Makes the segments, each checked before it is used."""

    def __init__(
        self, arrays: Arrays, vocabulary: Vocabulary, constants: Constants, slots: int
    ) -> None:
        self.arrays, self.vocabulary, self.constants = arrays, vocabulary, constants
        self.slots = slots

    def segments(self) -> tuple[tuple[Segment, ...], tuple[U1, ...]]:
        bounds = self.arrays["bounds"]
        for i, name in enumerate(_SEGMENT):
            integrity.tiling(bounds[:, i], len(self.arrays[name]), "segments")
        cuts = [
            {n: self.arrays[n][a:b] for n, a, b in zip(_SEGMENT, first, last, strict=True)}
            for first, last in pairwise(bounds.tolist())
        ]
        return tuple(map(self._segment, cuts)), tuple(cut["alive"] for cut in cuts)

    def _segment(self, cut: Arrays) -> Segment:
        source = self._source(cut)
        atoms = self._atoms(cut)
        index = indexes(self.vocabulary, atoms, self._required(source))
        clusters = Clusters(*(cut[field] for field in Clusters._fields))
        access = Access(cut["access_offsets"], cut["access_clusters"])
        requirements = Requirements(cut["requirement_offsets"], cut["requirement_columns"])
        integrity.links(access, requirements, index, len(clusters.starts) - 1)
        longest = integrity.program_of(clusters, index, len(source), len(requirements.offsets) - 1)
        by_need = roots_by_need(clusters)
        return Segment(source, clusters, access, requirements, index, longest, by_need)

    def _source(self, cut: Arrays) -> Source:
        source = Source(cut["slot"], cut["template"], cut["offsets"], cut["keys"])
        integrity.within(source.slot, self.slots, "slots")
        demand(bool((source.slot[1:] > source.slot[:-1]).all()), "slots are out of order")
        demand(len(cut["alive"]) == len(source), "marks of the living do not fit")
        integrity.within(cut["alive"], 2, "marks of the living")
        asked = integrity.asked_by(source, self.arrays["word_offsets"], self.arrays["words"])
        integrity.keys(asked, source.keys, self.vocabulary.terms, self.constants)
        return source

    def _atoms(self, cut: Arrays) -> Atoms:
        question, key = cut["question"], cut["key"]
        demand(len(question) == len(key), "atoms do not fit")
        integrity.questions(question, len(self.vocabulary.terms.terms))
        integrity.keys(question, key, self.vocabulary.terms, self.constants)
        unknown: Any = None  # what only compiling needs to know of them
        return Atoms(question, key, unknown)

    def _required(self, source: Source) -> list[Template]:
        """One template that requires all that the templates of the source do."""
        offsets, required = self.arrays["required_offsets"], self.arrays["required"]
        used = np.zeros(len(offsets) - 1, bool)
        used[source.template] = True
        terms = np.unique(required[np.repeat(used, np.diff(offsets))])
        return [Template(b"", tuple(terms.tolist()))]

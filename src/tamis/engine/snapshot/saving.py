"""A matcher as arrays: what a snapshot holds."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tamis.diagram.variables import Atoms, order
from tamis.engine.compile import emit
from tamis.engine.compile.segment import Segment
from tamis.engine.layout import I4, I8, U1, Clusters, Cubes, Trees
from tamis.engine.live.state import State
from tamis.engine.snapshot.codecs import Constants, Ids, Texts, families
from tamis.engine.snapshot.file import Array, Arrays, Parts
from tamis.language import Attribute, Dialect, IsNull, Limits, Predicate, canonical, parse
from tamis.logic import Derived, Semantics
from tamis.schema import Attribute as Column
from tamis.schema import Schema

if TYPE_CHECKING:
    from tamis.engine.intake.reader import Intake
    from tamis.engine.live.generation import Contents
    from tamis.engine.matcher import Matcher

_UNBOUNDED = Limits(length=1 << 40, depth=100_000)
_NAME, _TERM, _CONDITION = range(3)  # how the text of a term is to be read

# The arrays of all segments stand one behind the other; `bounds` has where each segment begins.
SEGMENT = (
    *("slot", "template", "literal", "alive", "question", "key"),
    *Clusters._fields,
    *(f"cube_{field}" for field in Cubes._fields),
    *(f"tree_{field}" for field in Trees._fields),
    "overlap",
    *("access_offsets", "access_clusters", "requirement_offsets", "requirement_columns"),
)
_WIDTHS = {"starts": 8, "group": 3, "flag": 2, "node": 3, "root": 4, "cube_starts": 6}
_WIDTHS.update(tree_tree=8, tree_flag=3, tree_ask=3)
_WIDTHS["bounds"] = len(SEGMENT)
TYPES: dict[str, str] = {
    **dict.fromkeys(("meta", "term_bytes", "term_form", "id_bytes", "id_whole"), "uint8"),
    **dict.fromkeys(("selector_bytes", "family", "grouped", "kind", "item_bytes"), "uint8"),
    **dict.fromkeys(("term_offsets", "id_offsets", "id_numbers", "selector_offsets"), "int64"),
    **dict.fromkeys(("item_starts", "item_offsets", "integers"), "int64"),
    **dict.fromkeys(("word_offsets", "required_offsets", "bounds"), "int64"),
    **dict.fromkeys(("words", "required", "links"), "int32"),
    "doubles": "float64",
    **dict.fromkeys(SEGMENT, "int32"),
    "alive": "uint8",
    **dict.fromkeys(("key", "starts", "threshold", "cube_starts", "cube_bound"), "int64"),
    **dict.fromkeys(("tree_tree", "tree_bound", "tree_program", "tree_ask_key"), "int64"),
    **dict.fromkeys(("access_offsets", "requirement_offsets"), "int64"),
}


@dataclass(frozen=True, slots=True)
class _Taken:
    """The contents of a matcher at one moment. What only grows is taken with its length."""

    contents: Contents
    state: State
    slots: int
    templates: int
    terms: int
    values: int


def _taken(matcher: Matcher) -> _Taken:
    def take(inside: Contents) -> _Taken:
        intake, state = inside.intake, inside.folding.state
        state.parts  # noqa: B018 - whatever compiling adds to the constants is there to be counted
        return _Taken(
            inside,
            state,
            len(inside.ids),
            len(intake.templates.items),
            len(intake.vocabulary.terms.terms),
            len(intake.vocabulary.pool.values),
        )

    return matcher._write(take)


def arrays_of(matcher: Matcher) -> Iterator[tuple[str, Parts]]:
    """All arrays of a snapshot, in the order of the file."""
    taken = _taken(matcher)
    segments = [_columns(taken, part.segment, part.alive) for part in taken.state.parts]
    single = {
        "meta": np.frombuffer(json.dumps(meta_of(matcher)).encode(), np.uint8),
        **_terms(taken),
        **_constants(taken),
        **_templates(taken),
        **_subscriptions(taken),
        "bounds": _bounds(segments),
    }
    for name, array in single.items():
        yield name, [array]
    for name in SEGMENT:
        yield name, [empty(name), *(columns[name] for columns in segments)]


def _bounds(segments: list[Arrays]) -> I8:
    sizes = [[len(columns[name]) for name in SEGMENT] for columns in segments]
    return np.cumsum([[0] * len(SEGMENT), *sizes], axis=0, dtype=np.int64)


def empty(name: str) -> Any:
    width = _WIDTHS.get(name)
    return np.empty(0 if width is None else (0, width), TYPES[name])


class Reading(Protocol):
    """How selectors are read and what they mean."""

    @property
    def schema(self) -> Schema | None: ...
    @property
    def semantics(self) -> Semantics: ...
    @property
    def dialect(self) -> Dialect: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def lookups(self) -> Collection[str]: ...


def meta_of(matcher: Reading) -> dict[str, object]:
    """For JSON."""
    schema = matcher.schema
    return {
        "schema": None if schema is None else [_column_said(a) for a in schema.values()],
        "semantics": matcher.semantics,
        "dialect": matcher.dialect,
        "limits": dataclasses.asdict(matcher.limits),
        "lookups": sorted(matcher.lookups),
    }


def _column_said(column: Column) -> list[object]:
    default = column.default
    if isinstance(default, float):
        return [column.name, column.kind, "float", default.hex()]
    if isinstance(default, datetime.datetime):
        return [column.name, column.kind, "time", default.isoformat()]
    return [column.name, column.kind, "plain", default]


def _terms(taken: _Taken) -> Arrays:
    terms = taken.contents.intake.vocabulary.terms.terms[: taken.terms]
    forms = [_form(term) for term in terms]
    texts = Texts.of(_text(term) for term in terms)
    for term, form, text in zip(terms, forms, texts, strict=True):
        assert term_of(text, form) == term, text
    return {
        "term_bytes": texts.data,
        "term_offsets": texts.offsets,
        "term_form": np.array(forms, np.uint8),
    }


def _form(term: Derived) -> int:
    if isinstance(term, Attribute):
        return _NAME
    return _CONDITION if isinstance(term, Predicate) else _TERM


def _text(term: Derived) -> str:
    return term.name if isinstance(term, Attribute) else canonical(term)


def term_of(text: str, form: int) -> Derived:
    """The term back from its text."""
    if form == _NAME:
        return Attribute(text)
    if form == _TERM:
        condition = parse(f"{text} IS NULL", limits=_UNBOUNDED)
        assert isinstance(condition, IsNull)
        return condition.term
    condition = parse(text, limits=_UNBOUNDED)
    assert isinstance(condition, Predicate)
    assert not isinstance(condition, IsNull)
    return condition


def _constants(taken: _Taken) -> Arrays:
    pool = taken.contents.intake.vocabulary.pool
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
        "links": found.links,
    }


def _templates(taken: _Taken) -> Arrays:
    items = taken.contents.intake.templates.items[: taken.templates]
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
    ids = Ids.of(list(islice(taken.contents.ids, taken.slots)))
    alive = np.zeros(taken.slots, bool)
    alive[living(taken.state)] = True
    selectors = islice(taken.contents.texts, taken.slots)
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


def living(state: State) -> I4:
    """The slots of the living subscriptions, ascending."""
    own = [part.segment.source.slot[part.alive.view(bool)] for part in state.parts]
    return np.sort(np.concatenate([np.empty(0, np.int32), *own]))


def _columns(taken: _Taken, segment: Segment, alive: U1) -> Arrays:
    atoms = _atoms(taken.contents.intake, segment)
    source = segment.source
    template, literal = (a.astype(np.int32, copy=False) for a in (source.template, source.literal))
    own = (source.slot, template, literal, alive, atoms.question, atoms.key)
    compiled: tuple[Array, ...] = (*segment.clusters, *segment.cubes, *segment.trees)
    overlap = np.array([segment.overlap], np.int32)
    links = (overlap, *segment.access, *segment.requirements)
    return dict(zip(SEGMENT, (*own, *compiled, *links), strict=True))


def _atoms(intake: Intake, segment: Segment) -> Atoms:
    """The atoms that the segment was compiled from; its keys must follow from them again."""
    source = segment.source.source()
    asked = np.empty(len(source.keys), np.int32)
    used = intake.templates.used(source.template)
    emit.literals(used.offsets, used.words, used.which, asked)
    atoms, _ = order(intake.vocabulary, asked, source.keys)
    assert np.array_equal(atoms.key, segment.source.keys)
    return atoms

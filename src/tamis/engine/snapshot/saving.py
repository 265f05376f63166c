"""A matcher as arrays: what a snapshot holds."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from tamis.diagram.variables import Atoms, order
from tamis.engine import paths
from tamis.engine.ground.layout import I4, I8, U1
from tamis.engine.live.generation import Contents
from tamis.engine.live.state import State
from tamis.engine.paths.segment import Segment
from tamis.engine.reading.template_programs import literals
from tamis.engine.snapshot.codecs import Constants, Ids, Texts, families
from tamis.engine.snapshot.file import Arrays, Parts
from tamis.language import Attribute, Dialect, IsNull, Limits, Predicate, canonical, parse
from tamis.logic import Derived, Lookups, Semantics
from tamis.schema import Attribute as Column
from tamis.schema import Schema

if TYPE_CHECKING:
    from tamis.engine.reading.intake import Intake

T = TypeVar("T")
_UNBOUNDED = Limits(length=1 << 40, depth=100_000)
_NAME, _TERM, _CONDITION = range(3)  # how the text of a term is to be read


def segment_arrays() -> dict[str, tuple[Any, int]]:
    """The arrays of a segment, in the order of the file: name -> type and width. Those of all
    segments follow each other; `bounds` has the beginning of each segment."""
    return {
        **dict.fromkeys(("slot", "template", "literal"), (np.int32, 0)),
        "alive": (np.uint8, 0), "question": (np.int32, 0), "key": (np.int64, 0),
        **{name: kind for path in paths.PATHS for name, kind in path.ARRAYS.items()},
        "overlap": (np.int32, 0),
        "access_offsets": (np.int64, 0), "access_clusters": (np.int32, 0),
        "requirement_offsets": (np.int64, 0), "requirement_columns": (np.int32, 0),
    }  # fmt: skip


def snapshot_arrays() -> dict[str, tuple[Any, int]]:
    """All arrays of a snapshot."""
    own = segment_arrays()
    names = {
        np.uint8: "meta term_bytes term_form id_bytes id_whole selector_bytes family grouped kind "
        "item_bytes",
        np.int64: "term_offsets id_offsets id_numbers selector_offsets item_starts item_offsets "
        "integers word_offsets required_offsets",
        np.int32: "words required links",
        np.float64: "doubles",
    }
    flat = {name: (kind, 0) for kind, some in names.items() for name in some.split()}
    return {**flat, "bounds": (np.int64, len(own)), **own}


@dataclass(frozen=True, slots=True)
class _Taken:
    """The contents of a matcher at one moment. What only grows is taken with its length."""

    contents: Contents
    state: State
    slots: int
    templates: int
    terms: int
    values: int


def _taken(matcher: Savable) -> _Taken:
    def take(inside: Contents) -> _Taken:
        intake, state = inside.intake, inside.merging.state
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


def arrays_of(matcher: Savable) -> Iterator[tuple[str, Parts]]:
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
    for name, (kind, width) in segment_arrays().items():
        yield name, [empty(kind, width), *(columns[name] for columns in segments)]


def _bounds(segments: list[Arrays]) -> I8:
    names = list(segment_arrays())
    sizes = [[len(columns[name]) for name in names] for columns in segments]
    return np.cumsum([[0] * len(names), *sizes], axis=0, dtype=np.int64)


def empty(kind: Any, width: int) -> Any:
    return np.empty((0, width) if width else 0, kind)


class ReadingRules(Protocol):
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


class Savable(ReadingRules, Protocol):
    """A matcher, as far as snapshots are concerned."""

    _contents: Contents

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        semantics: Semantics = "sql",
        dialect: Dialect = "tamis",
        limits: Limits = Limits(),
        lookups: Lookups | None = None,
    ) -> None: ...
    @property
    def lookups(self) -> Lookups: ...
    def _write(self, change: Callable[[Contents], T]) -> T: ...


def meta_of(matcher: ReadingRules) -> dict[str, object]:
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
    of_paths = (array for path in segment.paths for array in path.arrays())
    overlap = np.array([segment.overlap], np.int32)
    links = (overlap, *segment.access, *segment.requirements)
    return dict(zip(segment_arrays(), (*own, *of_paths, *links), strict=True))


def _atoms(intake: Intake, segment: Segment) -> Atoms:
    """The atoms that the segment was compiled from; its keys must follow from them again."""
    source = segment.source.source()
    asked = np.empty(len(source.keys), np.int32)
    used = intake.templates.used(source.template)
    literals(used.offsets, used.words, used.which, asked)
    atoms, _ = order(intake.vocabulary, asked, source.keys)
    assert np.array_equal(atoms.key, segment.source.keys)
    return atoms

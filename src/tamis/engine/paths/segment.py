"""Segments: subscriptions compiled together, never changed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tamis.diagram.questions import Vocabulary
from tamis.diagram.shared import BUDGET
from tamis.diagram.variables import order
from tamis.engine import paths
from tamis.engine.choosing.claims import Claims, Compiling
from tamis.engine.choosing.path import (
    FEW_MESSAGES,
    IDLE,
    NO_EVENTS,
    Building,
    Frame,
    Path,
    PathInput,
    Wanted,
)
from tamis.engine.ground.kernel_output import Output
from tamis.engine.ground.layout import I4, I8, Block, Requirements
from tamis.engine.ground.lazy import lazy
from tamis.engine.ground.sources import Kept, Source, kept
from tamis.engine.lookup.term_index import indexes
from tamis.engine.reading.template_programs import expand, literals
from tamis.engine.reading.templates import Templates, Used
from tamis.engine.values.block import block_of, block_without_events, encode
from tamis.engine.values.plain_columns import PlainColumns
from tamis.engine.values.term_program import TermWords
from tamis.engine.values.typed_columns import AnyColumn
from tamis.jit.first_use import heavy
from tamis.logic import Derived

_STEPS = 10  # to compile a literal, as `heavy` counts them
P = TypeVar("P", bound=Path)


class Segment:
    def __init__(self, source: Kept, frame: Frame, overlap: bool) -> None:
        self.source, self.index = source, frame.index
        self.access, self.requirements = frame.access, frame.requirements
        self.paths = tuple(frame.paths)
        self.count = frame.count
        self.overlap = overlap  # whether a message may meet a subscription several times

    def __len__(self) -> int:
        return self.count

    def path(self, kind: type[P]) -> P:
        return next(path for path in self.paths if isinstance(path, kind))

    def follow(self, old: Sequence[Segment]) -> None:
        """It is to replace the old ones: prepare what these had prepared for readers."""
        for segment in old:
            for path, other in zip(self.paths, segment.paths, strict=True):
                path.follow(other)

    @lazy
    def most(self) -> int:
        """How often one message can match at most: once per root or cube, whatever a snapshot
        holds."""
        return sum(path.most for path in self.paths)

    @lazy
    def width(self) -> int:
        """Bytes of keys and flags that a message of a batch has."""
        worded = 0 if self.words is None else int(np.count_nonzero(self.words.below >= 0))
        return 8 * (self.index.key_columns - worded) + len(self.index.terms)

    @lazy
    def events(self) -> I4:
        """The events that any message may be asked for."""
        listed = [path.events for path in self.paths]
        return np.unique(np.concatenate([NO_EVENTS, *listed]))

    @lazy
    def words(self) -> TermWords | None:
        """The computed terms that one path alone asks for, and wants as words."""
        for path in self.paths:
            columns, events = (
                np.zeros(n, bool) for n in (self.index.key_columns, self.index.events)
            )
            for other in self.paths:
                if other is not path:
                    other.mark(columns, events)
            words = path.term_words(self.index, columns, events)
            if words is not None:
                return words
        return None

    def read(
        self, length: int, column_of: Callable[[Derived], AnyColumn], plain: PlainColumns | None
    ) -> PathInput:
        """A batch of messages for the paths."""
        few = length <= FEW_MESSAGES
        encoded = encode(self.index, length, column_of, None if few else self.words, plain)
        wanted = Wanted(self.access, self.events)
        own = tuple(
            path.prepare(encoded, wanted) if path.BATCHES else own
            for path, own in zip(self.paths, self._own, strict=True)
        )
        if len(wanted.access.clusters) or len(wanted.events):
            block = block_of(self.index, encoded, wanted.access, wanted.events)
        else:
            block = block_without_events(encoded)
        return PathInput(block, wanted.access, own)

    def single(self, block: Block) -> PathInput:
        """A single message for the paths, which prepare nothing."""
        return PathInput(block, self.access, self._own)

    @lazy
    def _own(self) -> tuple[Any, ...]:
        """What paths prepare that prepare nothing: IDLE if they have nothing to run."""
        return tuple(None if path.busy and not path.BATCHES else IDLE for path in self.paths)

    def run(self, given: PathInput, output: Output, mode: int, *, rest: bool = False) -> None:
        """Match the messages by all paths; `rest`: by those whose pairs mode KEEP did not keep."""
        for path, own in zip(self.paths, given.own, strict=True):
            if own is not IDLE and not (rest and path.KEEPS):
                path.run(given, own, output, mode)


def compile_segment(
    vocabulary: Vocabulary, templates: Templates, source: Source, *, budget: int = BUDGET
) -> Segment:
    """Offer the subscriptions to the paths, and let these compile what they claim."""
    heavy(_STEPS * len(source.keys))
    used = templates.used(source.template)
    asked = np.empty(len(source.keys), np.int32)
    literals(used.offsets, used.words, used.which, asked)
    atoms, variable = order(vocabulary, asked, source.keys)
    index = indexes(vocabulary, atoms, used.items)
    required, requirements = _requirements(used, index.column)
    given = Compiling(vocabulary, used, source, atoms, variable, index)
    claims = claimed(given)
    pairs, access = claims.settle()
    building = Building(
        index.compiled(), requirements, access, len(source),
        given=given, claims=claims, pairs=pairs, programs=_programs(given),
        asked=(atoms.question, index.threshold, index.place),
        required=required, budget=budget,
    )  # fmt: skip
    for kind in paths.PATHS:
        building.paths.append(kind.build(building))
    return Segment(kept(source, variable, atoms.key), building, claims.overlap)


def claimed(given: Compiling) -> Claims:
    """The claims of all paths, template by template."""
    claims, used = Claims(given), given.used
    by_template = np.argsort(used.which, kind="stable").astype(np.int32)
    starts = np.searchsorted(used.which[by_template], np.arange(1, len(used.items)))
    for template, members in zip(used.items, np.split(by_template, starts), strict=False):
        any(kind.claim(claims, template, members) for kind in reversed(paths.PATHS))
    return claims


def _programs(given: Compiling) -> tuple[I8, I4]:
    """Offsets and words of the programs of all subscriptions."""
    used = given.used
    sizes = np.diff(used.offsets)[used.which]
    offsets, words = np.empty(len(used.which) + 1, np.int64), np.empty(int(sizes.sum()), np.int32)
    expand(used.offsets, used.words, used.which, given.variable, offsets, words)
    return offsets, words


def _requirements(used: Used, column: dict[int, int]) -> tuple[I4, Requirements]:
    """The requirement of each subscription, numbered, and the columns of each requirement."""
    numbers: dict[tuple[int, ...], int] = {}
    of_template = [numbers.setdefault(item.required, len(numbers)) for item in used.items]
    offsets = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum([len(r) for r in numbers], out=offsets[1:])
    columns = np.array([column[term] for r in numbers for term in r], np.int32)
    return np.array(of_template, np.int32)[used.which], Requirements(offsets, columns)

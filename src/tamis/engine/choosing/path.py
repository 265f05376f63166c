"""A path: one way by which messages reach subscriptions. docs/paths.md shows how to add one.

Each path claims the subscriptions that it serves best, makes arrays of them, and runs over blocks
of messages. An instance is the part of one segment that takes this path; `engine/paths` lists all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tamis.engine.choosing.claims import Claims, Compiling, Pairs
from tamis.engine.choosing.segment_names import Names
from tamis.engine.ground.kernel_output import Output
from tamis.engine.ground.layout import I4, I8, Access, Block, Requirements
from tamis.engine.lookup.term_index import Index
from tamis.engine.reading.templates import Template
from tamis.engine.values.block import Encoded
from tamis.engine.values.term_program import TermWords

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Marks = npt.NDArray[np.bool_]
Code = tuple[int, int, int, bytes]  # see `Path.codes`
FEW_MESSAGES = 64  # which are not worth much preparation
IDLE = object()  # prepared by a path that has nothing to do with a batch
NO_EVENTS: I4 = np.empty(0, np.int32)
P = TypeVar("P", bound="Path")


@dataclass
class Frame:
    """What all paths of a segment share, and those that are made already."""

    index: Index
    requirements: Requirements
    access: Access  # which clusters an event touches
    count: int  # of subscriptions
    paths: list[Path] = field(default_factory=list)

    def path(self, kind: type[P]) -> P:
        return next(path for path in self.paths if isinstance(path, kind))


@dataclass
class Building(Frame):
    """A segment that is being compiled."""

    given: Compiling = field(kw_only=True)
    claims: Claims = field(kw_only=True)
    pairs: Pairs = field(kw_only=True)  # the clusters that were claimed
    programs: tuple[I8, I4] = field(kw_only=True)  # subscription -> its words: offsets, words
    asked: tuple[I4, I8, I4] = field(kw_only=True)  # question, threshold, place of each variable
    required: I4 = field(kw_only=True)  # subscription -> its requirement
    budget: int = field(kw_only=True)


@dataclass
class Wanted:
    """What blocks must hold for all paths together."""

    access: Access
    events: I4  # that any message may be asked for


class PathInput(NamedTuple):
    """Messages as the paths of a segment see them."""

    block: Block
    access: Access  # what the events of the block lead to
    own: tuple[Any, ...]  # what each path has prepared


class Printer(NamedTuple):
    """How to name what arrays hold only numbers of."""

    names: Names
    events: list[str]
    owners: list[str]
    required: list[list[str]]  # of each requirement


class Path(ABC):
    ARRAYS: ClassVar[Mapping[str, tuple[type[np.generic], int]]] = {}
    """Its arrays in snapshots: name -> type and width; a width of 0: one dimension."""
    KEEPS: ClassVar[bool] = True  # whether mode KEEP keeps its pairs: else it runs once more

    BATCHES: ClassVar[bool] = False  # whether it prepares batches, and leaves single messages

    @classmethod
    def claim(cls, claims: Claims, template: Template, members: I4) -> bool:
        """Take the subscriptions `members`, which share a template, or leave them to others."""
        return False

    @classmethod
    @abstractmethod
    def build(cls, building: Building) -> Self:
        """The path of the subscriptions that were claimed."""

    @classmethod
    @abstractmethod
    def check(cls, arrays: Arrays, frame: Frame) -> Self:
        """The path of the arrays of a snapshot; UnsoundError if kernels could not trust them."""

    def arrays(self) -> tuple[Array, ...]:
        """In the order of ARRAYS."""
        return ()

    def follow(self, old: Path) -> None:  # noqa: B027
        """It is to replace an old one: prepare now what that prepared when it was first used."""

    def prepare(self, encoded: Encoded, wanted: Wanted) -> Any:
        """What the path needs of a batch beside its block; IDLE: the batch is nothing for it."""
        return None

    @abstractmethod
    def run(self, messages: PathInput, own: Any, output: Output, mode: int) -> None:
        """Write what matches to the output. `own` is what `prepare` made of the batch."""

    @property
    def most(self) -> int:
        """How often one message can match at most."""
        return 0

    @property
    def busy(self) -> bool:
        """Whether there is anything to run."""
        return self.most > 0

    @property
    def events(self) -> I4:
        """The events that any message may be asked for."""
        return NO_EVENTS

    def mark(self, columns: Marks, events: Marks) -> None:  # noqa: B027
        """Mark the columns of keys, and the events, that the path asks for."""

    def term_words(self, index: Index, columns: Marks, events: Marks) -> TermWords | None:
        """Computed terms that the path wants as words; those marked are wanted by others."""
        return None

    def lines(self, printer: Printer) -> Iterator[str]:
        """The arrays as text."""
        yield from ()

    def codes(self, add: Callable[[int, Code], None]) -> None:  # noqa: B027
        """Say for each subscription what decides it: where, the place of the result (0: it never
        matches), its requirement, and its program. Equal codes match the same messages."""

"""What a flow says: a tuple of statements, each a value (Gryphon, section 2).

A tree node's place in the text never changes what it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tamis.language import Attribute, Condition, Term
from tamis.schema import Scalar, Type

T = TypeVar("T")


def _at() -> Any:
    return field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Space:
    """A declared information space: messages of one schema. It is a publication point.

    A row for which `where` is not true does not fit the space.
    """

    name: str
    columns: tuple[Column, ...]
    where: Condition | None = None
    at: int = _at()

    @property
    def title(self) -> str:
        return f"space {self.name}"


@dataclass(frozen=True, slots=True)
class Lookup:
    """A function of one key, given by a table; a key that the table lacks is undefined."""

    name: str
    key: Type
    value: Type
    source: str | None = None
    at: int = _at()

    @property
    def title(self) -> str:
        return f"lookup {self.name}"


@dataclass(frozen=True, slots=True)
class Select:
    """Messages pass for which the condition is true."""

    condition: Condition
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Output:
    """One assignment of a rule. A bare name is assigned to itself."""

    name: str
    term: Term
    at: int = _at()

    @property
    def bare(self) -> bool:
        return self.term == Attribute(self.name)


@dataclass(frozen=True, slots=True)
class Rule:
    """`[names, ... when guard] => [outputs, ...]`.

    `rest`: the pattern need not list every attribute. `carry`: what it does not list goes on.
    """

    names: tuple[str, ...]
    outputs: tuple[Output, ...]
    guard: Condition | None = None
    rest: bool = False
    carry: bool = False
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Transform:
    """The first rule whose guard is true makes the message; without one it does not pass."""

    rules: tuple[Rule, ...]
    at: int = _at()


Step = Select | Transform


@dataclass(frozen=True, slots=True)
class Arc:
    """Messages of `source` go through the steps into `target`."""

    source: str
    target: str
    steps: tuple[Step, ...] = ()
    at: int = _at()

    @property
    def title(self) -> str:
        return f"arc {self.source} -> {self.target}"


Row = tuple[Scalar | None, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of a space, in the order of its columns."""

    space: str
    rows: tuple[Row, ...]
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Entries:
    """What a lookup holds in a test."""

    lookup: str
    pairs: tuple[tuple[Scalar, Scalar], ...]
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Test:
    """Rows that are published, and the rows that spaces must then have, in any order."""

    __test__ = False  # pytest: this is not one of yours

    name: str
    given: tuple[Sample, ...]
    expected: tuple[Sample, ...]
    entries: tuple[Entries, ...] = ()
    at: int = _at()

    @property
    def title(self) -> str:
        return f"test {self.name!r}"


@dataclass(frozen=True, slots=True)
class Flow:
    """The statements of a flow as they were written; `text` is where their places point to."""

    statements: tuple[Any, ...]
    text: str = field(default="", compare=False, repr=False)

    def of(self, kind: type[T]) -> Iterator[T]:
        """The statements of one kind, in order."""
        return (s for s in self.statements if isinstance(s, kind))

    @property
    def spaces(self) -> dict[str, Space]:
        return {space.name: space for space in self.of(Space)}

    @property
    def lookups(self) -> dict[str, Lookup]:
        return {lookup.name: lookup for lookup in self.of(Lookup)}

    @property
    def arcs(self) -> tuple[Arc, ...]:
        return tuple(self.of(Arc))

    @property
    def tests(self) -> tuple[Test, ...]:
        return tuple(self.of(Test))

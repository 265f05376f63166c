"""What a flow makes on Spark: frames of spaces, and of the rows that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.errors import InputError
from tamis.flow.graphs.flow_graph import Graph
from tamis.language import canonical
from tamis.schema import Schema
from tamis.spark.dataframes.spark_types import quoted
from tamis.spark.flows.flow_rows import ERRORS
from tamis.spark.native.native_values import SPARK_TYPES, cases

TARGET = "__tamis_target__"
# In place of names, for messages that do not fit: the whole message as JSON, and why.
ROW, REASON = "\0row", "\0reason"


@dataclass(frozen=True, slots=True)
class Target:
    """A space, or what is rejected there."""

    space: str
    rejected: bool = False


class Layout:
    """One row for the messages of several spaces: a column for each name and type among them."""

    def __init__(self, graph: Graph, targets: tuple[Target, ...]) -> None:
        self.graph, self.targets = graph, targets
        self.columns: dict[tuple[str, str], str] = {}  # (name, type) -> column
        for target in targets:
            for key in self.keys(target):
                self.columns.setdefault(key, f"c{len(self.columns)}")

    def keys(self, target: Target) -> list[tuple[str, str]]:
        if target.rejected:
            return [(REASON, "string"), (ROW, "string")]
        schema = self.graph.schemas[target.space]
        return [(a.name, SPARK_TYPES[a.type]) for a in schema.attributes]

    def number(self, target: Target) -> int:
        return self.targets.index(target)

    def row(self, target: Column, value: Callable[[str, str], Column | None]) -> list[Column]:
        """The columns of a wide row. `value(name, type)` is NULL where it gives nothing."""
        found = [target.cast("int").alias(TARGET)]
        for (name, kind), column in self.columns.items():
            worth = value(name, kind)
            worth = F.lit(None) if worth is None else worth
            found.append(worth.cast(kind).alias(column))
        return found

    def view(self, wide: DataFrame, target: Target) -> DataFrame:
        """The messages of one target, under their own names."""
        mine = wide
        if len(self.targets) > 1:
            mine = wide.where(F.col(TARGET) == F.lit(self.number(target)))
        columns = [F.col(self.columns[key]).alias(key[0]) for key in self.keys(target)]
        return mine.select(*columns)

    def together(self, wide: DataFrame, spaces: Sequence[str], tag: str) -> DataFrame:
        """The messages of several spaces under their own names, and the space in column `tag`.
        The spaces must agree on the type of each name."""
        numbers = {self.number(Target(space)): space for space in spaces}
        keys = dict.fromkeys(key for space in spaces for key in self.keys(Target(space)))
        columns = [F.col(self.columns[key]).alias(key[0]) for key in keys]
        space = cases((F.col(TARGET) == i, F.lit(name)) for i, name in numbers.items())
        mine = wide.where(F.col(TARGET).isin(list(numbers)))
        return mine.select(*columns, space.alias(tag))

    def rejected(self, wide: DataFrame) -> DataFrame | None:
        """What does not fit its space: space, reason and row."""
        spaces = {i: t.space for i, t in enumerate(self.targets) if t.rejected}
        if not spaces:
            return None
        mine = wide.where(F.col(TARGET).isin(list(spaces)))
        space = cases((F.col(TARGET) == i, F.lit(name)) for i, name in spaces.items())
        others = [F.col(self.columns[key, "string"]) for key in (REASON, ROW)]
        return mine.select(*(c.alias(n) for c, n in zip((space, *others), ERRORS, strict=True)))


@dataclass(frozen=True, slots=True)
class Streams:
    """The frames that a flow makes. `rejected` has the columns space, reason and row.

    `wide` holds the messages of all spaces in one frame, so that a source is read once for all.
    """

    graph: Graph
    frames: Mapping[str, DataFrame]
    rejected: DataFrame | None = None
    wide: DataFrame | None = None
    layout: Layout | None = None

    def __getitem__(self, space: str) -> DataFrame:
        if space not in self.frames:
            self.graph.space(space)
            raise InputError(f"space {space} was not asked for: name it among the wanted ones")
        return self.frames[space]


def broken(graph: Graph, space: str) -> str:
    """The reason that a row is rejected with, where it breaks the `where` of its space."""
    where = graph.where(space)
    assert where is not None
    return f"it breaks the space's where: {canonical(where)}"


def rejection(frame: DataFrame, space: str, reason: str, schema: Schema) -> DataFrame:
    """Messages as rows of the error output."""
    row = as_json({name: F.col(quoted(name)) for name in schema})
    columns = (F.lit(space), F.lit(reason), row)
    return frame.select(*(c.alias(n) for c, n in zip(columns, ERRORS, strict=True)))


def as_json(values: Mapping[str, Column]) -> Column:
    return F.to_json(F.struct(*(column.alias(name) for name, column in values.items())))

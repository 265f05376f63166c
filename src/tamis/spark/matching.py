"""The questions that are asked about messages: each a frame in and a frame out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark
from pyspark.sql.pandas.functions import arrow_udf

from tamis.engine import Matcher
from tamis.engine.snapshot import load
from tamis.engine.table import Subscriptions
from tamis.errors import InputError
from tamis.language import Dialect, Limits
from tamis.logic import Lookups, Semantics
from tamis.schema import Schema
from tamis.spark.sharding import KEY, SHARD_SIZE, Policy, Sharding, shard_matcher, shard_table
from tamis.spark.shards import Shards
from tamis.spark.shipping import Shipment, ship
from tamis.spark.subscriptions import Table
from tamis.spark.tally import Tally
from tamis.spark.types import argument, schema_of
from tamis.spark.worker import Columns, Wanted, Work

Source = Matcher | Subscriptions | DataFrame | str | os.PathLike[str]
ERROR = "_error"  # the column with what is wrong with a message
_RESULT = "__tamis__"  # a column that no result shows


class Options(TypedDict, total=False):
    """How selectors of a table are read, and what becomes of what is bad.

    `schema` is what they are checked against: that of the messages unless another is given, or
    None for no check at all. A Matcher or a snapshot has its own semantics, dialect, schema and
    limits. Of the lookups only mappings and functions that can be pickled reach the workers.
    `version` names a column for the version of Subscriptions that was used.

    `shards` says into how many parts subscriptions are cut, so that a worker need not hold them
    all: 1 for never, None for as many as it takes for `shard_size` subscriptions in each.
    """

    semantics: Semantics
    dialect: Dialect
    schema: Schema | None
    limits: Limits
    lookups: Lookups
    on_error: Literal["raise", "report"]
    version: str
    shards: int | None
    shard_size: int


def match(
    messages: DataFrame,
    subscriptions: Source,
    *,
    column: str = "subscriptions",
    **options: Unpack[Options],
) -> DataFrame:
    """The messages with the ids of the subscriptions that each of them matches, as an array.

    `subscriptions` are a Matcher, the path of a saved one, a frame with `id` and `selector`, or
    Subscriptions. They are taken as they are now; on a stream, changes of Subscriptions are in
    force from the next micro-batch on. With `on_error="report"` bad selectors are left out (see
    `problems`), and a message that does not fit gets no array but a reason, in `_error`.
    """
    return Question.of(messages, subscriptions, options).match(column)


def counts(
    messages: DataFrame,
    subscriptions: Source,
    *,
    column: str = "matches",
    **options: Unpack[Options],
) -> DataFrame:
    """The messages with how many subscriptions each of them matches. Takes what `match` takes."""
    return Question.of(messages, subscriptions, options).counts(column)


def semi(messages: DataFrame, subscriptions: Source, **options: Unpack[Options]) -> DataFrame:
    """The messages that match at least one subscription. Takes what `match` takes.

    With `on_error="report"` messages that do not fit are kept as well, with the reason.
    """
    return Question.of(messages, subscriptions, options).semi()


def deliveries(
    messages: DataFrame,
    subscriptions: Source,
    *,
    column: str = "subscription",
    **options: Unpack[Options],
) -> DataFrame:
    """One row for each message and subscription that it matches. Takes what `match` takes.

    Where the table of subscriptions names a `subscriber`, so does each row. With
    `on_error="report"` a message that does not fit has one row, with the reason.
    """
    return Question.of(messages, subscriptions, options).deliveries(column)


def problems(
    messages: DataFrame, subscriptions: DataFrame | Subscriptions, **options: Unpack[Options]
) -> DataFrame:
    """The bad rows of a table of subscriptions: `id`, `selector`, and the `reason`."""
    if isinstance(subscriptions, Subscriptions):
        return messages.sparkSession.createDataFrame(subscriptions.problems())
    table = Table.read(subscriptions)
    table.add_to(_matcher(messages, options), report=True)
    return messages.sparkSession.createDataFrame(table.problems())


# --- one call ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Question:
    """Messages, the matcher that they are to pass, and where it came from."""

    messages: DataFrame
    matcher: Matcher
    report: bool
    table: Table | None = None
    saved: Path | None = None
    tally: Tally | None = None  # who wants to know, while it runs, how far it has come
    sharding: Sharding | None = None  # where the subscriptions are, when not in the matcher

    @classmethod
    def of(cls, messages: DataFrame, subscriptions: Source, options: Options) -> Question:
        on_error = options.get("on_error", "raise")
        if on_error not in ("raise", "report"):
            raise InputError(f"on_error is 'raise' or 'report', not {on_error!r}")
        report = on_error == "report"
        if isinstance(subscriptions, Subscriptions):
            from tamis.spark.live import question  # it asks questions of its own kind

            return question(messages, subscriptions, options)
        _refuse_version(options)
        policy = Policy(options.get("shards"), options.get("shard_size", SHARD_SIZE))
        if isinstance(subscriptions, Matcher):
            _refuse(options, "semantics", "dialect", "schema", "limits", "lookups")
            sharding = shard_matcher(messages, subscriptions, policy)
            return cls(messages, subscriptions, report, sharding=sharding)
        if isinstance(subscriptions, (str, os.PathLike)):
            _refuse(options, "semantics", "dialect", "schema", "limits")
            path = Path(subscriptions)
            loaded = load(path, lookups=options.get("lookups"))
            sharding = shard_matcher(messages, loaded, policy)
            return cls(messages, loaded, report, saved=path, sharding=sharding)
        table, matcher = Table.read(subscriptions), _matcher(messages, options)
        sharding = shard_table(messages, table, matcher, policy, report=report)
        if sharding is None:
            table.add_to(matcher, report=report)
        return cls(messages, matcher, report, table, sharding=sharding)

    def match(self, column: str) -> DataFrame:
        return self.answered(column, "ids")

    def counts(self, column: str) -> DataFrame:
        return self.answered(column, "count")

    def semi(self) -> DataFrame:
        counted = self.answered(_RESULT, "count")
        return counted.where(_worth_keeping(counted, F.col(_RESULT) > 0)).drop(_RESULT)

    def deliveries(self, column: str) -> DataFrame:
        self.check_free(column)
        matched = self.answered(_RESULT, "ids")
        kept = matched.where(_worth_keeping(matched, F.size(_RESULT) > 0))
        rows = kept.select("*", F.explode_outer(_RESULT).alias(column)).drop(_RESULT)
        subscribers = None if self.table is None else self.table.subscribers()
        if subscribers is None:
            return rows
        self.check_free("subscriber")
        return _with_subscribers(rows, column, subscribers, few=self.sharding is None)

    def answered(self, column: str, wanted: Wanted) -> DataFrame:
        """The messages with one column more, and with `_error` where errors are reported."""
        self.check_free(column)
        messages, result = self._asked(wanted)
        if not self.report:
            return messages.select("*", result.alias(column)).drop(KEY)
        self.check_free(ERROR)
        inner = "__tamis_reported__"
        return (
            messages.select("*", result.alias(inner))
            .select("*", F.col(inner).result.alias(column), F.col(inner).error.alias(ERROR))
            .drop(inner, KEY)
        )

    def check_free(self, column: str) -> None:
        if column.lower() in (name.lower() for name in self.messages.columns):
            raise InputError(
                f"the messages have a column {column} already: choose another with column=..."
            )

    def _asked(self, wanted: Wanted) -> tuple[DataFrame, Column]:
        """The messages where they are to be matched, and the column of their results."""
        messages, schema, sharding = self.messages, self.matcher.schema, self.sharding
        names = self.matcher.attributes if sharding is None else sharding.attributes
        found = {n: argument(messages, n, schema) for n in names}
        columns = {name: column for name, column in found.items() if column is not None}
        if sharding is None:
            shipment: Shipment | Shards = ship(messages.sparkSession, self.matcher, self.saved)
        else:
            messages = sharding.exchanged(messages, list(columns.values()))
            shipment, columns[KEY] = sharding.shards, F.col(KEY)
        work = Work(shipment, tuple(columns), wanted, self.report, self.matcher.lookups)
        work.tally = self.tally
        # Without any column the worker would not even know how many rows there are.
        given = list(columns.values()) or [F.lit(0)]
        result: Column = _function(work, self._type(wanted), len(given))(*given)
        return messages, result

    def _type(self, wanted: Wanted) -> spark.DataType:
        plain: spark.DataType = spark.LongType()
        if wanted == "ids":
            plain = spark.ArrayType(spark.StringType() if self._texts() else plain)
        if not self.report:
            return plain
        return spark.StructType().add("result", plain).add("error", spark.StringType())

    def _texts(self) -> bool:
        """Whether ids are strings."""
        if self.sharding is not None:
            return self.sharding.shards.texts
        return bool(pa.types.is_string(self.matcher.match_many([]).names.type))


def _function(work: Work, result: spark.DataType, columns: int) -> Any:
    def run(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        return work(batches)

    # Spark reads from the hints what to hand over: arrays, or tuples of them.
    several = Iterator[tuple[pa.Array, ...]]
    run.__annotations__["batches"] = Iterator[pa.Array] if columns == 1 else several
    run.__annotations__["return"] = Iterator[pa.Array]
    made: Any = arrow_udf(run, result)  # type: ignore[call-overload]
    # Matching is costly: Spark must not do it twice to push a filter on its result further down.
    return made.asNondeterministic()


def _matcher(messages: DataFrame, options: Options) -> Matcher:
    return Matcher(
        options["schema"] if "schema" in options else schema_of(messages),
        semantics=options.get("semantics", "sql"),
        dialect=options.get("dialect", "tamis"),
        limits=options.get("limits", Limits()),
        lookups=options.get("lookups"),
    )


def _refuse(options: Options, *names: str) -> None:
    for name in names:
        if name in options:
            raise InputError(f"{name} is for tables of subscriptions: a matcher has its own")


def _refuse_version(options: Options) -> None:
    if "version" in options:
        raise InputError("version is for Subscriptions: only they have versions")


def _worth_keeping(frame: DataFrame, matches: Column) -> Column:
    return matches | F.col(ERROR).isNotNull() if ERROR in frame.columns else matches


def _with_subscribers(
    rows: DataFrame, column: str, subscribers: pa.Table, *, few: bool
) -> DataFrame:
    known = subscribers.rename_columns([_RESULT, "subscriber"])
    made = rows.sparkSession.createDataFrame(known)
    right = F.broadcast(made) if few else made  # where they are many, Spark chooses how to join
    return rows.join(right, rows[column] == right[_RESULT], "left").drop(_RESULT)

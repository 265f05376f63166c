"""Questions to a table of subscriptions: on a stream, where it changes, and on a frame at rest."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark

from tamis.engine import Details, Matches
from tamis.errors import InputError
from tamis.spark import message_questions as matching
from tamis.spark.dataframes.spark_types import argument, quoted
from tamis.spark.dataframes.subscription_frames import Table
from tamis.spark.message_questions import ERROR, Options, Question
from tamis.spark.native.planning import Plan
from tamis.spark.workers.pinning import BATCH, QUERY, Following, pinned
from tamis.spark.workers.shipping import is_connect
from tamis.spark.workers.worker import Wanted, Work
from tamis.table import Subscriptions
from tamis.table.table_changes import IdKind

_RETAINED = "spark.sql.streaming.minBatchesToRetain"
_OWN = {"version", "carry", "order_by", "first", "limit", "valid_at", "details"}
_INNER, _PAIR = "__tamis_answer__", "__tamis_pair__"


def question(messages: DataFrame, table: Subscriptions, options: Options) -> Question:
    """The question to the table as it is now; on a stream, as it will be for each micro-batch."""
    matching._refuse(options, "semantics", "dialect", "schema", "limits", "lookups")
    name = options.get("version")
    if not messages.isStreaming:
        return _fixed(messages, table, options, name)
    if (options.get("shards") or 1) > 1:
        raise InputError("subscriptions that change while a stream runs cannot be in shards")
    view, report = table.view(), options.get("on_error") == "report"
    aside, ids = Kept(pa.table({}), view.aside()), view.ids or "string"
    empty = table.settings.matcher(table.lookups)
    return LiveQuestion(messages, empty, report, aside, subscriptions=table, ids=ids, name=name)


class Kept(Table):
    """The subscriptions of one version, and what had been put aside by then."""

    __slots__ = ("_aside",)

    def __init__(self, rows: pa.Table, aside: pa.Table) -> None:
        Table.__init__(self, rows)
        self._aside = aside

    def problems(self) -> pa.Table:
        return self._aside


# --- on a frame at rest ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FixedQuestion(Question):
    """A question to one version; `name` is that of the column with its number."""

    number: int = 0
    ids: IdKind = "string"
    name: str | None = None

    def answered(self, column: str, wanted: Wanted) -> DataFrame:
        frame = Question.answered(self, column, wanted)
        if self.name is None:
            return frame
        self.check_free(self.name)
        return frame.withColumn(self.name, F.lit(self.number).cast("long"))

    def _joined(self, column: str) -> DataFrame | None:
        return None if self.name is not None else Question._joined(self, column)

    def _texts(self) -> bool:
        return self.ids == "string"


def _fixed(
    messages: DataFrame, table: Subscriptions, options: Options, name: str | None
) -> Question:
    view = table.view(_version(messages, table))
    own: Any = {key: value for key, value in options.items() if key not in _OWN}
    plain = Question.of(messages, view.matcher, own)
    known = {field.name: getattr(plain, field.name) for field in fields(plain)}
    kept = Kept(view.rows(), view.aside())
    ids = view.ids or "string"
    return FixedQuestion(**known | {"table": kept}, number=view.version, ids=ids, name=name)


def _version(messages: DataFrame, table: Subscriptions) -> int:
    """The current version; within foreachBatch the one that the micro-batch is pinned to."""
    if is_connect(messages.sparkSession):
        return table.version
    context = messages.sparkSession.sparkContext
    query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    if query is None or batch is None:
        return table.version
    return pinned(table, query, int(batch), _retained(messages), lambda: table.version)


def _retained(messages: DataFrame) -> int:
    """For how many micro-batches a checkpoint can go back."""
    return int(messages.sparkSession.conf.get(_RETAINED, "100") or 100)


# --- on a stream -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LiveQuestion(Question):
    """A question whose subscriptions may change from one micro-batch to the next."""

    subscriptions: Subscriptions = None  # type: ignore[assignment]
    ids: IdKind = "string"  # of a table that had none yet, they are strings
    name: str | None = None  # of the column with the version

    def plan(self) -> Plan:
        return Plan("matcher", "subscriptions may change while the stream runs")

    def deliveries(self, column: str) -> DataFrame:
        for name in (column, "subscriber"):
            self.check_free(name)
        carried = () if self.details is None else self.details.carry
        for name in carried:
            self.check_free(name)
        matched = self._answered(_PAIR, "ids", subscribers=True)
        kept = matched.where(matching._worth_keeping(matched, F.size(_PAIR) > 0))
        rows = kept.select("*", F.explode_outer(_PAIR).alias(_INNER))
        more = ("subscriber", *carried)
        both = zip((column, *more), ("id", *more), strict=True)
        return rows.select(
            "*", *(F.col(f"{_INNER}.{quoted(field)}").alias(name) for name, field in both)
        ).drop(_PAIR, _INNER)

    def answered(self, column: str, wanted: Wanted) -> DataFrame:
        return self._answered(column, wanted)

    def _answered(self, column: str, wanted: Wanted, subscribers: bool = False) -> DataFrame:
        self.check_free(column)
        answer, columns = F.col(_INNER), list[Column]()
        if self.name is not None:
            self.check_free(self.name)
            columns.append(answer.version.alias(self.name))
            answer = answer.result
        if self.report:
            self.check_free(ERROR)
            columns.insert(0, answer.error.alias(ERROR))
            answer = answer.result
        asked = self.messages.select("*", self._asked_of(wanted, subscribers).alias(_INNER))
        return asked.select("*", answer.alias(column), *columns).drop(_INNER, self.malformed)

    def _asked_of(self, wanted: Wanted, subscribers: bool) -> Column:
        names = self.matcher.schema or dict.fromkeys(_names(self.messages.schema))
        found = {name: argument(self.messages, name, self.matcher.schema) for name in names}
        columns = {name: column for name, column in found.items() if column is not None}
        columns |= self._times() | self._malformed()
        work = LiveWork(self._following(), tuple(columns), wanted, self.report)
        work.lookups, work.tally = self.subscriptions.lookups, self.tally
        work.details, work.malformed = self._shipped_details(), self.malformed
        work.versioned, work.subscribers = self.name is not None, subscribers
        given = list(columns.values()) or [F.lit(0)]
        result: Column = matching._function(work, self._answer(wanted, subscribers), len(given))(
            *given
        )
        return result

    def _following(self) -> Following:
        call = uuid.uuid4().hex if self.subscriptions.lookups else ""
        path = str(self.subscriptions.path)
        return Following(path, self.ids, _retained(self.messages), call)

    def _answer(self, wanted: Wanted, subscribers: bool) -> spark.DataType:
        """The type of what the worker hands back: the result, in one struct or two."""
        id = spark.LongType() if self.ids == "int" else spark.StringType()
        answer: spark.DataType = spark.LongType()
        if wanted != "count":
            one = self._one(id)
            if subscribers:
                fields = one.fields[1:] if isinstance(one, spark.StructType) else []
                pair = spark.StructType().add("id", id).add("subscriber", spark.StringType())
                one = spark.StructType([*pair.fields, *fields])
            answer = one if wanted == "first" else spark.ArrayType(one)
        if self.report:
            answer = spark.StructType().add("result", answer).add("error", spark.StringType())
        if self.name is not None:
            answer = spark.StructType().add("result", answer).add("version", spark.LongType())
        return answer


def _names(struct: spark.StructType, prefix: str = "") -> Iterator[str]:
    """The names of all columns, and of the fields of structs: a new selector may ask for any."""
    for field in struct:
        dotted = "." in field.name
        if not (prefix and dotted):
            yield prefix + field.name
        if isinstance(field.dataType, spark.StructType) and not dotted:
            yield from _names(field.dataType, f"{prefix}{field.name}.")


@dataclass(slots=True)
class LiveWork(Work):
    """Work on a stream: with the version that was used, and with subscribers, where wanted."""

    versioned: bool = False
    subscribers: bool = False

    def _good(
        self, matcher: Any, batch: pa.RecordBatch, bad: dict[int, str]
    ) -> tuple[pa.Array | None, int]:
        result, ids = Work._good(self, matcher, batch, bad)
        if result is None or not self.versioned:
            return result, ids
        version = pa.array(np.full(len(result), matcher.version, np.int64))
        return pa.StructArray.from_arrays([result, version], ["result", "version"]), ids

    def _named(self, matcher: Any, matches: Matches, details: Details | None) -> Matches:
        named = Work._named(self, matcher, matches, details)
        return matcher.with_subscribers(named) if self.subscribers else named

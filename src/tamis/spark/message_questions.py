"""The questions that are asked about messages: each a frame in and a frame out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, get_args

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark
from pyspark.sql.pandas.functions import arrow_udf

from tamis.engine import Details, Matcher
from tamis.engine.details import NO_LIMIT
from tamis.errors import InputError
from tamis.language import Dialect, Limits
from tamis.language.types import nearest
from tamis.logic import Lookups, Semantics
from tamis.messages.tabular import SupportsArrow
from tamis.schema import Schema
from tamis.spark import carried_details as carrying
from tamis.spark.dataframes.spark_types import argument, quoted, schema_of
from tamis.spark.dataframes.subscription_frames import Table
from tamis.spark.native.planning import Answer, NativePlan, Plan, PlanName, choose
from tamis.spark.sharded_frames import KEY, SHARD_SIZE, Policy, Sharding, shard_matcher, shard_table
from tamis.spark.workers.shards import Shards
from tamis.spark.workers.shipping import Shipment, ship
from tamis.spark.workers.tally import Tally
from tamis.spark.workers.worker import Columns, Wanted, Work
from tamis.table import Subscriptions

Rows = SupportsArrow | Iterable[Any]  # a table of any library; pairs or mappings
Source = Matcher | Subscriptions | DataFrame | Rows | str | os.PathLike[str]
ERROR = "_error"  # the column with what is wrong with a message
_RESULT, _ONE = "__tamis__", "__tamis_one__"  # columns that no result shows


class Options(TypedDict, total=False):
    """How selectors of a table are read, and what becomes of what is bad.

    `schema` is what they are checked against: that of the messages unless another is given, or
    None for no check at all. A Matcher or a snapshot has its own semantics, dialect, schema and
    limits. Of the lookups only mappings and functions that can be pickled reach the workers.
    `version` names a column for the version of Subscriptions that was used.

    `plan` says whether Spark answers alone (`native`), Python workers do (`matcher`), or whichever
    is cheaper (`auto`); `plan_of` tells. The results are the same.

    `shards` says into how many parts subscriptions are cut, so that a worker need not hold them
    all: 1 for never, None for as many as it takes for `shard_size` subscriptions in each.

    `carry`, `order_by`, `first`, `limit` and `valid_at` say what a match carries, which matches
    come first and how many are kept, and when a subscription is valid: see `tamis.Details`. The
    columns are those of the subscriptions' table, or of `details`, a table with their ids.
    """

    semantics: Semantics
    dialect: Dialect
    schema: Schema | None
    limits: Limits
    lookups: Lookups
    on_error: Literal["raise", "report"]
    version: str
    plan: PlanName
    shards: int | None
    shard_size: int
    carry: Sequence[str]
    order_by: str | Sequence[str]
    first: bool
    limit: int
    valid_at: str
    details: DataFrame | Rows


def match(
    messages: DataFrame,
    subscriptions: Source,
    *,
    column: str = "subscriptions",
    **options: Unpack[Options],
) -> DataFrame:
    """The messages with the ids of the subscriptions that each of them matches, as an array.

    `subscriptions` are a Matcher, the path of a saved one, a frame with `id` and `selector` (of
    Spark, pandas, Polars or Arrow), pairs or mappings of these, or Subscriptions. They are taken
    as they are now; on a stream, changes of Subscriptions are in force from the next micro-batch
    on. With `on_error="report"` bad selectors are left out (see `problems`), and a message that
    does not fit gets no array but a reason, in `_error`.

    With `carry=` the array holds structs of the `id` and these columns of the subscriptions; with
    `first=True` there is no array but the first match, or NULL.
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

    Where the table of subscriptions names a `subscriber`, so does each row, and so it does the
    columns that `carry=` names. With
    `on_error="report"` a message that does not fit has one row, with the reason.
    """
    return Question.of(messages, subscriptions, options).deliveries(column)


def problems(
    messages: DataFrame, subscriptions: DataFrame | Subscriptions | Rows, **options: Unpack[Options]
) -> DataFrame:
    """The bad rows of a table of subscriptions: `id`, `selector`, and the `reason`."""
    refuse_unknown(options)
    if isinstance(subscriptions, Subscriptions):
        return messages.sparkSession.createDataFrame(subscriptions.problems())
    table = Table.read(subscriptions)
    table.add_to(_matcher(messages, options), report=True)
    return messages.sparkSession.createDataFrame(table.problems())


def plan_of(messages: DataFrame, subscriptions: Source, **options: Unpack[Options]) -> Plan:
    """How `match` and the other calls would answer, and why. Takes what `match` takes."""
    return Question.of(messages, subscriptions, options).plan()


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
    wanted_plan: PlanName = "auto"
    chosen: Plan | None = None  # once it is known
    details: Details | None = None  # what a match carries, where that is more than an id
    malformed: str = ""  # the column with the text of each row that could not be read

    @classmethod
    def of(cls, messages: DataFrame, subscriptions: Source, options: Options) -> Question:
        """Raises InputError for options that are unknown or contradict each other."""
        refuse_unknown(options)
        wanted = options.get("plan", "auto")
        if wanted not in get_args(PlanName):
            raise InputError(f"plan is one of {', '.join(get_args(PlanName))}, not {wanted!r}")
        made = replace(cls._of(messages, subscriptions, options), wanted_plan=wanted)
        if carrying.wanted(options):
            made = replace(made, details=made._details(options))
        elif "details" in options:
            raise InputError("details are of no use without carry, order_by or valid_at")
        if wanted != "native":
            return made
        plan = made.plan()
        if not plan.native:
            raise InputError(f"there is no native plan: {plan.why}")
        return replace(made, chosen=plan)

    @classmethod
    def _of(cls, messages: DataFrame, subscriptions: Source, options: Options) -> Question:
        on_error = options.get("on_error", "raise")
        if on_error not in ("raise", "report"):
            raise InputError(f"on_error is 'raise' or 'report', not {on_error!r}")
        report = on_error == "report"
        if isinstance(subscriptions, Subscriptions):
            from tamis.spark.live_questions import question  # it asks questions of its own kind

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
            loaded = Matcher.load(path, lookups=options.get("lookups"))
            sharding = shard_matcher(messages, loaded, policy)
            return cls(messages, loaded, report, saved=path, sharding=sharding)
        more = () if "details" in options else carrying.columns(options)
        table, matcher = Table.read(subscriptions, more), _matcher(messages, options)
        sharding = shard_table(messages, table, matcher, policy, report=report)
        if sharding is None:
            table.add_to(matcher, report=report)
        return cls(messages, matcher, report, table, sharding=sharding)

    def _details(self, options: Options) -> Details:
        rows = pa.table({}) if self.table is None else self.table.rows
        if not rows.num_columns and "details" not in options:
            if needed := carrying.columns(options):
                raise InputError(
                    "a matcher, and Subscriptions on a stream, have ids and selectors only: give "
                    f"details=..., a table with id and {', '.join(needed)}"
                )
            rows = pa.table({"id": pa.array([], pa.string())})
        return carrying.details_of(rows, options)

    def match(self, column: str) -> DataFrame:
        single = self.details is not None and self.details.first
        return self.answered(column, "first" if single else "ids")

    def counts(self, column: str) -> DataFrame:
        self._only_gated("counts")
        return self.answered(column, "count")

    def _only_gated(self, call: str) -> None:
        made = self.details
        if made is not None and (made.carry or made.rank is not None or made.limit < NO_LIMIT):
            raise InputError(
                f"{call} makes no ids: carry, order_by, first and limit are for match and "
                "deliveries"
            )

    def semi(self) -> DataFrame:
        self._only_gated("semi")
        counted = self.answered(_RESULT, "count")
        return counted.where(_worth_keeping(counted, F.col(_RESULT) > 0)).drop(_RESULT)

    def deliveries(self, column: str) -> DataFrame:
        self.check_free(column)
        rows = self._paired(column)
        if self.details is not None and "subscriber" in self.details.carry:
            return rows
        subscribers = None if self.table is None else self.table.subscribers()
        if subscribers is None:
            return rows
        self.check_free("subscriber")
        return _with_subscribers(rows, column, subscribers, few=self.sharding is None)

    def _paired(self, column: str) -> DataFrame:
        asked = replace(self, chosen=self.plan())
        joined = asked._joined(column)
        if joined is not None:
            return joined
        matched = asked.answered(_RESULT, "ids")
        if self.report:
            matched = matched.where(_worth_keeping(matched, F.size(_RESULT) > 0))
        return self._exploded(matched, column)

    def _joined(self, column: str) -> DataFrame | None:
        """A row for each pair, where Spark finds them by a join that drops all other messages."""
        plan = self.chosen
        if self.report or self.details is not None or not isinstance(plan, NativePlan):
            return None
        return plan.pairs(self.messages, column)

    def _exploded(self, matched: DataFrame, column: str) -> DataFrame:
        """One row for each match, with what it carries."""
        carried = () if self.details is None else self.details.carry
        explode = F.explode_outer if self.report else F.explode
        if not carried:
            return matched.select("*", explode(_RESULT).alias(column)).drop(_RESULT)
        for name in carried:
            self.check_free(name)
        one = F.col(f"{_ONE}.id").alias(column)
        more = [F.col(f"{_ONE}.{quoted(name)}").alias(name) for name in carried]
        rows = matched.select("*", explode(_RESULT).alias(_ONE))
        return rows.select("*", one, *more).drop(_RESULT, _ONE)

    def answered(self, column: str, wanted: Wanted) -> DataFrame:
        """The messages with one column more, and with `_error` where errors are reported."""
        self.check_free(column)
        asked = self._asked(wanted)
        if not self.report:
            return asked.messages.select("*", asked.result.alias(column)).drop(*asked.helpers)
        self.check_free(ERROR)
        inner = "__tamis_reported__"
        return (
            asked.messages.select("*", asked.result.alias(inner))
            .select("*", F.col(inner).result.alias(column), F.col(inner).error.alias(ERROR))
            .drop(inner, *asked.helpers)
        )

    def plan(self) -> Plan:
        """How it will be answered."""
        if self.sharding is not None:
            return Plan("matcher", "subscriptions are in shards")
        if self.tally is not None:
            return Plan("matcher", "progress is watched")
        if self.details is not None:
            return Plan("matcher", "matches carry columns, or are ordered, limited or timed")
        if self.chosen is not None:
            return self.chosen
        return choose(self.messages, self.matcher, self.wanted_plan, texts=self._texts())

    def check_free(self, column: str) -> None:
        if column.lower() in (name.lower() for name in self.messages.columns):
            raise InputError(
                f"the messages have a column {column} already: choose another with column=..."
            )

    def _asked(self, wanted: Wanted) -> Answer:
        plan = self.plan()
        if isinstance(plan, NativePlan):
            answer = plan.answer(self.messages, wanted, report=self.report)
            # Workers may return NULL for all that Spark knows: both plans have one type.
            result = F.when(F.lit(True), answer.result.cast(self._type(wanted)))
            return replace(answer, result=result)
        return self._asked_of_workers(wanted)

    def _asked_of_workers(self, wanted: Wanted) -> Answer:
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
        columns |= self._times() | self._malformed()
        work = Work(shipment, tuple(columns), wanted, self.report, self.matcher.lookups)
        work.tally, work.details = self.tally, self._shipped_details()
        work.malformed = self.malformed
        # Without any column the worker would not even know how many rows there are.
        given = list(columns.values()) or [F.lit(0)]
        result: Column = _function(work, self._type(wanted), len(given))(*given)
        return Answer(messages, result, (KEY, self.malformed) if self.malformed else (KEY,))

    def _type(self, wanted: Wanted) -> spark.DataType:
        plain: spark.DataType = spark.LongType()
        if wanted != "count":
            one = self._one(spark.StringType() if self._texts() else plain)
            plain = one if wanted == "first" else spark.ArrayType(one)
        if not self.report:
            return plain
        return spark.StructType().add("result", plain).add("error", spark.StringType())

    def _one(self, id: spark.DataType) -> spark.DataType:
        """The type of one match."""
        if self.details is None or not self.details.carry:
            return id
        return spark.StructType([spark.StructField("id", id), *carrying.fields(self.details)])

    def _times(self) -> dict[str, Column]:
        if self.details is None:
            return {}
        return carrying.time_column(self.messages, self.details, self.matcher.schema)

    def _malformed(self) -> dict[str, Column]:
        return {self.malformed: F.col(self.malformed)} if self.malformed else {}

    def _shipped_details(self) -> Shipment | None:
        if self.details is None:
            return None
        return carrying.ship_details(self.messages.sparkSession, self.details)

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


def refuse_unknown(options: Options) -> None:
    """A misspelt option would silently change the answer."""
    known = Options.__annotations__
    for name in options:
        if name not in known:
            hint = nearest(name, known) or f"the options are {', '.join(known)}"
            raise InputError(f"unknown option {name}: {hint}")


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

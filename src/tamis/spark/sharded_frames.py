"""Subscription sets larger than a worker should hold: in shards, to which messages are sent.

Subscriptions that wait for values of one attribute (see `tamis.engine.sharding`) are put into
shards by the buckets of those values, all others into the rest. A message crosses one exchange
to a task of its value's shard, and there meets that shard and the rest. The task that gets a
message matters for memory alone: whatever a batch holds, each row meets its own shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.engine import Id, Matcher
from tamis.engine.sharding.shard_routes import (
    BEYOND,
    EXACT,
    Reader,
    Routes,
    Split,
    bucket,
)
from tamis.errors import InputError
from tamis.schema import Schema, Type
from tamis.spark.dataframes.spark_types import find, fits, type_of
from tamis.spark.dataframes.subscription_frames import Table
from tamis.spark.workers.shards import Shard, Shards, ship_shard
from tamis.spark.workers.shipping import is_connect

KEY = "__tamis_task__"  # the column that says which task gets a message
SHARD_SIZE = 1_000_000  # subscriptions; docs/spark.md says what that means in memory
_WORTH = 0.8  # sharding must take at least the other part of the subscriptions off a worker
Pairs = Iterable[tuple[Id, str]]
Take = Callable[[npt.NDArray[np.int64]], Pairs]  # the subscriptions of these numbers


@dataclass(frozen=True, slots=True)
class Policy:
    """When to shard: into how many shards, or (None) into shards of about `size` where needed."""

    shards: int | None = None
    size: int = SHARD_SIZE

    def __post_init__(self) -> None:
        for name, given in (("shards", self.shards), ("shard_size", self.size)):
            if given is not None and (isinstance(given, bool) or given < 1):
                raise InputError(f"{name} is a number from 1 on, not {given!r}")

    def wanted(self, subscriptions: int) -> int:
        return -(-subscriptions // self.size) if self.shards is None else self.shards

    def accepts(self, split: Split, subscriptions: int) -> bool:
        worth = split.most <= _WORTH * subscriptions
        return split.attribute is not None and (worth or self.shards is not None)


@dataclass(frozen=True, slots=True)
class Address:
    """How a message's value says where to go. Spark and Python find the same bucket."""

    attribute: str
    kind: Type
    default: int | None  # the bucket of messages without a value; None: they may go anywhere

    @classmethod
    def of(cls, attribute: str, kind: Type, settings: Matcher) -> Address:
        given = settings.schema[attribute].default if settings.schema else None
        if settings.semantics == "default" and given is not None:
            return cls(attribute, kind, bucket(given, kind))
        return cls(attribute, kind, None)

    def task(self, messages: DataFrame, read: Sequence[Column], shards: int, tasks: int) -> Column:
        """The task of each message: those of shard s have the numbers from s * tasks on.

        Messages of one shard are shared out by what conditions read and by where they were
        before, so that a repeated task sends each message to the same place again.
        """
        found = find(messages, self.attribute)
        assert found is not None
        own = buckets(found[0], self.kind)
        if self.default is not None:
            own = F.coalesce(own, F.lit(self.default))
        anywhere = F.xxhash64(*read, F.spark_partition_id())
        task = (own % F.lit(shards)) * F.lit(tasks)
        if tasks > 1:
            task = task + F.pmod(anywhere, F.lit(tasks))
        if self.default is None:
            task = F.coalesce(task, F.pmod(anywhere, F.lit(shards * tasks)))
        return task.cast("int")


def buckets(column: Column, kind: Type) -> Column:
    """`tamis.engine.sharding.shard_routes.bucket` of each value; NULL where there is none."""
    if kind is Type.STRING:
        return F.crc32(column.cast("binary"))
    if kind is Type.BOOL:
        return F.crc32(column.cast("string").cast("binary"))
    if kind is Type.DOUBLE:
        double = column.cast("double")
        exact = (double > -EXACT) & (double < EXACT)
        own = F.when(exact, _of_integer(double)).when(~F.isnan(double), F.lit(BEYOND))
        return F.when(double.isNotNull(), own)
    return _of_integer(column)


def _of_integer(column: Column) -> Column:
    return F.crc32(column.try_cast("bigint").cast("string").cast("binary"))


@dataclass(frozen=True, slots=True)
class Sharding:
    """Subscriptions in shards, on their way to the workers."""

    address: Address
    shards: Shards

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.shards.attributes

    def exchanged(self, messages: DataFrame, read: Sequence[Column]) -> DataFrame:
        """The messages, each where its shard is, with the number of the task in KEY."""
        count, tasks = len(self.shards.parts), self.shards.tasks
        task = self.address.task(messages, read, count, tasks)
        return messages.select("*", task.alias(KEY)).repartitionById(count * tasks, F.col(KEY))


def shard_matcher(messages: DataFrame, matcher: Matcher, policy: Policy) -> Sharding | None:
    """The subscriptions of a matcher in shards; None where these are not needed, or no use."""
    wanted = policy.wanted(len(matcher))
    if wanted <= 1 or not len(matcher):
        return None
    pairs = matcher.items()
    ids, texts = [id for id, _ in pairs], [text for _, text in pairs]
    routes = Routes(_reader(messages, matcher))
    routes.add_many(zip(ids, texts, strict=True))

    def take(numbers: npt.NDArray[np.int64]) -> Pairs:
        return [(ids[i], texts[i]) for i in numbers.tolist()]

    # Also what only removed subscriptions looked at: a message must fit as it must without shards.
    known = matcher.attributes
    is_text = bool(pa.types.is_string(matcher.match_many([]).names.type))
    return _sharding(messages, matcher, routes, take, policy, known, is_text)


def shard_table(
    messages: DataFrame, table: Table, settings: Matcher, policy: Policy, *, report: bool
) -> Sharding | None:
    """Likewise of a table, whose bad rows raise or are reported; `settings` stays empty."""
    wanted = policy.wanted(table.rows.num_rows)
    if wanted <= 1:
        return None
    routes = Routes(_reader(messages, settings), table.repeated())
    table.add_to(routes, report=report)
    if not routes.count:
        return None
    good = table.good()

    def take(numbers: npt.NDArray[np.int64]) -> Pairs:
        rows = table.rows.select(["id", "selector"]).take(pa.array(good[numbers]))
        return zip(*(column.to_pylist() for column in rows.columns), strict=True)

    is_text = pa.types.is_string(table.rows.schema.field("id").type)
    return _sharding(messages, settings, routes, take, policy, (), is_text)


def _reader(messages: DataFrame, settings: Matcher) -> Reader:
    known: dict[str, Type | None] = {}

    def kind(name: str) -> Type | None:
        if name not in known:
            known[name] = _kind(messages, name, settings.schema)
        return known[name]

    return Reader(settings, kind)


def _kind(messages: DataFrame, name: str, schema: Schema | None) -> Type | None:
    """As what a value comes to be compared: a double, where column or schema say so."""
    found = find(messages, name)
    given = None if found is None else type_of(found[1])
    if found is None or given is None or schema is None or name not in schema:
        return given
    wanted = schema[name].type
    if not fits(found[1], wanted):
        return None
    return Type.DOUBLE if Type.DOUBLE in (given, wanted) else wanted


def _sharding(
    messages: DataFrame,
    settings: Matcher,
    routes: Routes,
    take: Take,
    policy: Policy,
    known: tuple[str, ...],
    texts: bool,
) -> Sharding | None:
    split = routes.split(policy.wanted(routes.count))
    if not policy.accepts(split, routes.count):
        return None
    assert split.attribute is not None
    spark, attributes = messages.sparkSession, dict.fromkeys(known)

    def shipped(numbers: npt.NDArray[np.int64]) -> Shard:
        """One shard at a time: the driver never holds them all."""
        matcher = _like(settings)
        matcher.add_many(take(numbers))
        attributes.update(dict.fromkeys(matcher.attributes))
        return ship_shard(spark, matcher, numbers)

    rest = shipped(split.rest)
    parts = tuple(shipped(numbers) if len(numbers) else None for numbers in split.shards)
    kind = _kind(messages, split.attribute, settings.schema)
    assert kind is not None
    tasks = max(1, _partitions(spark) // len(parts))
    shards = Shards(rest, parts, tasks, tuple(attributes), texts, KEY)
    return Sharding(Address.of(split.attribute, kind, settings), shards)


def _partitions(spark: SparkSession) -> int:
    """As many as an exchange has, but not many more than cores: Spark will not join small ones."""
    asked = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    if is_connect(spark):
        return asked
    context = spark.sparkContext
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return asked  # cores come and go
    return min(asked, 3 * context.defaultParallelism)


def _like(matcher: Matcher) -> Matcher:
    return Matcher(
        matcher.schema,
        semantics=matcher.semantics,
        dialect=matcher.dialect,
        limits=matcher.limits,
        lookups=matcher.lookups,
    )

"""Subscriptions as a function of SQL: `SELECT *, alerts(struct(*)) FROM trades`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from tamis.engine import Matcher
from tamis.errors import InputError
from tamis.messages.typed_tables import record_batch
from tamis.messages.value_columns import flatten
from tamis.schema import Type
from tamis.spark.message_questions import Options, Question, _function
from tamis.spark.workers.shipping import ship
from tamis.spark.workers.worker import Columns, Wanted, Work
from tamis.table import Subscriptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tamis.spark.message_questions import Source

_WHOLE_DIGITS = 18  # every decimal of so many digits and no fraction is a 64-bit integer


def register(
    spark: SparkSession, name: str, subscriptions: Source, **options: Unpack[Options]
) -> None:
    """Make `name` a function of SQL that takes a message as a struct and gives what `match` gives.

    Takes what `match` takes. There is no frame that selectors could be checked against: give
    `schema=`, else nothing is checked. Subscriptions are taken as they are now.
    """
    for one in ("version", "shards", "shard_size", "plan"):
        if one in options:
            raise InputError(f"{one} is not for functions of SQL: use match")
    own: Any = {"plan": "matcher", "shards": 1, **options}
    if not isinstance(subscriptions, Matcher | Subscriptions | str | os.PathLike):
        own.setdefault("schema", None)
    question = Question.of(spark.range(0), subscriptions, own)
    details, matcher = question.details, question.matcher
    wanted: Wanted = "first" if details is not None and details.first else "ids"
    timed = () if details is None or details.valid_at is None else (details.valid_at,)
    names = tuple(dict.fromkeys((*matcher.attributes, *timed)))
    shipment = ship(spark, matcher, question.saved)
    work = StructWork(shipment, names, wanted, question.report, matcher.lookups)
    work.details = question._shipped_details()
    if matcher.schema is not None:
        work.doubles = tuple(a.name for a in matcher.schema.attributes if a.type is Type.DOUBLE)
    spark.udf.register(name, _function(work, question._type(wanted), 1))


@dataclass(slots=True)
class StructWork(Work):
    """Work on messages that come as structs."""

    doubles: tuple[str, ...] = ()

    def _batch(self, columns: Columns) -> pa.RecordBatch:
        assert not isinstance(columns, tuple)
        if not pa.types.is_struct(columns.type):
            raise InputError(
                f"a message is a struct, such as struct(*) or struct(price), not a {columns.type}"
            )
        fields = [field.name for field in columns.type]
        if len(set(fields)) != len(fields):
            twice = next(name for name in fields if fields.count(name) > 1)
            raise InputError(f"the struct has two fields {twice}: rename one of them")
        given = flatten(dict(zip(fields, columns.flatten(), strict=True)), structs=True)
        found = {name: self._sent(name, given[name]) for name in self.names if name in given}
        return record_batch(list(found), list(found.values()), len(columns))

    def _sent(self, name: str, column: pa.Array) -> pa.Array:
        """As `match` sends it."""
        kind = column.type
        if not pa.types.is_decimal(kind) or kind.scale or kind.precision > _WHOLE_DIGITS:
            return column
        return column if name in self.doubles else column.cast(pa.int64())

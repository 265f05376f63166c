"""A channel's log as a source: ranges of sequences are partitions, the checkpoint has the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as spark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from tamis.errors import InputError, MessageError, TamisError
from tamis.messages.message_values import lookup
from tamis.pubsub.subjects.typecodes import FORMS, named
from tamis.schema import Schema, Type
from tamis.spark.broker.log_place import Place
from tamis.spark.broker.sink import BatchSink, StreamSink
from tamis.spark.dataframes.spark_types import type_of

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as _AvailableNow
except ImportError:  # PySpark 4.1: one batch takes all that is there

    class _AvailableNow:  # type: ignore[no-redef]
        pass


SEQUENCE, TIME, SUBJECT, ATTRIBUTES = "_sequence", "_time", "_subject", "_attributes"
_ROWS = 8_192  # messages to a batch of Arrow
_PARTITION = 50_000  # messages to a partition, unless said
_SPARK: dict[Type, spark.DataType] = {
    Type.INT: spark.LongType(),
    Type.DOUBLE: spark.DoubleType(),
    Type.STRING: spark.StringType(),
    Type.BOOL: spark.BooleanType(),
    Type.TIMESTAMP: spark.TimestampType(),
}
_OWN: dict[str, spark.DataType] = {
    SEQUENCE: spark.LongType(),
    TIME: spark.TimestampType(),
    SUBJECT: spark.StringType(),
    ATTRIBUTES: spark.StringType(),
}


def use_broker(session: SparkSession) -> None:
    """Make the format `tamis` known to a session: channels of a broker as sources and sinks."""
    session.dataSource.register(Broker)
    # Spark looks formats up in the active session of the thread, which this call makes it.
    session.createDataFrame([], "nothing int")


class Broker(DataSource):
    """`spark.read.format("tamis")`, `readStream`, `write` and `writeStream`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.place = Place.of(options)

    @classmethod
    def name(cls) -> str:
        return "tamis"

    def schema(self) -> spark.StructType:
        """The channel's attributes, or their JSON where it has no schema; then its own columns."""
        told = self.place.about()["attributes"]
        fields = {name: _SPARK[FORMS[named(kind)].type] for name, kind in told.items()}
        made = spark.StructType()
        for name, kind in (fields or {ATTRIBUTES: spark.StringType()}).items():
            made.add(name, kind)
        for name in (SEQUENCE, TIME, SUBJECT):
            made.add(name, _OWN[name])
        return made

    def reader(self, schema: spark.StructType) -> DataSourceReader:
        return BatchReader(Reading.of(self.place, self.options, schema))

    def streamReader(self, schema: spark.StructType) -> DataSourceStreamReader:  # noqa: N802
        return StreamReader(Reading.of(self.place, self.options, schema), self.options)

    def writer(self, schema: spark.StructType, overwrite: bool) -> BatchSink:
        return BatchSink(self.place, self.options, schema, overwrite)

    def streamWriter(self, schema: spark.StructType, overwrite: bool) -> StreamSink:  # noqa: N802
        return StreamSink(self.place, self.options, schema, overwrite)


class Range(InputPartition):
    """Sequences from `first` on, before `before`."""

    def __init__(self, first: int, before: int) -> None:
        super().__init__((first, before))
        self.first, self.before = first, before


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of a channel, and into which columns."""

    place: Place
    schema: spark.StructType
    selector: str
    subjects: str
    rows: int
    skip: bool  # go on where messages were trimmed before they could be read

    @classmethod
    def of(
        cls, place: Place, options: MutableMapping[str, str], schema: spark.StructType
    ) -> Reading:
        for field in schema:
            if field.name in _OWN and field.dataType != _OWN[field.name]:
                kind = _OWN[field.name].simpleString()
                raise InputError(f"column {field.name} is of type {kind}")
            if type_of(field.dataType) is None:
                shown = field.dataType.simpleString()
                raise InputError(f"column {field.name} cannot be of type {shown}")
        lost = options.get("lost") or "raise"
        if lost not in ("raise", "skip"):
            raise InputError(f"lost is raise or skip, not {lost}")
        rows = _number(options, "partition_rows", _PARTITION)
        selector, subjects = options.get("selector") or "", options.get("subjects") or ""
        return cls(place, schema, selector, subjects, rows, lost == "skip")

    def ranges(self, first: int, before: int) -> list[Range]:
        """Cut at multiples of the size, so that the same range is always cut alike."""
        edges = [first, *range(first - first % self.rows + self.rows, before, self.rows), before]
        return [Range(a, b) for a, b in pairwise(edges) if a < b]

    def batches(self, part: Range) -> Iterator[pa.RecordBatch]:
        lines = self.place.messages(
            part.first, part.before, selector=self.selector, subjects=self.subjects
        )
        found = (line for line in lines if not self._is_hole(line))
        while some := list(islice(found, _ROWS)):
            yield self._batch(some)
        self.check_kept(part.first, self.place.about()["first"])

    def _is_hole(self, line: dict[str, Any]) -> bool:
        """Whether the line stands for messages that the broker cannot read."""
        if "lost" not in line:
            return False
        if not self.skip:
            raise TamisError(
                f"messages {line['lost']['first']} to {line['lost']['last']} of channel "
                f"{self.place.channel} cannot be read: {line['lost']['reason']}; "
                "option('lost', 'skip') goes on without them"
            )
        return True

    def check_log(self, start: dict[str, Any]) -> None:
        """Whether the log is the one of which messages before `start` were read."""
        if not start.get("epoch") or start["next"] <= 1:
            return
        agreed = self.place.about(start["epoch"], start["next"] - 1)["agreed"]
        if agreed < start["next"] - 1 and not self.skip:
            raise TamisError(
                f"the log of channel {self.place.channel} was replaced or restored: of what was "
                f"read, it has messages up to {agreed} only, not to {start['next'] - 1}; start "
                "with another checkpoint, or with option('lost', 'skip') to go on all the same"
            )

    def check_kept(self, first: int, oldest: int) -> None:
        if first < oldest and not self.skip:
            raise TamisError(
                f"messages {first} to {oldest - 1} of channel {self.place.channel} are gone: its "
                "retention is too short; option('lost', 'skip') goes on without them"
            )

    def _batch(self, messages: list[dict[str, Any]]) -> pa.RecordBatch:
        columns = [_column(field, messages) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, self.schema.names)


class BatchReader(DataSourceReader):
    """All that is retained when it is planned, or from `start` on."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        told = self.reading.place.about()
        return self.reading.ranges(told["first"], told["readable"])

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return self.reading.batches(partition)


class StreamReader(DataSourceStreamReader, _AvailableNow):
    """Offsets are the sequence that is read next, and the epoch of the log at that time."""

    def __init__(self, reading: Reading, options: MutableMapping[str, str]) -> None:
        self.reading = reading
        self.last: int | None = None  # where a query over all that is there ends
        self.start = options.get("start") or "all"
        if self.start not in ("all", "now") and not self.start.isdigit():
            raise InputError(f"start is all, now, or a sequence, not {self.start}")
        self.most = _number(options, "max_rows", 0)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        told = self.reading.place.about()
        first = told["first"] if self.start == "all" else 0
        first = told["readable"] if self.start == "now" else first or max(int(self.start), 1)
        return {"next": first, "epoch": told["epoch"]}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        self.last = int(self.reading.place.about()["readable"])

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 (Spark's name)
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        return ReadMaxRows(self.most) if self.most else ReadAllAvailable()

    def latestOffset(  # noqa: N802 (Spark's name)
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Spark 4.1 gives neither where it is nor a limit."""
        told = self.reading.place.about()
        end = int(told["readable"]) if self.last is None else self.last
        if start is None:
            return {"next": end, "epoch": told["epoch"]}
        self.reading.check_log(start)
        most = getattr(limit, "max_rows", 0)
        end = max(end, start["next"])
        end = min(end, start["next"] + most) if most else end
        return {"next": end, "epoch": told["epoch"]} if end > start["next"] else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, before = start["next"], end["next"]
        if first < before:
            self.reading.check_log(start)
            self.reading.check_kept(first, self.reading.place.about()["first"])
        return self.reading.ranges(first, before)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return self.reading.batches(partition)


# --- columns -------------------------------------------------------------------


def _column(field: spark.StructField, messages: list[dict[str, Any]]) -> pa.Array:
    kind = type_of(field.dataType)
    assert kind is not None
    arrow = _ARROW[kind]
    if field.name in _OWN:
        return pa.array([_READ[field.name](one) for one in messages], arrow)
    convert = _converter(field.name, kind)
    return pa.array([convert(lookup(m["attributes"], field.name)) for m in messages], arrow).cast(
        _exactly(field.dataType, arrow), safe=False
    )


def _converter(name: str, kind: Type) -> Callable[[object], object]:
    """As the column's type; None where it does not fit, as everywhere in Spark's JSON."""
    schema = Schema.of({name: kind})

    def convert(value: object) -> object:
        if kind is Type.TIMESTAMP and isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value)
            except ValueError:
                return None
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        try:
            return schema.convert(name, value)
        except MessageError:
            return None

    return convert


def _json(message: dict[str, Any]) -> str:
    import json

    return json.dumps(message["attributes"], ensure_ascii=False)


_READ: dict[str, Callable[[dict[str, Any]], object]] = {
    SEQUENCE: lambda message: message["sequence"],
    TIME: lambda message: message["time"],  # microseconds
    SUBJECT: lambda message: message["subject"],
    ATTRIBUTES: _json,
}
_ARROW: dict[Type, pa.DataType] = {
    Type.INT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOL: pa.bool_(),
    Type.TIMESTAMP: pa.timestamp("us", "UTC"),
}


def _exactly(wanted: spark.DataType, arrow: pa.DataType) -> pa.DataType:
    """Smaller numbers, dates and times without a zone, where a schema asks for them."""
    small: dict[type[spark.DataType], pa.DataType] = {
        spark.ByteType: pa.int8(),
        spark.ShortType: pa.int16(),
        spark.IntegerType: pa.int32(),
        spark.FloatType: pa.float32(),
        spark.DateType: pa.date32(),
        spark.TimestampNTZType: pa.timestamp("us"),
    }
    if isinstance(wanted, spark.DecimalType):
        return pa.decimal128(wanted.precision, wanted.scale)
    return small.get(type(wanted), arrow)


def _number(options: MutableMapping[str, str], name: str, default: int) -> int:
    text = options.get(name) or str(default)
    if not text.isdigit() or (int(text) < 1 and default):
        raise InputError(f"{name} is a number from 1 on, not {text}")
    return int(text)

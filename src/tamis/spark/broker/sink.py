"""A channel as a sink: each row a message, stored once though Spark may send it again.

A task is a publisher of its own, named by query and partition, and numbers its messages by batch
and row. The broker remembers which numbers of each publisher it stored, and stores none twice.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from tamis.errors import BusyError, DeadlineError, InputError, MessageError, UnreachableError
from tamis.spark.broker.log_place import Place
from tamis.spark.workers.pinning import BATCH, QUERY

_MOST, _BYTES = 5_000, 4 << 20  # messages and bytes of one request
_TRIES = 8  # the last one half a minute after the first
_ROWS = 1 << 32  # rows that one task of one batch may have


class Sink:
    """What both kinds of writers share."""

    def __init__(
        self, place: Place, options: Mapping[str, str], schema: spark.StructType, overwrite: bool
    ) -> None:
        if overwrite:
            raise InputError("a channel cannot be overwritten: use mode append")
        for field in schema:
            if isinstance(field.dataType, spark.BinaryType):
                raise InputError(f"column {field.name} is binary, which JSON cannot hold: drop it")
        self.place, self.subject = place, options.get("subject") or ""
        zoneless = (f.name for f in schema if isinstance(f.dataType, spark.TimestampNTZType))
        self.zoneless = frozenset(zoneless)
        self.column = options.get("subject_column") or ""
        if self.column and self.column not in schema.names:
            raise InputError(f"subject_column: there is no column {self.column}")

    def publish(self, publisher: str, first: int, rows: Iterator[Row]) -> WriterCommitMessage:
        """The rows as messages, numbered from `first` on."""
        waiting, size = list[bytes](), 0
        for number, row in enumerate(rows, first):
            if number - first >= _ROWS:
                raise InputError(f"a partition has more than {_ROWS:,} rows: use more partitions")
            waiting.append(self._message(number, row))
            size += len(waiting[-1])
            if len(waiting) >= _MOST or size >= _BYTES:
                self._send(publisher, waiting)
                waiting, size = [], 0
        if waiting:
            self._send(publisher, waiting)
        return WriterCommitMessage()

    def _message(self, number: int, row: Row) -> bytes:
        values = {
            name: value.isoformat() + "+00:00"  # without a zone it is UTC, as everywhere
            if name in self.zoneless and value is not None
            else _plain(name, value)
            for name, value in row.asDict(recursive=True).items()
        }
        attributes = {name: value for name, value in values.items() if value is not None}
        subject = attributes.pop(self.column, "") if self.column else ""
        told = {"attributes": attributes, "sequence": number}
        if subject or self.subject:
            told["subject"] = str(subject or self.subject)
        return json.dumps(told, ensure_ascii=False, allow_nan=False).encode()

    def _send(self, publisher: str, messages: list[bytes]) -> None:
        """Again and again: what arrived and was not answered is not stored twice."""
        patiently(lambda: self.place.publish(publisher, messages))


def patiently(send: Callable[[], None]) -> None:
    for tried in range(_TRIES):
        try:
            return send()
        except (BusyError, DeadlineError, UnreachableError):
            if tried == _TRIES - 1:
                raise
            time.sleep(0.25 * 2**tried)


class BatchSink(Sink, DataSourceWriter):
    """One job; a task that is done again says the same again."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.job = uuid.uuid4().hex

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return self.publish(f"spark/{self.job}/{_task().partitionId()}", 1, iterator)


class StreamSink(Sink, DataSourceStreamWriter):
    """Micro-batches of a query: its id is in the checkpoint, and stays when it starts again."""

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        task = _task()
        query, batch = task.getLocalProperty(QUERY), task.getLocalProperty(BATCH)
        if query is None or batch is None:
            raise InputError("Spark does not say which micro-batch this is")
        publisher = f"spark/{query}/{task.partitionId()}"
        return self.publish(publisher, int(batch) * _ROWS + 1, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Every message is in the log already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was published stays; the batch is done again and adds what is missing."""


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _plain(name: str, value: Any) -> Any:
    """As JSON has it; NaN is undefined."""
    if isinstance(value, Mapping):
        return {str(key): _plain(name, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, one) for one in value]
    if isinstance(value, float):
        if math.isinf(value):
            raise MessageError(f"{name} is infinite, which JSON cannot hold")
        return None if math.isnan(value) else value
    if value is None or isinstance(value, str | int | bool):
        return value
    if hasattr(value, "isoformat"):
        return _moment(value)
    return float(value)  # a decimal


def _moment(value: Any) -> str:
    """A date, or a moment in UTC."""
    from datetime import UTC, datetime

    if not isinstance(value, datetime):
        return str(value.isoformat())
    return value.astimezone(UTC).isoformat()

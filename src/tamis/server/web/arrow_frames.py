"""Deliveries as Arrow: one IPC stream for each channel that a frame tells of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.selected_columns import columns, plain
from tamis.pubsub.broker.subscription import Subscription
from tamis.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Pair = tuple[Subscription, Record]
OWN = ("subscription", "sequence", "time", "subject", "attributes")


def arrow_frame(schema: Schema, pairs: Sequence[Pair]) -> bytes:
    """Messages of one channel: `attributes` is JSON, and each predefined attribute of a plain type
    is a column of its own, unless its name is taken or the messages have to be read one by one."""
    import pyarrow as pa

    records = [record for _, record in pairs]
    table = pa.table({
        "subscription": pa.array([one.label for one, _ in pairs]).dictionary_encode(),
        "sequence": pa.array([r.sequence for r in records], pa.int64()),
        "time": pa.array([r.time for r in records], pa.timestamp("us", "UTC")),
        "subject": pa.array([r.subject for r in records]).dictionary_encode(),
        "attributes": pa.array([r.body.decode() for r in records]),
    })  # fmt: skip
    names = [name for name in plain(schema) if name not in OWN]
    found = columns(schema, names, records) if names else None
    if found is not None:
        for name in names:
            table = table.append_column(name, found.column(name))
    return _stream(table)


def _stream(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())

"""Stored messages as columns: only what selectors look at is read, by Arrow's JSON reader.

Messages were checked when they were published, so attributes of the schema have its types. What
does not fit all the same (an int written 5.0, a repeated name, an object for a number, line breaks
within a message) makes the reader give up, and the messages are read one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tamis.pubsub.broker.records import Record
from tamis.schema import Schema, Type

if TYPE_CHECKING:
    import pyarrow as pa

RESERVED = "$tamis$"  # names with it are the broker's own: a selector that contains it is refused
FIELD, LENGTH = RESERVED, f"{RESERVED}length"  # a field of the subject, and how many it has
_PLAIN = {Type.INT: "int64", Type.DOUBLE: "float64", Type.STRING: "string", Type.BOOL: "bool"}


def plain(schema: Schema) -> list[str]:
    """The attributes that can be read as columns."""
    return [n for n in schema if "." not in n and schema[n].type in _PLAIN]


def columns(schema: Schema, names: Sequence[str], records: Sequence[Record]) -> pa.Table | None:
    """The named attributes and fields of subjects; None where they have to be read one by one."""
    import pyarrow as pa

    wanted = [name for name in names if not name.startswith(FIELD)]
    if any("." in n or n not in schema or schema[n].type not in _PLAIN for n in wanted):
        return None
    kinds = [(n, getattr(pa, _PLAIN[schema[n].type].replace("bool", "bool_"))()) for n in wanted]
    found = _read(pa.schema(kinds), records)
    if found is None or len(wanted) == len(names):
        return found
    for name in names:
        if name.startswith(FIELD):
            found = found.append_column(name, _of_subjects(name, records))
    return found


def _read(schema: pa.Schema, records: Sequence[Record]) -> pa.Table | None:
    import pyarrow as pa
    from pyarrow import json

    if not len(schema):  # all that is asked for are subjects
        return pa.table({FIELD: pa.nulls(len(records))})
    data = b"\n".join([record.body for record in records])
    if data.count(b"\n") != len(records) - 1 or b"\r" in data:
        return None
    size = len(data) + 1
    try:
        found = json.read_json(
            pa.BufferReader(data),
            json.ReadOptions(use_threads=False, block_size=size),
            json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowException:
        return None
    return found if len(found) == len(records) else None


def _of_subjects(name: str, records: Sequence[Record]) -> pa.Array:
    """One field of all subjects, or the number of their fields; each subject is cut once."""
    import pyarrow as pa

    place = -1 if name == LENGTH else int(name.removeprefix(FIELD))
    kind = pa.int64() if place < 0 else pa.string()
    known: dict[str, int | str | None] = {}
    found = []
    for record in records:
        subject = record.subject
        if subject not in known:
            fields = subject.split(".")
            field = fields[place] if place < len(fields) else None
            known[subject] = len(fields) if place < 0 else field
        found.append(known[subject])
    return pa.array(found, kind)

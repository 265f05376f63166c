"""Frames of random messages in the types that Spark may hold them in, for the tests on Spark."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

import oracle
import strategies as st
from tamis import MessageError, Schema
from tamis.logic import SEMANTICS
from tamis.messages.texts import from_value
from tamis.messages.typed_tables import to_batch
from tamis.schema import Type

MESSAGES = 80
CASES = [(s, typed) for s in SEMANTICS for typed in (True, False) if typed or s != "total"]


def good_messages(rng, schema, semantics) -> list[dict]:
    found: list[dict] = []
    while len(found) < MESSAGES:
        message = st.random_message(rng, schema, total=semantics == "total")
        try:
            oracle.matches(st.tree.Constant(True), message, semantics, schema)
            found.append(message)
        except MessageError:
            continue
    return found


def column(rng: random.Random, kind: Type, values: pa.Array) -> pa.Array:
    """The values in one of the types in which Spark can hold them exactly."""
    if kind is Type.INT:
        for narrow in rng.sample([pa.int8(), pa.int16(), pa.int32()], 3):
            try:
                return values.cast(narrow)
            except pa.ArrowInvalid:
                continue
    if kind is Type.DOUBLE:
        wide = values.drop_null().to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore", under="ignore"):
            if (wide.astype(np.float32) == wide).all() and rng.random() < 0.7:
                return values.cast(pa.float32())
    if kind is Type.TIMESTAMP and rng.random() < 0.5:
        return values.cast(pa.timestamp("us"))
    return values


def table(rng: random.Random, schema: Schema, messages: list[dict]) -> pa.Table:
    """A column for each attribute; dotted ones as fields of structs."""
    batch, misfits = to_batch(messages, schema, list(schema), from_value)
    assert not misfits
    columns = {n: column(rng, schema[n].type, batch.column(n)) for n in schema}
    nested = [name for name in columns if "." in name]
    if nested and rng.random() < 0.7:
        columns["order"] = struct({n.removeprefix("order."): columns.pop(n) for n in nested})
    return pa.table(columns)


def struct(fields: dict[str, pa.Array]) -> pa.Array:
    deep = {n.removeprefix("to."): fields.pop(n) for n in list(fields) if n.startswith("to.")}
    if deep:
        fields["to"] = struct(deep)
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


def converted(schema: Schema, message: dict) -> dict:
    return {name: schema.convert(name, oracle.attribute(name, message)) for name in schema}

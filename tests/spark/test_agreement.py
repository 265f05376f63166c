"""Spark equals local equals oracle, on random conditions and messages of every type."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import oracle
import strategies as st
from tamis import Matcher, MessageError, Schema
from tamis.language import canonical
from tamis.logic import SEMANTICS
from tamis.messages.table import to_batch
from tamis.messages.texts import from_value
from tamis.schema import Type
from tamis.spark import counts, match

CONDITIONS, MESSAGES = 60, 80


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


CASES = [(s, typed) for s in SEMANTICS for typed in (True, False) if typed or s != "total"]


@pytest.mark.parametrize(("semantics", "typed"), CASES)
def test_spark_equals_local_equals_oracle(spark, semantics, typed):
    rng = random.Random(f"spark {semantics} {typed}")
    schema = Schema(tuple(st.make_attribute(st.Rolled(rng), name) for name in st.NAMES))
    conditions = [
        st.random_condition(rng, schema if typed else None, lookups=("NYSEdb",))
        for _ in range(CONDITIONS)
    ]
    lookups = {"NYSEdb": st.LOOKUPS["NYSEdb"]}
    matcher = Matcher(schema if typed else None, semantics=semantics, lookups=lookups)
    matcher.add_many((i, canonical(c)) for i, c in enumerate(conditions))
    messages = good_messages(rng, schema, semantics)
    given = table(rng, schema, messages)
    # Without a schema a column still has one type: its values are those of the schema.
    clear = messages if typed else [converted(schema, message) for message in messages]
    wanted = [
        [
            i
            for i, condition in enumerate(conditions)
            if oracle.matches(condition, message, semantics, schema if typed else None, lookups)
        ]
        for message in clear
    ]
    assert any(wanted)
    assert matcher.match_batch(given).to_pylist() == wanted
    frame = spark.createDataFrame(given)
    # Only the results come back: Python cannot collect a timestamp of the year 1.
    found = match(frame, matcher).select("subscriptions").toArrow()
    assert found.column(0).to_pylist() == wanted
    numbers = counts(frame, matcher).select("matches").toArrow()
    assert numbers.column(0).to_pylist() == [len(ids) for ids in wanted]


def converted(schema: Schema, message: dict) -> dict:
    return {name: schema.convert(name, oracle.attribute(name, message)) for name in schema}

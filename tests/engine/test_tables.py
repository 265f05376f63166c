"""Tables of other libraries: the same ids as from Arrow, and results that they take back."""

from __future__ import annotations

import datetime
import doctest
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import random_condition, random_message
from tamis import Details, InputError, Matcher, Schema, SchemaError, SelectorError
from tamis.language import canonical

duckdb = pytest.importorskip("duckdb")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

SCHEMA = Schema.of(a=int, price=float, name=str, flag=bool, when="timestamp")
NULLABLE = {
    pa.int64(): pandas.Int64Dtype(),
    pa.bool_(): pandas.BooleanDtype(),
    pa.string(): pandas.StringDtype(),
}
FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "record batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(max_chunksize=3),
    "struct array": lambda table: table.to_struct_array().combine_chunks(),
    "pandas": lambda table: table.to_pandas(),
    "pandas, Arrow types": lambda table: table.to_pandas(types_mapper=pandas.ArrowDtype),
    "pandas, nullable types": lambda table: table.to_pandas(types_mapper=NULLABLE.get),
    "Polars": polars.from_arrow,
    "Polars, in pieces": lambda table: polars.concat(
        [polars.from_arrow(table.slice(i, 2)) for i in range(0, table.num_rows, 2)], rechunk=False
    ),
    "DuckDB": duckdb.from_arrow,
    "mappings": lambda table: table.to_pylist(),
    "generator": lambda table: iter(table.to_pylist()),
}


def table_of(rng: random.Random, rows: int) -> pa.Table:
    kinds = [pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.timestamp("us", "UTC")]
    schema = pa.schema(list(zip(SCHEMA, kinds, strict=True)))
    messages = [random_message(rng, SCHEMA) for _ in range(rows)]
    kept = [{n: SCHEMA.convert(n, _plain(m.get(n))) for n in SCHEMA} for m in messages]
    first, last = (datetime.datetime(y, 1, 1, tzinfo=datetime.UTC) for y in (1800, 2200))
    for row in kept:  # pandas and DuckDB hold nanoseconds
        if row["when"] is not None and not first < row["when"] < last:
            row["when"] = None
    return pa.Table.from_pylist(kept, schema)


def _plain(value: Any) -> Any:
    from tamis.messages import lookup

    return lookup({"v": value}, "v")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("schema", [SCHEMA, None])
@settings(max_examples=int(os.environ.get("TAMIS_TABLES", "15")))
@given(seed=st.integers(0, 10**6))
def test_every_table_gives_the_ids_of_arrow(form: str, schema: Schema | None, seed: int):
    rng = random.Random(seed)
    matcher = Matcher(schema)
    texts = [canonical(random_condition(rng, SCHEMA)) for _ in range(12)]
    matcher.add_many(enumerate(texts))
    table = table_of(rng, 9)
    if form == "pandas":  # which has no missing integers, and takes the type of nulls for its own
        for i, name in enumerate(("a", "name", "flag")):
            kind = (pa.int64(), pa.string(), pa.bool_())[i]
            filled = pc.fill_null(table[name], pa.scalar((0, "", False)[i], kind))
            table = table.set_column(table.schema.get_field_index(name), name, filled)
    expected = matcher.match_batch(table)
    given_to = FORMS[form]
    assert matcher.match_batch(given_to(table)).to_pylist() == expected.to_pylist()
    assert matcher.count_batch(given_to(table)).tolist() == expected.counts.tolist()
    ids, bits = matcher.bitmap_batch(given_to(table))
    arrow_ids, arrow_bits = matcher.bitmap_batch(table)
    assert ids == arrow_ids
    assert np.array_equal(bits, arrow_bits)


@pytest.mark.parametrize("form", FORMS)
def test_subscriptions_come_from_any_table(form: str):
    rows = pa.table({"id": ["a", "b"], "selector": ["x > 1", "x > 2"], "note": ["", ""]})
    matcher = Matcher()
    assert matcher.add_many(FORMS[form](rows)) == 2
    assert matcher.match({"x": 2}) == ["a"]


@pytest.mark.parametrize("form", ["record batch", "reader", "pandas", "Polars", "DuckDB"])
def test_a_schema_comes_from_any_table(form: str):
    table = pa.table({
        "i": pa.array([1], pa.int32()), "d": [1.5], "s": ["x"], "b": [True],
        "t": pa.array([datetime.datetime(2000, 2, 1)]), "o": [{"p": 1, "q": "x"}],
        "e": pa.array([datetime.date(2000, 2, 1)]), "l": [[1]],
    })  # fmt: skip
    found = {name: a.kind for name, a in Schema.of(FORMS[form](table)).items()}
    expected = {"i": "int", "d": "double", "s": "string", "b": "bool", "t": "timestamp",
                "e": "timestamp", "l": "list<int>", "o.p": "int", "o.q": "string"}  # fmt: skip
    assert found == expected


def test_a_schema_comes_from_names_of_types():
    names = {
        "int": ["int", int, "bigint", "LONG", "int64", pa.int8(), np.dtype("int32"), polars.Int64,
                pandas.Int64Dtype()],
        "double": ["double", float, "float64", pa.float32(), np.dtype("float64"), polars.Float32,
                   "decimal(10, 2)", polars.Decimal(10, 2)],
        "string": ["string", str, "VARCHAR(20)", pa.large_string(), polars.String,
                   pandas.StringDtype()],
        "bool": ["bool", bool, "boolean", pa.bool_(), np.dtype("bool"), polars.Boolean],
        "timestamp": ["timestamp", datetime.datetime, "timestamp_ntz", pa.timestamp("ns", "UTC"),
                      np.dtype("datetime64[ns]"), polars.Datetime("us"), polars.Date, pa.date32()],
    }  # fmt: skip
    for kind, specs in names.items():
        for spec in specs:
            assert Schema.of(x=spec) == Schema.of(x=kind), spec


def test_a_schema_comes_from_spark():
    types = pytest.importorskip("pyspark.sql.types")
    inner = types.StructType().add("p", "integer").add("q", types.ArrayType(types.LongType()))
    struct = types.StructType().add("a", "long").add("d", "decimal(10,2)").add("s", "string")
    struct = struct.add("w", "decimal(18,0)").add("o", inner).add("o.p", "string")
    found = Schema.of(struct)
    assert {name: a.kind for name, a in found.items()} == {
        "a": "int", "d": "double", "w": "int", "s": "string", "o.p": "string", "o.q": "list<int>",
    }  # fmt: skip
    assert Schema.of(x=types.LongType(), t=types.TimestampNTZType()) == Schema.of(
        x=int, t="timestamp"
    )


@pytest.mark.parametrize("data", [5, "price:double", [1], {"a": "money"}, {"a": [1]}])
def test_what_has_no_schema_is_refused(data: Any):
    with pytest.raises(SchemaError):
        Schema.of(data)


def test_a_column_that_is_no_arrow_is_an_error_if_it_is_read():
    frame = pandas.DataFrame({"x": [1, "a", object()]})
    matcher = Matcher()
    assert matcher.match_batch(frame).to_pylist() == [[], [], []]
    matcher.add("reads it", "x = 1")
    with pytest.raises(InputError, match="this DataFrame cannot be read as a table"):
        matcher.match_batch(frame)


@pytest.mark.parametrize("odd", [[1, "x"], [object(), 1.5], [{"a": 1}, 5]])
def test_a_mixed_column_that_is_not_read_disturbs_nothing(odd: list[object]):
    frame = pandas.DataFrame({"price": [2.0, 0.5], "note": odd})
    matcher = Matcher()
    matcher.add("a", "price > 1")
    assert matcher.match_batch(frame).to_pylist() == [["a"], []]
    assert [m.to_pylist() for m in matcher.match_batches(frame)] == [[["a"], []]]
    assert matcher.count_batch(frame).tolist() == [1, 0]
    assert matcher.bitmap_batch(frame)[1].tolist() == [[1]]
    twice = pandas.concat([frame, frame["note"]], axis="columns")
    assert matcher.match_batch(twice).to_pylist() == [["a"], []]


def test_a_mixed_column_that_is_not_read_disturbs_no_subscriptions_schemas_and_details():
    rules = pandas.DataFrame({"id": ["a", "b"], "selector": ["x > 1", "x > 2"], "o": [1, "x"]})
    rules["rank"] = [2, 1]
    matcher = Matcher()
    assert matcher.add_many(rules) == 2
    for rows in (rules, rules.to_dict("records")):
        details = Details(rows, carry=["rank"], order_by="rank")
        assert matcher.match({"x": 3}, details) == [{"id": "b", "rank": 1}, {"id": "a", "rank": 2}]
        with pytest.raises(InputError):
            Details(rows, carry=["o"])
    schema = Schema.of(rules)
    assert list(schema) == ["id", "selector", "rank"]
    with pytest.raises(SelectorError, match="o is of mixed types; selectors cannot read it"):
        Matcher(schema).add("bad", "o = 1")


def test_rows_of_spark_are_messages():
    row = pytest.importorskip("pyspark.sql").Row
    matcher = Matcher()
    matcher.add_many([row(id="a", selector="x > 1 AND o.y = 'q'"), ("b", "x > 5")])
    found = row(x=2, o=row(y="q"))
    assert matcher.match(found) == ["a"]
    assert matcher.match_many([found]).to_pylist() == [["a"]]
    assert matcher.match_batch([found, row(x=6)]).to_pylist() == [["a"], ["b"]]
    assert matcher.explain("a", found).matches


def test_results_go_back_without_a_copy():
    matcher = Matcher()
    matcher.add_many((i, f"x > {i}") for i in range(5))
    matches = matcher.match_batch(pa.table({"x": [3, 0, 9]}))
    lists = matches.to_arrow()
    assert polars.Series(matches).to_list() == matches.to_pylist()
    assert pa.array(matches) == lists
    held = pandas.arrays.ArrowExtensionArray(lists)
    shared = pa.chunked_array(held.__arrow_array__()).chunk(0)
    assert shared.buffers()[1].address == lists.buffers()[1].address
    there = polars.Series(lists).to_arrow(compat_level=polars.CompatLevel.newest())
    assert there.values.buffers()[1].address == lists.values.buffers()[1].address


def test_numbers_of_polars_and_pandas_are_not_copied():
    from tamis.messages.tabular import arrow_of

    frame = polars.DataFrame({"x": np.arange(1000.0)})
    address = frame["x"].to_arrow().buffers()[1].address
    assert arrow_of(frame, tuple).column("x").chunk(0).buffers()[1].address == address
    values = np.arange(1000.0)
    column = arrow_of(pandas.DataFrame({"x": values}, copy=False), tuple).column("x").chunk(0)
    assert column.buffers()[1].address == values.ctypes.data


def test_the_examples_of_the_page_are_true():
    pytest.importorskip("pyspark")
    page = Path(__file__).parents[2] / "docs" / "matcher.md"
    assert doctest.testfile(str(page), module_relative=False, encoding="utf-8").failed == 0

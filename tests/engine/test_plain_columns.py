"""Batches of many columns, which are read all at once: the same matches as message by message."""

from __future__ import annotations

import math
import os
import random
import threading

import numpy as np
import pyarrow as pa
import pytest

import oracle
from tamis import InputError, Matcher, MessageError, Schema
from tamis.engine.values.message_batch import from_table
from tamis.engine.values.plain_columns import MANY
from tamis.language import parse

EACH = MANY // 2
ROUNDS = int(os.environ.get("TAMIS_ROUNDS", "2"))
NAMES = {f"{kind}{i}": own for kind, own in (("s", str), ("d", float), ("i", int))
         for i in range(EACH)}  # fmt: skip
SCHEMA = Schema.of(NAMES)
DOUBLES = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324, 2.0**53, -7.0, 3.0]
INTS = [0, 1, -1, 2**63 - 1, -(2**63), 7, 2**53 + 1]
TEXTS = ["", "a", "v1", "v2", "a string of more than eight bytes", "v1\0"]
FORMS = (
    "s{a} = 'v{n}' AND d{b} < {n}",
    "s{a} = 'v{n}' AND i{b} >= {n}",
    "s{a} = 'a string of more than eight bytes' AND NOT d{b} > {n}.5",
    "s{a} = '' OR s{b} = 'v{n}'",
    "d{a} < {n} AND i{b} <= {n}",
    "d{a} = {n}",
    "i{a} IN (1, 7, 9007199254740993)",
    "s{a} LIKE 'v%' AND d{b} > -2",
    "s{a} < 'v2' AND s{b} = 'a'",
    "s{a} IS NULL AND i{b} > {n}",
    "d{a} IS NOT NULL",
    "d{a} * 2 > i{b} AND s{b} = 'v1'",
    "s{a} = 'é' OR s{b} CONTAINS 'é'",
)


def column(rng: random.Random, kind: type, rows: int, texts: list[str], nulls: float) -> list:
    among = {str: texts, float: DOUBLES, int: INTS}[kind]
    return [None if rng.random() < nulls else rng.choice(among) for _ in range(rows)]


def table_of(rng: random.Random, rows: int) -> pa.Table:
    kinds = {str: pa.string(), float: pa.float64(), int: pa.int64()}
    made = {}
    for name, kind in NAMES.items():
        texts = [*TEXTS, "é"] if name == "s1" else TEXTS
        held = column(rng, kind, rows, texts, rng.choice([0.0, 0.0, 0.3]))
        made[name] = pa.array(held, kinds[kind], from_pandas=False)
    return pa.table(made)


@pytest.mark.parametrize("schema", [SCHEMA, None])
@pytest.mark.parametrize("semantics", ["sql", "strict"])
def test_many_columns_agree_with_the_oracle(semantics: str, schema: Schema | None) -> None:
    rng = random.Random(f"{semantics}{schema is None}")
    for _ in range(ROUNDS):
        texts = [
            rng.choice(FORMS).format(
                a=rng.randrange(EACH), b=rng.randrange(EACH), n=rng.choice("123")
            )
            for _ in range(150)
        ]
        table = table_of(rng, 90)
        matcher = Matcher(schema, semantics=semantics)
        matcher.add_many(enumerate(texts))
        matcher.settle()
        conditions = [parse(text) for text in texts]
        expected = [
            [i for i, c in enumerate(conditions) if oracle.matches(c, message, semantics, schema)]
            for message in table.to_pylist()
        ]
        assert matcher.match_batch(table).to_pylist() == expected
        assert matcher.count_batch(table).tolist() == [len(row) for row in expected]
        first = rng.randrange(1, 20)  # buffers that begin before the first row
        part = table.slice(first, 67)
        assert matcher.match_batch(part).to_pylist() == expected[first : first + 67]
        pieces = pa.concat_tables([table.slice(0, 31), table.slice(31)])
        assert matcher.match_batch(pieces).to_pylist() == expected


def test_most_columns_are_plain() -> None:
    table = table_of(random.Random(1), 20)
    found = from_table(table, tuple(NAMES), "sql", SCHEMA)
    assert found.plain is not None
    assert set(found.plain.names) == set(NAMES) - {"s1"}
    assert set(found.columns) == {"s1"}  # it is not ASCII; nobody has asked for another by itself
    assert found.has("s0")
    # Defaults are filled in column by column.
    assert from_table(table, tuple(NAMES), "default", SCHEMA).plain is None
    few = table.select(list(NAMES)[: MANY - 1])
    assert from_table(few, tuple(NAMES), "sql", SCHEMA).plain is None


def test_text_that_is_not_utf_8_is_told_with_its_row() -> None:
    table = table_of(random.Random(2), 12)
    bad = pa.array([b"a"] * 7 + [b"\xff"] + [b"b"] * 4, pa.binary()).view(pa.string())
    table = table.set_column(0, "s0", bad)
    matcher = Matcher(SCHEMA)
    matcher.add_many((name, f"{name} IS NOT NULL") for name in NAMES)
    with pytest.raises(MessageError, match="row 7: s0 holds invalid UTF-8"):
        matcher.match_batch(table)


def test_places_that_fall_back_are_not_followed() -> None:
    """Each string begins where the one before ends; here one ends before it begins."""
    table = table_of(random.Random(3), 3)
    places = pa.py_buffer(np.array([0, 4, 1, 5], np.int32))
    broken = pa.Array.from_buffers(pa.string(), 3, [None, places, pa.py_buffer(b"abcde")])
    found = from_table(table.set_column(0, "s0", broken), ("s1", "s2"), "sql", SCHEMA)
    assert not found.has("s0")
    matcher = Matcher(SCHEMA)
    matcher.add_many((name, f"{name} = 'bcd'") for name in NAMES if name[0] == "s")
    matcher.add_many((name, f"{name} = 1") for name in NAMES if name[0] != "s")
    with pytest.raises(InputError, match="column s0 is broken"):
        matcher.match_batch(table.set_column(0, "s0", broken))


def test_an_exact_name_wins_over_a_field() -> None:
    columns = {f"p.f{i}": [float(i)] * 80 for i in range(MANY)}
    struct = pa.array([{f"f{i}": -1.0 for i in range(MANY + 2)}] * 80)
    table = pa.table({**columns, "p": struct})
    matcher = Matcher()
    matcher.add_many((f"+{i}", f"p.f{i} >= 0") for i in range(MANY + 2))
    matcher.add_many((f"-{i}", f"p.f{i} < 0") for i in range(MANY + 2))
    (found,) = set(map(tuple, matcher.match_batch(table).to_pylist()))
    assert found == (*(f"+{i}" for i in range(MANY)), f"-{MANY}", f"-{MANY + 1}")


def test_threads_with_different_tables_go_on_for_long() -> None:
    """What a segment asks of the columns is kept; here two threads take turns in keeping it."""
    rng = random.Random(4)
    table = table_of(rng, 80)
    matcher = Matcher(SCHEMA)
    for name in NAMES:
        for n in ("'v1'",) if name[0] == "s" else (1, 2):
            matcher.add(f"{name} {n}", f"{name} {'=' if name[0] == 's' else '<'} {n}")
    matcher.settle()
    tables = [table, table.select(list(reversed(table.column_names)))]
    wanted = matcher.count_batch(tables[0]).tolist()
    wrong: list[object] = []

    def work(own: pa.Table) -> None:
        for _ in range(200):
            if matcher.count_batch(own).tolist() != wanted:
                wrong.append(own.column_names)

    threads = [threading.Thread(target=work, args=(own,)) for own in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

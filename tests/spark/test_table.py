"""Subscriptions that change: on frames at rest the version of the call, on streams that of the
micro-batch; the same rows as local matching at every version."""

from __future__ import annotations

import json
import random
import threading

import pytest
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

import oracle
import strategies as st
from tamis import InputError, Schema
from tamis.language import canonical, parse
from tamis.schema import Type
from tamis.spark import Subscriptions, counts, deliveries, match, problems, schema_of, semi

DDL = "n long, symbol string, price double"
ROWS = [(n, ("IBM", "SAP", None)[n % 3], n / 2) for n in range(30)]
SCHEMA = Schema.of(n=int, symbol=str, price=float)


@pytest.fixture
def table(tmp_path):
    made = Subscriptions.create(tmp_path / "table", schema=SCHEMA)
    made.add("ibm", "symbol = 'IBM'", "big@blue")
    made.add("cheap", "price < 3")
    return made


@pytest.fixture
def trades(spark):
    return spark.createDataFrame(ROWS, DDL)


class Feed:
    """A folder that a stream reads, a file to a micro-batch."""

    def __init__(self, spark, folder, schema=DDL, key="n") -> None:
        self.spark, self.folder, self.key, self.count = spark, folder, key, 0
        (folder / "in").mkdir(parents=True)
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        self.frame = reader.json(str(folder / "in"))

    def put(self, rows) -> None:
        names = ("n", "symbol", "price")
        lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
        staged = self.folder / "staged"
        staged.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        staged.rename(self.folder / "in" / f"{self.count:05d}.json")
        self.count += 1

    def run(self, frame) -> list:
        """Everything that is there, into files, from the checkpoint on; all rows so far."""
        out = str(self.folder / "out")
        writer = frame.writeStream.format("parquet").option("path", out)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        self.query = query
        return self.spark.read.parquet(out).orderBy(self.key).collect()


def local(table, rows, version) -> dict:
    matcher = table.matcher(version)
    return {row[0]: matcher.match(dict(zip(SCHEMA, row, strict=True))) for row in rows}


# --- frames at rest ------------------------------------------------------------------------


def test_a_frame_at_rest_uses_the_version_of_the_call(trades, table):
    found = match(trades, table, version="v")
    table.add("late", "TRUE")
    rows = found.collect()
    assert {row["v"] for row in rows} == {2}
    assert {row["n"]: row["subscriptions"] for row in rows} == local(table, ROWS, 2)
    assert found.columns == ["n", "symbol", "price", "subscriptions", "v"]
    counted = counts(trades, table).collect()
    assert {row["n"]: row["matches"] for row in counted} == {
        n: len(ids) for n, ids in local(table, ROWS, 3).items()
    }


def test_deliveries_and_semi_of_a_frame_at_rest(trades, table):
    table.replace("ibm", "symbol = 'IBM' AND price > 10", "other@blue")
    sent = deliveries(trades, table, version="v").collect()
    wanted = local(table, ROWS, 3)
    assert sorted((r["n"], r["subscription"]) for r in sent) == sorted(
        (n, id) for n, ids in wanted.items() for id in ids
    )
    known = {"ibm": "other@blue", "cheap": None}
    assert all(row["subscriber"] == known[row["subscription"]] and row["v"] == 3 for row in sent)
    kept = semi(trades, table).collect()
    assert sorted(row["n"] for row in kept) == [n for n, ids in wanted.items() if ids]


@pytest.mark.parametrize("said", [{}, {"ids": "int"}])
def test_an_empty_table(spark, trades, tmp_path, said):
    empty = Subscriptions.create(tmp_path / "empty", **said)
    found = match(trades, empty, version="v")
    kind = "bigint" if said else "string"
    assert found.schema["subscriptions"].dataType.simpleString() == f"array<{kind}>"
    assert [(row["subscriptions"], row["v"]) for row in found.collect()] == [([], 0)] * len(ROWS)
    assert deliveries(trades, empty).count() == 0
    feed = Feed(spark, tmp_path / "feed")
    feed.put(ROWS[:3])
    rows = feed.run(match(feed.frame, empty))
    assert [row["subscriptions"] for row in rows] == [[]] * 3
    empty.add(7 if said else "7", "n = 3")
    feed.put(ROWS[3:4])
    assert feed.run(match(feed.frame, empty))[-1]["subscriptions"] == [7 if said else "7"]


def test_what_is_put_aside(trades, table):
    table.add_many([("bad", "price >"), ("fine", "n = 1")], on_error="report")
    rows = problems(trades, table).collect()
    assert [(row["id"], row["selector"]) for row in rows] == [("bad", "price >")]
    assert "fine" in local(table, ROWS, table.version)[1]


@pytest.mark.parametrize("name", ["semantics", "dialect", "schema", "limits", "lookups"])
def test_a_table_has_its_own_settings(trades, table, name):
    with pytest.raises(InputError, match=f"{name} is for tables"):
        match(trades, table, **{name: None})


def test_versions_are_for_tables_only(trades, table):
    with pytest.raises(InputError, match="version is for Subscriptions"):
        match(trades, table.matcher(), version="v")
    with pytest.raises(InputError, match="have a column price already"):
        match(trades, table, version="price")


# --- streams -------------------------------------------------------------------------------


def test_a_change_is_in_force_from_the_next_micro_batch_on(spark, table, tmp_path):
    feed = Feed(spark, tmp_path / "feed")
    asked = match(feed.frame, table, version="v")
    for first in (0, 10, 20):
        feed.put(ROWS[first : first + 10])
        rows = feed.run(asked)
        table.replace("cheap", f"price < {first}")
    assert [row["v"] for row in rows] == [2] * 10 + [3] * 10 + [4] * 10
    for row in rows:
        assert row["subscriptions"] == local(table, ROWS, row["v"])[row["n"]]


def test_all_tasks_of_a_micro_batch_use_one_version(spark, table, tmp_path):
    """Changes come while its tasks run; the first of them decides for all."""
    feed = Feed(spark, tmp_path / "feed")
    rows = [(n, "IBM", float(n)) for n in range(40)]
    feed.put(rows[:20])
    feed.put(rows[20:])
    slow = F.udf(lambda n: __import__("time").sleep(0.02) or n, "long")
    frame = feed.frame.repartition(8, "n").withColumn("n", slow("n"))
    done = threading.Event()

    def change() -> None:
        i = 0
        while not done.is_set():
            table.replace("cheap", f"price < {i}", f"{i}")
            i += 1

    changing = threading.Thread(target=change)
    changing.start()
    try:
        found = feed.run(deliveries(frame, table, version="v"))
    finally:
        done.set()
        changing.join()
    used = [check_batch(found, table, part) for part in (rows[:20], rows[20:])]
    assert used[0] != used[1]
    assert 2 < max(used) < table.version


def check_batch(found, table, rows) -> int:
    """The version that all rows of a batch were matched at; each has what that version says."""
    numbers = {row[0] for row in rows}
    own = [row for row in found if row["n"] in numbers]
    (version,) = {row["v"] for row in own}
    subscribers = {r["id"]: r["subscriber"] for r in table.view(version).rows().to_pylist()}
    matched = local(table, rows, version)
    wanted = [(n, id, subscribers[id]) for n, ids in matched.items() for id in ids]
    assert sorted((r["n"], r["subscription"], r["subscriber"]) for r in own) == sorted(wanted)
    return version


def test_a_replay_uses_the_pinned_version_and_run_ids_do_not_matter(spark, table, tmp_path):
    """The batch fails after its first rows; meanwhile the table changes; then it runs again."""
    feed, poison = Feed(spark, tmp_path / "feed"), tmp_path / "poison"
    feed.put(ROWS[:10])
    rows = feed.run(match(feed.frame, table, version="v"))
    first = feed.query
    poison.touch()
    fails = F.udf(
        lambda n: n if n != 15 or not poison.exists() else 1 // 0, "long"
    ).asNondeterministic()
    feed.put(ROWS[10:20])
    asked = match(feed.frame, table, version="v").withColumn("n", fails("n"))
    with pytest.raises(Exception, match="ZeroDivision"):
        feed.run(asked)
    pinned = table.version
    assert table.pins.pinned(first.id, 1) == pinned
    table.remove("ibm")
    poison.unlink()
    feed.put(ROWS[20:])
    rows = feed.run(asked)
    assert (first.id == feed.query.id, first.runId == feed.query.runId) == (True, False)
    assert [row["v"] for row in rows] == [pinned] * 20 + [pinned + 1] * 10
    for row in rows:
        assert row["subscriptions"] == local(table, ROWS, row["v"])[row["n"]]
    assert sorted(path.name for path in table.pins.folder.iterdir()) == [str(first.id)]


def test_within_foreach_batch_a_frame_uses_the_version_of_the_micro_batch(spark, table, tmp_path):
    feed, seen = Feed(spark, tmp_path / "feed"), []
    feed.put(ROWS[:10])

    def each(frame, number):
        seen.append((number, {row["v"] for row in match(frame, table, version="v").collect()}))
        table.add(f"more {len(seen)}", "TRUE")
        if len(seen) == 1:
            raise RuntimeError("the driver stumbles")

    def run() -> None:
        writer = feed.frame.writeStream.foreachBatch(each)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    with pytest.raises(Exception, match="stumbles"):
        run()
    feed.put(ROWS[10:])
    run()
    assert seen == [(0, {2}), (0, {2}), (1, {4})]


def test_pins_do_not_pile_up(spark, table, tmp_path):
    feed = Feed(spark, tmp_path / "feed")
    for n in range(6):
        feed.put(ROWS[n : n + 1])
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    try:
        feed.run(match(feed.frame, table))
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    (pins,) = table.pins.folder.iterdir()
    assert sorted(path.name for path in pins.iterdir()) == ["3", "4", "5"]


def test_a_new_selector_may_ask_for_what_none_asked_before(spark, tmp_path):
    table = Subscriptions.create(tmp_path / "free")
    ddl = "n long, inner struct<name: string, deep: struct<x: double>>, tags array<string>"
    feed = Feed(spark, tmp_path / "feed", ddl)
    asked = match(feed.frame, table)

    def put(n: int) -> None:
        row = {"n": n, "inner": {"name": "a", "deep": {"x": 1.5}}, "tags": ["t"]}
        (tmp_path / "feed" / "in" / f"{n}.json").write_text(json.dumps(row))

    put(0)
    assert feed.run(asked)[0]["subscriptions"] == []
    table.add_many([
        ("deep", "inner.deep.x > 1"), ("name", "inner.name = 'a'"), ("other", "tags = 't'"),
        ("there", "tags IS NOT NULL AND inner IS NOT NULL"), ("absent", "nobody IS NULL"),
    ])  # fmt: skip
    put(1)
    assert feed.run(asked)[1]["subscriptions"] == ["deep", "name", "there", "absent"]


def test_bad_messages_of_a_stream_are_reported(spark, tmp_path):
    table = Subscriptions.create(tmp_path / "t", schema=SCHEMA, semantics="total")
    table.add("cheap", "price < 3", "x")
    feed = Feed(spark, tmp_path / "feed")
    feed.put(ROWS[:3])
    rows = feed.run(match(feed.frame, table, on_error="report", version="v"))
    assert [(r["subscriptions"], r["v"]) for r in rows] == [(["cheap"], 1)] * 2 + [(None, 1)]
    assert [r["_error"] is None for r in rows] == [True, True, False]
    other = Feed(spark, tmp_path / "other")
    other.put(ROWS[:3])
    sent = other.run(deliveries(other.frame, table, on_error="report"))
    assert [(r["subscription"], r["subscriber"]) for r in sent] == [("cheap", "x")] * 2 + [
        (None, None)
    ]


def test_a_table_that_workers_do_not_see(spark, table, tmp_path):
    feed = Feed(spark, tmp_path / "feed")
    feed.put(ROWS[:3])
    asked = match(feed.frame, table)
    table.path.rename(tmp_path / "gone")
    with pytest.raises(Exception, match="this worker does not see the table"):
        feed.run(asked)


def test_shards_are_for_what_does_not_change(spark, table, trades, tmp_path):
    feed = Feed(spark, tmp_path / "feed")
    with pytest.raises(InputError, match="cannot be in shards"):
        match(feed.frame, table, shards=2)
    sharded = match(trades, table, shards=2, version="v").collect()
    assert {row["n"]: row["subscriptions"] for row in sharded} == local(table, ROWS, 2)


# --- streaming equals local equals oracle ----------------------------------------------------


@pytest.mark.parametrize(("semantics", "typed"), [("sql", True), ("sql", False), ("strict", True)])
def test_any_split_and_any_changes_equal_the_oracle(spark, tmp_path, semantics, typed):
    rng = random.Random(f"table {semantics} {typed}")
    names = [name for name in st.NAMES if st.HOMES[name] is not Type.TIMESTAMP and "." not in name]
    schema = Schema(tuple(st.Attribute(name, st.HOMES[name]) for name in names))
    table = Subscriptions.create(
        tmp_path / "t", schema=schema if typed else None, semantics=semantics
    )
    kinds = {Type.INT: "long", Type.DOUBLE: "double", Type.STRING: "string", Type.BOOL: "boolean"}
    ddl = ", ".join(f"`{name}` {kinds[schema[name].type]}" for name in names) + ", row long"
    feed = Feed(spark, tmp_path / "feed", ddl, key="row")
    assert dict(schema_of(feed.frame.drop("row"))) == dict(schema)
    asked = match(feed.frame, table, version="v")
    messages: list[dict] = []
    rows = []
    for _ in range(4):
        for _ in range(rng.randrange(1, 9)):
            change(rng, table, schema, typed)
        for _ in range(rng.randrange(1, 3)):
            put(rng, feed, schema, messages)
        rows = feed.run(asked)
    assert [len(rows), len({row["v"] for row in rows}) > 2] == [len(messages), True]
    for row in rows:
        view = table.view(row["v"])
        wanted = [
            r["id"]
            for r in view.rows().to_pylist()
            if oracle.matches(
                parse(r["selector"]), messages[row["row"]], semantics, schema if typed else None
            )
        ]
        assert row["subscriptions"] == wanted
    assert any(row["subscriptions"] for row in rows)


def change(rng, table, schema, typed) -> None:
    ids = list(table)
    if ids and rng.random() < 0.3:
        table.remove(rng.choice(ids))
        return
    condition = st.random_condition(rng, schema if typed else None)
    table.replace(f"i{rng.randrange(40)}", canonical(condition))


def put(rng, feed, schema, messages) -> None:
    lines = []
    for _ in range(rng.randrange(1, 12)):
        message = st.random_message(rng, schema)
        kept = {name: schema.convert(name, oracle.attribute(name, message)) for name in schema}
        kept = {k: v for k, v in kept.items() if not isinstance(v, float) or abs(v) < 1e300}
        lines.append(json.dumps(kept | {"row": len(messages)}) + "\n")
        messages.append(kept)
    path = feed.folder / "in" / f"{feed.count:05d}.json"
    path.write_text("".join(lines), encoding="utf-8")
    feed.count += 1

"""The same calls on a stream: whatever the split into files and micro-batches, as in batch."""

from __future__ import annotations

import json
import random

import pytest

from tamis import Matcher
from tamis.spark import deliveries, match, semi

DDL = "n long, symbol string, price double"


@pytest.fixture(scope="module")
def rows():
    rng = random.Random(4)
    return [
        {"n": n, "symbol": rng.choice(["IBM", "SAP", None]), "price": rng.uniform(0, 100)}
        for n in range(200)
    ]


@pytest.fixture(scope="module")
def matcher():
    made = Matcher()
    made.add_many((f"{s} {p}", f"symbol = '{s}' AND price < {p}") for s in ("IBM", "SAP")
                  for p in (20, 50, 80))  # fmt: skip
    made.add("nameless", "symbol IS NULL")
    return made


def write(folder, rows, cuts):
    folder.mkdir()
    for i, (first, after) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        text = "".join(json.dumps(row) + "\n" for row in rows[first:after])
        (folder / f"{i}.json").write_text(text, encoding="utf-8")


def streamed(frame, name) -> list:
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return sorted(map(repr, frame.sparkSession.table(name).collect()))


@pytest.mark.parametrize("cuts", [[], [1, 70, 71, 150]])
def test_streaming_equals_batch(spark, rows, matcher, tmp_path, cuts):
    write(tmp_path / "in", rows, cuts)
    batch = spark.read.schema(DDL).json(str(tmp_path / "in"))
    reader = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1)
    stream = reader.json(str(tmp_path / "in"))
    found = streamed(match(stream, matcher), f"match{len(cuts)}")
    assert len(found) == len(rows)
    assert found == sorted(map(repr, match(batch, matcher).collect()))


def test_deliveries_of_a_stream(spark, rows, tmp_path):
    write(tmp_path / "in", rows, [100])
    table = spark.createDataFrame(
        [(1, "price < 50", "low"), (2, "symbol = 'SAP'", "sap"), (3, "oops", "none")],
        "id long, selector string, subscriber string",
    )
    batch = spark.read.schema(DDL).json(str(tmp_path / "in"))
    stream = spark.readStream.schema(DDL).json(str(tmp_path / "in"))
    found = streamed(deliveries(stream, table, on_error="report"), "deliveries")
    assert found == sorted(map(repr, deliveries(batch, table, on_error="report").collect()))
    assert sum("subscriber='low'" in row for row in found) == sum(r["price"] < 50 for r in rows)
    assert semi(stream, table, on_error="report").isStreaming

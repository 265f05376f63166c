"""Workers that cannot see the driver's files: executors of their own, and Spark Connect.

Each starts a Spark of its own, so they run when asked for: TAMIS_ELSEWHERE=1.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    "TAMIS_ELSEWHERE" not in os.environ,
    reason="takes a minute: set TAMIS_ELSEWHERE=1 to start other Sparks",
)

CLUSTER = """
from tamis.spark import session
spark = session(settings={"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"})
assert spark.sparkContext.master.startswith("local-cluster")
"""
CONNECT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect")
"""
WORK = """
import dataclasses
from tamis import Matcher
from tamis.spark import counts, deliveries, explain, match, problems, register, semi
from tamis.spark import carried_details as details
from tamis.spark.workers import shards, shipping

# No worker finds the path of the driver.
def send(*given, own=shipping.send):
    return dataclasses.replace(own(*given), path="/no/such/folder")
shipping.send = shards.send = details.send = send
matcher = Matcher()
matcher.add_many((i, f"id = {i}") for i in range(3))
numbers = spark.range(5)
found = {row["id"]: row["subscriptions"] for row in match(numbers, matcher).collect()}
assert found == {0: [0], 1: [1], 2: [2], 3: [], 4: []}, found
assert sorted(row["matches"] for row in counts(numbers, matcher).collect()) == [0, 0, 1, 1, 1]
rows = [(1, "id > 3", "A"), (2, "id > > 1", "B")]
table = spark.createDataFrame(rows, "id int, selector string, subscriber string")
sent = deliveries(numbers, table, on_error="report").collect()
assert [(row["id"], row["subscription"], row["subscriber"]) for row in sent] == [(4, 1, "A")], sent
assert [row["id"] for row in problems(numbers, table).collect()] == [2]
assert semi(numbers, table, on_error="report").count() == 1
spark.conf.set("spark.sql.shuffle.partitions", "6")
many = [(f"r{i}", f"symbol = 'S{i % 7}' AND id < {i}", f"s{i}") for i in range(50)]
many += [("rest", "id > 90", "all"), ("bad", "id > > 1", "B")]
table = spark.createDataFrame(many, "id string, selector string, subscriber string")
trades = spark.range(100).selectExpr("id", "concat('S', id % 9) symbol")
for call in (match, counts, semi, deliveries):
    one, cut = (
        sorted(map(str, call(trades, table, on_error="report", shards=n).collect())) for n in (1, 3)
    )
    assert one and one == cut, (call, one, cut)
owners = [(f"r{i}", f"id < {i}", f"o{i % 3}", i % 4) for i in range(40)]
owned = spark.createDataFrame(owners, "id string, selector string, owner string, rank int")
best = match(trades, owned, carry=["owner"], order_by="rank DESC", limit=2).collect()
wanted = {row["id"]: [(one.id, one.owner) for one in row["subscriptions"]] for row in best}
assert wanted[30] == [("r31", "o1"), ("r35", "o2")], wanted[30]
trades.createOrReplaceTempView("trades")
register(spark, "rules", owned, carry=["owner"], order_by="rank DESC", limit=2)
found = spark.sql("SELECT id, rules(struct(*)) AS found FROM trades").collect()
assert {row["id"]: [(one.id, one.owner) for one in row["found"]] for row in found} == wanted
why = explain(trades.where("id = 3"), owned, ids=["r3"]).collect()[0]["why"]
assert [(one.matches, one.fails) for one in why] == [(False, 1)], why
print("all is well")
"""


def run(code: str) -> None:
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    own = {"SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    told = subprocess.run(
        [sys.executable, "-c", code + WORK], env=os.environ | own, capture_output=True, text=True
    )
    assert told.stdout.endswith("all is well\n"), told.stderr[-3000:]


def test_executors_of_their_own():
    run(CLUSTER)


def test_connect():
    if importlib.util.find_spec("grpc") is None:
        pytest.skip(
            "Spark Connect needs grpcio, grpcio-status, googleapis-common-protos, zstandard"
        )
    run(CONNECT)

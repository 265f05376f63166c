"""The session, what is said where Java or PySpark is missing, and how files reach the workers."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from tamis import Matcher, SnapshotError, TamisError
from tamis.engine.snapshot.snapshot_store import save
from tamis.spark import match, session
from tamis.spark.spark_session import check_java
from tamis.spark.workers.shipping import _KEPT, Shipment, _matchers, opened, ship


def test_session_is_the_running_one(spark):
    assert session() is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.pythonExec == sys.executable


def test_java_knows_the_options_of_the_session_and_those_of_the_caller(spark):
    java = spark._jvm
    beans = java.java.lang.management.ManagementFactory
    kind = java.java.lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    flags = beans.getPlatformMXBean(kind)
    assert flags.getVMOption("Tier4BackEdgeThreshold").getValue() == "400000"
    assert flags.getVMOption("TieredStopAtLevel").getValue() == "1"  # of conftest.py


def test_no_java_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TamisError, match="apt-get install openjdk-17-jre-headless"):
        check_java()


def test_an_old_java_is_named(monkeypatch, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TamisError, match="java is 8"):
        check_java()


def test_no_pyspark_says_what_to_do():
    code = "import sys; sys.modules['pyspark'] = None; import tamis.spark"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'tamis[spark]'" in told.stderr


# --- shipping ------------------------------------------------------------------


def one(selector: str = "n > 1") -> Matcher:
    made = Matcher()
    made.add("it", selector)
    return made


def test_what_spark_brought_is_used_where_the_path_of_the_driver_leads_nowhere(spark):
    shipped = ship(spark, one())
    spark.sparkContext.addFile(shipped.path)
    elsewhere = Shipment("/no/such/folder/on/this/host", shipped.name)
    assert opened(elsewhere, {}).match({"n": 2}) == ["it"]


def test_a_snapshot_that_did_not_come_is_an_error_with_a_hint(spark):
    with pytest.raises(SnapshotError, match="is not available on this worker"):
        opened(Shipment("/no/such/folder/on/this/host", "never.sent"), {})


def test_a_worker_opens_each_matcher_once_and_lets_old_ones_go(spark, tmp_path):
    made = [ship(spark, one()) for _ in range(_KEPT + 1)]
    first = opened(made[0], {})
    assert opened(made[0], {}) is first
    for shipment in made[1:]:
        opened(shipment, {})
    assert made[0].name not in _matchers
    assert len(_matchers) == _KEPT


def test_a_damaged_snapshot_is_refused_on_the_driver(spark, tmp_path):
    path = tmp_path / "saved"
    save(one(), path)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(SnapshotError):
        match(spark.range(3), path)


def test_a_shipment_is_small(spark):
    made = Matcher()
    made.add_many((i, f"n = {i}") for i in range(1000))
    assert len(pickle.dumps(ship(spark, made))) < 1000
    assert isinstance(ship(spark, made), Shipment)


def test_the_same_snapshot_is_shipped_once(spark, tmp_path):
    path = tmp_path / "saved"
    save(one(), path)
    first = ship(spark, one(), path)
    assert ship(spark, one(), path) == first
    save(one("n > 2"), path)  # another file of the same name
    assert ship(spark, one("n > 2"), path) != first
    assert opened(first, {}).match({"n": 2}) == ["it"]
    asks = Matcher(lookups={"f": {1: 2}})
    assert ship(spark, asks, path) != ship(spark, asks, path)

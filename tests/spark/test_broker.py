"""Channels of a real broker on loopback as sources and sinks of a real Spark."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from server.servers import served
from tamis.cli import main
from tamis.errors import InputError
from tamis.spark import match, use_broker
from tamis.spark.broker.log_place import Place

QUOTES = {"attributes": {"symbol": "string", "price": "double", "n": "int", "at": "timestamp"}}
KILLS = int(os.environ.get("TAMIS_KILLS", "0"))  # each starts a Spark of its own


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def channel(server, request):
    """A new channel, and how to publish to it and look into it."""
    name = re.sub(r"\W", "_", request.node.name)

    class Channel:
        options = {"server": server.url, "channel": name}  # noqa: RUF012

        def make(self, told=QUOTES, name=name):
            with server.http() as http:
                http.put(f"/api/channels/{name}", json=told).raise_for_status()
            return self

        def publish(self, *rows, subject="", name=name):
            with server.http() as http:
                told = [{"subject": subject or name, "attributes": row} for row in rows]
                answer = http.post(f"/api/channels/{name}/messages", json=told)
                answer.raise_for_status()

        def log(self, name=name):
            with server.http() as http:
                text = http.get(f"/api/channels/{name}/messages").text
            return [json.loads(line) for line in text.splitlines()]

    Channel.name = name
    return Channel()


@pytest.fixture(autouse=True)
def known(spark):
    use_broker(spark)


def test_a_channel_is_a_frame(spark, channel):
    channel.make()
    channel.publish({"symbol": "IBM", "price": 95.5, "n": 1, "at": "2020-01-01T12:00:00Z"})
    channel.publish({"symbol": "é", "n": 2**53 + 1}, subject=f"{channel.name}.x")
    frame = spark.read.format("tamis").options(**channel.options).load()
    assert frame.columns == ["symbol", "price", "n", "at", "_sequence", "_time", "_subject"]
    first, second = frame.orderBy("_sequence").collect()
    assert first[:3] == ("IBM", 95.5, 1)
    assert first["at"].astimezone(UTC) == datetime(2020, 1, 1, 12, tzinfo=UTC)
    assert second[:4] == ("é", None, 2**53 + 1, None)
    assert (second["_sequence"], second["_subject"]) == (2, f"{channel.name}.x")
    some = spark.read.format("tamis").options(**channel.options, selector="price > 90").load()
    assert [row.n for row in some.collect()] == [1]
    other = spark.read.format("tamis").options(**channel.options, subjects=f"{channel.name}.*")
    assert [row.n for row in other.load().collect()] == [2**53 + 1]


def test_partitions_are_ranges_of_sequences(spark, channel):
    channel.make()
    channel.publish(*({"n": i} for i in range(25)))
    reader = spark.read.format("tamis").options(**channel.options, partition_rows="10")
    frame = reader.load()
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(row.n for row in frame.collect()) == list(range(25))


def test_a_channel_without_attributes_and_a_schema_of_ones_own(spark, channel):
    channel.make({})
    channel.publish({"a": {"b": 1.5}, "c": "x"}, {"c": 7})
    reader = spark.read.format("tamis").options(**channel.options)
    told = [json.loads(row["_attributes"]) for row in reader.load().orderBy("_sequence").collect()]
    assert told == [{"a": {"b": 1.5}, "c": "x"}, {"c": 7}]
    own = reader.schema("`a.b` float, c string, _sequence long").load().orderBy("_sequence")
    assert [tuple(row) for row in own.collect()] == [(1.5, "x", 1), (None, None, 2)]


def test_what_is_wrong_is_told(spark, channel):
    channel.make()
    for options, told in (
        ({"server": channel.options["server"]}, "needs a channel"),
        ({**channel.options, "tokn": "x"}, "has no option tokn"),
        ({**channel.options, "channel": "nothing"}, "nothing"),
        ({**channel.options, "server": "http://127.0.0.1:1"}, "127.0.0.1:1"),
    ):
        with pytest.raises(Exception, match=re.escape(told)):
            spark.read.format("tamis").options(**options).load().collect()
    frame = spark.createDataFrame([(b"x",)], "b binary")
    with pytest.raises(Exception, match="column b is binary"):
        frame.write.format("tamis").options(**channel.options).mode("append").save()


def test_rows_are_published(spark, channel):
    channel.make({})
    rows = [("x.a", 1, float("nan"), datetime(2020, 1, 1)), ("x.b", 2, 0.5, None)]
    frame = spark.createDataFrame(rows, "topic string, n int, price double, at timestamp")
    writer = frame.coalesce(1).write.format("tamis").mode("append")
    writer.options(**channel.options, subject_column="topic").save()
    found = [(m["subject"], m["attributes"]) for m in channel.log()]
    assert found[1] == ("x.b", {"n": 2, "price": 0.5})
    assert found[0] == ("x.a", {"n": 1, "at": rows[0][3].astimezone(UTC).isoformat()})


def test_a_stream_from_channel_to_channel_goes_on_from_its_checkpoint(spark, channel, tmp_path):
    out = f"{channel.name}_out"
    channel.make().make({}, out)
    rules = [("cheap", "price < 10"), ("ibm", "symbol = 'IBM'")]

    def run():
        source = spark.readStream.format("tamis").options(**channel.options, max_rows="7").load()
        found = match(source.select("symbol", "price", "n"), rules, column="rules")
        writer = found.writeStream.format("tamis").option("server", channel.options["server"])
        writer = writer.option("channel", out).option("checkpointLocation", str(tmp_path / "c"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

    channel.publish(*({"symbol": "IBM", "price": float(i), "n": i} for i in range(20)))
    run()
    channel.publish(*({"symbol": "SAP", "price": float(i), "n": i} for i in range(20, 30)))
    run()
    run()
    found = sorted((m["attributes"]["n"], m["attributes"]["rules"]) for m in channel.log(out))
    wanted = [(i, ["cheap"] * (i < 10) + ["ibm"] * (i < 20)) for i in range(30)]
    assert found == wanted


def test_trimmed_messages_are_told(spark, channel, server, tmp_path):
    channel.make()
    channel.publish(*({"n": i} for i in range(10)))
    number = next(c for c in server.parts.channels.by_name.values() if c.entry.name == channel.name)
    channel.publish({"n": 10})
    server.parts.hub.log.trim(number.entry.number, 11)
    options = {**channel.options, "start": "1"}

    def run(name, **more):
        source = spark.readStream.format("tamis").options(**options, **more).load()
        writer = source.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        writer.start().awaitTermination()

    with pytest.raises(Exception, match="messages 1 to 10 of channel "):
        run("trimmed")
    run("skipped", lost="skip")
    assert [row.n for row in spark.table("skipped").collect()] == [10]


def test_a_damaged_block_is_told_or_skipped(spark, channel, server):
    channel.make()
    for start in (0, 10, 20):
        channel.publish(*({"n": start + i} for i in range(10)))
    entry = server.parts.channels.by_name["main", channel.name].entry
    with closing(sqlite3.connect(server.parts.hub.log.path)) as db, db:
        where = (entry.number,)
        db.execute("UPDATE block SET crc = crc + 1 WHERE channel = ? AND first = 11", where)
    reader = spark.read.format("tamis").options(**channel.options)
    with pytest.raises(
        Exception, match=r"messages 11 to 20 of channel \w+ cannot be read.*checksum"
    ):
        reader.load().collect()
    sound = reader.option("lost", "skip").load().orderBy("_sequence")
    assert [row.n for row in sound.collect()] == [*range(10), *range(20, 30)]


def test_rows_that_were_refused_are_sent_again_and_stored_once(spark, channel, server):
    channel.make({})
    broker = server.parts.hub.broker
    usual, before = broker.limits, broker.busy
    broker.limits = replace(usual, pending=0)

    def recover():
        limit = time.monotonic() + 60
        while broker.busy == before and time.monotonic() < limit:
            time.sleep(0.01)
        broker.limits = usual

    thread = threading.Thread(target=recover)
    thread.start()
    writer = spark.range(50).write.format("tamis").options(**channel.options)
    writer.mode("append").save()
    thread.join()
    assert broker.busy > before
    assert sorted(m["attributes"]["id"] for m in channel.log()) == list(range(50))
    place, messages = (
        Place.of(channel.options),
        [b'{"sequence":%d,"attributes":{}}' % i for i in (1, 2)],
    )
    for some in (messages[1:], messages, messages):  # the first was refused, then sent again
        place.publish("spark/query/0", some)
    assert len(channel.log()) == 52


def test_tamis_run_from_a_channel_to_a_channel(spark, channel, tmp_path, capfd):
    out = f"{channel.name}_out"
    channel.make().make({}, out)
    channel.publish({"symbol": "IBM", "price": 1.0}, {"symbol": "SAP", "price": 99.0})
    rules = tmp_path / "rules.jsonl"
    rules.write_text('{"id": "cheap", "selector": "price < 10"}\n')
    url = f"server={channel.options['server']}"
    ends = ["--messages", channel.name, "--messages-format", "tamis", "--messages-option", url]
    ends += ["--output", out, "--output-format", "tamis", "--output-option", url]
    code = main(["run", *ends, "--subscriptions", str(rules), "--result", "semi"])
    assert code == 0, capfd.readouterr().err
    assert [m["attributes"]["symbol"] for m in channel.log(out)] == ["IBM"]
    stream = ["--stream", "--checkpoint", str(tmp_path / "c"), "--result", "semi"]
    for _ in range(2):
        assert main(["run", *ends, "--subscriptions", str(rules), *stream]) == 0
    assert len(channel.log(out)) == 2


DRIVER = """
import os, sys
from tamis.spark import use_broker
from tamis.spark import session

parent = os.getppid()
url, source, sink, folder, last = sys.argv[1:]
quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Xshare:auto"}
spark = session(cores=2, memory="1g", settings=quick)
use_broker(spark)
reader = spark.readStream.format("tamis").option("server", url).option("channel", source)
found = reader.option("partition_rows", 50).option("max_rows", 120).load().select("n", "_sequence")
writer = found.writeStream.format("tamis").option("server", url).option("channel", sink)
writer = writer.option("checkpointLocation", folder)
query = (writer.trigger(availableNow=True) if last == "last" else writer).start()
print("started", flush=True)
while os.getppid() == parent and not query.awaitTermination(1):
    pass
"""


@pytest.mark.skipif(not KILLS, reason="takes a minute: set TAMIS_KILLS=2 to kill it twice")
def test_a_query_that_is_killed_loses_nothing_and_publishes_nothing_twice(channel, tmp_path):
    out = f"{channel.name}_out"
    channel.make().make({}, out)
    wanted = 0

    def feed(count):
        nonlocal wanted
        channel.publish(*({"n": i} for i in range(wanted, wanted + count)))
        wanted += count

    def start(last):
        arguments = [channel.options["server"], channel.name, out, str(tmp_path / "c"), last]
        command = [sys.executable, "-c", DRIVER, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    for _ in range(KILLS):
        feed(500)
        driver = start("no")
        assert driver.stdout.readline() == b"started\n"
        seen, limit = len(channel.log(out)), time.monotonic() + 120
        while len(channel.log(out)) == seen and time.monotonic() < limit:
            feed(40)
            time.sleep(0.05)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        driver.stdout.close()
    driver = start("last")
    driver.communicate(timeout=240)
    assert driver.returncode == 0
    found = [m["attributes"]["n"] for m in channel.log(out)]
    assert sorted(found) == list(range(wanted))


def test_options_of_columns(spark, channel):
    from pyspark.sql import types

    from tamis.spark.broker.log_source import Reading
    from tamis.spark.broker.sink import StreamSink

    place = Place.of(channel.options)
    with pytest.raises(InputError, match="column _sequence is of type bigint"):
        Reading.of(place, {}, types.StructType().add("_sequence", "string"))
    with pytest.raises(InputError, match="partition_rows is a number from 1 on"):
        Reading.of(place, {"partition_rows": "0"}, types.StructType())
    with pytest.raises(InputError, match="lost is raise or skip"):
        Reading.of(place, {"lost": "maybe"}, types.StructType())
    with pytest.raises(InputError, match="cannot be overwritten"):
        StreamSink(place, {}, types.StructType(), True)
    with pytest.raises(InputError, match="no column topic"):
        StreamSink(place, {"subject_column": "topic"}, types.StructType(), False)
    reading = Reading.of(place, {"partition_rows": "10"}, types.StructType())
    assert [(r.first, r.before) for r in reading.ranges(7, 31)] == [
        (7, 10),
        (10, 20),
        (20, 30),
        (30, 31),
    ]
    assert reading.ranges(5, 5) == []

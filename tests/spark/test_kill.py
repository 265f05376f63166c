"""A streaming driver is killed, again and again, while another process changes subscriptions.

In the end the sink must hold what a run without any crash would have written: each message once,
each micro-batch matched at one version, and each row with what that version says.

One kill by default; TAMIS_KILLS=20 for twenty.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path

import pytest

from killing import KILLS, QUICK, finished, kill, start, started, unfinished
from tamis import Matcher, Schema
from tamis.table import Subscriptions

FILES, ROWS = 8 + 4 * KILLS, 40
SCHEMA = Schema.of(n=int, file=int, symbol=str, price=float)
DDL = "n long, file long, symbol string, price double"

DRIVER = f"""
import os, sys
from tamis.spark import Subscriptions, match
from tamis.spark import session

parent = os.getppid()
folder, last = sys.argv[1], sys.argv[2] == "last"
spark = session(cores=2, memory="1g", settings={QUICK})
reader = spark.readStream.schema("{DDL}").option("maxFilesPerTrigger", 1)
messages = reader.json(folder + "/in").repartition(3)
found = match(messages, Subscriptions.open(folder + "/table"), version="version")
writer = found.writeStream.format("parquet").option("path", folder + "/out")
writer = writer.option("checkpointLocation", folder + "/checkpoint")
query = (writer.trigger(availableNow=True) if last else writer).start()
print(query.id, query.runId, flush=True)
while os.getppid() == parent and not query.awaitTermination(1):
    pass
print("done", flush=True)
"""

CHANGER = """
import os, sys, time
from tamis.table import subscriptions as module
from tamis.table import Subscriptions
import test_kill

module._DUE = 150  # compiles the table every few seconds
table = Subscriptions.open(sys.argv[1])
parent = os.getppid()
while os.getppid() == parent:
    number = table.version + 1
    test_kill.change(table, number)
    time.sleep(0.03)
"""


# --- subscriptions as they are at each version ---------------------------------------------


def step(number: int) -> tuple[str, str | None]:
    """Which subscription version `number` changes, and to what; None: it goes."""
    rng = random.Random(number)
    id = f"i{rng.randrange(25)}"
    if rng.random() < 0.2:
        return id, None
    return id, f"symbol = 'S{rng.randrange(5)}' AND price < {rng.randrange(100)}"


def change(table: Subscriptions, number: int) -> None:
    id, selector = step(number)
    if selector is not None:
        assert table.replace(id, selector) == number
    elif id in table:
        assert table.remove(id) == number
    else:
        assert table.replace(id, "FALSE") == number


def states(last: int) -> list[dict[str, str]]:
    """The subscriptions of every version, worked out without the table."""
    found: list[dict[str, str]] = [{}]
    for number in range(1, last + 1):
        now = dict(found[-1])
        id, selector = step(number)
        known = now.pop(id, None)
        if selector is not None or known is None:
            now[id] = selector or "FALSE"
        found.append(now)
    return found


# --- messages --------------------------------------------------------------------------------


def messages(file: int) -> list[dict]:
    rng = random.Random(-file - 1)
    return [
        {"n": file * ROWS + i, "file": file, "symbol": f"S{rng.randrange(5)}",
         "price": rng.uniform(0, 100)}
        for i in range(ROWS)
    ]  # fmt: skip


def feed(folder: Path, files: range) -> None:
    for file in files:
        staged = folder / "staged"
        staged.write_text("".join(json.dumps(row) + "\n" for row in messages(file)))
        staged.rename(folder / "in" / f"{file:05d}.json")
        time.sleep(0.1)


def run_and_kill(folder: Path, rng: random.Random) -> tuple[str, bool]:
    """The ids of the query and of its run, and whether a batch was under way."""
    with started(DRIVER, folder, "on") as ids:
        time.sleep(rng.uniform(0.3, 4.0))
    return ids, unfinished(folder)


# --- the test ------------------------------------------------------------------------------------


def test_no_row_is_lost_or_twice_or_of_another_version(spark, tmp_path):
    (tmp_path / "in").mkdir()
    table = Subscriptions.create(tmp_path / "table", schema=SCHEMA)
    change(table, 1)
    rng = random.Random(os.environ.get("TAMIS_SEED", "kill"))
    feeding = threading.Thread(target=feed, args=(tmp_path, range(FILES)))
    changer = start(CHANGER, tmp_path / "table", paths=(str(Path(__file__).parent),))
    feeding.start()
    try:
        runs = [run_and_kill(tmp_path, rng) for _ in range(KILLS)]
        feeding.join()
        told = finished(DRIVER, tmp_path, "last")
    finally:
        feeding.join()
        assert changer.poll() is None, changer.communicate()[1]
        kill(changer)
    ids = [line.split()[:2] for line in [*(ids for ids, _ in runs), told]]
    assert [len(set(kind)) for kind in zip(*ids, strict=True)] == [1, KILLS + 1]
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    used = check(found, table)
    present = table.versions.present()
    print(
        f"{KILLS} kills, {sum(midway for _, midway in runs)} within a micro-batch; {FILES} batches"
        f" of {len(used)} versions; {present.newest} versions, kept from {present.oldest} on"
    )
    if KILLS >= 10:
        assert any(midway for _, midway in runs)


def check(found: list, table: Subscriptions) -> set[int]:
    """Every row is there once, and is what its version says; the versions that were used."""
    numbers = sorted(row["n"] for row in found)
    assert numbers == list(range(FILES * ROWS))
    by_file: dict[int, set[int]] = {}
    for row in found:
        by_file.setdefault(row["file"], set()).add(row["version"])
    assert all(len(versions) == 1 for versions in by_file.values())
    versions = [by_file[file].pop() for file in range(FILES)]
    assert versions == sorted(versions)
    assert len(set(versions)) > KILLS
    known = states(table.version)
    assert {id: said for id in table for said in [table[id][0]]} == known[-1]
    given = {row["n"]: row for file in range(FILES) for row in messages(file)}
    for version in set(versions):
        expected(known[version], [r for r in found if r["version"] == version], given)
    return set(versions)


def expected(subscriptions: dict[str, str], rows: list, given: dict[int, dict]) -> None:
    matcher = Matcher(SCHEMA)
    matcher.add_many(subscriptions.items())
    for row in rows:
        message = given[row["n"]]
        assert (row["symbol"], row["price"]) == (message["symbol"], message["price"])
        assert row["subscriptions"] == matcher.match(message)


def test_the_changes_of_the_test_are_what_it_thinks(tmp_path):
    table = Subscriptions.create(tmp_path / "table", schema=SCHEMA)
    for number in range(1, 60):
        change(table, number)
    assert list(table.matcher(40)) == list(states(60)[40])
    with pytest.raises(AssertionError):
        change(table, 59)

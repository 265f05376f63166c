"""A driver that follows a stream of ticks is killed, again and again.

In the end the states are those of plain Python, every event was counted once, and the events in
the sink lead, batch by batch, from the first state to the last.

One kill by default; TAMIS_KILLS=20 for twenty.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path

from flow.states.examples import QUOTE, collapsed
from killing import KILLS, QUICK, finished, started, unfinished, wait_for_a_batch
from tamis.flow.states import States, collapse
from tamis.flow.states.batches.state_store import StateFiles

FILES, ROWS = 8 + 4 * KILLS, 40
DRIVER = f"""
import os, sys
from tamis.flow import check, parse_flow
from tamis.spark import session
from tamis.spark.states import StatefulFlow

parent = os.getppid()
folder, last = sys.argv[1], sys.argv[2] == "last"
spark = session(cores=2, memory="1g", settings={QUICK})
reader = spark.readStream.schema("issue string, price double, seq long")
ticks = reader.option("maxFilesPerTrigger", 1).json(folder + "/in")
flow = StatefulFlow(
    check(parse_flow(open(folder + "/ticks.flow").read())), folder + "/flow",
    {{"Low": folder + "/low"}}, buckets=3,
)
trigger = {{"availableNow": True}} if last else {{}}
query = flow.start({{"Ticks": ticks}}, folder + "/checkpoint", **trigger)
print("on", flush=True)
while os.getppid() == parent and not query.awaitTermination(1):
    pass
print("done", flush=True)
"""
FLOW = """
space Ticks(issue: string, price: double, seq: int) where price > 0
state Quote keyed by issue from Ticks ordered by seq (max: double := 0, cur: double := 0)
  rule price > max => max := price, cur := price
  rule             => cur := price
expand Quote -> QuietTicks as Ticks
Ticks -> Low : select price < 100
"""


def ticks(file: int) -> list[dict]:
    rng = random.Random(-file - 1)
    return [
        {
            "issue": f"S{rng.randrange(9)}",
            "price": rng.randrange(1, 400) / 2,
            "seq": file * ROWS + i,
        }
        for i in range(ROWS)
    ]


def feed(folder: Path) -> None:
    for file in range(FILES):
        staged = folder / "staged"
        staged.write_text("".join(json.dumps(row) + "\n" for row in ticks(file)))
        staged.rename(folder / "in" / f"{file:05d}.json")
        time.sleep(0.1)


def run_and_kill(folder: Path, rng: random.Random) -> bool:
    """Kill some time after its first batch; whether another was under way then."""
    with started(DRIVER, folder, "on"):
        wait_for_a_batch(folder)
        time.sleep(rng.uniform(0.0, 3.0))
    return unfinished(folder)


def test_nothing_is_lost_and_nothing_is_twice(spark, tmp_path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "ticks.flow").write_text(FLOW)
    rng = random.Random(os.environ.get("TAMIS_SEED", "states"))
    feeding = threading.Thread(target=feed, args=(tmp_path,))
    feeding.start()
    try:
        midway = [run_and_kill(tmp_path, rng) for _ in range(KILLS)]
    finally:
        feeding.join()
    finished(DRIVER, tmp_path, "last")
    assert KILLS < 10 or any(midway)
    print(f"{KILLS} kills, {sum(midway)} of them within a micro-batch; {FILES} batches")
    rows = [row for file in range(FILES) for row in ticks(file)]
    check_states(tmp_path, rows)
    check_sinks(spark, tmp_path, rows)


def check_states(folder: Path, rows: list[dict]) -> None:
    table, counters = StateFiles(str(folder / "flow/states/Quote")).read(QUOTE)
    assert States.from_table(QUOTE, table).rows == collapsed(QUOTE, rows)
    assert (counters.events, counters.late) == (len(rows), 0)


def check_sinks(spark, folder: Path, rows: list[dict]) -> None:
    from tamis.spark.states.state_streams import emitted

    low = sorted(r["seq"] for r in spark.read.parquet(str(folder / "low")).collect())
    assert low == [r["seq"] for r in rows if r["price"] < 100]
    quiet = [r.asDict() for r in emitted(spark, str(folder / "flow/events/QuietTicks")).collect()]
    _, counters = StateFiles(str(folder / "flow/states/Quote")).read(QUOTE)
    assert len(quiet) == counters.emitted
    states, last = States(QUOTE), -1
    for batch, last in enumerate(last_files(folder)):
        sent = [{n: r[n] for n in QUOTE.events} for r in quiet if r["batch"] == batch]
        states = collapse(sent, QUOTE, states)
        seen = [row for row in rows if row["seq"] < (last + 1) * ROWS]
        assert states.rows == collapsed(QUOTE, seen), batch
    assert last == FILES - 1


def last_files(folder: Path) -> list[int]:
    """The last file of each micro-batch. A kill between the two logs of Spark, of files and of
    offsets, gives the next micro-batch two files."""
    offsets = sorted(
        (folder / "checkpoint/offsets").glob("[0-9]*"), key=lambda path: int(path.name)
    )
    return [json.loads(path.read_text().splitlines()[-1])["logOffset"] for path in offsets]

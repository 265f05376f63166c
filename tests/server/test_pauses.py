"""The longest pause of the event loop: measured, named in the log, and told in /metrics."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

from server.servers import served
from tamis.server import pauses
from tamis.server.pauses import Pauses


def watched(hold):
    """The pauses of a loop in which `hold` ran once."""

    async def main():
        found = Pauses()
        found.start()
        await asyncio.sleep(0.02)
        hold()
        await asyncio.sleep(0.02)
        found.stop()
        return found

    return asyncio.run(main())


def test_a_pause_is_measured_and_the_code_that_made_it_is_named(caplog):
    before = threading.active_count()
    with caplog.at_level(logging.WARNING):
        found = watched(lambda: time.sleep(0.3))
    assert 0.28 < found.longest == found.last_minute(time.monotonic())
    assert "held for" in caplog.text
    assert "test_pauses.py" in caplog.text
    assert threading.active_count() == before


def test_the_last_minute_forgets_what_was_longer_before():
    found = Pauses()
    for now, pause in [(0, 0.04), (10, 0.01), (30, 0.02), (50, 0.005)]:
        found.note(float(now), pause)
    assert found.longest == 0.04
    assert [found.last_minute(float(now)) for now in (50, 65, 95, 120)] == [0.04, 0.02, 0.005, 0.0]


def test_metrics_tell_the_longest_pause_and_a_histogram(tmp_path):
    with served(tmp_path) as server, server.http() as http:
        held = threading.Event()
        loop = server.parts.hub.loop
        loop.call_soon_threadsafe(lambda: (time.sleep(0.12), loop.call_later(0.05, held.set)))
        assert held.wait(20)
        rows = [line.split() for line in http.get("/metrics").text.splitlines()]
    values = {row[0]: float(row[1]) for row in rows if row[0] != "#"}
    assert values["tamis_loop_longest_pause_seconds"] > 0.1
    assert values["tamis_loop_longest_pause_minute_seconds"] > 0.1
    buckets = [values[f'tamis_loop_pause_seconds_bucket{{le="{b}"}}'] for b in pauses._BOUNDS]
    assert buckets == sorted(buckets)
    assert (
        values['tamis_loop_pause_seconds_bucket{le="0.1"}']
        < values["tamis_loop_pause_seconds_count"]
    )

"""The hub as it stops: whoever comes late is told so, and nothing breaks."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from server.servers import hub_at
from tamis.errors import LogError


def test_who_comes_while_it_stops_is_refused(tmp_path, caplog):
    """Connections may still come to their end while the files are closed."""

    async def main():
        hub, late = hub_at(tmp_path), []
        hub.start()

        async def connection(pool):
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0)
                try:
                    await pool(lambda: None)
                except LogError as error:
                    late.append(error)
                hub.keep(pool(lambda: None))

        for pool in (hub.in_registry, hub.in_reader, hub.in_writer):
            hub.keep(connection(pool))
        await asyncio.sleep(0)
        await hub.stop()
        assert [str(error) for error in late] == ["the broker stops"] * 3
        with pytest.raises(LogError):
            await hub.in_reader(lambda: None)
        assert hub.keep(hub.in_reader(lambda: None)).cancelled()
        return asyncio.all_tasks()

    with caplog.at_level(logging.WARNING):
        assert len(asyncio.run(main())) == 1
    assert caplog.text == ""


def test_acknowledged_is_written_however_slow_the_audit_before_it_is(tmp_path):
    """A flush that has taken the cursors is waited for, not cut off."""
    written = {}

    async def main():
        hub = hub_at(tmp_path)
        begun = asyncio.Event()

        def slowly(*entries):
            hub.loop.call_soon_threadsafe(begun.set)
            time.sleep(0.2)

        hub.registry.audit, hub.registry.put_cursors = slowly, written.update
        hub.audits.append(None)
        hub.broker.cursors[1, "mine"] = 7
        hub.start()
        await begun.wait()
        await hub.stop()

    asyncio.run(main())
    assert written == {(1, "mine"): 7}

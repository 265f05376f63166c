"""Cursors move over messages that were not wanted, without an acknowledgement."""

from __future__ import annotations

import asyncio

import pytest

from server.servers import QUOTES, served
from tamis.client import Agent


def publish(http, count, price=1.0):
    rows = [{"attributes": {"price": price, "symbol": "x"}} for _ in range(count)]
    assert http.post("/api/channels/quotes/messages", json=rows).status_code == 200


def shown(http):
    return http.get("/api/channels/quotes/subscriptions/mine").json()


def run(server, work):
    return asyncio.run_coroutine_threadsafe(work, server.parts.hub.loop).result(20)


def trim_all(server):
    live = next(iter(server.parts.channels.by_number.values())).live

    async def work():
        await server.parts.hub.settle_before_trim(live, live.next)
        await server.parts.hub.in_writer(server.parts.hub.log.trim, live.number, live.next)

    run(server, work())


def test_who_did_not_want_ten_thousand_messages_has_no_lag_and_lost_nothing(tmp_path):
    with served(tmp_path) as server, server.http() as http, Agent(server.url) as agent:
        agent.put_channel("quotes", QUOTES)
        mine = agent.subscribe("quotes", "price > 10", durable="mine")
        for _ in range(10):
            publish(http, 1_000)
        assert (shown(http)["lag"], shown(http)["cursor"]) == (0, 10_000)
        slowest = http.get("/api/subscribers").json()["subscribers"]
        assert [one["lag"] for one in slowest] == [0]
        trim_all(server)
        mine.end()
        assert shown(http)["cursor"] == 10_000
    with served(tmp_path) as server, server.http() as http, Agent(server.url) as agent:
        assert shown(http)["lag"] == 0
        mine = agent.subscribe("quotes", "price > 10", durable="mine")
        publish(http, 1, price=11.0)
        assert mine.get(5).sequence == 10_001
        assert mine.lost == []


def test_what_is_not_acknowledged_holds_the_cursor(tmp_path):
    with served(tmp_path) as server, server.http() as http, Agent(server.url) as agent:
        agent.put_channel("quotes", QUOTES)
        mine = agent.subscribe("quotes", "price > 10", durable="mine")
        publish(http, 5)
        publish(http, 1, price=11.0)
        publish(http, 5)
        message = mine.get(5)
        assert (message.sequence, shown(http)["cursor"]) == (6, 5)
        mine.acknowledge(message)
        publish(http, 5)
        assert shown(http)["lag"] == 0


@pytest.mark.parametrize("away", [False, True])
def test_a_loss_is_told_once(tmp_path, away):
    with served(tmp_path) as server, server.http() as http, Agent(server.url) as agent:
        agent.put_channel("quotes", QUOTES)
        mine = agent.subscribe("quotes", "price > 10", durable="mine")
        mine.end()
        publish(http, 10)
        trim_all(server)
        mine = agent.subscribe("quotes", "price > 10", durable="mine")
        publish(http, 10)
        publish(http, 1, price=11.0)
        mine.acknowledge(mine.get(5))
        assert [(one.first, one.last) for one in mine.lost] == [(1, 10)]
        if away:
            trim_all(server)
            mine.end()
            mine = agent.subscribe("quotes", "price > 10", durable="mine")
            publish(http, 1, price=12.0)
            assert mine.get(5).sequence == 22
            assert mine.lost == []

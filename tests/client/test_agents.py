"""Agents against a real server: publish, subscribe, disconnect, catch up."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from server.servers import QUOTES, served
from tamis.client import Agent, AsyncAgent
from tamis.errors import BusyError, SubscriptionError, TamisError
from tamis.server.process.serve import Address


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def agent(server):
    with Agent(server.url) as made:
        yield made


@pytest.fixture
def channel(agent, request):
    agent.put_channel(request.node.name, QUOTES)
    return request.node.name


def prices(messages, count):
    return [messages.get(30).attributes["price"] for _ in range(count)]


def test_a_subscriber_gets_what_it_asked_for(agent, channel):
    cheap = agent.subscribe(channel, "price < 10")
    ibm = agent.subscribe(channel, "symbol = 'IBM'", subjects="nyse.>")
    agent.publish(channel, {"symbol": "IBM", "price": 5.0}, subject="nyse.stocks")
    agent.publish(channel, {"symbol": "IBM", "price": 50.0}, subject="nyse.stocks")
    agent.publish(channel, {"symbol": "IBM", "price": 7.0}, subject="ldn")
    assert prices(cheap, 2) == [5.0, 7.0]
    assert prices(ibm, 2) == [5.0, 50.0]
    with pytest.raises(TimeoutError):
        cheap.get(0.05)


def test_by_callback(agent, channel):
    found, enough = [], threading.Event()

    def callback(message):
        found.append(message.attributes["price"])
        if len(found) == 3:
            enough.set()

    agent.subscribe(channel, "price > 1", callback=callback)
    many = [{"attributes": {"price": float(i)}} for i in range(5)]
    agent.publish_many(channel, many)
    assert enough.wait(10)
    assert found == [2.0, 3.0, 4.0]


def test_from_the_beginning_from_a_sequence_and_from_a_time(agent, channel):
    agent.publish_many(channel, [{"attributes": {"price": float(i)}} for i in range(5)])
    assert prices(agent.subscribe(channel, start="all"), 5) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert prices(agent.subscribe(channel, "price > 1", start=4), 2) == [3.0, 4.0]
    assert prices(agent.subscribe(channel, start="2020-01-01"), 5)[0] == 0.0


def test_a_durable_subscriber_catches_up(server, agent, channel):
    with Agent(server.url) as reader:
        messages = reader.subscribe(channel, "price > 0", durable="mine")
        agent.publish(channel, {"price": 1.0})
        agent.publish(channel, {"price": 2.0})
        messages.acknowledge(messages.get(30))
        time.sleep(0.1)
    agent.publish_many(channel, [{"attributes": {"price": float(i)}} for i in (3, 0, 4)])
    with Agent(server.url) as reader:
        messages = reader.subscribe(channel, "price > 0", durable="mine")
        assert prices(messages, 3) == [2.0, 3.0, 4.0]
        agent.publish(channel, {"price": 5.0})
        assert prices(messages, 1) == [5.0]
        messages.remove()
    assert "mine" not in str(agent.call("GET", f"/api/channels/{channel}/subscriptions"))


@contextmanager
def busy(server):
    """No message may wait for the disk: all are refused."""
    broker = server.parts.hub.broker
    usual, broker.limits = broker.limits, replace(broker.limits, pending=0)
    try:
        yield
    finally:
        broker.limits = usual


def test_a_number_that_was_refused_is_stored_after_its_successor(server, agent, channel):
    def publish(number):
        message = {"attributes": {"price": float(number)}, "sequence": number}
        return agent.publish_many(channel, [message], publisher="me")

    messages = agent.subscribe(channel)
    with busy(server), server.http() as http:
        with pytest.raises(BusyError):
            publish(1)
        answer = http.post(f"/api/channels/{channel}/messages", json={"attributes": {}})
        assert answer.status_code == 429
    assert [publish(number) for number in (2, 1, 2, 1)] == [[1], [2], [0], [0]]
    assert prices(messages, 2) == [2.0, 1.0]


def test_messages_that_were_refused_among_others_can_be_sent_again(server, channel):
    async def main():
        async with AsyncAgent(server.url) as agent:
            messages = await agent.subscribe(channel)
            await agent.publish(channel, {"price": 0.0})
            with busy(server):
                work = [agent.publish(channel, {"price": float(i)}) for i in (1, 2)]
                for refused in await asyncio.gather(*work, return_exceptions=True):
                    assert isinstance(refused, BusyError)
            for price in (3.0, 2.0, 1.0):
                await agent.publish(channel, {"price": price})
            return [(await messages.get(30)).attributes["price"] for _ in range(4)]

    assert asyncio.run(main()) == [0.0, 3.0, 2.0, 1.0]


def test_a_filter_that_changes_judges_what_comes_later(server, agent, channel):
    with Agent(server.url) as reader:
        reader.subscribe(channel, "price > 10", durable="mine")
    agent.publish_many(channel, [{"attributes": {"price": float(i)}} for i in (5, 20)])
    with Agent(server.url) as reader:
        messages = reader.subscribe(channel, "price < 10", durable="mine")
        agent.publish_many(channel, [{"attributes": {"price": float(i)}} for i in (6, 30)])
        assert prices(messages, 2) == [20.0, 6.0]


def test_another_agent_takes_a_durable_subscription_over(server, agent, channel):
    first = agent.subscribe(channel, durable="mine")
    with Agent(server.url) as other:
        second = other.subscribe(channel, durable="mine")
        with pytest.raises(TamisError, match="took it over"):
            first.get(30)
        agent.publish(channel, {"price": 1.0})
        assert prices(second, 1) == [1.0]


def test_errors_come_back(agent, channel):
    with pytest.raises(TamisError, match="ends too early"):
        agent.subscribe(channel, "price >")
    with pytest.raises(TamisError, match="no channel"):
        agent.publish("nowhere", {})
    with pytest.raises(TamisError, match="price"):
        agent.publish(channel, {"price": "cheap"})


def test_errors_have_the_status_of_the_broker(agent):
    """Also over WebSocket, and whatever the words of the error are."""
    for name in ("nowhere", "try again", "already"):
        for ask in (agent.channel, agent.subscribe):
            with pytest.raises(TamisError) as caught:
                ask(name)
            assert (caught.value.status, type(caught.value)) == (404, TamisError)


def test_a_server_that_comes_back_is_found_again(tmp_path):
    from server.servers import served as serve
    from tamis.server.process.serve import Address

    with serve(tmp_path) as first:
        port = first.found.http
        agent = Agent(first.url)
        agent.put_channel("quotes", QUOTES)
        messages = agent.subscribe("quotes", "price > 0")
        agent.publish("quotes", {"price": 1.0})
        assert prices(messages, 1) == [1.0]
    with serve(tmp_path, http=Address("127.0.0.1", port)):
        agent.publish("quotes", {"price": 2.0})
        agent.publish("quotes", {"price": 3.0})
        assert prices(messages, 2) == [2.0, 3.0]
        assert len(agent.history) >= 3
        agent.close()


def test_with_asyncio(server, channel):
    async def main():
        async with AsyncAgent(server.url) as agent:
            messages = await agent.subscribe(channel, "price > 2")
            for i in range(5):
                await agent.publish(channel, {"price": float(i)})
            return [(await messages.get()).attributes["price"] for _ in range(2)]

    assert asyncio.run(main()) == [3.0, 4.0]


def test_a_slow_reader_leaves_the_live_path_and_loses_nothing(server, agent, channel):
    slow = agent.subscribe(channel)  # a batch of 4,000 is more than its room of 2,000
    count = 12_000
    with Agent(server.url) as publisher:
        for first in range(0, count, 4_000):
            many = [{"attributes": {"volume": first + i}} for i in range(4_000)]
            publisher.publish_many(channel, many)
    got = [slow.get(30).attributes["volume"] for _ in range(count)]
    assert got == list(range(count))


def test_a_subscription_that_is_refused_when_it_resumes_says_so(tmp_path):
    """Before, its reader waited for ever."""
    with served(tmp_path / "first") as first:
        port = first.found.http
        agent = Agent(first.url)
        agent.put_channel("quotes", QUOTES)
        messages = agent.subscribe("quotes", "price > 0", durable="mine")
    with served(tmp_path / "empty", http=Address("127.0.0.1", port)):
        for _ in range(2):  # and says it again
            with pytest.raises(SubscriptionError, match="quotes"):
                messages.get(20)
        agent.close()


def test_a_callback_that_raises_ends_the_agent_with_words(server, channel):
    def count(message):
        raise KeyError("volume")

    with Agent(server.url) as agent, Agent(server.url) as other:
        agent.subscribe(channel, callback=count)
        kept = agent.subscribe(channel, durable="beside")
        other.publish(channel, {"price": 1.0})
        with pytest.raises(TamisError, match="the agent stopped: KeyError: 'volume'"):
            list(kept)
        with pytest.raises(TamisError, match="the agent stopped"):
            agent.publish(channel, {"price": 2.0})

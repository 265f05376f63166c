"""Every call of an agent ends: with an answer, a refusal before sending, or a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import math
import socket
import threading
import types

import pytest
from websockets.sync.client import connect

from server.servers import QUOTES, served
from tamis.client import Agent, AsyncAgent
from tamis.client.mirror import Mirror
from tamis.client.requests import MAX_REQUEST
from tamis.errors import (
    ClosedError,
    DeadlineError,
    InputError,
    MessageError,
    TamisError,
    UnreachableError,
)
from tamis.server.process.serve import MAX_FRAME, Address

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def agent(server):
    with Agent(server.url, timeout=20) as made:
        yield made


@pytest.fixture
def channel(agent):
    agent.put_channel("quotes", QUOTES)
    return "quotes"


@contextlib.contextmanager
def listening(answer: bytes | None):
    """A port that accepts; it sends `answer` and closes, or (None) says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        held: list[socket.socket] = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = door.accept()
                    held.append(peer)
                    if answer is not None:
                        peer.recv(4096)
                        peer.sendall(answer)
                        peer.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{door.getsockname()[1]}"
        door.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        for peer in held:
            peer.close()


# --- refused before they are sent --------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "price is nan"),
        (math.inf, "price is inf"),
        ([1.0, -math.inf], "price is -inf"),
        ({"deep": {"er": math.nan}}, "price.deep.er is nan"),
        (datetime.datetime(2026, 1, 1), r"isoformat\(\)"),
        (b"x", "has type bytes"),
        ({1, 2}, "has type set"),
        ({5: 1}, "names must be text, not 5"),
    ],
)
def test_values_that_json_cannot_hold(agent, channel, value, words):
    with pytest.raises(MessageError, match=words):
        agent.publish(channel, {"price": value})
    good = {"attributes": {"price": 1.0}}
    with pytest.raises(MessageError, match="message 2: ") as caught:
        agent.publish_many(channel, [good, {"attributes": {"price": value}}])
    assert caught.value.message == 2


def test_a_form_that_json_cannot_hold(agent):
    with pytest.raises(InputError, match="retention is nan"):
        agent.put_channel("other", {"retention": math.nan})


def test_a_value_that_holds_itself(agent, channel):
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(MessageError, match="nested deeper"):
        agent.publish(channel, {"price": endless})


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"price": 1.0}], "message 1: it has no 'attributes'"),
        ([{"attributes": {}}, {"attributes": {}, "price": 1}], "message 2: 'price' is not one of"),
        ([{"attributes": [1]}], "has no 'attributes'"),
        ([{"attributes": {}, "subject": 5}], "subject must be text"),
        ([{"attributes": {}, "id": 5}], "id must be text"),
        ([{"attributes": {}, "sequence": 1.5}], "sequence must be"),
        ([None], "must be a mapping"),
        ({"attributes": {}}, "takes a list"),
        ("text", "takes a list"),
        (None, "takes a list"),
    ],
)
def test_messages_of_another_form(agent, channel, messages, words):
    with pytest.raises(TamisError, match=words):
        agent.publish_many(channel, messages, publisher="p")


def test_an_id_of_the_publisher_is_taken(agent, channel):
    message = {"attributes": {"price": 1.0}, "id": "order-1"}
    (first,) = agent.publish_many(channel, [message], publisher="p")
    assert first
    assert agent.publish_many(channel, [message], publisher="p") == [first]


def test_mappings_that_are_not_dicts_are_messages(agent, channel):
    proxy = types.MappingProxyType({"price": 5.0, "volume": 2})
    found = agent.subscribe(channel, "price = 5")
    agent.publish(channel, proxy)
    assert found.get(20).attributes["volume"] == 2
    found.end()


@pytest.mark.parametrize(
    "arguments",
    [
        {"selector": None},
        {"subjects": 5},
        {"start": 1.5},
        {"start": True},
        {"start": None},
        {"durable": 7},
        {"window": "many"},
        {"window": -1},
        {"summary": None},
        {"catch_up": "some"},
        {"callback": "print"},
    ],
)
def test_subscriptions_of_another_form(agent, channel, arguments):
    with pytest.raises(InputError, match=f"{next(iter(arguments))} must be"):
        agent.subscribe(channel, **arguments)


def test_names_that_are_not_text(agent):
    for call in (
        lambda: agent.publish(None, {}),
        lambda: agent.subscribe(5),
        lambda: agent.channel(None),
        lambda: agent.call("GET", None),
        lambda: agent.call("GET", "api"),
    ):
        with pytest.raises(InputError, match="must"):
            call()


def test_a_request_that_no_broker_takes(agent, channel):
    assert MAX_REQUEST == MAX_FRAME
    with pytest.raises(MessageError, match="more than the 16,777,216"):
        agent.publish(channel, {"symbol": "x" * (20 << 20)})


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, "1", None, True])
def test_a_timeout_is_a_positive_number(timeout):
    with pytest.raises(InputError, match="timeout must be"):
        Agent("http://127.0.0.1:1", timeout=timeout)


# --- answers to requests that cannot be read --------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "publish", "channel": "quotes", "messages": [{"attributes": {"a": NaN}}], '
        '"request": 7}',
        '{"type": "publish", "request": 7, "messages": [{"attributes": {"request": Infinity}}]}',
        '{"request":7,"type":"publish","messages":[1,}',
        '{"type": "publish", "channel": "quotes", "messages": [{"price": 1}], "request": 7}',
        '{"type": "subscribe", "channel": "quotes", "name": "n", "start": 1.5, "request": 7}',
        '{"type": "subscribe", "channel": "quotes", "name": "n", "selector": null, "request": 7}',
        '{"type": "fly", "request": 7}',
        '{"request": 7}',
    ],
)
def test_the_answer_to_an_unreadable_request_has_its_number(server, text):
    with connect(f"{server.url.replace('http', 'ws')}/ws") as raw:
        raw.send(text)
        answer = raw.recv(20)
    assert '"type":"error","request":7,' in answer


@pytest.mark.parametrize("text", ["", "{", '{"request": "7"}', '["request", 7]', '{"request": 1.5}',
                                  '{"a": {"request": 7}, "b": NaN}'])  # fmt: skip
def test_a_number_that_is_not_there_is_not_made_up(server, text):
    with connect(f"{server.url.replace('http', 'ws')}/ws") as raw:
        raw.send(text)
        assert '"type":"error","request":0,' in raw.recv(20)


def test_a_broker_with_a_lower_limit_closes_and_the_request_fails():
    """It would be sent again and again."""
    from websockets.sync.server import serve

    def answer(peer):
        import json

        for text in peer:
            number = json.loads(text)["request"]
            peer.send(json.dumps({"type": "published", "request": number, "sequences": [1]}))

    with serve(answer, "127.0.0.1", 0, max_size=5_000) as small:
        thread = threading.Thread(target=small.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{small.socket.getsockname()[1]}"
        with Agent(url, timeout=20) as agent:
            assert agent.publish("quotes", {"a": 1}) == 1
            with pytest.raises(MessageError, match="more than the broker takes"):
                agent.publish("quotes", {"a": "x" * 10_000})
            assert agent.publish("quotes", {"a": 1}) == 1  # it is connected again
        small.shutdown()
        thread.join(10)


# --- deadlines ---------------------------------------------------------------------------


def test_a_broker_that_never_answers_the_handshake():
    with listening(None) as place, Agent(f"http://{place}", timeout=0.3) as agent:
        for call in (
            lambda: agent.publish("quotes", {"price": 1.0}),
            lambda: agent.subscribe("quotes"),
            lambda: agent.channels(),
        ):
            with pytest.raises((DeadlineError, UnreachableError)):
                call()


def test_a_broker_that_never_answers_a_request():
    from websockets.sync.server import serve

    with serve(lambda peer: list(peer), "127.0.0.1", 0) as mute:
        thread = threading.Thread(target=mute.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{mute.socket.getsockname()[1]}"
        with Agent(url, timeout=0.3) as agent:
            with pytest.raises(DeadlineError, match=r"did not answer within 0\.3 s; it may have"):
                agent.publish("quotes", {"price": 1.0})
            with pytest.raises(TimeoutError):  # the built-in class as well
                agent.subscribe("quotes", durable="mine")
        mute.shutdown()
        thread.join(10)


def test_a_broker_that_goes_away_for_longer_than_the_deadline(tmp_path):
    with served(tmp_path) as first:
        port, agent = first.found.http, Agent(first.url, timeout=0.5)
        agent.put_channel("quotes", QUOTES)
        messages = agent.subscribe("quotes")
        assert agent.publish("quotes", {"price": 1.0}) == 1
    with pytest.raises(DeadlineError, match="not connected"):
        agent.publish("quotes", {"price": 2.0})
    with served(tmp_path, http=Address("127.0.0.1", port)), Agent(first.url) as other:
        other.publish("quotes", {"price": 3.0})
        assert [messages.get(20).attributes["price"] for _ in range(2)] == [1.0, 3.0]
        agent.close()


def test_an_answer_that_trickles_ends_by_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as door:
        stop = threading.Event()

        def drip():
            peer, _ = door.accept()
            with peer, contextlib.suppress(OSError):
                peer.recv(4096)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not stop.wait(0.05):
                    peer.sendall(b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        with (
            Agent(f"http://127.0.0.1:{door.getsockname()[1]}", timeout=0.5) as agent,
            pytest.raises(DeadlineError),
        ):
            agent.channels()
        stop.set()
        thread.join(10)


# --- addresses ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("127.0.0.1:8216", "write http://127.0.0.1:8216, or https://127.0.0.1:8216"),
        ("localhost", "write http://localhost"),
        ("ws://127.0.0.1:8216", "write http://127.0.0.1:8216"),
        ("", "write http://127.0.0.1:8216"),
        ("http://", "write http://127.0.0.1:8216"),
        ("http://127.0.0.1:99999", "write http://127.0.0.1:8216"),
        ("http://127.0.0.1:port", "write http://127.0.0.1:8216"),
        ("http://127.0.0.1 :80", "write http://127.0.0.1:8216"),
        ("http://a:b@127.0.0.1:8216", "login="),
        ("http://127.0.0.1:8216?x=1", "end it before"),
        (None, "must be an address"),
    ],
)
def test_what_is_not_the_address_of_a_broker(tmp_path, url, words):
    with pytest.raises(InputError, match=words):
        Agent(url)
    with pytest.raises(InputError, match=words):
        AsyncAgent(url)
    with pytest.raises(InputError, match=words):
        Mirror(tmp_path, "quotes", server=url)


def both_ways(agent):
    return (lambda: agent.publish("quotes", {"price": 1.0}), lambda: agent.channels())


def test_an_unreachable_broker_is_an_error_at_once():
    with Agent("http://127.0.0.1:1") as agent:
        for call in (*both_ways(agent), *both_ways(agent)):
            with pytest.raises(UnreachableError, match=r"(?s)127\.0\.0\.1:1: .*tamis serve"):
                call()


def test_an_agent_that_found_no_broker_tries_again_with_the_next_call(server):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Agent(f"http://127.0.0.1:{port}") as agent:
        with pytest.raises(UnreachableError):
            agent.publish("quotes", {"price": 1.0})
        server_too = Address("127.0.0.1", port)
        with served(server.parts.directory.parent / "late", http=server_too):
            agent.put_channel("quotes", QUOTES)
            assert agent.publish("quotes", {"price": 1.0}) == 1


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"ERROR\nmessage:no\n\n\0"])
def test_a_port_with_another_protocol(answer):
    with listening(answer) as place, Agent(f"http://{place}") as agent:
        for call in both_ways(agent):
            with pytest.raises(UnreachableError, match=f"should it be https://{place}"):
                call()


def test_another_web_server():
    page = b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    with listening(page) as place, Agent(f"http://{place}") as agent:
        with pytest.raises(UnreachableError, match="404"):
            agent.publish("quotes", {"price": 1.0})
        with pytest.raises(TamisError, match="answered 404: is there a broker"):
            agent.channels()
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    with listening(page) as place, Agent(f"http://{place}") as agent:
        with pytest.raises(UnreachableError, match="200"):
            agent.publish("quotes", {"price": 1.0})
        with pytest.raises(UnreachableError, match="not as a broker does"):
            agent.channels()


def test_https_against_http(server):
    url = server.url.replace("http", "https")
    with Agent(url) as agent:
        for call in both_ways(agent):
            with pytest.raises(UnreachableError, match=f"write {server.url}"):
                call()


def test_the_ports_of_other_protocols_of_the_broker(server):
    for port in (server.stomp, server.packets):
        with Agent(f"http://127.0.0.1:{port}", timeout=5) as agent:
            for call in both_ways(agent):
                with pytest.raises(UnreachableError, match="check the port"):
                    call()


# --- callbacks, and closing --------------------------------------------------------------


def test_a_callback_that_waits_for_its_own_agent(server, channel):
    """It would wait for itself."""
    with Agent(server.url) as agent, Agent(server.url) as other:
        agent.subscribe(channel, callback=lambda message: agent.publish(channel, {"price": 2.0}))
        kept = agent.subscribe(channel)
        other.publish(channel, {"price": 1.0})
        with pytest.raises(TamisError, match="a callback cannot wait for its own agent"):
            list(kept)


def test_a_coroutine_as_callback_that_waits_for_its_own_agent(server, channel):
    async def main():
        async with AsyncAgent(server.url) as agent, AsyncAgent(server.url) as other:

            async def repeat(message):
                await agent.publish(channel, {"price": 2.0})

            await agent.subscribe(channel, callback=repeat)
            kept = await agent.subscribe(channel)
            await other.publish(channel, {"price": 1.0})
            with pytest.raises(TamisError, match="a callback cannot wait for an answer"):
                async for _ in kept:
                    pass

    asyncio.run(main())


def test_a_callback_that_raises_an_error_of_the_system_ends_the_agent(server, channel):
    """It was taken for a lost connection, and the message was gone."""

    def write(message):
        raise FileNotFoundError("out.txt")

    with Agent(server.url) as agent, Agent(server.url) as other:
        agent.subscribe(channel, callback=write)
        kept = agent.subscribe(channel)
        other.publish(channel, {"price": 1.0})
        with pytest.raises(TamisError, match=r"the agent stopped: FileNotFoundError: out\.txt"):
            list(kept)


def test_a_closed_agent_says_so(server, channel):
    agent = Agent(server.url)
    live, durable = agent.subscribe(channel), agent.subscribe(channel, durable="closing")
    agent.publish(channel, {"price": 1.0})
    message = live.get(20)
    agent.close()
    agent.close()  # again is nothing new
    for call in (
        lambda: agent.publish(channel, {"price": 1.0}),
        lambda: agent.publish_many(channel, []),
        lambda: agent.subscribe(channel),
        lambda: agent.channels(),
        lambda: agent.channel(channel),
        lambda: agent.put_channel(channel, QUOTES),
        lambda: agent.close_channel(channel),
        lambda: agent.dry_run(channel, []),
        lambda: agent.explain(channel, "price > 1", {}),
        lambda: agent.call("GET", "/api/channels"),
        lambda: live.get(1),
        lambda: live.acknowledge(message),
        lambda: durable.end(),
        lambda: durable.remove(),
    ):
        with pytest.raises(ClosedError, match="closed"):
            call()
    assert list(live) == []
    assert agent.history


def test_a_closed_async_agent_says_so(server, channel):
    async def main():
        agent = AsyncAgent(server.url)
        live = await agent.subscribe(channel, start="all")
        await agent.publish(channel, {"price": 7.0})
        message = await live.get(20)
        await agent.close()
        await agent.close()
        for call in (
            lambda: agent.publish(channel, {"price": 1.0}),
            lambda: agent.subscribe(channel),
            lambda: agent.call("GET", "/api/channels"),
            lambda: live.acknowledge(message),
            lambda: live.remove(),
        ):
            with pytest.raises(ClosedError, match="closed"):
                await call()
        async for _ in live:  # what had come, and then the end
            pass
        with pytest.raises(ClosedError):
            await live.get()

    asyncio.run(main())


def test_closing_ends_readers_in_other_threads(server, channel):
    agent = Agent(server.url)
    live, seen = agent.subscribe(channel, "price > 1e9"), []
    thread = threading.Thread(target=lambda: seen.extend([*live, "end"]))
    thread.start()
    agent.close()
    thread.join(20)
    assert seen == ["end"]


def test_a_subscription_that_was_ended_says_so(agent, channel):
    live = agent.subscribe(channel)
    agent.publish(channel, {"price": 1.0})
    live.end()
    assert len(list(live)) <= 1  # what had come
    with pytest.raises(ClosedError, match="was ended"):
        live.get(5)
    live.end()
    with pytest.raises(ClosedError, match="does not hold"):
        live.remove()


def test_waiting_for_a_message_of_an_async_agent_ends(server, channel):
    async def main():
        async with AsyncAgent(server.url) as agent:
            live = await agent.subscribe(channel, "price > 1e9")
            with pytest.raises(TimeoutError):
                await live.get(0.05)
            await agent.publish(channel, {"price": 2e9})
            assert (await live.get(timeout=20)).attributes["price"] == 2e9

    asyncio.run(main())

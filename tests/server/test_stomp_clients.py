"""STOMP by clients that we did not write: stomp.py and stompman."""

from __future__ import annotations

import asyncio
import json
import queue

import pytest
import stomp
import stompman

from server.servers import QUOTES, served


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        with found.http() as http:
            http.put("/api/channels/quotes", json=QUOTES)
        yield found


class Listener(stomp.ConnectionListener):
    def __init__(self):
        self.messages, self.errors, self.receipts = queue.Queue(), queue.Queue(), queue.Queue()

    def on_message(self, frame):
        self.messages.put(frame)

    def on_error(self, frame):
        self.errors.put(frame)

    def on_receipt(self, frame):
        self.receipts.put(frame.headers["receipt-id"])


@pytest.fixture
def connected(server):
    made = []

    def connect(**more):
        connection = stomp.Connection12([("127.0.0.1", server.stomp)], **more)
        listener = Listener()
        connection.set_listener("", listener)
        connection.connect(wait=True)
        made.append(connection)
        return connection, listener

    yield connect
    for one in made:
        if one.is_connected():
            one.disconnect()


def send(connection, listener, **attributes):
    connection.send("/quotes/nyse", json.dumps(attributes), receipt="r")
    assert listener.receipts.get(timeout=30) == "r"


def test_stomp_py_publishes_and_subscribes_with_a_selector(connected):
    connection, listener = connected()
    connection.subscribe("/quotes/>", "1", selector="price > 100", receipt="s")
    assert listener.receipts.get(timeout=30) == "s"
    send(connection, listener, symbol="IBM", price=90)
    send(connection, listener, symbol="IBM", price=110)
    frame = listener.messages.get(timeout=30)
    assert json.loads(frame.body)["price"] == 110
    assert frame.headers["destination"] == "/quotes/nyse"
    assert frame.headers["subscription"] == "1"
    connection.unsubscribe("1", receipt="u")
    assert listener.receipts.get(timeout=30) == "u"


def test_stomp_py_durable_with_acknowledgements(connected):
    connection, listener = connected()
    durable = {"tamis-durable": "mine", "receipt": "s"}
    connection.subscribe("/quotes", "d", ack="client-individual", headers=durable)
    assert listener.receipts.get(timeout=30) == "s"
    for price in (1, 2, 3):
        send(connection, listener, price=price)
    got = [listener.messages.get(timeout=30) for _ in range(3)]
    connection.ack(got[0].headers["ack"])
    connection.ack(got[2].headers["ack"], receipt="a")  # the second is not acknowledged
    assert listener.receipts.get(timeout=30) == "a"
    connection.disconnect()
    again, listener = connected()
    again.subscribe("/quotes", "d", ack="client", headers={"tamis-durable": "mine"})
    prices = [json.loads(listener.messages.get(timeout=30).body)["price"] for _ in range(2)]
    assert prices == [2, 3]


def test_stomp_py_gets_errors(connected):
    connection, listener = connected()
    connection.subscribe("/quotes", "1", selector="price >")
    assert "ends too early" in listener.errors.get(timeout=30).headers["message"]
    connection, listener = connected()
    connection.send("/nowhere", "{}")
    assert "no channel" in listener.errors.get(timeout=30).headers["message"]


def test_stomp_py_texts_and_headers_are_attributes(connected):
    connection, listener = connected()
    connection.subscribe("/quotes", "1", selector="colour = 'red' AND body LIKE 'he%'", receipt="s")
    assert listener.receipts.get(timeout=30) == "s"
    connection.send("/quotes", "hello", headers={"colour": "red"})
    assert json.loads(listener.messages.get(timeout=30).body)["body"] == "hello"


def test_stomp_py_heart_beats_keep_the_connection(connected):
    connection, listener = connected(heartbeats=(300, 300))
    send(connection, listener, price=1)
    assert connection.is_connected()


def test_stompman_publishes_subscribes_and_acknowledges(server):
    async def main():
        address = stompman.ConnectionParameters(
            host="127.0.0.1", port=server.stomp, login="", passcode=""
        )
        got = asyncio.Queue()

        async def take(frame):
            await got.put(json.loads(frame.body))
            await frame.ack()

        async with stompman.Client([address], write_retry_attempts=1) as client:
            subscription = await client.subscribe_with_manual_ack(
                "/quotes/ldn", take, ack="client", headers={"selector": "price < 5"}
            )
            for price in (9, 4):
                body = json.dumps({"price": price}).encode()
                await client.send(body, "/quotes/ldn", headers={"receipt": f"r{price}"})
            found = await asyncio.wait_for(got.get(), 10)
            await subscription.unsubscribe()
            return found

    assert asyncio.run(main()) == {"price": 4}

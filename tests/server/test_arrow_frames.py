"""Messages as Arrow streams over a WebSocket."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
import websockets.sync.client as ws

from server.servers import QUOTES, served
from tamis.client import Agent


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        with found.http() as http:
            for channel in ("quotes", "other"):
                http.put(f"/api/channels/{channel}", json=QUOTES)
        yield found


def received(peer, rows):
    """Rows of binary frames, until so many came."""
    found = []
    while len(found) < rows:
        frame = peer.recv(20)
        if isinstance(frame, bytes):
            found += pa.ipc.open_stream(frame).read_all().to_pylist()
    return found


@pytest.fixture
def peer(server):
    address = server.url.replace("http", "ws") + "/ws?format=arrow"
    with ws.connect(address, max_size=None) as found:
        yield found


def subscribe(peer, **more):
    peer.send(json.dumps({"type": "subscribe", "request": 1, **more}))
    told = json.loads(peer.recv(20))
    assert told["type"] == "subscribed", told


def test_predefined_attributes_are_columns(server, peer):
    subscribe(peer, channel="quotes", name="a", selector="price > 5")
    subscribe(peer, channel="other", name="b")
    with Agent(server.url) as agent:
        for price in (1, 7, 8.5):
            agent.publish("quotes", {"symbol": "é", "price": price, "more": [1]}, subject="x.y")
        agent.publish("other", {"volume": 3})
    rows = sorted(received(peer, 3), key=lambda row: row["subscription"])
    assert [(r["subscription"], r["subject"], r["symbol"], r["price"]) for r in rows] == [
        ("a", "x.y", "é", 7.0), ("a", "x.y", "é", 8.5), ("b", "other", None, None)
    ]  # fmt: skip
    assert rows[2]["volume"] == 3
    assert [row["sequence"] for row in rows] == [2, 3, 1]
    assert json.loads(rows[0]["attributes"])["more"] == [1]
    assert rows[0]["time"].tzinfo is not None


def test_a_durable_one_reads_all_it_missed_however_much(server, peer):
    with Agent(server.url) as agent:
        many = [{"attributes": {"symbol": "x" * 500, "volume": i}} for i in range(7000)]
        agent.publish_many("other", many)
    subscribe(peer, channel="other", name="kept", start="all", durable=True, selector="volume >= 0")
    rows = []
    while len(rows) < 7000:
        rows += received(peer, 1)
        ack = {"type": "ack", "name": "kept", "sequence": rows[-1]["sequence"]}
        peer.send(json.dumps(ack))
    wanted = [row["volume"] for row in rows if row["symbol"]]
    assert wanted == list(range(7000))


def test_requests_and_errors_stay_json(peer):
    peer.send("nonsense")
    assert json.loads(peer.recv(20))["type"] == "error"

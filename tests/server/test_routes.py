"""Every route is documented; searching, overview and what one does to slow subscribers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from server.servers import QUOTES, served
from tamis.client import Agent
from tamis.errors import TamisError
from tamis.server.web.routes.table import ROUTES

DOCS = Path(__file__).parents[2] / "docs" / "http.md"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture(scope="module")
def http(server):
    with server.http() as client:
        for channel in ("quotes", "trades"):
            client.put(f"/api/channels/{channel}", json=QUOTES)
        for name, selector in (("cheap", "price < 5"), ("dear", "price > 100"), ("all", ""),
                               ("ibm", "symbol = 'IBM' AND price < 50")):  # fmt: skip
            path = f"/api/channels/quotes/subscriptions/{name}"
            assert client.put(path, json={"selector": selector}).status_code == 200
        client.put("/api/channels/trades/subscriptions/cheap", json={"selector": "volume = 1"})
        many = [{"attributes": {"symbol": "IBM", "price": float(p)}} for p in range(20)]
        client.post("/api/channels/quotes/messages", json=many)
        yield client


def documented():
    found = set()
    for line in DOCS.read_text().splitlines():
        if line.startswith("| `") and ("/api" in line or "..." in line):
            cell = line.split("|")[1]
            paths = re.findall(r"(?:/api|\.\.\.)[^`?\s,]*", cell)
            for method in re.findall(r"\b(GET|PUT|POST|DELETE)\b", cell):
                found |= {(method, p.replace("...", "/api/channels/{c}")) for p in paths}
    return found


def test_every_route_is_documented_and_described(http):
    routes = {(route.method, route.path) for route in ROUTES}
    assert routes == documented()
    paths = http.get("/openapi.json").json()["paths"]
    assert routes == {(m.upper(), path) for path, verbs in paths.items() for m in verbs}


def found(http, q="", **more):
    answer = http.get("/api/subscriptions", params={"q": q, **more})
    assert answer.status_code == 200, answer.text
    rows = [f"{row['channel']}/{row['name']}" for row in answer.json()["subscriptions"]]
    count = http.get("/api/subscriptions/count", params={"q": q}).json()["count"]
    if not more:
        assert count == len(rows)
    return rows


ALL = ["quotes/all", "quotes/cheap", "quotes/dear", "quotes/ibm", "trades/cheap"]


@pytest.mark.parametrize(
    ("q", "rows"),
    [
        ("", ALL),
        ("cheap", ["quotes/cheap", "trades/cheap"]),
        ("PRICE channel:quotes", ["quotes/cheap", "quotes/dear", "quotes/ibm"]),
        ("attribute:symbol", ["quotes/ibm"]),
        ("attribute:symbo", []),
        ("subscriber:local volume", ["trades/cheap"]),
        ("subscriber:nobody", []),
        ("state:never-matched", ["quotes/dear", "trades/cheap"]),
        ("state:gone cheap", ["quotes/cheap", "trades/cheap"]),
        ('matches:{"price": 2.0, "volume": 1}', ["quotes/all", "quotes/cheap", "trades/cheap"]),
        ('channel:quotes matches:{"price": 200.0}', ["quotes/all", "quotes/dear"]),
        ("channel:quotes covers:price < 3", ["quotes/all", "quotes/cheap"]),
        ("channel:quotes covered:price < 50", ["quotes/cheap", "quotes/ibm"]),
        ("channel:quotes equal:NOT (price >= 5)", ["quotes/cheap"]),
        ("channel:quotes covered:symbol IS NULL AND symbol IS NOT NULL", []),
    ],
)
def test_one_line_finds_subscriptions(http, q, rows):
    assert found(http, q) == rows


def test_search_goes_on_behind_a_key(http):
    seen, after = [], ""
    while True:
        answer = http.get("/api/subscriptions", params={"limit": 2, "after": after}).json()
        seen += [f"{row['channel']}/{row['name']}" for row in answer["subscriptions"]]
        if not answer["more"]:
            break
        after = seen[-1]
    assert seen == ALL


@pytest.mark.parametrize(
    "q", ["state:odd", "matches:[1]", "matches:{", "covers:price <", "equal:a b"]
)
def test_bad_searches_are_told(http, q):
    assert http.get("/api/subscriptions", params={"q": q}).status_code == 422


def test_subscribers_come_by_lag_and_can_be_relieved(http):
    rows = http.get("/api/subscribers").json()["subscribers"]
    assert [row["lag"] for row in rows] == sorted((row["lag"] for row in rows), reverse=True)
    assert rows[0]["lag"] == 20
    assert rows[0]["state"] == "gone"
    path = "/api/channels/quotes/subscriptions/dear"
    assert http.post(f"{path}/drop").json()["dropped"] == 20
    assert http.get(path).json()["lag"] == 0
    assert http.post(f"{path}/disconnect").json()["state"] == "gone"
    actions = [entry["action"] for entry in http.get("/api/audit").json()["audit"]]
    assert {"subscription.drop", "subscription.disconnect"} <= set(actions)


def test_the_overview_tells_what_goes_on(server, http):
    server.parts.history.sample()
    http.post("/api/channels/quotes/messages", json=[{"attributes": {"price": 1.0}}] * 10)
    server.parts.history.sample()
    told = http.get("/api/overview").json()
    assert told["messages"] >= 30
    assert told["subscriptions"] == 5
    assert told["history"]["messages"][-1] == 1.0
    assert told["channels"][0] == {"name": "quotes", "rate": 1.0}
    assert len(told["slowest"]) == 5
    assert told["changes"]


def test_figures_come_once_a_second(http):
    with http.stream("GET", "/api/events") as stream:
        line = next(line for line in stream.iter_lines() if line.startswith("data: "))
    assert set(json.loads(line[6:])) == {"messages", "matches", "deliveries", "subscriptions"}


def test_a_path_with_a_slash_at_its_end_is_not_redirected(tmp_path):
    with served(tmp_path) as server, server.http() as http:
        assert http.get("/api/channels/x%2F").status_code == 404


def test_a_cursor_is_set_and_what_follows_comes_again(server, http):
    path = "/api/channels/moved/subscriptions/mine"
    http.put("/api/channels/moved", json=QUOTES)
    http.put(path, json={"selector": "price > 2"})
    rows = [{"attributes": {"price": float(p)}} for p in range(1, 7)]
    http.post("/api/channels/moved/messages", json=rows)
    with Agent(server.url) as agent:
        held = agent.subscribe("moved", "price > 2", durable="mine")
        for sequence in (3, 4, 5, 6):
            message = held.get(5)
            assert message.sequence == sequence
            held.acknowledge(message)
        assert http.put(f"{path}/cursor", json={"start": 5}).json()["cursor"] == 4
        with pytest.raises(TamisError):
            held.get(5)
    assert http.get(path).json()["state"] == "gone"
    stored = {one.name: one for one in server.parts.hub.registry.subscriptions(
        server.parts.channels.by_name["main", "moved"].entry.number)}  # fmt: skip
    assert stored["mine"].cursor == 4  # by the time of the answer
    for start, first in ((5, 5), ("all", 3), ("2000-01-01T00:00:00Z", 3), (0, 3)):
        assert http.put(f"{path}/cursor", json={"start": start}).status_code == 200
        with Agent(server.url) as agent:
            assert agent.subscribe("moved", "price > 2", durable="mine").get(5).sequence == first
    for start in ("now", 10**9):
        assert http.put(f"{path}/cursor", json={"start": start}).json()["lag"] == 0
    for bad in ({"start": "soon"}, {"start": -1}, {}):
        assert http.put(f"{path}/cursor", json=bad).status_code == 422
    http.delete("/api/channels/moved")

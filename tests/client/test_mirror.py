"""A table that follows a channel's subscriptions says what the broker says."""

from __future__ import annotations

import threading

import pytest

from server.servers import QUOTES, served
from tamis.client.mirror import Mirror
from tamis.errors import UnreachableError

FILTERS = [
    ("all", ">", ""),
    ("cheap", ">", "price < 10 OR volume > 5"),
    ("one", "nyse.ibm", "price < 100"),
    ("star", "nyse.*", "symbol = 'IBM'"),
    ("deep", "nyse.>", ""),
    ("mid", "*.ibm.>", "price > 1 OR price IS NULL"),
    ("odd", "a+b.c", "symbol = 'it''s'"),
]
SUBJECTS = [
    "nyse",
    "nyse.ibm",
    "nyse.ibm.x",
    "nyse.sap",
    "tse.ibm",
    "tse.ibm.a.b",
    "a+b.c",
    "aab.c",
]
MESSAGES = [
    {},
    {"symbol": "IBM", "price": 5.0, "volume": 1},
    {"symbol": "it's", "price": 50.0},
    {"symbol": "IBM", "volume": 9},
]


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "data") as found, found.http() as http:
        http.put("/api/channels/quotes", json=QUOTES).raise_for_status()
        yield found, http


def put(http, name, subjects, selector, channel="quotes"):
    told = {"subjects": subjects, "selector": selector}
    http.put(f"/api/channels/{channel}/subscriptions/{name}", json=told).raise_for_status()


def test_the_table_matches_what_the_broker_would_deliver(server, tmp_path):
    found, http = server
    for name, subjects, selector in FILTERS:
        put(http, name, subjects, selector)
    mirror = Mirror(tmp_path / "table", "quotes", server=found.url)
    assert mirror.update() == 1
    matcher = mirror.table.matcher()
    for subject in SUBJECTS:
        for message in MESSAGES:
            asked = {"subject": subject, "attributes": message}
            told = http.post("/api/channels/quotes/messages?dry=1", json=asked).json()
            wanted = sorted(told["matches"][0])
            assert sorted(matcher.match({**message, "_subject": subject})) == wanted, (
                subject,
                told,
            )


def test_changes_become_versions_and_nothing_else_does(server, tmp_path):
    found, http = server
    put(http, "a", ">", "price < 1")
    mirror = Mirror(tmp_path / "table", "quotes", server=found.url)
    assert (mirror.update(), mirror.update()) == (1, 1)
    put(http, "b", "x.*", "")
    put(http, "a", ">", "price < 2")
    assert mirror.update() == 2
    assert {id: mirror.table[id][0] for id in mirror.table}["a"] == "price < 2"
    http.delete("/api/channels/quotes/subscriptions/a").raise_for_status()
    again = Mirror(tmp_path / "table", "quotes", server=found.url)  # another process
    assert again.update() == 3
    assert list(again.table) == ["b"]


def test_following_goes_on_until_it_is_stopped(server, tmp_path):
    found, http = server
    mirror, stop, seen = Mirror(tmp_path / "t", "quotes", server=found.url), threading.Event(), []
    told = threading.Event()

    def tell(version):
        seen.append(version)
        told.set()

    thread = threading.Thread(
        target=mirror.follow, args=(0.01,), kwargs={"stop": stop, "tell": tell}
    )
    thread.start()
    assert told.wait(10)
    told.clear()
    put(http, "a", ">", "price < 1")
    assert told.wait(10)
    stop.set()
    thread.join(10)
    assert seen == [0, 1]


def test_more_than_one_page(server, tmp_path, monkeypatch):
    found, http = server
    monkeypatch.setattr("tamis.client.mirror._PAGE", 2)
    for i in range(7):
        put(http, f"s{i}", ">", f"price < {i}")
    mirror = Mirror(tmp_path / "table", "quotes", server=found.url)
    mirror.update()
    assert sorted(mirror.table) == [f"s{i}" for i in range(7)]


def test_wildcards_have_no_selector_of_jms(server, tmp_path):
    found, http = server
    http.put("/api/channels/j", json={**QUOTES, "dialect": "jms"}).raise_for_status()
    put(http, "plain", "j.a", "price < 1", "j")
    mirror = Mirror(tmp_path / "table", "j", server=found.url)
    mirror.update()
    assert mirror.table["plain"][0] == "(price < 1) AND _subject = 'j.a'"
    put(http, "wild", "j.*", "", "j")
    assert mirror.update() == 2
    assert list(mirror.table) == ["plain"]
    [problem] = mirror.problems()
    assert (problem["id"], problem["selector"]) == ("wild", "_subject MATCHES '^j[.][^.]+$'")
    assert "MATCHES" in problem["reason"]
    put(http, "wild", "j.b", "", "j")
    assert mirror.update() == 3
    assert (mirror.table["wild"][0], mirror.problems()) == ("_subject = 'j.b'", [])


def test_what_the_table_cannot_hold_is_put_aside(server, tmp_path):
    """The broker takes attributes that a channel does not declare; a table with a schema cannot."""
    found, http = server
    put(http, "good", ">", "price < 1")
    put(http, "odd", ">", "prise < 100")
    mirror = Mirror(tmp_path / "table", "quotes", server=found.url)
    assert (mirror.update(), mirror.update()) == (1, 1)
    assert list(mirror.table) == ["good"]
    [problem] = mirror.problems()
    assert (problem["id"], problem["selector"]) == ("odd", "prise < 100")
    assert "prise" in problem["reason"]
    put(http, "good", ">", "colour = 'red'")  # one that was held becomes one that cannot be
    put(http, "odd", ">", "price < 100")
    assert mirror.update() == 2
    assert list(mirror.table) == ["odd"]
    assert [one["id"] for one in mirror.problems()] == ["good"]
    http.delete("/api/channels/quotes/subscriptions/good").raise_for_status()
    assert (mirror.update(), mirror.problems()) == (3, [])


def test_following_outlives_a_broker_that_is_away(tmp_path):
    failures, stop, told = [], threading.Event(), threading.Event()
    with served(tmp_path / "data") as found, found.http() as http:
        http.put("/api/channels/quotes", json=QUOTES).raise_for_status()
        put(http, "a", ">", "price < 1")
        mirror = Mirror(tmp_path / "t", "quotes", server=found.url)

        def failed(error):
            failures.append(error)
            stop.set()

        thread = threading.Thread(
            target=mirror.follow,
            args=(0.01,),
            kwargs={"stop": stop, "tell": lambda version: told.set(), "failed": failed},
        )
        thread.start()
        assert told.wait(10)
    thread.join(10)
    assert isinstance(failures[0], UnreachableError)
    with pytest.raises(UnreachableError):  # the first look must succeed
        mirror.follow()

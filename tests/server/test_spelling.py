"""Misspelt attributes: notes for subscribers and publishers, and rules that can never match."""

from __future__ import annotations

import json

import pytest

from server.servers import QUOTES, served
from tamis.cli import main
from tamis.client import Agent
from tamis.registry import Principal, Right
from tamis.server.access import new_token


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "data") as found:
        yield found


@pytest.fixture
def agent(server):
    with Agent(server.url) as made:
        made.put_channel("quotes", QUOTES)
        made.put_channel("loose", {})
        yield made


def notes(agent, channel, selector, **more):
    """The same of a live subscription, of a durable one, and of a check."""
    live = agent.subscribe(channel, selector, **more)
    path = f"/api/channels/{channel}"
    durable = agent.call("PUT", f"{path}/subscriptions/probe", {"selector": selector})["notes"]
    agent.call("DELETE", f"{path}/subscriptions/probe")
    checked = agent.call("POST", f"{path}/check", {"selector": selector})["notes"]
    assert live.notes == durable == checked
    live.end()
    return checked


def test_a_name_near_a_declared_one_is_noted_at_once(agent):
    said = notes(agent, "quotes", "prise < 100")
    assert said == ["quotes does not declare prise: did you mean price?"]
    assert notes(agent, "quotes", "Price < 100 AND symbol = 'IBM'") == [
        "quotes does not declare Price: did you mean price?"
    ]


def test_names_that_are_declared_or_far_from_all_are_not(agent):
    assert notes(agent, "quotes", "price < 100 AND volume > 5") == []
    assert notes(agent, "quotes", "region = 'EU'") == []  # messages may have more attributes
    assert notes(agent, "loose", "prise < 100") == []  # nothing is known yet


def test_messages_show_which_names_there_are(agent):
    agent.publish("loose", {"price": 1.0, "order": {"customer": "ann"}, "items": [{"count": 2}]})
    assert notes(agent, "loose", "prise < 100") == [
        "none of the last 1 messages has prise: did you mean price?"
    ]
    assert notes(agent, "loose", "order.custommer = 'ann'") == [
        "none of the last 1 messages has order.custommer: did you mean order.customer?"
    ]
    assert notes(agent, "loose", "order.customer = 'ann' AND ANY(items.count) > 1") == []
    assert notes(agent, "loose", "weight > 1") == ["none of the last 1 messages has weight"]
    agent.publish("loose", {"weight": 5})
    assert notes(agent, "loose", "weight > 1") == []


def test_names_in_messages_that_one_may_not_read_do_not_show(server, agent):
    agent.publish("loose", {"salary": 1.0}, subject="hr.pay")
    registry = server.parts.hub.registry
    registry.put_principal(Principal("carl", "main"))
    registry.put_right(Right("carl", "subscribe", "loose", "shop.>"))
    token = new_token(registry, "carl")
    with Agent(server.url, token=token) as carl:
        assert carl.subscribe("loose", "salery > 1", subjects="shop.>").notes == []


def test_a_rule_that_tests_what_no_message_has_is_a_problem(agent):
    def search(line):
        found = agent.call("GET", f"/api/subscriptions?q={line}")["subscriptions"]
        return [one["name"] for one in found]

    for name, selector in (
        ("good", "price < 100"),
        ("typo", "prise < 100"),
        ("late", "volume > 5"),
        ("null", "region IS NULL"),
    ):
        path = f"/api/channels/quotes/subscriptions/{name}"
        agent.call("PUT", path, {"selector": selector})
    assert search("state:problem") == []  # there are no messages yet
    agent.publish("quotes", {"price": 5.0})
    assert search("state:problem") == ["late", "typo"]
    problems = agent.call("GET", "/api/overview")["problems"]
    assert problems == [
        "subscription typo of quotes: none of the last 1 messages has prise: did you mean price?",
        "subscription late of quotes: none of the last 1 messages has volume",
    ]
    agent.publish("quotes", {"volume": 9})
    assert search("state:problem") == ["typo"]
    agent.call("PUT", "/api/channels/quotes/subscriptions/typo", {"selector": "price < 100"})
    assert search("state:problem") == []
    assert agent.call("GET", "/api/overview")["problems"] == []


def test_publishing_notes_attributes_that_nothing_uses(server, agent, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("TAMIS_SERVER", server.url)
    agent.call("PUT", "/api/channels/quotes/subscriptions/one", {"selector": "region.code = 'EU'"})
    rows = [{"prise": 1.0, "region": {"code": "EU"}, "volume": 5}, {"prise": 2.0, "zzz": 1}]
    lines = tmp_path / "m.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)))
    for batch in ("1", "500"):
        assert main(["publish", "quotes", str(lines), "--batch", batch]) == 0
        said = capfd.readouterr().err.splitlines()
        assert sorted(said) == [
            "2 messages published",
            "note: quotes does not declare prise, and no subscription tests it: "
            "did you mean price?",
            "note: quotes does not declare zzz, and no subscription tests it",
        ]
    assert agent.spelling("loose", ["anything"]) == []  # nothing is declared, and no one listens


def test_the_command_shows_notes(server, agent, capfd, monkeypatch):
    monkeypatch.setenv("TAMIS_SERVER", server.url)
    agent.publish("quotes", {"price": 5.0})
    selector = "prise < 100 OR price < 100"
    assert main(["subscribe", "quotes", selector, "--from", "all", "--count", "1"]) == 0
    words = "note: none of the last 1 messages has prise: did you mean price?\n"
    assert capfd.readouterr().err == words
    assert main(["subscription", "create", "quotes", "x", "prise < 100"]) == 0
    assert capfd.readouterr().err == words

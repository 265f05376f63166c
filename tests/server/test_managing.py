"""Commands that manage a running broker: subscriptions, rights, tokens, flows, status."""

from __future__ import annotations

import io
import json
import sys

import pytest

from server.servers import QUOTES, served
from tamis.cli import main
from tamis.client import Agent


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        with Agent(found.url) as agent:
            agent.put_channel("quotes", QUOTES)
        yield found


@pytest.fixture
def run(server, capfd, monkeypatch):
    monkeypatch.setenv("TAMIS_SERVER", server.url)

    def call(*arguments, code=0):
        capfd.readouterr()
        assert main(list(arguments)) == code, capfd.readouterr().err
        out, err = capfd.readouterr()
        return err if code else json.loads(out) if "--json" in arguments else out

    return call


def test_a_subscription_from_its_creation_to_its_end(run, server):
    made = run("subscription", "create", "quotes", "cheap", "price < 10", "--json")
    assert (made["name"], made["selector"], made["state"]) == ("cheap", "price < 10", "gone")
    run("subscription", "create", "quotes", "late", "price > 1", "--from", "1", "--subjects", "a.>")
    with Agent(server.url) as agent:
        agent.publish("quotes", {"price": 5.0})
    listed = run("subscription", "list")
    assert listed.splitlines()[0].split()[:4] == ["CHANNEL", "NAME", "PRINCIPAL", "STATE"]
    assert [line.split()[1] for line in listed.splitlines()[1:]] == ["cheap", "late"]
    (found,) = run("subscription", "list", "channel:quotes cheap", "--json")
    assert (found["channel"], found["name"], found["lag"]) == ("quotes", "cheap", 1)
    assert run("subscription", "pause", "quotes", "cheap", "--json")["state"] == "paused"
    assert [one["name"] for one in run("subscription", "list", "state:paused", "--json")] == [
        "cheap"
    ]
    assert run("subscription", "resume", "quotes", "cheap", "--json")["state"] == "gone"
    assert "selector   price < 10" in run("subscription", "show", "quotes", "cheap")
    (one,) = run("subscription", "list", "--limit", "1", "--json")
    assert one["name"] == "cheap"
    for name in ("cheap", "late"):
        assert run("subscription", "end", "quotes", name) == ""
    assert run("subscription", "list", "--json") == []
    assert "no subscription" in run("subscription", "show", "quotes", "cheap", code=2)


def test_webhooks_and_mails(run):
    made = run("subscription", "create", "quotes", "hook", "--webhook", "http://127.0.0.1:1/x",
               "--secret", "s", "--json")  # fmt: skip
    assert made["delivery"] == {"webhook": "http://127.0.0.1:1/x"}
    run("subscription", "end", "quotes", "hook")
    assert "--secret needs" in run("subscription", "create", "quotes", "x", "--secret", "s", code=2)
    assert "--digest needs" in run("subscription", "create", "quotes", "x", "--digest", "5", code=2)


def test_many_subscriptions_come_page_by_page(run, server, monkeypatch):
    from tamis.cli.broker import subscription_commands as subscriptions

    monkeypatch.setattr(subscriptions, "_PAGE", 2)
    for i in range(5):
        run("subscription", "create", "quotes", f"s{i}")
    listed = run("subscription", "list", "--json")
    assert [one["name"] for one in listed] == [f"s{i}" for i in range(5)]
    for i in range(5):
        run("subscription", "end", "quotes", f"s{i}")


FLOW = "space quotes(symbol: string, price: double)\nquotes -> Cheap : select price < 10\n"


def test_flows_that_a_broker_serves(run, server):
    with Agent(server.url) as agent:
        agent.call("PUT", "/api/flows/small", {"text": FLOW})
    assert "small  quotes" in run("flow", "list")
    assert run("flow", "list", "--json")[0]["name"] == "small"
    assert "# Cheap(symbol: string, price: double)" in run("flow", "served", "small")
    made = run("subscription", "create", "small/Cheap", "mine", "price > 1", "--json")
    assert made["channels"]["quotes"]["selector"]
    assert "quotes" in run("subscription", "show", "small/Cheap", "mine", "--json")["channels"]
    run("subscription", "end", "small/Cheap", "mine")
    assert run("flow", "served", "small", "--json")["text"] == FLOW
    run("flow", "end", "small")
    assert run("flow", "list", "--json") == []


NAMED = """
space Trades(symbol: string, price: double)
lookup Names(string) -> string from 'names.csv'
lookup Since(timestamp) -> timestamp from 'since.csv'
Trades -> Cheap : select price < 10; [symbol, price] => [name := Names(symbol), price]
test 'cheap ones pass'
  given Trades ('a', 5.0)
  expect Cheap (NULL, 5.0)
"""


def test_a_flow_in_a_file_is_served(run, server, tmp_path):
    (tmp_path / "shop.flow").write_text(NAMED)
    (tmp_path / "names.csv").write_text("key,value\na,Apples\n")
    (tmp_path / "since.csv").write_text("key,value\n2026-01-01T00:00:00Z,2026-02-01T00:00:00Z\n")
    flow = str(tmp_path / "shop.flow")
    shown = run("flow", "serve", flow, "--channel", "Trades=quotes")
    assert "shop/Cheap(name: string, price: double)" in shown.splitlines()
    with Agent(server.url) as agent:
        cheap = agent.subscribe("shop/Cheap", "name = 'Apples'")
        agent.publish("quotes", {"symbol": "a", "price": 5.0})
        assert cheap.get(10).attributes == {"name": "Apples", "price": 5.0}
    again = run("flow", "serve", flow, "--name", "other", "--channel", "Trades=quotes", "--json")
    assert again["name"] == "other"
    assert "channel" in run("flow", "serve", flow, code=2)  # no channel has the name Trades
    (tmp_path / "names.csv").write_text("code,value\na,Apples\n")
    told = run("flow", "serve", flow, "--channel", "Trades=quotes", code=2)
    assert "line 3, lookup Names" in told
    run("flow", "end", "shop")
    run("flow", "end", "other")


def test_a_flow_with_states_is_refused_at_the_line_of_the_state(run, tmp_path):
    text = (
        "space quotes(symbol: string, price: double)\n"
        "state High keyed by symbol from quotes ordered by price (top: double := 0)\n"
        "  rule price > top => top := price\n"
    )
    (tmp_path / "high.flow").write_text(text)
    told = run("flow", "serve", str(tmp_path / "high.flow"), code=2)
    assert "line 2, state High: a broker does not serve flows with states" in told
    assert "tamis flow run" in told


def test_how_the_broker_is(run, server):
    shown = run("status")
    assert shown.startswith(f"{server.url}: ok, up ")
    assert "subscriptions" in shown
    found = run("status", "--json")
    assert found["status"] == "ok"
    assert found["problems"] == []
    looks = run("top", "--count", "2", "--every", "0.1")
    assert looks.count("0 a second\n") == 3  # of the second look; the first has no rates yet
    assert main(["top", "--count", "2", "--every", "0.1", "--json"]) == 0


def test_principals_rights_and_tokens(tmp_path, monkeypatch, capfd):
    def run(*arguments, code=0):
        capfd.readouterr()
        assert main(list(arguments)) == code, capfd.readouterr().err
        return capfd.readouterr().out.strip() if not code else capfd.readouterr().err

    with served(tmp_path / "data") as server:
        monkeypatch.setenv("TAMIS_SERVER", server.url)
        where = ("--directory", str(tmp_path / "data"))
        token = run("principal", "boss", *where, "--right", "manage:*", "--token")
        monkeypatch.setenv("TAMIS_TOKEN", token)
        monkeypatch.setattr(sys, "stdin", io.StringIO("secret\n"))
        run("access", "put", "alice", "--password", "--selector", "price < 10", "--rate", "5")
        assert run("access", "grant", "alice", "publish:quotes:nyse.>") == "publish:quotes:nyse.>"
        assert run("access", "grant", "alice", "subscribe") == (
            "publish:quotes:nyse.> subscribe:*:>"
        )
        assert "is not a right" in run("access", "grant", "alice", "fly:*", code=2)
        assert "alice  publish:quotes:nyse.> subscribe:*:>  price < 10" in run("access", "list")
        run("access", "revoke", "alice", "subscribe")
        (alice,) = [
            one for one in json.loads(run("access", "list", "--json")) if one["name"] == "alice"
        ]
        assert alice["rights"] == [{"principal": "alice", "verb": "publish", "channel": "quotes",
                                    "subjects": "nyse.>"}]  # fmt: skip
        made = run(
            "access", "token", "alice", "--label", "feed", "--verb", "publish", "--days", "1"
        )
        (found,) = json.loads(run("access", "tokens", "alice", "--json"))
        assert (found["label"], found["verbs"]) == ("feed", ["publish"])
        assert found["expires"]
        run("channel", "create", "quotes", "price:double")
        lines = tmp_path / "m.jsonl"
        lines.write_text('{"price": 5.0}\n')
        publish = ("publish", "quotes", str(lines), "--subject", "nyse.x", "--token", made)
        run(*publish)
        run("access", "end-token", "alice", found["id"])
        run(*publish, code=2)
        assert "token.end" in run("access", "audit")
        assert len(json.loads(run("access", "audit", "--limit", "2", "--json"))) == 2
        run("access", "end", "alice")
        assert "alice" not in run("access", "list")

"""What durable subscriptions have counted survives a restart."""

from __future__ import annotations

from server.servers import QUOTES, served
from tamis.client import Agent


def counters(agent):
    found = agent.call("GET", "/api/subscriptions?q=channel:quotes")["subscriptions"]
    return {one["name"]: (one["matched"], one["delivered"]) for one in found}


def never_matched(agent):
    found = agent.call("GET", "/api/subscriptions?q=state:never-matched")["subscriptions"]
    return [one["name"] for one in found]


def publish(agent, *prices):
    agent.publish_many("quotes", [{"attributes": {"price": float(p)}} for p in prices])


def test_counters_and_never_matched_survive_a_restart(tmp_path):
    with served(tmp_path) as server, Agent(server.url) as agent:
        agent.put_channel("quotes", QUOTES)
        for name, selector in (("away", "price > 1"), ("none", "price > 1000")):
            agent.call("PUT", f"/api/channels/quotes/subscriptions/{name}", {"selector": selector})
        reader = agent.subscribe("quotes", "price > 2", durable="read")
        publish(agent, 1, 2, 3, 4)
        for _ in range(2):
            reader.acknowledge(reader.get(20))
        assert counters(agent) == {"away": (3, 0), "none": (0, 0), "read": (2, 2)}
        assert never_matched(agent) == ["none"]
    with served(tmp_path) as server, Agent(server.url) as agent:
        assert counters(agent) == {"away": (3, 0), "none": (0, 0), "read": (2, 2)}
        assert never_matched(agent) == ["none"]
        publish(agent, *[5] * 30, 5000)  # many at once take another way
        late = agent.subscribe("quotes", "price > 1", durable="away")
        for _ in range(34):
            late.get(20)
    with served(tmp_path) as server, Agent(server.url) as agent:
        assert counters(agent) == {"away": (34, 34), "none": (1, 0), "read": (33, 2)}
        assert never_matched(agent) == []


def test_a_new_subscription_of_an_old_name_begins_at_zero(tmp_path):
    with served(tmp_path) as server, Agent(server.url) as agent:
        agent.put_channel("quotes", QUOTES)
        path = "/api/channels/quotes/subscriptions/one"
        agent.call("PUT", path, {"selector": "price > 1"})
        publish(agent, 5, 6)
    with served(tmp_path) as server, Agent(server.url) as agent:
        agent.call("PUT", path, {"selector": "price > 2"})  # a change of the filter counts on
        assert counters(agent) == {"one": (2, 0)}
        agent.call("DELETE", path)
        agent.call("PUT", path, {"selector": "price > 1"})
    with served(tmp_path) as server, Agent(server.url) as agent:
        assert counters(agent) == {"one": (0, 0)}


def test_counters_that_the_disk_did_not_take_are_written_later(tmp_path, monkeypatch):
    from tamis.errors import RegistryError
    from tamis.registry import SqliteRegistry

    put, failures = SqliteRegistry.put_tallies, []

    def fail_once(self, tallies):
        if not failures:
            failures.append(tallies)
            raise RegistryError("the disk is full")
        put(self, tallies)

    monkeypatch.setattr("tamis.server.hub._TALLY", 0.05)
    monkeypatch.setattr(SqliteRegistry, "put_tallies", fail_once)
    with served(tmp_path) as server, Agent(server.url) as agent:
        agent.put_channel("quotes", QUOTES)
        agent.call("PUT", "/api/channels/quotes/subscriptions/one", {"selector": "price > 1"})
        publish(agent, 5, 6)
        while not failures:
            agent.channels()
    with served(tmp_path) as server, Agent(server.url) as agent:
        assert counters(agent) == {"one": (2, 0)}

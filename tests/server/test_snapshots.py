"""Matchers that were saved: taken up again, brought up to date, and never trusted blindly."""

from __future__ import annotations

import asyncio
import random

import pytest

from server.servers import QUOTES, served
from tamis.engine.live.id_table import Slots
from tamis.pubsub.broker.judge import Judge, Language
from tamis.schema import Schema
from tamis.server import snapshots
from tamis.server.assembly import parts
from tamis.server.snapshots import Snapshots

LANGUAGE = Language(Schema.of(symbol=str, price=float))
MESSAGES = [("a.b", {"symbol": s, "price": float(p)}) for s in "xyz" for p in range(10)]


def filters(chance, numbers):
    return [(n, chance.choice([">", "a.*"]), f"price > {chance.randrange(10)}",
             chance.choice(["", "symbol = 'x'"])) for n in numbers]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_a_judge_that_takes_up_an_old_matcher_judges_like_a_new_one(seed, tmp_path):
    chance = random.Random(seed)
    old = Judge(LANGUAGE)
    old.restore(filters(chance, range(1, 40)))
    old.matcher.save(tmp_path / "m")
    wanted = filters(chance, chance.sample(range(1, 60), 30))
    fresh, again = Judge(LANGUAGE), Judge(LANGUAGE)
    fresh.restore(wanted)
    again.restore(wanted, type(old.matcher).load(tmp_path / "m"))
    found = [sorted(numbers) for numbers in again.match(MESSAGES)]
    assert found == [sorted(numbers) for numbers in fresh.match(MESSAGES)]
    again.put(99, ">", "TRUE")
    again.remove(wanted[0][0])
    assert all(99 in numbers for numbers in again.match(MESSAGES))


def test_what_was_already_there_is_not_compiled_again(tmp_path):
    same = filters(random.Random(1), range(1, 40))
    first, second = Judge(LANGUAGE), Judge(LANGUAGE)
    first.restore(same)
    first.matcher.save(tmp_path / "m")
    second.restore(same, type(first.matcher).load(tmp_path / "m"))
    assert (first.changes, second.changes) == (39, 0)
    other = Judge(Language(Schema.of(symbol=str, price=float), "strict"))
    other.restore(same, type(first.matcher).load(tmp_path / "m"))
    assert other.changes == 39


def test_a_broker_starts_with_its_snapshot_and_what_changed_since(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "_FEWEST", 1)
    path = "/api/channels/quotes/subscriptions"

    def put(http, name, selector):
        assert http.put(f"{path}/{name}", json={"selector": selector}).status_code == 200

    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        for name in ("stays", "changes", "goes"):
            put(http, name, "price > 5")
    file = tmp_path / "matchers" / "1.tamis"
    assert file.exists()
    before = file.read_bytes()
    with served(tmp_path) as server, server.http() as http:
        assert server.parts.channels.by_name["main", "quotes"].live.judge.changes == 0
        put(http, "changes", "price > 50")
        put(http, "comes", "price < 5")
        http.delete(f"{path}/goes")
    for content in (before, before[:-9], b"no snapshot"):  # as after a crash; damaged; nonsense
        file.write_bytes(content)
        with served(tmp_path) as server, server.http() as http:
            many = [{"attributes": {"price": price}} for price in (1.0, 10.0, 100.0)]
            dry = http.post("/api/channels/quotes/messages?dry=1", json=many).json()["matches"]
            assert [sorted(one) for one in dry] == [["comes"], ["stays"], ["changes", "stays"]]


def test_who_comes_first_waits_for_nothing_that_a_start_can_do(tmp_path, monkeypatch):
    same = filters(random.Random(3), range(1, 40))
    first, second = Judge(LANGUAGE), Judge(LANGUAGE)
    first.restore(same)
    first.matcher.save(tmp_path / "m")
    second.restore(same, type(first.matcher).load(tmp_path / "m"))
    monkeypatch.delattr(Slots, "_compact")  # the table of ids is made by now
    second.put(40, ">", "price > 5")

    async def warmed():
        done = []
        monkeypatch.setattr(parts, "_warm", lambda: done.append(True))
        own = parts.Parts.at(tmp_path / "broker", local=True)
        own.start()
        assert done  # no thread does it while others want to work
        await own.hub.stop()

    asyncio.run(warmed())


def test_a_channel_that_goes_takes_its_snapshot_along(tmp_path):
    kept = Snapshots(tmp_path / "matchers")
    judge = Judge(LANGUAGE)
    judge.restore(filters(random.Random(2), range(1, 1500)))
    kept.save(7, judge)
    assert kept.load(7) is not None
    kept.forget(7)
    assert kept.load(7) is None

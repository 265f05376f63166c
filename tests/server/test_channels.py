"""Channels that are made and changed at the same moment, by whatever protocol."""

from __future__ import annotations

import asyncio
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from server.servers import QUOTES, hub_at, served
from tamis.errors import RegistryError
from tamis.registry import VERBS, Principal, Right, SqliteRegistry
from tamis.server import folder
from tamis.server.access import LOCAL, Caller, new_token
from tamis.server.channels import MAX_RETENTION, MAX_RETENTION_BYTES, ChannelForm


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "data") as found, found.http() as found.client:
        yield found


def at_once(server, work, count):
    """`count` calls of the server's event loop, in one turn of it; what they gave or raised."""

    async def all_of_them():
        return await asyncio.gather(*map(work, range(count)), return_exceptions=True)

    return asyncio.run_coroutine_threadsafe(all_of_them(), server.parts.hub.loop).result(30)


def test_channels_of_two_tenants_never_share_a_number(tmp_path):
    with SqliteRegistry(tmp_path / "registry.db") as registry:
        tokens = {}
        for tenant in ("red", "blue"):
            registry.put_principal(Principal("boss", tenant))
            for verb in VERBS:
                registry.put_right(Right(f"{tenant}/boss", verb))
            tokens[tenant] = new_token(registry, f"{tenant}/boss")
    names = [(tenant, f"c{i}") for i in range(6) for tenant in tokens]

    def call(method, tenant, path, **more):
        bearer = {"authorization": f"Bearer {tokens[tenant]}"}
        return http.request(method, f"/api/channels/{path}", headers=bearer, **more)

    with served(tmp_path) as server, server.http() as http, ThreadPoolExecutor(12) as pool:
        made = pool.map(lambda n: call("PUT", *n, json={}).status_code, names)
        assert list(made) == [201] * 12
        for tenant, name in names:
            told = [{"attributes": {"of": f"{tenant} {name}"}}]
            assert call("POST", tenant, f"{name}/messages", json=told).status_code == 200
        numbers = [c.entry.number for c in server.parts.channels.by_name.values()]
        assert len(set(numbers)) == 12
    with served(tmp_path) as server, server.http() as http:
        for tenant, name in names:
            (line,) = call("GET", tenant, f"{name}/messages").text.splitlines()
            assert f'"{tenant} {name}"' in line


def test_one_of_many_who_create_the_same_channel_does(server):
    caller, form = Caller(LOCAL, "main"), ChannelForm()
    found = at_once(server, lambda _: server.parts.channels.create(caller, "quotes", form), 6)
    errors = [one for one in found if isinstance(one, RegistryError)]
    assert len(errors) == 5
    assert "already" in str(errors[0])
    put = at_once(server, lambda _: server.parts.channels.put(caller, "more", form), 6)
    assert [new for _, new in put].count(True) == 1


def test_of_changes_at_the_same_moment_none_is_lost(server):
    caller = Caller(LOCAL, "main")
    server.client.put("/api/channels/quotes", json={"subjects": ["x.y"]})
    channels = server.parts.channels
    known = channels.by_name["main", "quotes"]

    def change(i):
        if i % 2:
            return channels.add_subject(caller, known, f"s{i}.z", "")
        return channels.put(caller, "quotes", ChannelForm(subjects=["x.y", f"s{i}.z"]))

    found = at_once(server, change, 10)
    assert not [one for one in found if isinstance(one, Exception)]
    shown = server.client.get("/api/channels/quotes").json()
    assert set(shown["subjects"]) == {"x.y", *(f"s{i}.z" for i in range(10))}
    assert shown["version"] == 11
    assert len({known.channel.numbers[f"s{i}"] for i in range(10)}) == 10


def test_a_change_may_ask_for_the_version_that_it_is_made_for(server):
    path = "/api/channels/quotes"

    def put(match, **form):
        return server.client.put(path, json={**QUOTES, **form}, headers={"if-match": match})

    assert put("*").status_code == 412  # there is none
    made = server.client.put(path, json=QUOTES)
    first = made.headers["etag"]
    assert server.client.get(path).headers["etag"] == first
    changed = put(first, sentence="mine")
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    late = put(first, sentence="theirs")
    assert late.status_code == 412
    assert changed.headers["etag"] in late.json()["error"]
    assert server.client.get(path).json()["sentence"] == "mine"
    assert put("*", sentence="any").status_code == 200
    second = server.client.get(path).headers["etag"]
    assert put(f'"9-9", {second}', sentence="one of two").status_code == 200
    assert server.client.delete(path, headers={"if-match": first}).status_code == 412
    third = server.client.get(path).headers["etag"]
    assert server.client.delete(path, headers={"if-match": third}).status_code == 204
    again = server.client.put(path, json=QUOTES)
    assert again.headers["etag"] != first


def test_who_goes_away_leaves_nothing_half_done(server):
    """What the registry has is also open."""
    caller, channels = Caller(LOCAL, "main"), server.parts.channels

    async def cut(i):
        task = asyncio.ensure_future(channels.create(caller, f"c{i}", ChannelForm()))
        for _ in range(i):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    at_once(server, cut, 8)
    stored = {entry.name for entry in server.parts.hub.registry.channels()}
    assert stored == {name for _, name in channels.by_name}


def test_a_channel_that_cannot_be_removed_stays(server, monkeypatch):
    server.client.put("/api/channels/quotes", json=QUOTES)

    def fail(number):
        raise RegistryError("the disk is full")

    monkeypatch.setattr(server.parts.hub.registry, "remove_channel", fail)
    assert server.client.delete("/api/channels/quotes").status_code == 422
    assert server.client.get("/api/channels/quotes").status_code == 200


@pytest.mark.parametrize(
    "form",
    [{"retention": n} for n in (-1, 0, MAX_RETENTION + 1, 2**60, 2**64, 1.5)]
    + [{"retention_bytes": n} for n in (-1, MAX_RETENTION_BYTES + 1, 2**63, 2**64)]
    + [{"file": f"[[channel]]\nid = 1\nretention = {n}\n"} for n in (-1, 0, MAX_RETENTION + 1)],
)
def test_numbers_have_bounds(server, form):
    assert server.client.put("/api/channels/quotes", json=form).status_code == 422
    assert server.client.put("/api/channels/quotes", json=QUOTES).status_code == 201
    assert server.client.put("/api/channels/quotes", json=QUOTES | form).status_code == 422


def test_bounds_are_in_the_description(server):
    forms = server.client.get("/openapi.json").json()["components"]["schemas"]
    (retention, _) = forms["ChannelForm"]["properties"]["retention"]["anyOf"]
    assert (retention["minimum"], retention["maximum"]) == (1, MAX_RETENTION)


# --- its directory ------------------------------------------------------------------


def modes(directory):
    return {stat.S_IMODE(p.lstat().st_mode) for p in (directory, *directory.rglob("*"))}


def test_only_its_owner_reads_the_directory(server):
    server.client.put("/api/channels/quotes", json=QUOTES)
    server.client.post("/api/channels/quotes/messages", json={"attributes": {}})
    assert modes(server.parts.directory) == {0o700, 0o600}


def test_a_directory_that_others_could_read_is_tightened_with_a_note(tmp_path, caplog):
    (tmp_path / "matchers").mkdir(mode=0o755)
    for name in ("log.db", "registry.db", "matchers/1.tamis"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o644)
    tmp_path.chmod(0o755)

    async def main():
        hub = hub_at(tmp_path)
        await hub.stop()

    asyncio.run(main())
    assert modes(tmp_path) == {0o700, 0o600}
    assert caplog.text.count("others could read it") == 5
    caplog.clear()
    asyncio.run(main())
    assert caplog.text == ""


def test_a_broker_that_cannot_open_its_files_lets_go_of_the_directory(tmp_path):
    (tmp_path / "registry.db").write_bytes(b"not a database" * 100)

    async def main():
        hub_at(tmp_path)

    with pytest.raises(RegistryError, match=r"registry\.db"):
        asyncio.run(main())
    os.close(folder.take(tmp_path))

"""What every form of the registry must do."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from msgspec import structs

from tamis.errors import RegistryError
from tamis.pubsub.broker.records import Record
from tamis.registry import (
    AuditEntry,
    ChannelEntry,
    FlowEntry,
    Principal,
    Recap,
    Right,
    SqliteRegistry,
    Stored,
    Token,
    Version,
)


class Reopened:
    """A registry that is closed and opened again before every call: all must be on disk."""

    def __init__(self, path):
        self.path = path

    def __getattr__(self, name):
        def call(*args, **more):
            with SqliteRegistry(self.path) as registry:
                found = getattr(registry, name)(*args, **more)
                return list(found) if name == "subscriptions" else found

        return call


@pytest.fixture(params=["open", "reopened"])
def registry(request, tmp_path):
    made = (SqliteRegistry if request.param == "open" else Reopened)(tmp_path / "registry.db")
    yield made
    made.close()


def stored(name, channel=1, principal="alice", cursor=0, selector="price > 1"):
    return Stored(channel, name, principal, (Version(1, ">", selector),), cursor)


def entry(tenant, name, form="form"):
    return lambda number: ChannelEntry(number, tenant, name, form)


def test_channels_by_tenant_and_name(registry):
    first = registry.create_channel(entry("acme", "quotes"))
    other = registry.create_channel(entry("other", "quotes"))
    assert registry.channels() == [first, other]
    with pytest.raises(RegistryError, match="already"):
        registry.create_channel(entry("acme", "quotes"))
    changed = ChannelEntry(first.number, "acme", "quotes", "another form")
    registry.change_channel(changed)
    assert registry.channels() == [changed, other]
    for number, tenant, name in ((9, "acme", "quotes"), (first.number, "other", "quotes")):
        with pytest.raises(RegistryError, match="there is no channel"):
            registry.change_channel(ChannelEntry(number, tenant, name, "form"))
    assert registry.channels() == [changed, other]


def test_numbers_of_channels_are_never_used_again(registry):
    number = registry.create_channel(entry("acme", "quotes")).number
    registry.remove_channel(number)
    assert registry.create_channel(entry("acme", "quotes")).number > number


def test_channels_that_are_made_at_the_same_moment_have_numbers_of_their_own(tmp_path):
    """By threads, and by processes, which have connections of their own."""
    ours = [SqliteRegistry(tmp_path / "registry.db") for _ in range(2)]

    def make(i):
        return ours[i % 2].create_channel(entry(f"t{i % 3}", f"c{i}"))

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, range(60)))
    assert len({one.number for one in made}) == 60
    assert {one.name for one in ours[0].channels()} == {f"c{i}" for i in range(60)}
    for one in ours:
        one.close()


def test_a_principal_is_changed_in_one_step(tmp_path):
    ours = [SqliteRegistry(tmp_path / "registry.db") for _ in range(2)]
    ours[0].put_principal(Principal("alice", "main"))

    def more(i):
        ours[i % 2].change_principal(
            "alice", lambda known: structs.replace(known, subscriptions=known.subscriptions + 1)
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(more, range(40)))
    assert [p.subscriptions for p in ours[0].principals()] == [40]
    for one in ours:
        one.close()


def test_bad_names_are_refused():
    for name in ("", "a b", "a/b", "é", "a" * 101, "-a"):
        with pytest.raises(RegistryError):
            ChannelEntry(1, "acme", name, "")


def test_principals_go_with_all_that_they_have(registry):
    alice, bob = Principal("alice", "acme", "hash", "region = 'EU'"), Principal("bob", "acme")
    registry.put_principal(alice)
    registry.put_principal(bob)
    right = Right("acme/alice", "publish", "quotes", "a.>")
    registry.put_right(right)
    registry.put_right(right)
    registry.put_token(Token("digest", "acme/alice", "laptop", ("publish",), 17))
    mine, his = stored("s", principal="acme/alice"), stored("t", principal="acme/bob")
    registry.change_subscriptions([mine, his])
    assert registry.principals() == [alice, bob]
    assert registry.rights("acme/alice") == [right]
    assert registry.token("digest").verbs == ("publish",)
    assert registry.tokens("acme/alice") == [registry.token("digest")]
    registry.remove_principal("acme/alice")
    assert registry.principals() == [bob]
    assert registry.rights("acme/alice") == []
    assert registry.token("digest") is None
    assert [s.name for s in registry.subscriptions(1)] == ["t"]


def test_rights_and_tokens_can_be_taken_back(registry):
    right = Right("alice", "manage")
    registry.put_right(right)
    registry.remove_right(right)
    registry.put_token(Token("digest", "alice"))
    registry.remove_token("digest")
    assert registry.rights("alice") == []
    assert registry.token("digest") is None


def test_subscriptions_keep_their_order_and_their_cursors(registry):
    registry.change_subscriptions([stored("b"), stored("a"), stored("c", channel=2)])
    registry.put_cursors({(1, "b"): 7, (1, "nobody"): 9})
    registry.put_cursors({(1, "b"): 5})  # a cursor never goes back
    assert [(s.name, s.cursor) for s in registry.subscriptions(1)] == [("b", 7), ("a", 0)]
    registry.change_subscriptions([stored("b", cursor=7, selector="price > 2")], [(1, "a")])
    assert [s.versions[0].selector for s in registry.subscriptions(1)] == ["price > 2"]
    registry.remove_channel(1)
    assert list(registry.subscriptions(1)) == []
    assert [s.name for s in registry.subscriptions(2)] == ["c"]


def test_audit_tells_the_newest_first(registry):
    for i in range(5):
        registry.audit(AuditEntry(i, "alice", "channel.create", f"c{i}"))
    assert [entry.target for entry in registry.audits(2)] == ["c4", "c3"]
    registry.audit(AuditEntry(5, "bob", "channel.create", "c5", "acme"))
    registry.audit(AuditEntry(6, "eve", "channel.create", "c6", "other"))
    assert [entry.target for entry in registry.audits(2, "acme")] == ["c5"]


def test_the_version_tells_of_changes_by_others(tmp_path):
    mine, other = (SqliteRegistry(tmp_path / "registry.db") for _ in range(2))
    before = mine.version()
    mine.put_principal(Principal("alice", "main"))
    assert mine.version() == before
    other.put_principal(Principal("bob", "main"))
    assert mine.version() != before
    mine.close()
    other.close()


def test_an_audit_log_without_tenants_is_taken_over(tmp_path):
    old = sqlite3.connect(tmp_path / "registry.db")
    old.execute("CREATE TABLE audit (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, "
                "principal TEXT NOT NULL, action TEXT NOT NULL, target TEXT NOT NULL)")  # fmt: skip
    old.execute("INSERT INTO audit VALUES (1, 2, 'alice', 'channel.create', 'c')")
    old.commit()
    old.close()
    registry = SqliteRegistry(tmp_path / "registry.db")
    assert registry.audits() == [AuditEntry(2, "alice", "channel.create", "c")]
    registry.close()


def test_two_tenants_may_use_one_name(registry):
    ours, theirs = Principal("bob", "main"), Principal("bob", "acme")
    registry.put_principal(ours)
    registry.put_principal(theirs)
    registry.put_right(Right("acme/bob", "manage"))
    assert {p.login for p in registry.principals()} == {"bob", "acme/bob"}
    assert registry.rights("bob") == []
    registry.remove_principal("acme/bob")
    assert registry.principals() == [ours]
    assert registry.rights("acme/bob") == []


def test_names_that_all_tenants_shared_are_taken_over(tmp_path):
    registry = SqliteRegistry(tmp_path / "registry.db")
    registry.put_principal(Principal("bob", "acme", "hash"))
    registry.put_principal(Principal("bob", "main", "another"))
    for name in ("alice", "acme/bob", "bob"):
        registry.put_right(Right(name, "publish"))
        registry.put_token(Token(f"of {name}", name))
        registry.change_subscriptions([stored(name.replace("/", "."), principal=name, cursor=4)])
    value = msgspec.msgpack.encode(Principal("alice", "acme"))
    registry._db.execute("INSERT INTO principal VALUES ('alice', ?, 0)", (value,))
    registry._db.execute("PRAGMA user_version = 0")
    registry.close()
    registry = SqliteRegistry(tmp_path / "registry.db")
    assert {p.login for p in registry.principals()} == {"acme/alice", "acme/bob", "bob"}
    assert registry.rights("alice") == []
    for name, was in (("acme/alice", "alice"), ("acme/bob", "acme/bob"), ("bob", "bob")):
        assert registry.rights(name) == [Right(name, "publish")]
        assert registry.tokens(name) == [Token(f"of {was}", name)]
    found = {s.name: (s.principal, s.cursor) for s in registry.subscriptions(1)}
    assert found == {"alice": ("acme/alice", 4), "acme.bob": ("acme/bob", 4), "bob": ("bob", 4)}
    registry.close()


def test_very_many_subscriptions_come_in_order(registry):
    names = [f"s{i * 7919 % 3001}" for i in range(3001)]
    registry.change_subscriptions(stored(name) for name in names)
    assert [s.name for s in registry.subscriptions(1)] == names


def test_tallies_stay_as_long_as_their_subscriptions(registry):
    number = registry.create_channel(entry("acme", "quotes")).number
    registry.change_subscriptions([stored("a", number), stored("b", number)])
    assert registry.tallies(number) == {}
    registry.put_tallies({(number, "a"): (3, 2), (number, "gone"): (1, 1)})
    registry.put_tallies({(number, "a"): (7, 5), (number, "b"): (2**53, 0)})
    registry.change_subscriptions([stored("a", number, cursor=9)])
    assert registry.tallies(number) == {"a": (7, 5), "b": (2**53, 0)}
    assert registry.tallies(number + 1) == {}
    registry.change_subscriptions(remove=[(number, "a")])
    registry.change_subscriptions([stored("a", number)])
    assert registry.tallies(number) == {"b": (2**53, 0)}


def test_recaps_go_with_their_subscriptions(registry):
    number = registry.create_channel(entry("acme", "quotes")).number
    registry.change_subscriptions([stored("a", number), stored("b", number)])
    record = Record(7, 5, "", -1, "", "nyse", b"{}")
    for recap in (Recap(4, b"states"), Recap(9, b"more", (record,))):
        registry.put_recap((number, "a"), recap)
        assert registry.recaps(number) == {"a": recap}
    registry.put_recap((number, "gone"), Recap(1))
    registry.change_subscriptions([stored("a", number, cursor=9)])
    assert registry.recaps(number) == {"a": recap}
    registry.change_subscriptions(remove=[(number, "a")])
    registry.change_subscriptions([stored("a", number)])
    assert registry.recaps(number) == {}


def test_flows_by_tenant_and_name(registry):
    first = FlowEntry("acme", "trades", "space T(a: int)", {"T": "t"}, {"L": {"a": 1}})
    other = FlowEntry("other", "trades", "space U(a: int)", {}, {"L": [[1, 2.5]]})
    for entry in (first, other):
        registry.put_flow(entry)
    assert registry.flows() == [first, other]
    changed = FlowEntry("acme", "trades", "space V(a: int)")
    registry.put_flow(changed)
    registry.remove_flow("other", "trades")
    assert registry.flows() == [changed]

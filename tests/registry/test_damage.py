"""Damage and lost commits are noticed as the registry is opened, with what to do."""

from __future__ import annotations

import random
import shutil
import sqlite3
import stat
from pathlib import Path

import msgspec
import pytest

from tamis.errors import RegistryError
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
from tamis.registry import registry_tables as tables

TABLES = ("channel", "flow", "principal", "permission", "token", "subscription", "recap", "audit")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A registry with something of everything, closed."""
    directory = tmp_path_factory.mktemp("whole")
    with SqliteRegistry(directory / "registry.db") as registry:
        for i in range(8):
            name = f"n{i}"
            number = registry.create_channel(
                lambda number, name=name: ChannelEntry(number, "acme", name, f"form {number}")
            ).number
            registry.put_flow(FlowEntry("acme", name, "space T(a: int)"))
            registry.put_principal(Principal(name, "acme", "hash", "region = 'EU'"))
            registry.put_right(Right(f"acme/{name}", "subscribe", name, "a.>"))
            registry.put_token(Token(f"digest {i}", f"acme/{name}"))
            versions = (Version(1, ">", f"price > {i}"),)
            registry.change_subscriptions([Stored(number, name, f"acme/{name}", versions, i)])
            registry.put_recap((number, name), Recap(4, b"states"))
            registry.put_cursors({(number, name): 3 * i})
            registry.put_tallies({(number, name): (5 * i, i)})
            registry.audit(AuditEntry(i, name, "channel.create", name, "acme"))
    return directory


@pytest.fixture
def path(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "broker")) / "registry.db"


def everything(path):
    with SqliteRegistry(path) as registry:
        channels, principals = registry.channels(), registry.principals()
        return (
            channels, principals, registry.flows(), registry.audits(),
            [registry.rights(p.login) for p in principals],
            [registry.tokens(p.login) for p in principals],
            [list(registry.subscriptions(c.number)) for c in channels],
            [registry.recaps(c.number) for c in channels],
            [registry.tallies(c.number) for c in channels],
        )  # fmt: skip


def test_wherever_a_byte_changes_it_is_noticed_or_harmless(path):
    known, data = everything(path), path.read_bytes()
    chance, noticed = random.Random(5), 0
    for _ in range(600):
        place = chance.randrange(len(data))
        damaged = bytearray(data)
        damaged[place] ^= chance.randrange(1, 256)
        path.write_bytes(damaged)
        try:
            assert everything(path) == known, place
        except RegistryError:
            noticed += 1
        for rest in ("-wal", "-shm"):
            path.with_name(path.name + rest).unlink(missing_ok=True)
    assert noticed > 40


@pytest.mark.parametrize("table", TABLES)
def test_the_error_names_the_row_and_a_way_out(path, table):
    column = "subjects" if table == "permission" else "tenant" if table == "audit" else "value"
    db = sqlite3.connect(path)
    db.execute(f"UPDATE {table} SET {column} = {column} || 'x' "
               f"WHERE {column} = (SELECT max({column}) FROM {table})")  # fmt: skip
    db.commit()
    db.close()
    with pytest.raises(RegistryError, match=f"table {table} is damaged at") as caught:
        SqliteRegistry(path)
    assert "restore the registry from a backup" in str(caught.value)
    statement = str(caught.value).split('"')[1]
    while statement:  # each of them may be dropped
        db = sqlite3.connect(path)
        assert db.execute(statement).rowcount == 1
        db.commit()
        db.close()
        try:
            SqliteRegistry(path).close()
            statement = ""
        except RegistryError as error:
            statement = str(error).split('"')[1]


def test_a_cursor_that_changed_by_itself_is_noticed(path):
    db = sqlite3.connect(path)
    db.execute("UPDATE subscription SET cursor = cursor + 1024 WHERE name = 'n3'")
    db.commit()
    db.close()
    with pytest.raises(RegistryError, match="table subscription is damaged"):
        SqliteRegistry(path)


def test_commits_that_are_lost_are_noticed(path, tmp_path):
    """The write-ahead log is cut off, as a disk that lies about its writes may leave it."""
    registry = SqliteRegistry(path)
    registry.put_right(Right("acme/n1", "manage"))
    copy = tmp_path / "copy"
    copy.mkdir()
    registry.remove_right(Right("acme/n1", "manage"))
    for name in ("registry.db", "registry.db-wal", "registry.mark"):
        shutil.copy(path.with_name(name), copy / name)
    registry.close()
    wal = copy / "registry.db-wal"
    wal.write_bytes(wal.read_bytes()[:-100])
    with pytest.raises(RegistryError, match="the last 1 commits are missing") as caught:
        SqliteRegistry(copy / "registry.db")
    assert "restore it from a backup" in str(caught.value)
    (copy / "registry.mark").unlink()
    with SqliteRegistry(copy / "registry.db") as opened:
        assert Right("acme/n1", "manage") in opened.rights("acme/n1")


def test_a_torn_mark_is_no_reason_to_stop(path):
    path.with_suffix(".mark").write_bytes(b"\xff" * 11)
    SqliteRegistry(path).close()


def test_two_channels_that_share_a_number_are_noticed(path):
    with SqliteRegistry(path) as registry:
        entry = msgspec.structs.replace(registry.channels()[1], number=1)
        crc = tables.checksum("number, tenant, name, value")
        value = msgspec.msgpack.encode(entry)
        registry._db.execute("UPDATE channel SET value = ? WHERE number = 2", (value,))
        registry._db.execute(f"UPDATE channel SET crc = {crc}")
        with pytest.raises(RegistryError, match="number 1 is that of channel n1"):
            registry.channels()


def as_before_checksums(path):
    db = sqlite3.connect(path)
    for table in TABLES:
        db.execute(f"ALTER TABLE {table} DROP COLUMN crc")
    db.execute("ALTER TABLE subscription DROP COLUMN guard")
    db.execute("DROP TABLE commits")
    db.execute("PRAGMA user_version = 0")
    db.commit()
    db.close()
    path.with_suffix(".mark").unlink()


def test_a_registry_without_checksums_is_taken_over(path):
    known = everything(path)
    as_before_checksums(path)
    assert everything(path) == known
    db = sqlite3.connect(path)
    for table in TABLES:
        assert db.execute(f"SELECT count(*) FROM {table} WHERE crc IS NULL").fetchone() == (0,)
    db.close()


def test_channels_that_an_earlier_version_lost_are_told_once(path):
    with SqliteRegistry(path) as registry:
        assert registry.notes == []
        registry.audit(AuditEntry(50, "n1", "channel.create", "gone", "acme"))
        registry.audit(AuditEntry(51, "n1", "channel.create", "closed", "acme"))
        registry.audit(AuditEntry(52, "n1", "channel.close", "closed", "acme"))
    as_before_checksums(path)
    with SqliteRegistry(path) as registry:
        (note,) = registry.notes
        assert "channel gone of tenant acme" in note
    with SqliteRegistry(path) as registry:
        assert registry.notes == []


@pytest.mark.parametrize("order", ["type, name", "rowid"])  # rowid: as it was at first
def test_a_registry_that_was_written_anew_is_sound(path, order):
    before = everything(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE commits SET tables = ?", (tables._definitions(db, order),))
    db.close()
    with SqliteRegistry(path) as registry:
        registry.scrub()
    db = sqlite3.connect(path)
    db.execute("VACUUM")
    db.close()
    assert everything(path) == before


def test_a_registry_of_a_later_version_is_left_alone(path):
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 2")
    db.close()
    with pytest.raises(RegistryError, match="a later version"):
        SqliteRegistry(path)


def test_only_its_owner_reads_it(path):
    with SqliteRegistry(path) as registry:
        registry.put_right(Right("acme/n1", "manage"))
        files = list(path.parent.glob("registry.*"))
        assert {p.name for p in files} >= {"registry.db", "registry.db-wal", "registry.mark"}
        assert {stat.S_IMODE(p.stat().st_mode) for p in files} == {0o600}

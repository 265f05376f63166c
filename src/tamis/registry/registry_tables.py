"""The tables of the registry: made, taken over from earlier versions, and checked.

Every row has a checksum of what it holds, and so have the definitions of the tables. The cursor of
a subscription moves too often for that: `guard` is its complement.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from tamis.errors import RegistryError
from tamis.registry.registry_values import Principal, Stored, Token

VERSION = 1
_TABLES = (
    """CREATE TABLE IF NOT EXISTS channel (
        number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, name TEXT NOT NULL,
        value BLOB NOT NULL, crc INTEGER, UNIQUE (tenant, name))""",
    """CREATE TABLE IF NOT EXISTS flow (
        tenant TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, crc INTEGER,
        PRIMARY KEY (tenant, name)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS principal (
        name TEXT PRIMARY KEY, value BLOB NOT NULL, crc INTEGER) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS permission (
        principal TEXT NOT NULL, verb TEXT NOT NULL, channel TEXT NOT NULL,
        subjects TEXT NOT NULL, crc INTEGER,
        PRIMARY KEY (principal, verb, channel, subjects)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS token (
        digest TEXT PRIMARY KEY, principal TEXT NOT NULL, value BLOB NOT NULL, crc INTEGER
        ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS subscription (
        id INTEGER PRIMARY KEY, channel INTEGER NOT NULL, name TEXT NOT NULL,
        principal TEXT NOT NULL, cursor INTEGER NOT NULL, value BLOB NOT NULL,
        guard INTEGER, crc INTEGER, UNIQUE (channel, name))""",
    "CREATE INDEX IF NOT EXISTS subscription_channel ON subscription (channel)",
    """CREATE TABLE IF NOT EXISTS recap (
        subscription INTEGER PRIMARY KEY REFERENCES subscription (id) ON DELETE CASCADE,
        value BLOB NOT NULL, crc INTEGER)""",
    """CREATE TABLE IF NOT EXISTS tally (
        subscription INTEGER PRIMARY KEY REFERENCES subscription (id) ON DELETE CASCADE,
        matched INTEGER NOT NULL, delivered INTEGER NOT NULL, crc INTEGER)""",
    """CREATE TABLE IF NOT EXISTS audit (
        id INTEGER PRIMARY KEY, time INTEGER NOT NULL, principal TEXT NOT NULL,
        action TEXT NOT NULL, target TEXT NOT NULL, tenant TEXT NOT NULL DEFAULT '',
        crc INTEGER)""",
    """CREATE TABLE IF NOT EXISTS commits (
        one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL, tables INTEGER)""",
    "INSERT OR IGNORE INTO commits VALUES (1, 0, 0)",
)
# What the checksum of a row covers, and the columns that name the row.
_COVERED = {
    "channel": ("number, tenant, name, value", "number"),
    "flow": ("tenant, name, value", "tenant, name"),
    "principal": ("name, value", "name"),
    "permission": ("principal, verb, channel, subjects", "principal, verb, channel, subjects"),
    "token": ("digest, principal, value", "digest"),
    "subscription": ("channel, name, principal, value", "id"),
    "recap": ("subscription, value", "subscription"),
    "tally": ("subscription, matched, delivered", "subscription"),
    "audit": ("time, principal, action, target, tenant", "id"),
}
_encode = msgspec.msgpack.Encoder().encode


def _checksum(types: str, *values: bytes | None) -> int:
    return zlib.crc32(_encode((types, values)))


def checksum(columns: str) -> str:
    """An expression for the checksum of columns or parameters. They count with their types, and as
    bytes: a damaged text may have no characters."""
    names = columns.split(", ")
    types = " || ".join(f"typeof({name})" for name in names)
    return f"checksum({types}, {', '.join(f'CAST({name} AS BLOB)' for name in names)})"


@functools.cache
def insert(table: str, how: str = "INSERT") -> str:
    """A statement for one row, with its checksum."""
    columns, _ = _COVERED[table]
    marks = ", ".join(f"?{i}" for i in range(1, columns.count(",") + 2))
    return f"{how} INTO {table} ({columns}, crc) VALUES ({marks}, {checksum(marks)})"


def prepare(db: sqlite3.Connection) -> list[str]:
    """Make the tables, or take them over; what is worth a note. Inside a transaction."""
    db.create_function("checksum", -1, _checksum, deterministic=True)
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise RegistryError(
            "a later version of Tamis made this registry", "use that version, or a backup"
        )
    if version == VERSION:
        return []
    for statement in _TABLES:
        db.execute(statement)
    notes = _take_over(db)
    db.execute("UPDATE commits SET tables = ?", (_definitions(db),))
    db.execute(f"PRAGMA user_version = {VERSION}")
    return notes


def _definitions(db: sqlite3.Connection, order: str = "type, name") -> int:
    rows = db.execute(f"SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY {order}")
    return zlib.crc32(_encode(rows.fetchall()))


def vacuum(db: sqlite3.Connection) -> None:
    """Write the file anew, without what was replaced or removed."""
    db.execute("UPDATE commits SET tables = ?", (_definitions(db),))
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _take_over(db: sqlite3.Connection) -> list[str]:
    """Version 0 had no checksums, and at first neither tenants in its audit log nor logins."""
    added = dict.fromkeys(_COVERED, "crc INTEGER")
    for table, column in (*added.items(), ("subscription", "guard INTEGER"),
                          ("audit", "tenant TEXT NOT NULL DEFAULT ''")):  # fmt: skip
        known = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        if column.partition(" ")[0] not in known:
            db.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    for known, value in db.execute("SELECT name, value FROM principal").fetchall():
        login = msgspec.msgpack.decode(value, type=Principal).login
        if known != login:
            _rename(db, known, login)
    db.execute("UPDATE subscription SET guard = ~cursor")
    for table, (columns, _) in _COVERED.items():
        db.execute(f"UPDATE {table} SET crc = {checksum(columns)}")
    return list(_lost_channels(db))


def _rename(db: sqlite3.Connection, known: str, login: str) -> None:
    names = login, known
    db.execute("UPDATE principal SET name = ? WHERE name = ?", names)
    db.execute("UPDATE permission SET principal = ? WHERE principal = ?", names)
    for table, key, kind in (("token", "digest", Token), ("subscription", "id", Stored)):
        query = f"SELECT {key}, value FROM {table} WHERE principal = ?"
        for place, value in db.execute(query, (known,)).fetchall():
            old = msgspec.msgpack.decode(value, type=kind)
            new = msgspec.structs.replace(old, principal=login)
            update = f"UPDATE {table} SET principal = ?, value = ? WHERE {key} = ?"
            db.execute(update, (login, _encode(new), place))


def _lost_channels(db: sqlite3.Connection) -> Iterator[str]:
    """Version 0 gave channels that were made at the same moment one number, and kept the last."""
    query = """
        SELECT tenant, target FROM audit AS made
        WHERE action = 'channel.create' AND tenant != '' AND NOT EXISTS (
            SELECT 1 FROM channel WHERE tenant = made.tenant AND name = made.target
        ) AND NOT EXISTS (
            SELECT 1 FROM audit WHERE action = 'channel.close' AND tenant = made.tenant
            AND target = made.target AND id > made.id
        )"""
    for tenant, name in db.execute(query):
        yield (
            f"channel {name} of tenant {tenant} was created, never closed, and is not in the "
            "registry: it may have shared its number, and its messages, with another channel"
        )


def check(db: sqlite3.Connection, path: Path) -> None:
    """RegistryError for the first damage: in the structure of the file, then in a row.

    There may be a million rows. Another thread looks at the structure meanwhile: SQLite does not
    need Python's lock for it.
    """
    with ThreadPoolExecutor(1, "tamis-check") as pool:
        structure = pool.submit(_check_structure, path)
        try:
            for table, (columns, key) in _COVERED.items():
                _check_rows(db, table, key, f"crc IS NOT {checksum(columns)}")
            _check_rows(db, "subscription", "id", "guard IS NOT ~cursor")
        except (RegistryError, sqlite3.Error):
            structure.result()  # which may be the reason
            raise
        structure.result()


def _check_structure(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as db:
        (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
        (tables,) = db.execute("SELECT tables FROM commits").fetchone()
        # VACUUM orders them anew, so their order does not count; at first it did.
        if found == "ok" and tables not in (_definitions(db), _definitions(db, "rowid")):
            found = "the definitions of its tables are damaged"
    if found != "ok":
        raise RegistryError(found, "restore the registry from a backup")


def _check_rows(db: sqlite3.Connection, table: str, key: str, damaged: str) -> None:
    names = key.split(", ")
    quoted = ", ".join(f"quote({name})" for name in names)
    row = db.execute(f"SELECT {quoted} FROM {table} WHERE {damaged} LIMIT 1").fetchone()
    if row is not None:
        place = " AND ".join(f"{name} = {value}" for name, value in zip(names, row, strict=True))
        raise RegistryError(
            f"table {table} is damaged at {place}",
            "restore the registry from a backup; "
            f'sqlite3 registry.db "DELETE FROM {table} WHERE {place}" goes on without this row',
        )

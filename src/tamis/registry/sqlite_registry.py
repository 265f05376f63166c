"""The registry in one SQLite file: a row for each thing, its value as MessagePack."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Self

import msgspec

from tamis.errors import RegistryError
from tamis.registry.values import (
    AuditEntry,
    ChannelEntry,
    Cursor,
    FlowEntry,
    Principal,
    Recap,
    Right,
    Stored,
    Token,
)

_TABLES = """
CREATE TABLE IF NOT EXISTS channel (
    number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, name TEXT NOT NULL,
    value BLOB NOT NULL, UNIQUE (tenant, name)
);
CREATE TABLE IF NOT EXISTS flow (
    tenant TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS principal (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS permission (
    principal TEXT NOT NULL, verb TEXT NOT NULL, channel TEXT NOT NULL, subjects TEXT NOT NULL,
    PRIMARY KEY (principal, verb, channel, subjects)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS token (
    digest TEXT PRIMARY KEY, principal TEXT NOT NULL, value BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS subscription (
    id INTEGER PRIMARY KEY, channel INTEGER NOT NULL, name TEXT NOT NULL,
    principal TEXT NOT NULL, cursor INTEGER NOT NULL, value BLOB NOT NULL, UNIQUE (channel, name)
);
CREATE INDEX IF NOT EXISTS subscription_channel ON subscription (channel);
CREATE TABLE IF NOT EXISTS recap (
    subscription INTEGER PRIMARY KEY REFERENCES subscription (id) ON DELETE CASCADE,
    value BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY, time INTEGER NOT NULL, principal TEXT NOT NULL,
    action TEXT NOT NULL, target TEXT NOT NULL, tenant TEXT NOT NULL DEFAULT ''
);
"""
_PUT_SUBSCRIPTION = """
INSERT INTO subscription (channel, name, principal, cursor, value) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (channel, name) DO UPDATE
SET principal = excluded.principal, cursor = excluded.cursor, value = excluded.value
"""
_MOVE = "UPDATE subscription SET cursor = max(cursor, ?) WHERE channel = ? AND name = ?"
_PIECE = 1_000  # rows that are fetched at a time where there may be a million
_encode = msgspec.msgpack.Encoder().encode


class SqliteRegistry:
    """See `Registry`. One connection, one call at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(
                self.path, timeout=30, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise RegistryError(f"{self.path}: {error}") from None
        with ExitStack() as stack:
            stack.callback(self.close)
            self._open()
            stack.pop_all()

    def _open(self) -> None:
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
            self._db.executescript(_TABLES)
            self._grow()
        except sqlite3.Error as error:
            raise RegistryError(f"{self.path}: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _grow(self) -> None:
        """A registry of an earlier version has no tenants in its audit log and in logins."""
        columns = [row[1] for row in self._db.execute("PRAGMA table_info(audit)")]
        if "tenant" not in columns:
            self._db.execute("ALTER TABLE audit ADD COLUMN tenant TEXT NOT NULL DEFAULT ''")
        for known, value in self._rows("SELECT name, value FROM principal"):
            login = msgspec.msgpack.decode(value, type=Principal).login
            if known != login:
                self._rename(known, login)

    def _rename(self, known: str, login: str) -> None:
        with self._change() as db:
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

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """All that is done inside, or none of it."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise RegistryError(f"{self.path}: {error}") from None

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._lock:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise RegistryError(f"{self.path}: {error}") from None

    def _pieces(self, query: str, *values: object) -> Iterator[list[Any]]:
        """The same rows, some at a time."""
        try:
            with self._lock:
                cursor = self._db.execute(query, values)
                rows = cursor.fetchmany(_PIECE)
            while rows:
                yield rows
                with self._lock:
                    rows = cursor.fetchmany(_PIECE)
        except sqlite3.Error as error:
            raise RegistryError(f"{self.path}: {error}") from None

    # --- channels ------------------------------------------------------------------

    def channels(self) -> list[ChannelEntry]:
        return _values(ChannelEntry, self._rows("SELECT value FROM channel ORDER BY number"))

    def next_number(self) -> int:
        rows = self._rows("SELECT seq FROM sqlite_sequence WHERE name = 'channel'")
        return int(rows[0][0]) + 1 if rows else 1

    def put_channel(self, entry: ChannelEntry) -> None:
        same = "SELECT number FROM channel WHERE tenant = ? AND name = ?"
        known = self._rows(same, entry.tenant, entry.name)
        if known and known[0][0] != entry.number:
            raise RegistryError(f"there is a channel {entry.name} already")
        with self._change() as db:
            db.execute(
                "INSERT INTO channel VALUES (?, ?, ?, ?) ON CONFLICT (number) DO UPDATE "
                "SET tenant = excluded.tenant, name = excluded.name, value = excluded.value",
                (entry.number, entry.tenant, entry.name, _encode(entry)),
            )

    def remove_channel(self, number: int) -> None:
        with self._change() as db:
            db.execute("DELETE FROM channel WHERE number = ?", (number,))
            db.execute("DELETE FROM subscription WHERE channel = ?", (number,))

    # --- flows ---------------------------------------------------------------------

    def flows(self) -> list[FlowEntry]:
        return _values(FlowEntry, self._rows("SELECT value FROM flow ORDER BY tenant, name"))

    def put_flow(self, entry: FlowEntry) -> None:
        with self._change() as db:
            row = (entry.tenant, entry.name, _encode(entry))
            db.execute("INSERT OR REPLACE INTO flow VALUES (?, ?, ?)", row)

    def remove_flow(self, tenant: str, name: str) -> None:
        with self._change() as db:
            db.execute("DELETE FROM flow WHERE tenant = ? AND name = ?", (tenant, name))

    # --- principals ----------------------------------------------------------------

    def principals(self) -> list[Principal]:
        return _values(Principal, self._rows("SELECT value FROM principal ORDER BY name"))

    def put_principal(self, principal: Principal) -> None:
        with self._change() as db:
            row = (principal.login, _encode(principal))
            db.execute("INSERT OR REPLACE INTO principal VALUES (?, ?)", row)

    def remove_principal(self, login: str) -> None:
        with self._change() as db:
            db.execute("DELETE FROM principal WHERE name = ?", (login,))
            for table in ("permission", "token", "subscription"):
                db.execute(f"DELETE FROM {table} WHERE principal = ?", (login,))

    def rights(self, principal: str) -> list[Right]:
        query = "SELECT principal, verb, channel, subjects FROM permission WHERE principal = ?"
        return [Right(*row) for row in self._rows(query, principal)]

    def put_right(self, right: Right) -> None:
        with self._change() as db:
            row = (right.principal, right.verb, right.channel, right.subjects)
            db.execute("INSERT OR IGNORE INTO permission VALUES (?, ?, ?, ?)", row)

    def remove_right(self, right: Right) -> None:
        with self._change() as db:
            db.execute(
                "DELETE FROM permission WHERE principal = ? AND verb = ? AND channel = ? "
                "AND subjects = ?",
                (right.principal, right.verb, right.channel, right.subjects),
            )

    def token(self, digest: str) -> Token | None:
        found = _values(Token, self._rows("SELECT value FROM token WHERE digest = ?", digest))
        return found[0] if found else None

    def tokens(self, principal: str) -> list[Token]:
        query = "SELECT value FROM token WHERE principal = ? ORDER BY digest"
        return _values(Token, self._rows(query, principal))

    def put_token(self, token: Token) -> None:
        with self._change() as db:
            row = (token.digest, token.principal, _encode(token))
            db.execute("INSERT OR REPLACE INTO token VALUES (?, ?, ?)", row)

    def remove_token(self, digest: str) -> None:
        with self._change() as db:
            db.execute("DELETE FROM token WHERE digest = ?", (digest,))

    # --- subscriptions -------------------------------------------------------------

    def subscriptions(self, channel: int) -> Iterable[Stored]:
        query = "SELECT value, cursor FROM subscription WHERE channel = ? ORDER BY id"
        decode = msgspec.msgpack.Decoder(Stored).decode
        for value, cursor in chain.from_iterable(self._pieces(query, channel)):
            stored = decode(value)
            same = stored.cursor == cursor
            yield stored if same else msgspec.structs.replace(stored, cursor=cursor)

    def change_subscriptions(
        self, put: Iterable[Stored] = (), remove: Iterable[Cursor] = ()
    ) -> None:
        rows = [(s.channel, s.name, s.principal, s.cursor, _encode(s)) for s in put]
        with self._change() as db:
            db.executemany(_PUT_SUBSCRIPTION, rows)
            db.executemany("DELETE FROM subscription WHERE channel = ? AND name = ?", remove)

    def recaps(self, channel: int) -> Mapping[str, Recap]:
        query = "SELECT s.name, r.value FROM recap r JOIN subscription s ON s.id = r.subscription "
        decode = msgspec.msgpack.Decoder(Recap).decode
        found = self._rows(query + "WHERE s.channel = ?", channel)
        return {name: decode(value) for name, value in found}

    def put_recap(self, key: Cursor, recap: Recap) -> None:
        with self._change() as db:
            db.execute(
                "INSERT OR REPLACE INTO recap "
                "SELECT id, ? FROM subscription WHERE channel = ? AND name = ?",
                (_encode(recap), *key),
            )

    def put_cursors(self, cursors: Mapping[Cursor, int]) -> None:
        with self._change() as db:
            db.executemany(_MOVE, [(cursor, *key) for key, cursor in cursors.items()])

    # --- audit ---------------------------------------------------------------------

    def audit(self, *entries: AuditEntry) -> None:
        rows = [(e.time, e.principal, e.action, e.target, e.tenant) for e in entries]
        with self._change() as db:
            db.executemany("INSERT INTO audit VALUES (NULL, ?, ?, ?, ?, ?)", rows)

    def audits(self, limit: int = 100, tenant: str | None = None) -> list[AuditEntry]:
        query = (
            "SELECT time, principal, action, target, tenant FROM audit "
            "WHERE ? IS NULL OR tenant = ? ORDER BY id DESC LIMIT ?"
        )
        return [AuditEntry(*row) for row in self._rows(query, tenant, tenant, limit)]

    def version(self) -> int:
        return int(self._rows("PRAGMA data_version")[0][0])

    def close(self) -> None:
        with self._lock:
            self._db.close()


def _values(kind: type[Any], rows: Iterable[tuple[bytes]]) -> list[Any]:
    decode = msgspec.msgpack.Decoder(kind).decode
    return [decode(value) for (value,) in rows]

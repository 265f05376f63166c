"""The registry in one SQLite file: a row for each thing, its value as MessagePack.

Checksums of all rows, and a mark beside the file as the log has one, tell of damage and of lost
commits as it is opened.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Self

import msgspec

from tamis.errors import RegistryError
from tamis.files import make_private
from tamis.log.mark import Mark
from tamis.registry import registry_tables as tables
from tamis.registry.registry_values import (
    AuditEntry,
    ChannelEntry,
    Cursor,
    FlowEntry,
    Principal,
    Recap,
    Right,
    Stored,
    Tally,
    Token,
)

_PUT_SUBSCRIPTION = f"""
INSERT INTO subscription (channel, name, principal, value, cursor, guard, crc)
VALUES (?1, ?2, ?3, ?4, ?5, ~?5, {tables.checksum("?1, ?2, ?3, ?4")})
ON CONFLICT (channel, name) DO UPDATE SET principal = excluded.principal,
value = excluded.value, cursor = excluded.cursor, guard = excluded.guard, crc = excluded.crc
"""
_NEXT_NUMBER = """
SELECT 1 + max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'channel'), 0),
               coalesce((SELECT max(number) FROM channel), 0))
"""
_MOVE = """
UPDATE subscription SET cursor = max(cursor, ?1), guard = ~max(cursor, ?1)
WHERE channel = ?2 AND name = ?3
"""
_TALLY = f"""
INSERT OR REPLACE INTO tally SELECT id, ?1, ?2, {tables.checksum("id, ?1, ?2")}
FROM subscription WHERE channel = ?3 AND name = ?4
"""
_PIECE = 1_000  # rows that are fetched at a time where there may be a million
_encode = msgspec.msgpack.Encoder().encode


class SqliteRegistry:
    """See `Registry`. One connection, one call at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._mark: Mark | None = None
        self.notes: list[str] = []  # what was seen as it was opened
        with self._told():
            make_private(self.path)
            self._db = sqlite3.connect(
                self.path, timeout=30, isolation_level=None, check_same_thread=False
            )
        with ExitStack() as stack:
            stack.callback(self.close)
            self._open()
            stack.pop_all()

    def _open(self) -> None:
        with self._told():
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
            with self._transaction():
                self.notes = tables.prepare(self._db)
            self._mark = Mark(self.path)
            self._check(self._mark)

    def _check(self, mark: Mark) -> None:
        tables.check(self._db, self.path)
        if missing := mark.missing(self._commits()):
            raise RegistryError(
                f"the last {missing} commits are missing: its write-ahead log is damaged",
                f"restore it from a backup, or remove {mark.path} to go on without them",
            )

    def _commits(self) -> int:
        return int(self._db.execute("SELECT count FROM commits").fetchone()[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the file and of SQLite as ours, with the place."""
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeDecodeError, RegistryError) as error:
            what = getattr(error, "what", "") or getattr(error, "strerror", "") or str(error)
            raise RegistryError(f"{self.path}: {what}", getattr(error, "hint", "")) from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All that is done inside, or none of it."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """A commit that counts. RegistryError from inside is the caller's, and stays as it is."""
        with self._lock:
            try:
                with self._transaction():
                    yield self._db
                    self._db.execute("UPDATE commits SET count = count + 1")
                    count = self._commits()
            except sqlite3.Error as error:
                raise RegistryError(f"{self.path}: {error}", status=503) from None
            if self._mark is not None:
                self._mark.write(count)

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._lock:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise RegistryError(f"{self.path}: {error}", status=503) from None

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
            raise RegistryError(f"{self.path}: {error}", status=503) from None

    # --- channels ------------------------------------------------------------------

    def channels(self) -> list[ChannelEntry]:
        rows = self._rows("SELECT number, tenant, name, value FROM channel ORDER BY number")
        known: dict[int, ChannelEntry] = {}
        for number, tenant, name, value in rows:
            entry = msgspec.msgpack.decode(value, type=ChannelEntry)
            if entry.number in known or (entry.number, entry.tenant, entry.name) != (
                number, tenant, name,
            ):  # fmt: skip
                raise RegistryError(
                    f"{self.path}: number {entry.number} is that of channel {entry.name} of "
                    f"tenant {entry.tenant}, and of another channel",
                    "restore the registry from a backup",
                )
            known[number] = entry
        return list(known.values())

    def create_channel(self, make: Callable[[int], ChannelEntry]) -> ChannelEntry:
        with self._change() as db:
            entry = make(db.execute(_NEXT_NUMBER).fetchone()[0])
            taken = "SELECT 1 FROM channel WHERE tenant = ? AND name = ?"
            if db.execute(taken, (entry.tenant, entry.name)).fetchone():
                raise RegistryError(f"there is a channel {entry.name} already", status=409)
            row = (entry.number, entry.tenant, entry.name, _encode(entry))
            db.execute(tables.insert("channel"), row)
        return entry

    def change_channel(self, entry: ChannelEntry) -> None:
        with self._change() as db:
            done = db.execute(
                f"UPDATE channel SET value = ?4, crc = {tables.checksum('?1, ?2, ?3, ?4')} "
                "WHERE number = ?1 AND tenant = ?2 AND name = ?3",
                (entry.number, entry.tenant, entry.name, _encode(entry)),
            )
            if not done.rowcount:
                raise RegistryError(f"there is no channel {entry.name}", status=404)

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
            db.execute(tables.insert("flow", "INSERT OR REPLACE"), row)

    def remove_flow(self, tenant: str, name: str) -> None:
        with self._change() as db:
            db.execute("DELETE FROM flow WHERE tenant = ? AND name = ?", (tenant, name))

    # --- principals ----------------------------------------------------------------

    def principals(self) -> list[Principal]:
        return _values(Principal, self._rows("SELECT value FROM principal ORDER BY name"))

    def put_principal(self, principal: Principal) -> None:
        self.change_principal(principal.login, lambda _: principal)

    def change_principal(
        self, login: str, change: Callable[[Principal | None], Principal]
    ) -> Principal:
        with self._change() as db:
            row = db.execute("SELECT value FROM principal WHERE name = ?", (login,)).fetchone()
            made = change(msgspec.msgpack.decode(row[0], type=Principal) if row else None)
            db.execute(tables.insert("principal", "INSERT OR REPLACE"), (login, _encode(made)))
        return made

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
            db.execute(tables.insert("permission", "INSERT OR IGNORE"), row)

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
            db.execute(tables.insert("token", "INSERT OR REPLACE"), row)

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
        rows = [(s.channel, s.name, s.principal, _encode(s), s.cursor) for s in put]
        with self._change() as db:
            db.executemany(_PUT_SUBSCRIPTION, rows)
            db.executemany("DELETE FROM subscription WHERE channel = ? AND name = ?", remove)

    def scrub(self) -> None:
        with self._lock:
            try:
                tables.vacuum(self._db)
            except sqlite3.Error as error:
                raise RegistryError(f"{self.path}: {error}", status=503) from None

    def recaps(self, channel: int) -> Mapping[str, Recap]:
        query = "SELECT s.name, r.value FROM recap r JOIN subscription s ON s.id = r.subscription "
        decode = msgspec.msgpack.Decoder(Recap).decode
        found = self._rows(query + "WHERE s.channel = ?", channel)
        return {name: decode(value) for name, value in found}

    def put_recap(self, key: Cursor, recap: Recap) -> None:
        with self._change() as db:
            db.execute(
                f"INSERT OR REPLACE INTO recap SELECT id, ?1, {tables.checksum('id, ?1')} "
                "FROM subscription WHERE channel = ?2 AND name = ?3",
                (_encode(recap), *key),
            )

    def put_cursors(self, cursors: Mapping[Cursor, int]) -> None:
        with self._change() as db:
            db.executemany(_MOVE, [(cursor, *key) for key, cursor in cursors.items()])

    def tallies(self, channel: int) -> Mapping[str, Tally]:
        query = (
            "SELECT s.name, t.matched, t.delivered FROM tally t "
            "JOIN subscription s ON s.id = t.subscription WHERE s.channel = ?"
        )
        return {name: (matched, sent) for name, matched, sent in self._rows(query, channel)}

    def put_tallies(self, tallies: Mapping[Cursor, Tally]) -> None:
        with self._change() as db:
            db.executemany(_TALLY, [(*tally, *key) for key, tally in tallies.items()])

    # --- audit ---------------------------------------------------------------------

    def audit(self, *entries: AuditEntry) -> None:
        rows = [(e.time, e.principal, e.action, e.target, e.tenant) for e in entries]
        with self._change() as db:
            db.executemany(tables.insert("audit"), rows)

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
            if self._mark is not None:
                self._mark.close()


def _values(kind: type[Any], rows: Iterable[tuple[bytes]]) -> list[Any]:
    decode = msgspec.msgpack.Decoder(kind).decode
    return [decode(value) for (value,) in rows]

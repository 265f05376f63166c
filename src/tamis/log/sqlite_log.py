"""The log in one SQLite file: a row for each block, in WAL mode, synced at every commit.

A mark beside it (`mark.py`) tells of commits that are lost.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import msgspec

from tamis.errors import HoleError, LogError
from tamis.files import make_private
from tamis.log import blocks as codec
from tamis.log.log_protocol import Remembered
from tamis.log.mark import Mark
from tamis.log.migrating import add_used, highest_only, stored_numbers
from tamis.pubsub.broker import intake
from tamis.pubsub.broker.epochs import Epoch, Epochs, begun
from tamis.pubsub.broker.records import Block, Part, Record

_MOST_READ = 32 << 20  # bytes of messages that are read at once, and one block
_CACHED = 8  # megabytes of pages
_TABLES = """
CREATE TABLE IF NOT EXISTS block (
    id INTEGER PRIMARY KEY,
    channel INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    time INTEGER NOT NULL, size INTEGER NOT NULL, crc INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS block_last ON block (channel, last, first, time, size);
CREATE INDEX IF NOT EXISTS block_time ON block (channel, time, last);
CREATE TABLE IF NOT EXISTS channel (
    id INTEGER PRIMARY KEY, next INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS commits (
    one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL
);
INSERT OR IGNORE INTO commits VALUES (1, 0);
CREATE TABLE IF NOT EXISTS subject (
    channel INTEGER NOT NULL, name TEXT NOT NULL, last INTEGER NOT NULL,
    PRIMARY KEY (channel, name, last)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS publisher_numbers (
    channel INTEGER NOT NULL, name TEXT NOT NULL, packed TEXT NOT NULL,
    used INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (channel, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS epoch (
    channel INTEGER NOT NULL, first INTEGER NOT NULL, name TEXT NOT NULL,
    PRIMARY KEY (channel, first)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS copy (channel INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS message_id (
    channel INTEGER NOT NULL, sequence INTEGER NOT NULL, id TEXT NOT NULL,
    PRIMARY KEY (channel, sequence)
) WITHOUT ROWID;
"""
_REMEMBER = """
INSERT INTO publisher_numbers {}
ON CONFLICT (channel, name) DO UPDATE SET packed = excluded.packed, used = excluded.used
"""
_SUBJECT = "INSERT INTO subject {}"
_ID = "INSERT INTO message_id {}"
# Rows by one statement: SQLite gives Python's lock back once for all, not once for each.
_AT_ONCE = "SELECT {} FROM json_each(?) WHERE TRUE"
_BY_KEY = "SELECT ?1, key, value, ?2 FROM json_each(?3) WHERE TRUE"
_ONE_BY_ONE = "VALUES ({})"
_NEXT = "INSERT INTO channel VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET next = excluded.next"
_RESTORE = "restore it from a backup"
_encode = msgspec.json.Encoder().encode
_NOTHING = codec.encode(())[0]


class SqliteLog:
    """See `Log`. One thread at a time writes; every thread reads by a connection of its own."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._own = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._mark: Mark | None = None
        self.epoch = secrets.token_hex(8)  # of this opening
        self._begun: set[int] = set()  # channels that have messages of it
        with ExitStack() as stack:
            stack.callback(self.close)
            self._open()
            stack.pop_all()

    def _open(self) -> None:
        with self._told():
            make_private(self.path)
            self._writer = self._connect()
            self._writer.executescript(_TABLES)
            add_used(self._writer)
            self._mark = Mark(self.path)
            self._check(self._mark)
            self.copies = {n for (n,) in self._writer.execute("SELECT channel FROM copy")}
            if highest_only(self._writer):
                with self._transaction():
                    self._insert(_REMEMBER, stored_numbers(self._writer))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=30, isolation_level=None, check_same_thread=False
        )
        with self._lock:
            self._opened.append(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{_CACHED * 1024}")
        return connection

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"
            hint = "free some space: publishing goes on by itself then" if full else ""
            raise LogError(f"{self.path}: {error}", hint) from None
        except OSError as error:
            raise LogError(f"{self.path}: {error.strerror}") from None

    def _check(self, mark: Mark) -> None:
        """Whether the end of the log is what it was when it was last acknowledged."""
        self._count = self._commits()
        if missing := mark.missing(self._count):
            raise LogError(
                f"{self.path}: the last {missing} commits are missing: "
                "its write-ahead log is damaged",
                f"remove {mark.path} to go on without them",
            )
        last = self._writer.execute(
            "SELECT channel, first, crc, data FROM block ORDER BY id DESC LIMIT 1"
        ).fetchone()
        if last is not None:
            try:
                codec.decode(last[3], last[2])
            except codec.DamageError as damage:
                raise LogError(f"{self._where(last[0], last[1])} {damage}", _RESTORE) from None

    def _commits(self) -> int:
        return int(self._writer.execute("SELECT count FROM commits").fetchone()[0])

    def _where(self, channel: int, first: int) -> str:
        return f"{self.path}: the block at sequence {first:,} of channel {channel}"

    # --- writing -----------------------------------------------------------------

    def lane(self, channel: int) -> int:
        return 0

    def append(self, blocks: Sequence[Block]) -> None:
        with self._transaction():
            for block in blocks:
                self._append(block)
            self._writer.execute("UPDATE commits SET count = count + 1")
        self._count += 1
        self._begun.update(block.channel for block in blocks)
        if self._mark is not None:
            self._mark.write(self._count)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._told():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def _append(self, block: Block) -> None:
        channel, records = block.channel, block.records
        if block.first != (expected := self.bounds(channel, self._writer)[1]):
            raise LogError(f"channel {channel} goes on at {expected:,}, not at {block.first:,}")
        execute = self._writer.execute
        execute(_NEXT, (channel, block.last + 1))
        if (block.covers is not None) != (channel in self.copies):
            raise LogError(f"channel {channel}: copies take blocks that cover ranges, others none")
        if channel in self.copies:
            if not records and self._extend(block):
                return
        elif channel not in self._begun:
            execute("INSERT OR REPLACE INTO epoch VALUES (?, ?, ?)",
                    (channel, block.first, self.epoch))  # fmt: skip
        data, crc = codec.encode(records)
        time = records[-1].time if records else self._last_time(channel)
        row = (channel, block.first, block.last, time, len(data), crc, data)
        execute("INSERT INTO block VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", row)
        self._insert(
            _SUBJECT, [(channel, name, block.last) for name in {r.subject for r in records}]
        )
        self._remember(channel, block.numbers, block.last)
        self._insert(_ID, [(channel, r.sequence, r.id) for r in records if r.id])

    def _extend(self, block: Block) -> bool:
        """Let the last block of a copy cover the range, too, if it holds no messages either."""
        done = self._writer.execute(
            "UPDATE block SET last = ?1 WHERE channel = ?2 AND last = ?3 AND data = ?4",
            (block.last, block.channel, block.first - 1, _NOTHING),
        )
        return done.rowcount > 0

    def _last_time(self, channel: int) -> int:
        query = "SELECT max(time) FROM block WHERE channel = ?"
        return self._writer.execute(query, (channel,)).fetchone()[0] or 0

    def _remember(self, channel: int, numbers: dict[str, list[int]], used: int) -> None:
        """One object as JSON: SQLite hands out its keys and values at half the price of rows."""
        if not numbers:
            return
        text = _encode(numbers).decode()
        if "\\" in text:
            rows = [(channel, name, codec.packed(one), used) for name, one in numbers.items()]
            self._insert(_REMEMBER, rows)
        else:
            self._writer.execute(_REMEMBER.format(_BY_KEY), (channel, used, text))

    def _insert(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if not rows:
            return
        text = _encode(rows).decode()
        if "\\" in text:  # SQLite's JSON cuts texts at U+0000, and its versions escape differently
            values = _ONE_BY_ONE.format(", ".join("?" for _ in rows[0]))
            self._writer.executemany(statement.format(values), rows)
        else:
            values = _AT_ONCE.format(", ".join(f"value ->> {i}" for i in range(len(rows[0]))))
            self._writer.execute(statement.format(values), (text,))

    def trim(self, channel: int, before: int) -> int:
        with self._transaction():
            self._trim(channel, before)
        return self.bounds(channel)[0]

    def _trim(self, channel: int, before: int) -> None:
        execute = self._writer.execute
        execute("DELETE FROM block WHERE channel = ? AND last < ?", (channel, before))
        execute("DELETE FROM subject WHERE channel = ? AND last < ?", (channel, before))
        execute(
            "DELETE FROM message_id WHERE channel = ?1 AND sequence < (SELECT min(sequence) FROM "
            "(SELECT sequence FROM message_id WHERE channel = ?1 ORDER BY sequence DESC LIMIT ?2))",
            (channel, intake.MAX_IDS),
        )
        execute(
            "DELETE FROM publisher_numbers WHERE channel = ?1 AND used < (SELECT min(used) FROM "
            "(SELECT used FROM publisher_numbers WHERE channel = ?1 ORDER BY used DESC LIMIT ?2))",
            (channel, intake.MAX_PUBLISHERS),
        )

    def begin(self, channel: int, first: int) -> None:
        with self._transaction():
            self._trim(channel, first)
            following = max(first, self.bounds(channel, self._writer)[1])
            self._writer.execute(_NEXT, (channel, following))

    def epochs(self, channel: int) -> Epochs:
        with self._told():
            query = "SELECT name, first FROM epoch WHERE channel = ? ORDER BY first"
            stored = tuple(Epoch(*row) for row in self._reader.execute(query, (channel,)))
            if channel in self.copies or channel in self._begun:
                return stored
            return begun(stored, self.epoch, self.bounds(channel)[1])

    def keep_epochs(self, channel: int, epochs: Epochs) -> None:
        with self._transaction():
            self._writer.execute("DELETE FROM epoch WHERE channel = ?", (channel,))
            rows = [(channel, epoch.first, epoch.name) for epoch in epochs]
            self._writer.executemany("INSERT INTO epoch VALUES (?, ?, ?)", rows)
            self._writer.execute("INSERT OR IGNORE INTO copy VALUES (?)", (channel,))
        self.copies.add(channel)

    def drop(self, channel: int) -> None:
        with self._transaction():
            for table in ("block", "subject", "publisher_numbers", "message_id", "epoch", "copy"):
                self._writer.execute(f"DELETE FROM {table} WHERE channel = ?", (channel,))
            self._writer.execute("DELETE FROM channel WHERE id = ?", (channel,))
        self.copies.discard(channel)
        self._begun.discard(channel)

    # --- reading -----------------------------------------------------------------

    @property
    def _reader(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = self._connect()
        return found

    def read(
        self, channel: int, first: int, most: int, subjects: Collection[str] | None = None
    ) -> list[Record]:
        return self._part(channel, first, most, subjects).records

    def part(self, channel: int, first: int, most: int) -> Part:
        return self._part(channel, first, most, None)

    def _part(self, channel: int, first: int, most: int, subjects: Collection[str] | None) -> Part:
        found: list[Record] = []
        size, begin, end = 0, None, first - 1
        try:
            with self._told():
                for start, last, records in self._blocks(channel, first, subjects):
                    begin, end = max(start, first) if begin is None else begin, last
                    if subjects is not None:
                        records = [r for r in records if r.subject in subjects]
                    if records and records[0].sequence < first:
                        records = [r for r in records if r.sequence >= first]
                    found += records
                    size += sum([len(record.body) for record in records])
                    if len(found) >= most or size > _MOST_READ:
                        break
        except HoleError:
            if begin is None or (subjects is not None and not found):
                raise
        if len(found) > most:
            found = found[:most]
            end = found[-1].sequence
        return Part(first if begin is None else begin, end, found)

    def _blocks(
        self, channel: int, first: int, subjects: Collection[str] | None
    ) -> Iterator[tuple[int, int, list[Record]]]:
        """The blocks from the one with sequence `first` on, each checked, with what it covers."""
        expected = None
        for start, last, crc, data in self._rows(channel, first, subjects):
            if subjects is None and expected is not None and start != expected:
                where = self._where(channel, expected)
                raise HoleError(where, "is missing", expected, start - 1)
            try:
                records = codec.decode(data, crc)
                if not self._covers(channel, start, last, records):
                    raise codec.DamageError("holds other messages")
            except codec.DamageError as damage:
                where, reason = self._where(channel, start), str(damage)
                raise HoleError(where, reason, max(start, first), last) from None
            yield start, last, records
            expected = last + 1

    def _covers(self, channel: int, start: int, last: int, records: list[Record]) -> bool:
        """Whether these may be the records of a block that covers this range."""
        if channel not in self.copies:
            return records[0].sequence == start and records[-1].sequence == last
        return not records or (start <= records[0].sequence and records[-1].sequence <= last)

    def _rows(
        self, channel: int, first: int, subjects: Collection[str] | None
    ) -> Iterator[tuple[int, int, int, bytes]]:
        if subjects is None:
            yield from self._reader.execute(
                "SELECT first, last, crc, data FROM block WHERE channel = ? AND last >= ? "
                "ORDER BY last",
                (channel, first),
            )
            return
        lasts: set[int] = set()
        for name in subjects:
            lasts.update(
                last
                for (last,) in self._reader.execute(
                    "SELECT last FROM subject WHERE channel = ? AND name = ? AND last >= ?",
                    (channel, name, first),
                )
            )
        for last in sorted(lasts):
            yield from self._reader.execute(
                "SELECT first, last, crc, data FROM block WHERE channel = ? AND last = ?",
                (channel, last),
            )

    def find(self, channel: int, time: int) -> int:
        with self._told():
            row = self._reader.execute(
                "SELECT first, crc, data FROM block WHERE channel = ? AND time >= ? "
                "ORDER BY time, last LIMIT 1",
                (channel, time),
            ).fetchone()
        if row is None:
            return self.bounds(channel)[1]
        try:
            records = codec.decode(row[2], row[1])
        except codec.DamageError:
            return int(row[0])  # whoever reads from there meets the hole
        later = (record.sequence for record in records if record.time >= time)
        return next(later, int(row[0]))  # of a copy it may hold none

    def kept_since(self, channel: int, time: int) -> int:
        with self._told():
            row = self._reader.execute(
                "SELECT first FROM block WHERE channel = ? AND time >= ? "
                "ORDER BY time, last LIMIT 1",
                (channel, time),
            ).fetchone()
        return self.bounds(channel)[1] if row is None else int(row[0])

    def bounds(self, channel: int, connection: sqlite3.Connection | None = None) -> tuple[int, int]:
        with self._told():
            row = (
                (connection or self._reader)
                .execute(
                    "SELECT next, (SELECT first FROM block WHERE channel = ?1 ORDER BY last "
                    "LIMIT 1) FROM channel WHERE id = ?1",
                    (channel,),
                )
                .fetchone()
            )
        following, first = row or (1, None)
        return int(following if first is None else first), int(following)

    def size(self, channel: int) -> int:
        with self._told():
            query = "SELECT coalesce(sum(size), 0) FROM block WHERE channel = ?"
            return int(self._reader.execute(query, (channel,)).fetchone()[0])

    def subjects(self, channel: int) -> list[str]:
        with self._told():
            query = "SELECT DISTINCT name FROM subject WHERE channel = ? ORDER BY name"
            return [name for (name,) in self._reader.execute(query, (channel,))]

    def remembered(self, channel: int) -> Remembered:
        with self._told():
            execute = self._reader.execute
            query = (
                "SELECT name, packed FROM publisher_numbers WHERE channel = ? "
                "ORDER BY used DESC LIMIT ?"
            )
            rows = execute(query, (channel, intake.MAX_PUBLISHERS)).fetchall()
            numbers = {name: codec.unpacked(packed) for name, packed in reversed(rows)}
            query = (
                "SELECT id, sequence FROM message_id WHERE channel = ? "
                "ORDER BY sequence DESC LIMIT ?"
            )
            ids = dict(reversed(execute(query, (channel, intake.MAX_IDS)).fetchall()))
        return Remembered(numbers, ids)

    def close(self) -> None:
        with self._lock:
            for connection in self._opened:
                connection.close()
            self._opened.clear()
        if self._mark is not None:
            self._mark.close()

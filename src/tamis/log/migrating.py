"""Log files of older versions, which kept only the highest number of each publisher, or its numbers
without how recent they are."""

from __future__ import annotations

import sqlite3

from tamis.log import blocks as codec
from tamis.pubsub.broker.stored_numbers import Numbers


def add_used(db: sqlite3.Connection) -> None:
    """Publishers of which it is not known how recent they are, are the oldest ones."""
    names = [row[1] for row in db.execute("PRAGMA table_info(publisher_numbers)")]
    if "used" not in names:
        db.execute("ALTER TABLE publisher_numbers ADD COLUMN used INTEGER NOT NULL DEFAULT 0")


def highest_only(db: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'publisher'"
    return db.execute(query).fetchone() is not None


def stored_numbers(db: sqlite3.Connection) -> list[tuple[object, ...]]:
    """Rows (channel, publisher, packed numbers, 0), and the old table is gone.

    Which numbers were stored is read from the messages that are kept. Of numbers before them
    nothing is known, and of none if a block is damaged.
    """
    highest: dict[int, dict[str, int]] = {}
    for channel, name, number in db.execute("SELECT channel, name, number FROM publisher"):
        highest.setdefault(channel, {})[name] = number
    rows: list[tuple[object, ...]] = []
    for channel, publishers in highest.items():
        kept = _kept(db, channel)
        for name, number in publishers.items():
            packed = kept.get(name, Numbers(number)).packed()
            rows.append((channel, name, codec.packed(packed), 0))
    db.execute("DROP TABLE publisher")
    return rows


def _kept(db: sqlite3.Connection, channel: int) -> dict[str, Numbers]:
    query = "SELECT first, crc, data FROM block WHERE channel = ? ORDER BY last"
    found: dict[str, Numbers] = {}
    whole: bool | None = None  # whether nothing was ever trimmed: then every gap is one
    for first, crc, data in db.execute(query, (channel,)):
        whole = first == 1 if whole is None else whole
        try:
            records = codec.decode(data, crc)
        except codec.DamageError:
            return {}
        for record in records:
            if record.number > 0:
                if record.publisher not in found:
                    found[record.publisher] = Numbers(0 if whole else record.number - 1)
                found[record.publisher].add(record.number)
    return found

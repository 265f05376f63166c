"""Damage to the files of the SQLite log: found and told, never silent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest

from tamis.errors import HoleError, LogError
from tamis.log import SqliteLog
from tamis.pubsub.broker import intake
from tamis.pubsub.broker.epochs import agreed
from tamis.pubsub.broker.records import Block, Record

pytestmark = pytest.mark.slow

BODY = b'{"symbol": "IBM", "price": 120.5}'


def block(first, count):
    return Block(1, tuple(Record(first + i, first + i, "p", first + i, "", "q", BODY)
                          for i in range(count)))  # fmt: skip


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_flipped_bit_in_a_block_is_told(tmp_path):
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    log.append([block(1, 100)])
    log.append([block(101, 1)])
    log.close()
    flip(path, path.read_bytes().rindex(b"120.5"))  # the long one has pages behind the others
    log = SqliteLog(path)
    with pytest.raises(HoleError, match="sequence 1 of channel 1 is damaged") as hole:
        log.read(1, 7, 10)
    assert (hole.value.first, hole.value.last) == (7, 100)
    assert [r.sequence for r in log.read(1, 101, 10)] == [101]
    assert log.find(1, 50) == 1
    log.close()


def test_what_is_sound_before_a_damaged_block_is_read(tmp_path):
    log = SqliteLog(tmp_path / "log.db")
    for first in (1, 4, 7, 10):
        log.append([block(first, 3)])
    log._writer.execute("UPDATE block SET crc = crc + 1 WHERE first = 4")
    log._writer.execute("DELETE FROM block WHERE first = 10")
    log.append([block(13, 3)])
    assert [r.sequence for r in log.read(1, 2, 100)] == [2, 3]
    with pytest.raises(HoleError, match="damaged") as hole:
        log.read(1, 5, 100)
    assert (hole.value.first, hole.value.last) == (5, 6)
    assert [r.sequence for r in log.read(1, 7, 100)] == [7, 8, 9]
    assert [r.sequence for r in log.read(1, 10, 100)] == [13, 14, 15]  # as if it were trimmed
    with pytest.raises(HoleError):
        log.read(1, 4, 100, {"q"})
    assert [r.sequence for r in log.read(1, 7, 100, {"q"})] == [7, 8, 9, 13, 14, 15]
    log.close()


def older(log, highest):
    """As versions before ranges kept it."""
    log._writer.execute("DROP TABLE publisher_numbers")
    log._writer.execute(
        "CREATE TABLE publisher (channel INTEGER NOT NULL, name TEXT NOT NULL, "
        "number INTEGER NOT NULL, PRIMARY KEY (channel, name)) WITHOUT ROWID"
    )
    rows = [(1, name, number) for name, number in highest.items()]
    log._writer.executemany("INSERT INTO publisher VALUES (?, ?, ?)", rows)
    log.close()


def numbered(first, *pairs):
    return Block(1, tuple(Record(first + i, first + i, name, number, "", "q", BODY)
                          for i, (name, number) in enumerate(pairs)))  # fmt: skip


def test_a_log_that_knew_only_highest_numbers_learns_the_ranges(tmp_path):
    """From the messages that it has; of those that were trimmed nothing is known."""
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    log.append([numbered(1, ("p", 1), ("q", 7))])
    log.append([numbered(3, ("p", 2), ("p", 5), ("q", 9))])
    older(log, {"p": 5, "q": 9, "gone": 4})
    log = SqliteLog(path)
    assert log.remembered(1).numbers == {
        "p": [0, 1, 2, 5, 5], "q": [0, 7, 7, 9, 9], "gone": [4],
    }  # fmt: skip
    log.trim(1, 3)
    older(log, {"p": 5, "q": 9})
    log = SqliteLog(path)
    assert log.remembered(1).numbers == {"p": [1, 2, 2, 5, 5], "q": [8, 9, 9]}
    log._writer.execute("UPDATE block SET crc = crc + 1")
    log.append([numbered(6, ("p", 6))])
    older(log, {"p": 6})
    log = SqliteLog(path)
    assert log.remembered(1).numbers == {"p": [6]}
    log.close()


def test_trimming_forgets_old_publishers_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "MAX_PUBLISHERS", 3)
    with SqliteLog(tmp_path / "log.db") as log:
        for n in range(1, 11):
            log.append([Block(1, numbered(n, (f"p{n}", 1)).records, {f"p{n}": [0, 1, 1]})])
        log.append([Block(2, numbered(1, ("other", 1)).records, {"other": [0, 1, 1]})])
        log.trim(1, 2)
        names = log._writer.execute("SELECT name FROM publisher_numbers ORDER BY name").fetchall()
    assert [name for (name,) in names] == ["other", "p10", "p8", "p9"]


def test_a_log_that_did_not_know_how_recent_publishers_are_opens(tmp_path):
    path = tmp_path / "log.db"
    with SqliteLog(path) as log:
        log.append([Block(1, numbered(1, ("p", 1)).records, {"p": [0, 1, 1]})])
        log._writer.execute("ALTER TABLE publisher_numbers DROP COLUMN used")
    with SqliteLog(path) as log:
        log.append([Block(1, numbered(2, ("q", 1)).records, {"q": [0, 1, 1]})])
        assert list(log.remembered(1).numbers) == ["p", "q"]


def test_a_flipped_bit_in_the_last_block_is_told_when_it_opens(tmp_path):
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    log.append([block(1, 3)])
    log.close()
    flip(path, path.read_bytes().index(b"120.5"))
    with pytest.raises(LogError, match="damaged"):
        SqliteLog(path)


def test_a_damaged_write_ahead_log_is_told(tmp_path):
    """SQLite drops what follows the damage without a word."""
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    log.append([block(1, 3)])
    log.append([block(4, 3)])
    kept = {p: p.read_bytes() for p in tmp_path.iterdir() if not p.name.endswith("-shm")}
    log.close()
    for old in tmp_path.iterdir():
        old.unlink()
    for p, data in kept.items():
        p.write_bytes(data)
    wal = tmp_path / "log.db-wal"
    flip(wal, wal.stat().st_size - 100)
    with pytest.raises(LogError, match=r"the last 1 commits are missing"):
        SqliteLog(path)
    (tmp_path / "log.mark").unlink()
    log = SqliteLog(path)
    assert log.bounds(1) == (1, 4)
    log.close()


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "log.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(LogError, match="not a database"):
        SqliteLog(tmp_path / "log.db")


def _write_until_killed(path, pipe):
    log = SqliteLog(path)
    first = log.bounds(1)[1]
    while True:
        log.append([block(first, 5)])
        first += 5
        os.write(pipe, b"x")


def test_what_was_acknowledged_survives_kill_9(tmp_path):
    path, acknowledged = tmp_path / "log.db", 0
    start = multiprocessing.get_context("spawn")
    for round in range(3):
        process = start.Process(target=_forked, args=(path, tmp_path / f"acks{round}"))
        process.start()
        while not (acks := tmp_path / f"acks{round}").exists() or acks.stat().st_size < 10:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        acknowledged += 5 * acks.stat().st_size
        log = SqliteLog(path)
        found = [r.sequence for r in log.read(1, 1, 10**9)]
        log.close()
        assert found == list(range(1, len(found) + 1))
        assert acknowledged <= len(found) <= acknowledged + 5
        acknowledged = len(found)


def _forked(path, acks):
    with acks.open("wb", buffering=0) as file:
        _write_until_killed(path, file.fileno())


def test_each_opening_is_an_epoch_and_a_restored_log_is_known_by_them(tmp_path):
    names = []
    for first in (1, 11):
        with SqliteLog(tmp_path / "log.db") as log:
            log.append([block(first, 10)])
            names.append(log.epoch)
            assert [e.name for e in log.epochs(1)] == names
    with SqliteLog(tmp_path / "log.db") as log:
        assert [e.first for e in log.epochs(1)] == [1, 11, 21]
        assert agreed(log.epochs(1), names[1], 20) == 20
        assert agreed(log.epochs(1), names[1], 25) == 20  # a later state of it was lost
        assert agreed(log.epochs(1), "another", 5) == 0

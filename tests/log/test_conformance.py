"""What every form of the log must do: the same tests run on each."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.memory_log import MemoryLog
from tamis.errors import LogError
from tamis.log import SqliteLog
from tamis.pubsub.broker import intake
from tamis.pubsub.broker.epochs import Epoch
from tamis.pubsub.broker.records import Block, Part, Record


@pytest.fixture(params=["memory", "sqlite"])
def log(request, tmp_path):
    made = MemoryLog() if request.param == "memory" else SqliteLog(tmp_path / "log.db")
    yield made
    made.close()


def block(channel, first, count, **more):
    return Block(channel, tuple(record(first + i, **more) for i in range(count)))


def record(sequence, time=None, publisher="p", number=0, id="", subject="a.b", body=b"{}"):
    return Record(sequence, time or sequence * 10, publisher, number, id, subject, body)


def test_a_new_channel_is_empty(log):
    assert log.bounds(7) == (1, 1)
    assert log.read(7, 1, 10) == []
    assert log.find(7, 0) == 1
    assert log.subjects(7) == []
    assert log.size(7) == 0


def test_what_was_appended_is_read_in_order(log):
    log.append([block(1, 1, 3), block(2, 1, 2)])
    log.append([block(1, 4, 2)])
    assert [r.sequence for r in log.read(1, 1, 100)] == [1, 2, 3, 4, 5]
    assert [r.sequence for r in log.read(1, 3, 2)] == [3, 4]
    assert log.read(2, 1, 100) == [record(1), record(2)]
    assert log.bounds(1) == (1, 6)


def test_a_block_must_follow_and_nothing_is_stored_otherwise(log):
    log.append([block(1, 1, 3)])
    with pytest.raises(LogError):
        log.append([block(2, 1, 1), block(1, 5, 1)])
    assert log.bounds(1) == (1, 4)
    assert log.bounds(2) == (1, 1)


def test_find_by_time(log):
    log.append([block(1, 1, 3)])
    log.append([block(1, 4, 3)])
    assert [log.find(1, t) for t in (0, 10, 11, 40, 55, 60, 61)] == [1, 1, 2, 4, 6, 6, 7]


def test_what_is_kept_since_a_time_is_whole_blocks(log):
    log.append([block(1, 1, 3)])
    log.append([block(1, 4, 3)])
    assert [log.kept_since(1, t) for t in (0, 30, 31, 60, 61)] == [1, 1, 4, 4, 7]
    assert log.kept_since(2, 0) == 1


def test_by_subject(log):
    log.append([block(1, 1, 2, subject="a"), block(2, 1, 1, subject="z")])
    log.append([Block(1, (record(3, subject="b"), record(4, subject="a")))])
    log.append([block(1, 5, 1, subject="c")])
    assert [r.sequence for r in log.read(1, 1, 100, {"a"})] == [1, 2, 4]
    assert [r.sequence for r in log.read(1, 2, 100, ["b", "c"])] == [3, 5]
    assert log.subjects(1) == ["a", "b", "c"]


@pytest.mark.parametrize("names", [
    ["a", "a\0b", 'q"', "\\u0000", "é☃", "", "\x7f\n"],
    ["a", "é☃", "", "\x7f", "$.a", "[0]", "1"],  # JSON needs no escapes for these
])  # fmt: skip
def test_odd_names_are_remembered_as_they_are(log, names):
    records = [record(i + 1, publisher=n, id=n, subject=f"s{i}") for i, n in enumerate(names)]
    numbers = {n: [0, 1, 2**63 - 1 - i] for i, n in enumerate(names)}
    log.append([Block(1, tuple(records), numbers)])
    log.append([Block(1, (record(8, publisher="plain", id="only"),), {"plain": [0, 5, 5]})])
    found = log.remembered(1)
    assert found.numbers == numbers | {"plain": [0, 5, 5]}
    assert list(found.ids) == [n for n in names if n] + ["only"]
    assert log.subjects(1) == ["a.b", *(f"s{i}" for i in range(7))]


def test_trim_keeps_numbers_and_goes_by_blocks(log):
    log.append([Block(1, (record(1, number=8, id="x"),), {"p": [0, 8, 8]})])
    log.append([block(1, 2, 3)])
    log.append([block(1, 5, 1)])
    assert log.trim(1, 4) == 2
    assert log.trim(1, 5) == 5
    assert [r.sequence for r in log.read(1, 1, 10)] == [5]
    assert log.remembered(1).numbers == {"p": [0, 8, 8]}
    assert log.remembered(1).ids == {"x": 1}
    assert log.trim(1, 99) == 6
    assert log.bounds(1) == (6, 6)
    log.append([block(1, 6, 1)])
    assert log.bounds(1) == (6, 7)


def test_numbers_of_a_publisher_are_those_of_its_last_block(log):
    log.append([Block(1, (record(1, number=1),), {"p": [0, 1, 1], "q": [0, 5, 6]})])
    log.append([Block(1, (record(2, number=3),), {"p": [0, 1, 1, 3, 3]})])
    assert log.remembered(1).numbers == {"p": [0, 1, 1, 3, 3], "q": [0, 5, 6]}


def test_publishers_that_stored_numbers_last_are_remembered(log, monkeypatch):
    monkeypatch.setattr(intake, "MAX_PUBLISHERS", 2)
    for sequence, name in enumerate(("p", "q", "p", "r"), 1):
        log.append([Block(1, (record(sequence),), {name: [0, sequence, sequence]})])
    assert list(log.remembered(1).numbers.items()) == [("p", [0, 3, 3]), ("r", [0, 4, 4])]
    log.trim(1, 3)
    monkeypatch.undo()
    assert {"p", "r"} <= log.remembered(1).numbers.keys()


def test_drop_forgets_everything(log):
    log.append([Block(1, (record(1, number=8, id="x"),), {"p": [0, 8, 8]}), block(2, 1, 1)])
    log.drop(1)
    assert log.bounds(1) == (1, 1)
    assert log.remembered(1).numbers == {}
    assert log.remembered(1).ids == {}
    assert log.bounds(2) == (1, 2)


texts = st.text(max_size=8)
drafts = st.tuples(texts, st.integers(0, 2**63 - 1), texts, texts, st.binary(max_size=20))


@settings(max_examples=25)
@given(st.lists(st.lists(drafts, min_size=1, max_size=4), max_size=6), st.data())
def test_both_forms_agree(tmp_path_factory, groups, data):
    with SqliteLog(tmp_path_factory.mktemp("log") / "log.db") as sqlite:
        _both_forms_agree(sqlite, groups, data)


def _both_forms_agree(sqlite, groups, data):
    memory, sequence = MemoryLog(), 0
    for group in groups:
        channel, records = 1, []
        for publisher, number, id, subject, body in group:
            sequence += 1
            body = body or b"{}"
            records.append(Record(sequence, sequence // 2, publisher, number, id, subject, body))
        numbers = {r.publisher: [0, r.number, r.number] for r in records if r.number}
        blocks = [Block(channel, tuple(records), numbers)]
        memory.append(blocks)
        sqlite.append(blocks)
    first = data.draw(st.integers(0, sequence + 1))
    assert sqlite.read(1, first, 5) == memory.read(1, first, 5)
    assert sqlite.bounds(1) == memory.bounds(1)
    assert sqlite.find(1, first) == memory.find(1, first)
    assert sqlite.subjects(1) == memory.subjects(1)
    assert sqlite.remembered(1).numbers == memory.remembered(1).numbers
    sqlite.trim(1, first)
    memory.trim(1, first)
    assert sqlite.read(1, 0, 100) == memory.read(1, 0, 100)
    assert sqlite.bounds(1) == memory.bounds(1)


# --- sparse copies ------------------------------------------------------------------


EPOCHS = (Epoch("one", 1), Epoch("two", 6))


def covering(channel, first, last, *sequences):
    return Block(channel, tuple(map(record, sequences)), covers=(first, last))


@pytest.fixture
def copy(log):
    log.keep_epochs(1, EPOCHS)
    log.append([covering(1, 1, 3, 2)])
    log.append([covering(1, 4, 9)])
    log.append([covering(1, 10, 12)])
    log.append([covering(1, 13, 15, 13, 15)])
    return log


def test_a_copy_covers_ranges_and_a_gap_is_no_damage(copy):
    assert copy.bounds(1) == (1, 16)
    assert [r.sequence for r in copy.read(1, 1, 10)] == [2, 13, 15]
    part = copy.part(1, 1, 10)
    assert (part.first, part.last, len(part.records)) == (1, 15, 3)
    assert copy.part(1, 3, 1) == Part(3, 13, [record(13)])
    assert copy.part(1, 16, 9) == Part(16, 15, [])
    assert copy.subjects(1) == ["a.b"]


def test_a_copy_begins_anywhere_and_later(copy):
    copy.begin(2, 5)
    copy.keep_epochs(2, EPOCHS)
    assert copy.bounds(2) == (5, 5)
    copy.append([covering(2, 5, 5)])
    assert copy.part(2, 1, 10) == Part(5, 5, [])
    copy.begin(1, 30)
    assert copy.bounds(1) == (30, 30)
    copy.append([covering(1, 30, 31, 31)])
    assert copy.part(1, 1, 10) == Part(30, 31, [record(31)])


def test_a_copy_keeps_the_epochs_of_its_home(copy):
    assert copy.epochs(1) == EPOCHS
    copy.drop(1)
    assert copy.bounds(1) == (1, 1)
    assert copy.epochs(1) != EPOCHS
    copy.append([block(1, 1, 2)])


def test_only_copies_have_gaps(copy):
    with pytest.raises(LogError):
        copy.append([block(1, 16, 1)])
    with pytest.raises(LogError):
        copy.append([covering(2, 1, 2)])
    assert (copy.bounds(1), copy.bounds(2)) == ((1, 16), (1, 1))


def test_part_says_what_of_a_whole_channel_it_has(log):
    log.append([block(1, 1, 5)])
    assert log.part(1, 2, 2) == Part(2, 3, [record(2), record(3)])
    assert log.part(1, 6, 2) == Part(6, 5, [])
    log.append([block(1, 6, 5)])
    log.trim(1, 6)
    assert log.part(1, 2, 1) == Part(6, 6, [record(6)])
    (epoch,) = log.epochs(1)
    assert epoch.first == 1

"""Writers and readers at once: every answer was right at some moment between question and answer.

Each writer logs a change with two tickets, one taken before it and one after. A subscription may
be in a reader's answer only if it could be there at some moment of reading, and must be there if
it was there all the time.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from tamis import Matcher, MessageError, Schema
from tamis.engine.live.threads import shared
from tamis.engine.piecewise import TableBatch

SCHEMA = Schema.of(n=int, s=str, flag=bool)
SECONDS = 0.8
PERMANENT = 40
# All are true of MESSAGE, so an answer is just the subscriptions of its moment; those of NEVER are
# false of it, at any moment.
MESSAGE = {"n": 5, "s": "abc"}
ALWAYS = ("n = 5", "n < {}", "s CONTAINS 'b' AND n <> {}", "s LIKE 'a%' OR n = {}", "n IN (5, {})")
NEVER = ("n = {}", "s = 'x{}'", "flag AND n < {}", "s IS NULL", "n IS NULL", "NOT n < {}")


class Tickets:
    """Moments in one order for all threads."""

    def __init__(self) -> None:
        self._count, self._lock = itertools.count(), threading.Lock()

    def take(self) -> int:
        with self._lock:
            return next(self._count)


class Writer:
    """Adds, replaces and removes its own ids, and logs for each when it was there."""

    def __init__(self, matcher: Matcher, tickets: Tickets, number: int) -> None:
        self.matcher, self.tickets, self.number = matcher, tickets, number
        self.rng = random.Random(number)
        self.alive: list[str] = []
        self.added: dict[str, tuple[int, int]] = {}  # before, after
        self.removed: dict[str, tuple[int, int]] = {}
        self.used = itertools.count()

    def step(self) -> None:
        roll = self.rng.random()
        if roll < 0.3 or len(self.alive) < 5:
            self.add(self.rng.choice((1, 1, 1, 6)))
        elif roll < 0.6:
            chosen = self.alive[self.rng.randrange(len(self.alive))]
            self.matcher.replace(chosen, self.selector(ALWAYS))
        else:
            self.remove(self.alive.pop(self.rng.randrange(len(self.alive))))

    def selector(self, options: tuple[str, ...]) -> str:
        return self.rng.choice(options).format(self.rng.randrange(1_000, 9_000))

    def add(self, count: int) -> None:
        ids = [f"w{self.number}-{next(self.used)}" for _ in range(count)]
        rows = [(id, self.selector(ALWAYS)) for id in ids]
        rows += [(f"never-{id}", self.selector(NEVER)) for id in ids]
        before = self.tickets.take()
        self.matcher.add_many(rows)
        after = self.tickets.take()
        for id in ids:
            self.added[id] = before, after
        self.alive += ids

    def remove(self, id: str) -> None:
        before = self.tickets.take()
        self.matcher.remove(id)
        self.removed[id] = before, self.tickets.take()
        self.matcher.remove(f"never-{id}")


class Reader:
    def __init__(self, read: Callable[[], list[list[str]]], tickets: Tickets) -> None:
        self.read, self.tickets = read, tickets
        self.answers: list[tuple[int, int, list[str]]] = []

    def step(self) -> None:
        before = self.tickets.take()
        rows = self.read()
        after = self.tickets.take()
        self.answers += [(before, after, row) for row in rows]


def run_together(steps: list[Callable[[], None]], seconds: float) -> list[BaseException]:
    """Repeat each step in a thread of its own; what they raised."""
    end = time.monotonic() + seconds
    raised: list[BaseException] = []

    def repeat(step: Callable[[], None]) -> None:
        try:
            while time.monotonic() < end and not raised:
                step()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=repeat, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return raised


def readers_of(matcher: Matcher, tickets: Tickets) -> list[Reader]:
    table = pa.Table.from_pylist([MESSAGE] * 70, schema=pa.schema(
        [("n", pa.int64()), ("s", pa.string()), ("flag", pa.bool_())]
    ))  # fmt: skip

    def bitmap() -> list[list[str]]:
        ids, bits = matcher.bitmap_batch(table)
        return [[id for id, row in zip(ids, bits, strict=True) if int(row[1]) >> 3 & 1]]

    reads = [
        lambda: [matcher.match(MESSAGE)],
        lambda: matcher.match_many([MESSAGE, MESSAGE]).to_pylist(),
        lambda: matcher.match_batch(table, threads=2).to_pylist()[::23],
        bitmap,
    ]
    return [Reader(read, tickets) for read in reads]


def check(answers: list[tuple[int, int, list[str]]], writers: list[Writer]) -> None:
    permanent = {f"p{i}" for i in range(PERMANENT)}
    for before, after, row in answers:
        found = set(row)
        assert len(found) == len(row)
        assert not {id for id in found if id.startswith("never")}
        must, may = set(permanent), set(permanent)
        for writer in writers:
            for id, (begun, done) in writer.added.items():
                gone, really_gone = writer.removed.get(id, (1 << 60, 1 << 60))
                if done < before and after < gone:
                    must.add(id)
                if begun < after and before < really_gone:
                    may.add(id)
        assert must <= found <= may, (sorted(must - found), sorted(found - may))


@pytest.mark.parametrize("typed", [False, True])
def test_readers_see_some_moment_while_writers_write(
    typed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.engine.live.merging.SEALED", 4)
    monkeypatch.setattr("tamis.engine.live.merging._QUIET", 0.001)
    matcher = Matcher(SCHEMA if typed else None)
    matcher.add_many((f"p{i}", ALWAYS[i % len(ALWAYS)].format(i + 10)) for i in range(PERMANENT))
    tickets = Tickets()
    readers = readers_of(matcher, tickets)
    for reader in readers:  # kernels are loaded before the clock runs
        reader.step()
    writers = [Writer(matcher, tickets, number) for number in range(2)]
    steps = [*(w.step for w in writers), *(r.step for r in readers)]
    raised = run_together(steps, SECONDS)
    assert not raised, raised
    for reader in readers:
        assert len(reader.answers) > 2
        check(reader.answers, writers)
    matcher.settle()
    left = [f"p{i}" for i in range(PERMANENT)] + [id for w in writers for id in w.alive]
    assert set(matcher.match(MESSAGE)) == set(left)


@pytest.mark.parametrize("engine", ["diagram", "implication"])
def test_a_replaced_subscription_is_never_missing(engine: str) -> None:
    matcher = Matcher(engine=engine)
    matcher.add("it", "n = 5")
    matcher.match(MESSAGE)

    def replace() -> None:
        matcher.replace("it", "n < 9")
        matcher.replace("it", "n = 5")

    answers: list[list[str]] = []
    reads = [lambda: answers.append(matcher.match(MESSAGE))] * 2
    assert not run_together([replace, *reads], 0.3)
    assert len(answers) > 20
    assert {tuple(a) for a in answers} == {("it",)}


def test_a_state_keeps_its_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscription that goes after a batch has begun takes no attribute away from the batch."""
    monkeypatch.setattr("tamis.engine.live.merging.SEALED", 1)
    matcher = Matcher()
    for id, selector in (("gone", "s IS NULL"), ("here", "n = 5"), ("there", "n < 9")):
        matcher.add(id, selector)
    columns = TableBatch.columns

    def late(*arguments: object) -> object:
        if "gone" in matcher:
            matcher.remove("gone")
            matcher.settle()
            assert matcher.attributes == ("n",)
        return columns(*arguments)

    monkeypatch.setattr(TableBatch, "columns", late)
    assert matcher.match_batch(pa.table({"n": [5], "s": ["abc"]})).to_pylist() == [
        ["here", "there"]
    ]


def test_compiling_that_fails_takes_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher()
    matcher.add("it", "n = 5")

    def fail(*arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr("tamis.engine.live.merging.SEALED", 0)  # not even one is left to readers
        broken.setattr(matcher._contents.merging, "_compile", fail)
        for change in (matcher.add, matcher.replace):
            with pytest.raises(MemoryError):
                change("new", "n = 5")
        with pytest.raises(MemoryError):
            matcher.replace("it", "n = 6")
    assert list(matcher) == matcher.match(MESSAGE) == ["it"]
    matcher.add("new", "n = 5")
    matcher.replace("it", "n < 6")
    assert list(matcher) == matcher.match(MESSAGE) == ["new", "it"]
    assert matcher.match_many([MESSAGE]).to_pylist() == [["new", "it"]]


def test_writers_that_want_the_same_ids() -> None:
    """Of several that add the same id one wins; the others get an error, and nothing is lost."""
    matcher = Matcher()
    wins: list[int] = []

    def adder(number: int) -> Callable[[], None]:
        ids = itertools.count()

        def step() -> None:
            id = next(ids)
            if id < 150 and matcher.add_many([(id, "n = 5")], on_error=lambda *_: None):
                wins.append(id)

        return step

    assert not run_together([adder(n) for n in range(3)], 0.3)
    assert sorted(wins) == list(range(len(wins)))
    assert matcher.match(MESSAGE) == list(matcher)
    assert sorted(matcher) == sorted(wins)


def test_errors_of_threads_name_the_row_of_the_whole_table() -> None:
    matcher = Matcher(Schema.of(n=int))
    matcher.add(1, "n > 0")
    table = pa.table({"n": pa.array([1.0] * 70 + [1.5] + [1.0] * 20 + [2.5] * 9)})
    for threads in (1, 2, 7):
        with pytest.raises(MessageError, match=r"^row 70: n = 1.5"):
            matcher.count_batch(table, threads=threads)
        with pytest.raises(MessageError, match=r"^row 70: n = 1.5"):
            matcher.match_batch(table, threads=threads)


def test_a_lookup_may_match_messages_itself() -> None:
    """Also on threads, and while the pool of threads is busy with those that ask it."""
    inner = Matcher(Schema.of(n=int))
    inner.add_many((i, f"n >= {i}") for i in range(50))
    numbers = pa.table({"n": list(range(40))})

    def level(n: int) -> int:
        counted = inner.count_batch(numbers, threads=3)
        assert counted.tolist() == list(range(1, 41))
        return len(outer.match({"deep": n})) if n == 7 else len(inner.match({"n": n}))

    outer = Matcher(Schema.of(n=int, deep=int), lookups={"level": level})
    outer.add_many((f"l{i}", f"level(n) = {i}") for i in range(30))
    outer.add_many((f"d{i}", f"deep < {i}") for i in range(20))
    wanted = [[f"l{n + 1 if n != 7 else 12}"] for n in range(20)]
    assert [outer.match({"n": n}) for n in range(20)] == wanted
    table = pa.table({"n": list(range(20))})
    assert outer.match_batch(table, threads=70).to_pylist() == wanted


def test_shared_work_keeps_the_order_and_raises_the_first_error() -> None:
    assert shared(lambda i: i * i, range(100), 4) == [i * i for i in range(100)]

    def work(i: int) -> None:
        time.sleep(0.001 * (i % 3))
        if i >= 20:
            raise ValueError(i)

    with pytest.raises(ValueError, match=r"^20$"):
        shared(work, range(100), 4)

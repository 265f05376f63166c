"""Tables of subscriptions: versions, races, crashes, damage; and that a follower is never wrong."""

from __future__ import annotations

import doctest
import errno
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from tamis import (
    InputError,
    Limits,
    Matcher,
    Schema,
    SelectorError,
    SnapshotError,
    SubscriptionError,
    TamisError,
)
from tamis.table import Subscriptions, following
from tamis.table import subscriptions as module
from tamis.table.following import Follower
from tamis.table.versions import Versions

PAGE = Path(__file__).parents[2] / "docs" / "subscriptions.md"
MESSAGES = [{"n": n, "s": s} for n in range(12) for s in ("a", "b")]


@pytest.fixture
def table(tmp_path):
    return Subscriptions.create(tmp_path / "table")


def found(matcher: Matcher) -> list:
    return [matcher.match(message) for message in MESSAGES]


# --- what it says of itself ----------------------------------------------------------


def test_the_page_shows_what_happens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    example = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(example.examples) > 5
    assert doctest.DocTestRunner().run(example).failed == 0


def test_each_change_is_a_version_and_all_stay(table):
    assert (table.version, len(table), list(table)) == (0, 0, [])
    assert table.add("a", "n < 5", "alice") == 1
    assert table.add("b", "n > 3") == 2
    assert table.replace("a", "n = 7", "alan") == 3
    assert table.remove("b") == 4
    wanted = [[], ["a"], ["a", "b"], ["b", "a"], ["a"]]
    assert [list(table.matcher(version)) for version in range(5)] == wanted
    assert table["a"] == ("n = 7", "alan")
    assert "a" in table
    assert "b" not in table
    assert table.view(3).rows().to_pylist() == [
        {"id": "b", "selector": "n > 3", "subscriber": None},
        {"id": "a", "selector": "n = 7", "subscriber": "alan"},
    ]


def test_a_block_is_one_version_or_none(table):
    with table.change() as change:
        change.add_many([("a", "n < 5"), ("b", "n > 3", "bob")])
        change.remove("a")
        change.add("a", "s = 'a'")
    assert (change.version, table.version, list(table)) == (1, 1, ["b", "a"])
    for bad in (lambda change: change.add("c", "n > > 1"), lambda change: change.remove("x")):
        with pytest.raises(TamisError):
            remove_and(table, bad)
    with table.change():
        pass
    assert (table.version, list(table)) == (1, ["b", "a"])


def remove_and(table: Subscriptions, bad) -> None:
    with table.change() as change:
        change.remove("a")
        bad(change)


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda t: t.add("a", "n = 1"), "there is a subscription 'a' already"),
        (lambda t: t.remove("b"), "there is no subscription 'b'"),
        (lambda t: t.add(7, "n = 1"), "ids of this table are strings, not 7"),
        (lambda t: t.add(True, "n = 1"), "an id is a string"),
        (lambda t: t.add("\ud800", "n = 1"), "surrogate"),
        (lambda t: t.add("b", None), "the selector is NULL"),
        (lambda t: t.add("b", "n = 1", 7), "a subscriber is a string, not 7"),
        (lambda t: t.add_many([("b", "n = 1"), ("c", "n = ")]), "subscription 'c': "),
        (lambda t: t.add_many([("b", "n = 1"), ("b", "n = 2")]), "'b' already"),
        (lambda t: t.add_many([("b",)]), "give pairs .id, selector."),
        (lambda t: t.add_many(pa.table({"id": ["b"]})), "no column 'selector'"),
        (lambda t: t.add_many([], on_error="skip"), "'raise' or 'report'"),
        (lambda t: t["b"], "there is no subscription 'b'"),
        (lambda t: t.matcher(5), "there is no version 5: kept are 0 to 1"),
        (lambda t: t.vacuum(keep=0), "at least 1"),
    ],
)
def test_what_cannot_be_done_changes_nothing(table, act, told):
    table.add("a", "n < 5")
    with pytest.raises(TamisError, match=told):
        act(table)
    assert (table.version, list(table)) == (1, ["a"])


def test_integers_as_ids(table, tmp_path):
    table.add(-5, "n < 5")
    table.add(2**63 - 1, "n > 3")
    assert list(Subscriptions.open(table.path)) == [-5, 2**63 - 1]
    assert table.matcher().match({"n": 4}) == [-5, 2**63 - 1]
    with pytest.raises(SubscriptionError, match="are integers, not 'a'"):
        table.add("a", "n = 1")
    with pytest.raises(SubscriptionError, match="64 bits"):
        table.add(2**63, "n = 1")
    said = Subscriptions.create(tmp_path / "said", ids="int")
    with pytest.raises(SubscriptionError, match="are integers"):
        said.add("a", "n = 1")


# --- settings ------------------------------------------------------------------------


def test_settings_are_said_once(tmp_path):
    schema = Schema.of(n=int, s=(str, "x"), d=(float, float("inf")), at=("timestamp", None))
    said = {"schema": schema, "semantics": "default", "limits": Limits(depth=50)}
    made = Subscriptions.create(tmp_path / "t", **said)
    made.add("a", "s = 'x'")
    for again in (Subscriptions.open(tmp_path / "t"), Subscriptions.open(tmp_path / "t", **said)):
        assert again.settings.schema == schema
        assert again.matcher().match({"n": 1}) == ["a"]
    for other in ({"semantics": "sql"}, {"schema": None}, {"dialect": "jms"}, {"ids": "int"}):
        with pytest.raises(InputError, match=f"was made with {next(iter(other))}="):
            Subscriptions.open(tmp_path / "t", **other)
    with pytest.raises(SelectorError):
        made.add("b", "unknown = 1")


def test_lookups_are_given_each_time(tmp_path):
    lookups = {"twice": {1: 2, 2: 4}}
    made = Subscriptions.create(tmp_path / "t", lookups=lookups)
    made.add("a", "twice(n) = 4")
    made.compile()
    assert Subscriptions.open(tmp_path / "t", lookups=lookups).matcher().match({"n": 2}) == ["a"]
    with pytest.raises(InputError, match="may call these lookups: twice"):
        Subscriptions.open(tmp_path / "t")


def test_folders_that_are_no_tables(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    with pytest.raises(InputError, match="is no table of subscriptions, and not empty"):
        Subscriptions.create(tmp_path / "other")
    with pytest.raises(InputError, match="cannot be made"):
        Subscriptions.create(tmp_path / "other" / "file" / "deeper")
    for path in ("s3a://bucket/t", "hdfs://name/t", "dbfs:/t"):
        with pytest.raises(InputError, match="needs a file system with hard links"):
            Subscriptions.create(path)
    assert Subscriptions.create(f"file://{tmp_path}/t").path == tmp_path / "t"
    with pytest.raises(TamisError, match="semantics"):
        Subscriptions.create(tmp_path / "odd", semantics="odd")


# --- problems --------------------------------------------------------------------------


def test_bad_subscriptions_are_put_aside(table):
    bad = [("a", "n ="), ("b", "n = 1"), ("b", "n = 2"), (None, "n = 1"), ("c", None), (7, "n = 3")]
    table.add_many(bad, on_error="report")
    assert list(table) == ["b"]
    rows = table.problems().to_pylist()
    assert [(r["id"], r["selector"]) for r in rows] == [
        ("a", "n ="),
        ("b", "n = 2"),
        (None, "n = 1"),
        ("c", None),
        ("7", "n = 3"),
    ]
    assert all(row["reason"] for row in rows)
    table.compile()
    assert Subscriptions.open(table.path).problems().to_pylist() == rows
    assert table.view().aside().to_pylist() == rows
    table.add("a", "n = 1")
    table.remove("c")
    left = [row["id"] for row in table.problems().to_pylist()]
    assert left == ["b", None, "7"] == [r["id"] for r in table.view().aside().to_pylist()]
    table.clear_problems()
    assert table.problems().num_rows == 0 == table.view().aside().num_rows


# --- a follower is never wrong -----------------------------------------------------------


class Model:
    """What the table should be, version by version."""

    def __init__(self) -> None:
        self.versions: list[dict] = [{}]

    def change(self, rng: random.Random, table: Subscriptions) -> None:
        now = dict(self.versions[-1])
        with table.change() as change:
            for _ in range(rng.choice((1, 1, 1, 2, 40))):
                id = f"i{rng.randrange(30)}"
                selector = f"n {rng.choice('<>=')} {rng.randrange(12)} AND s = '{rng.choice('ab')}'"
                said = selector, rng.choice((None, "x", "é𝒳"))
                if id not in now:
                    change.add(id, *said)
                elif rng.random() < 0.5:
                    change.replace(id, *said)
                else:
                    change.remove(id)
                    said = None
                now.pop(id, None)
                if said:
                    now[id] = said
        self.versions.append(now)

    def check(self, view) -> None:
        wanted = self.versions[view.version]
        rows = view.rows().to_pylist()
        assert {r["id"]: (r["selector"], r["subscriber"]) for r in rows} == wanted
        assert list(view.matcher) == list(wanted)
        plain = Matcher()
        plain.add_many((id, selector) for id, (selector, _) in wanted.items())
        assert found(view.matcher) == found(plain)
        subscribers = view.subscribers.array().to_pylist()
        for slot, id in enumerate(view.matcher.match_many([]).names.to_pylist()):
            assert id not in wanted or slot != view.matcher._contents.slots[id] or (
                subscribers[slot] == wanted[id][1]
            )  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_followers_agree_with_the_model_at_every_version(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(module, "_DUE", 60)
    monkeypatch.setattr(module, "_GRACE", 0.0)
    rng, model = random.Random(seed), Model()
    writers = [Subscriptions.create(tmp_path / "t") for _ in range(2)]
    followers = [writer.follower() for writer in writers]
    for _ in range(40):
        model.change(rng, rng.choice(writers))
        if rng.random() < 0.15:
            rng.choice(writers).compile()
        if rng.random() < 0.1:
            assert rng.choice(writers).vacuum(keep=rng.randrange(1, 30)) <= writers[0].version
        follower = rng.choice(followers)
        model.check(follower.at())
        oldest = writers[0].versions.present().oldest
        model.check(follower.at(rng.randrange(oldest, writers[0].version + 1)))
        assert list(rng.choice(writers)) == list(model.versions[-1])
    assert writers[0].version == 40
    opened = Subscriptions.open(tmp_path / "t")
    for version in range(opened.versions.present().oldest, 41):
        model.check(opened.view(version))


def test_a_snapshot_of_another_tamis_is_made_again(table, monkeypatch):
    table.add_many([("a", "n < 5", "x"), ("b", "n > 3")])
    table.compile()
    from tamis.engine.snapshot import file as container

    monkeypatch.setattr(container, "VERSION", 99)
    assert table.view().matcher.match({"n": 4}) == ["a", "b"]
    assert table.view().rows().column("subscriber").to_pylist() == ["x", None]


def test_following_reads_only_what_has_changed(table, monkeypatch):
    table.add_many((f"i{i}", f"n = {i}") for i in range(100))
    follower = table.follower()
    follower.at()
    table.add("more", "n = 5")
    monkeypatch.setattr(Follower, "_loaded", lambda *given: pytest.fail("loaded anew"))
    assert follower.at().matcher.match({"n": 5}) == ["i5", "more"]


# --- several at once ---------------------------------------------------------------------

WRITER = """
import sys
from tamis.table import Subscriptions
table = Subscriptions.create(sys.argv[1])
for i in range(int(sys.argv[3])):
    print(table.add(f"{sys.argv[2]}-{i}", f"n = {i}"), flush=True)
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen:
    arguments = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    paths = os.pathsep.join(p for p in sys.path if p)
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "t"
    running = [writer(path, name, 40) for name in "abc"]
    told = [run.communicate(timeout=120)[0] for run in running]
    assert [run.returncode for run in running] == [0, 0, 0]
    versions = sorted(int(line) for text in told for line in text.split())
    assert versions == list(range(1, 121))
    table = Subscriptions.create(path)
    assert sorted(table) == sorted(f"{name}-{i}" for name in "abc" for i in range(40))
    for name in "abc":  # each writer's own order is kept
        assert [id for id in table if id.startswith(name)] == [f"{name}-{i}" for i in range(40)]


def test_a_writer_that_is_killed_leaves_whole_versions(tmp_path):
    path = tmp_path / "t"
    run = writer(path, "a", 100_000)
    assert run.stdout is not None
    lines = [run.stdout.readline() for _ in range(30)]
    run.send_signal(signal.SIGKILL)
    lines += run.communicate()[0].splitlines(keepends=True)
    table = Subscriptions.create(path)
    done = int(lines[-1]) if lines[-1].endswith("\n") else int(lines[-2])
    assert table.version in (done, done + 1)
    assert list(table) == [f"a-{i}" for i in range(table.version)]
    table.add("next", "n = 1")
    assert table.matcher().match({"n": 1}) == ["a-1", "next"]


def test_threads_that_race_for_one_id(table):
    tables = [table, *(Subscriptions.open(table.path) for _ in range(3))]
    start, told = threading.Barrier(4), []

    def run(own: Subscriptions) -> None:
        start.wait()
        for i in range(10):
            try:
                told.append((f"i{i}", own.add(f"i{i}", "n = 1")))
            except SubscriptionError:
                told.append((f"i{i}", None))

    threads = [threading.Thread(target=run, args=(own,)) for own in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [id for id, version in told if version is not None]
    assert sorted(won) == sorted(f"i{i}" for i in range(10))
    assert len(told) == 40
    assert table.version == 10


def test_a_writer_that_slept_through_everything(table, monkeypatch):
    """Its number is free again, because what had it was cleared away."""
    monkeypatch.setattr(module, "_GRACE", 0.0)
    late = Subscriptions.open(table.path)
    assert list(late) == []
    publish, slept = Versions.publish, []

    def sleepy(self, changes):
        if self is late.versions and not slept:
            slept.append(changes.version)
            table.add("a", "n = 1")
            table.add("b", "n = 2")
            table.compile()
            assert table.vacuum(keep=1) == 2
        return publish(self, changes)

    monkeypatch.setattr(Versions, "publish", sleepy)
    assert late.add("late", "n = 3") == 3
    assert slept == [1]
    assert list(table) == list(late) == ["a", "b", "late"]


# --- clearing away -----------------------------------------------------------------------


def fill(table: Subscriptions, versions: int) -> None:
    for i in range(versions):
        table.add(f"i{i}", f"n = {i}")
        if i % 5 == 4:
            table.compile()


def test_vacuum_keeps_what_is_asked_for(table, monkeypatch):
    fill(table, 23)
    assert table.vacuum(keep=3) == 0  # all are younger than a minute
    monkeypatch.setattr(module, "_GRACE", 0.0)
    table.pins.pin("query", 7, 12)
    assert table.vacuum(keep=3) == 10
    assert [len(table.matcher(v)) for v in range(10, 24)] == list(range(10, 24))
    with pytest.raises(SubscriptionError, match="no version 9: kept are 10 to 23"):
        table.matcher(9)
    table.pins.prune("query", before=8)
    assert table.vacuum(keep=3) == 20
    assert len(Subscriptions.open(table.path)) == 23
    names = sorted(path.name for path in table.versions.folder.iterdir())
    assert sum(name.endswith(".changes") for name in names) == 3
    assert sum(name.endswith(".oldest") for name in names) == 1


def test_a_query_that_is_given_up_holds_nothing(table, monkeypatch):
    monkeypatch.setattr(module, "_GRACE", 0.0)
    fill(table, 12)
    table.pins.pin("query", 0, 1)
    assert table.vacuum(keep=1) == 0
    assert table.vacuum(keep=1, idle=-1.0) == 10
    assert list(table.pins.folder.iterdir()) == []


def test_a_follower_survives_that_its_files_go(table, monkeypatch):
    monkeypatch.setattr(module, "_GRACE", 0.0)
    fill(table, 3)
    follower = table.follower()
    follower.at()
    fresh = Subscriptions.open(table.path)
    for i in range(3, 30):
        table.add(f"i{i}", f"n = {i}")
    table.compile()
    table.vacuum(keep=1)
    assert len(follower.at().matcher) == 30
    assert len(fresh) == 30


def test_tables_are_compiled_by_themselves(table, monkeypatch):
    monkeypatch.setattr(module, "_DUE", 10)
    for i in range(25):
        table.add(f"i{i}", f"n = {i}")
    assert table.versions.present().tables == [10, 20]
    for i in range(25):
        table.replace("i0", f"n = {i}")
    view = table.view()
    assert len(view.matcher) == 25
    assert len(view.subscribers) <= 2 * 25 + 10 + 10  # slots of removed ones do not pile up


def test_a_follower_drops_the_slots_of_removed_ones(table, monkeypatch):
    monkeypatch.setattr(module, "_DUE", 10)
    monkeypatch.setattr(following, "_SURPLUS", 5)
    table.add_many([("a", "n = 1"), ("b", "n > 3")])
    follower = table.follower()
    for i in range(60):
        table.replace("a", f"n = {i}")
        view = follower.at()
        assert view.matcher.match({"n": i}) == (["b", "a"] if i > 3 else ["a"])
        assert len(view.subscribers) < 40


# --- pins ----------------------------------------------------------------------------------


def test_the_first_pin_holds(table):
    pins = table.pins
    assert pins.pinned("q", 1) is None
    assert [pins.pin("q", 1, 5), pins.pin("q", 1, 6), pins.pinned("q", 1)] == [5, 5, 5]
    assert pins.pin("other", 1, 6) == 6
    assert pins.oldest() == 5
    with pytest.raises(ValueError, match="cannot name a query"):
        pins.pin("../q", 1, 1)


def test_many_who_pin_at_once_agree(table):
    start, told = threading.Barrier(8), []

    def run(number: int) -> None:
        start.wait()
        told.extend((batch, table.pins.pin("q", batch, number)) for batch in range(20))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 160
    assert len(set(told)) == 20
    assert sorted(p.name for p in (table.pins.folder / "q").iterdir()) == sorted(
        map(str, range(20))
    )


# --- damage --------------------------------------------------------------------------------


def read_all(path: Path) -> None:
    table = Subscriptions.create(path)
    list(table)
    for version in range(table.version + 1):
        table.matcher(version)
    assert len(list(table.versions.after(0, table.version))) == table.version
    for query in table.pins.folder.iterdir():
        for pin in query.iterdir():
            table.pins.pinned(query.name, int(pin.name))


def test_damaged_files_are_refused_by_name(table):
    table.add_many([("a", "n < 5", "x"), ("b", "n > 3")])
    table.add("c", "n = 1")
    table.compile()
    table.pins.pin("q", 1, 2)
    rng = random.Random(7)
    read_all(table.path)
    files = [path for path in table.path.rglob("*") if path.is_file()]
    assert sorted({path.suffix for path in files}) == ["", ".changes", ".snapshot", ".table"]
    for path in files:
        whole = path.read_bytes()
        for damage in range(8):
            at, bad = rng.randrange(len(whole)), bytearray(whole)
            if damage < 5:
                bad[at] ^= 1 << rng.randrange(8)
            else:
                bad = bad[:at]
            path.unlink()  # others may have the old one mapped
            path.write_bytes(bad)
            with pytest.raises(SnapshotError) as caught:
                read_all(table.path)
            assert caught.value.path == str(path)
        path.unlink()
        path.write_bytes(whole)
    read_all(table.path)


def test_what_a_crash_has_left_is_not_looked_at(table):
    table.add("a", "n = 1")
    folder = table.versions.folder
    whole = (folder / "1.changes").read_bytes()
    for name in (".2.changes.abcd.tmp", ".3.table.abcd.tmp"):
        (folder / name).write_bytes(whole[:20])
    assert (table.version, list(Subscriptions.open(table.path))) == (1, ["a"])
    table.add("b", "n = 1")
    os.utime(folder / ".2.changes.abcd.tmp", (0, 0))
    table.vacuum()
    assert [p.name for p in folder.glob(".*")] == [".3.table.abcd.tmp"]


def test_one_version_under_the_name_of_another(table):
    table.add("a", "n = 1")
    table.add("b", "n = 1")
    folder = table.versions.folder
    (folder / "2.changes").unlink()
    (folder / "1.changes").rename(folder / "2.changes")
    (folder / "1.changes").write_bytes((folder / "2.changes").read_bytes())
    with pytest.raises(SnapshotError, match="is of version 1, and its name says 2"):
        list(Subscriptions.open(table.path))


# --- opening is not creating, and causes have their names --------------------------


def test_a_mistyped_path_makes_nothing(tmp_path):
    with pytest.raises(InputError, match=r"no table of subscriptions: Subscriptions\.create"):
        Subscriptions.open(tmp_path / "alrets")
    assert list(tmp_path.iterdir()) == []


def test_create_opens_what_is_there(table):
    table.add("a", "n = 1")
    assert list(Subscriptions.create(table.path)) == ["a"]
    with pytest.raises(InputError):
        Subscriptions.create(table.path, semantics="strict")


def test_a_table_without_its_settings_is_not_made_anew(table):
    table.add("a", "n = 1")
    (table.path / "settings").unlink()
    for word in (Subscriptions.open, Subscriptions.create):
        with pytest.raises(SnapshotError, match="settings: is missing"):
            word(table.path)


@pytest.mark.parametrize("kind", ["changes", "table"])
def test_a_directory_under_the_name_of_a_version(table, kind):
    table.add("a", "n = 1")
    (table.versions.folder / f"2.{kind}").mkdir()
    with pytest.raises(SnapshotError, match=rf"2\.{kind}: cannot be read: Is a directory"):
        list(Subscriptions.open(table.path))
    (table.versions.folder / f"2.{kind}").rename(table.versions.folder / f"6.{kind}")
    with pytest.raises(TamisError):
        list(Subscriptions.open(table.path))


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_full_or_read_only_disk_is_named(table, monkeypatch, error):
    def fails(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(InputError, match=os.strerror(error)) as caught:
        table.add("a", "n = 1")
    assert "hard links" not in str(caught.value)


@pytest.mark.parametrize("error", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_is_named(table, monkeypatch, error):
    def fails(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", fails)
    with pytest.raises(InputError, match="hard links"):
        table.add("a", "n = 1")

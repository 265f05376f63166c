"""A saved matcher comes back as it was; a file that is not whole is refused."""

from __future__ import annotations

import datetime
import doctest
import json
import math
import os
import pickle
import random
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hst

import oracle
import strategies as st
from tamis import Limits, Matcher, MessageError, SelectorError, SnapshotError
from tamis.engine import container
from tamis.engine.saving import arrays_of
from tamis.language import canonical
from tamis.logic import SEMANTICS, Semantics
from tamis.messages.table import to_batch
from tamis.messages.texts import from_value
from tamis.schema import INT_MAX, INT_MIN, Attribute, Schema, Type

ROUNDS = int(os.environ.get("TAMIS_ROUNDS", "2"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts.tamis"


def again(matcher: Matcher, path: Path, **options) -> Matcher:
    matcher.save(path)
    return Matcher.load(path, lookups=matcher.lookups, **options)


def small() -> Matcher:
    """Clusters, texts, sets, numbers without a type and a derived term, in few bytes."""
    matcher = Matcher()
    matcher.add_many((f"s{i}", f"symbol = 'S{i}' AND price < {i}.5") for i in range(20))
    matcher.add("ü", "symbol IN ('S1', 'S2') OR name CONTAINS 'ab' AND a + b > 3")
    matcher.add(7, "name MATCHES '^x' OR price > 1e300 OR a = b OR c IS NULL")
    matcher.remove("s3")
    return matcher


MESSAGES = [
    {"symbol": "S1", "price": 0.5, "c": 1},
    {"symbol": "S19", "price": 3, "name": "xab", "a": 2, "b": 2},
    {"symbol": 5, "price": math.inf, "c": "x"},
    {"name": "cab", "a": 3, "b": 1, "c": True},
    {},
]


def answers(matcher: Matcher) -> list[list[str | int]]:
    return [matcher.match(message) for message in MESSAGES]


# --- what comes back ---------------------------------------------------------


def expected(selectors: dict, message: dict, semantics: Semantics, schema: Schema | None) -> list:
    return [
        id
        for id, condition in selectors.items()
        if oracle.matches(condition, message, semantics, schema, st.LOOKUPS)
    ]


def good_messages(rng, schema, semantics, count) -> list[dict]:
    found: list[dict] = []
    while len(found) < count:
        message = st.random_message(rng, schema, total=semantics == "total")
        try:
            oracle.matches(st.tree.Constant(True), message, semantics, schema, st.LOOKUPS)
            found.append(message)
        except MessageError:
            continue
    return found


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("typed", [False, True])
def test_loaded_matcher_agrees_with_the_oracle(semantics: Semantics, typed: bool, path: Path):
    rng = random.Random(f"snapshot {semantics} {typed}")
    for _ in range(ROUNDS):
        schema = st.random_schema(rng) if typed or semantics == "total" else None
        matcher = Matcher(schema, semantics=semantics, lookups=st.LOOKUPS)
        selectors = {}

        def add(to: Matcher, id: str, schema=schema, selectors=selectors) -> None:
            selectors[id] = st.random_condition(rng, schema, lookups=tuple(st.LOOKUPS))
            to.add(id, canonical(selectors[id]))

        for i in range(50):
            add(matcher, f"i{i}")
        for i in range(0, 50, 9):
            matcher.remove(f"i{i}")
            del selectors[f"i{i}"]
        messages = good_messages(rng, schema, semantics, 80)
        loaded = again(matcher, path)
        for step in range(2):
            wanted = [expected(selectors, m, semantics, schema) for m in messages]
            assert len(loaded) == len(selectors)
            assert list(loaded) == list(selectors)
            assert loaded.match_many(messages).to_pylist() == wanted
            assert [loaded.match(m) for m in messages[:5]] == wanted[:5]
            if schema is not None:
                batch, _ = to_batch(messages, schema, list(schema), from_value)
                assert loaded.match_batch(batch, threads=2).to_pylist() == wanted
            # go on: replace, remove, add; and once more through a file
            if step == 0:
                selectors["i1"] = selectors.pop("i1")
                loaded.replace("i1", canonical(selectors["i1"]))
                loaded.remove("i2")
                del selectors["i2"]
                add(loaded, "new")
                loaded = again(loaded, path)


def test_saving_again_gives_the_same_bytes(path: Path):
    matcher = small()
    matcher.settle()
    loaded = again(matcher, path)
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first


def test_empty_matcher(path: Path):
    loaded = again(Matcher(), path)
    assert len(loaded) == 0
    assert loaded.match({"a": 1}) == []
    assert loaded.match_many([{"a": 1}] * 100).to_pylist() == [[]] * 100
    loaded.add("a", "a = 1")
    assert again(loaded, path).match({"a": 1}) == ["a"]


def test_matcher_whose_subscriptions_are_all_removed(path: Path):
    matcher = Matcher()
    matcher.add("a", "a = 1")
    matcher.remove("a")
    loaded = again(matcher, path)
    assert len(loaded) == 0
    assert loaded.match({"a": 1}) == []
    loaded.add("a", "a = 1")
    assert loaded.match({"a": 1}) == ["a"]


@pytest.mark.parametrize(
    "ids",
    [
        ["é", "𝒳\n", "", "a'b", " "],
        [0, -1, INT_MAX, INT_MIN],
        [7, "8", "x", -7],
    ],
)
def test_ids_come_back_as_they_were(ids: list, path: Path):
    matcher = Matcher()
    matcher.add_many((id, "a > 0") for id in ids)
    loaded = again(matcher, path)
    assert list(loaded) == ids
    assert loaded.match({"a": 1}) == ids
    assert all(id in loaded for id in ids)
    assert "y" not in loaded
    names = matcher.match_many([{"a": 1}]).ids
    assert loaded.match_many([{"a": 1}]).ids.equals(names)
    loaded.add("y", "a > 0")
    assert loaded.match({"a": 1}) == [*ids, "y"]
    assert again(loaded, path).match({"a": 1}) == [*ids, "y"]


def test_constants_of_every_kind(path: Path):
    selectors = [
        "x < 1e300",  # an integer of 301 digits
        "x > -1.7e308",
        "x >= 0.1",
        "x IN (1, 2.5, 9007199254740993, 1e300, -1e19)",
        "x IN ('a', 'é', '')",
        "x IN (TRUE, FALSE)",
        "x IN (TIMESTAMP '2000-02-01', TIMESTAMP '1969-12-31')",
        "x <= 9223372036854775807",
        "x CONTAINS 'é' OR x MATCHES 'a+' OR x LIKE '_b' OR x WITHIN 'abc'",
        "x > y",
        "x CONTAINS y",
    ]
    matcher = Matcher()
    matcher.add_many(enumerate(selectors))
    loaded = again(matcher, path)
    day = datetime.datetime(2000, 2, 1, tzinfo=datetime.UTC)
    values = [1, 2.5, 2**53 + 1, 1e300, -1e19, math.inf, -math.inf, "a", "é", "", "ab", True, day]
    hits = 0
    for x in values:
        for y in (0, "b", 1e301, None):
            assert loaded.match({"x": x, "y": y}) == matcher.match({"x": x, "y": y})
            hits += len(loaded.match({"x": x, "y": y}))
    assert hits > 100


def test_settings_come_back(path: Path):
    zone = datetime.timezone(datetime.timedelta(hours=2))
    schema = Schema(
        (
            Attribute("odd name", Type.DOUBLE, -math.inf),
            Attribute("b", Type.DOUBLE, 0.1),
            Attribute("i", Type.INT, INT_MIN),
            Attribute("s", Type.STRING, "é'"),
            Attribute("t", Type.TIMESTAMP, datetime.datetime(2000, 1, 1, tzinfo=zone)),
            Attribute("f", Type.BOOL, False),
            Attribute("none", Type.STRING),
        )
    )
    limits = Limits(length=50, items=3)
    matcher = Matcher(schema, semantics="default", limits=limits)
    matcher.add("a", "s = 'é''' AND i < 0")
    loaded = again(matcher, path)
    assert (loaded.schema, loaded.semantics, loaded.limits) == (schema, "default", limits)
    assert loaded.match({}) == ["a"]
    with pytest.raises(SelectorError):
        loaded.add("b", "i IN (1, 2, 3, 4)")


def test_dialect_comes_back(path: Path):
    matcher = Matcher(dialect="jms")
    matcher.add("a", "x / 2 = 3")
    loaded = again(matcher, path)
    assert loaded.match({"x": 7}) == matcher.match({"x": 7}) == ["a"]
    with pytest.raises(SelectorError):
        loaded.add("b", "x CONTAINS 'a'")


def test_explanation_after_loading(path: Path):
    matcher = small()
    loaded = again(matcher, path)
    for id in ("ü", 7, "s1"):
        assert loaded.explain(id, MESSAGES[1]) == matcher.explain(id, MESSAGES[1])


def test_selectors_of_removed_subscriptions_are_not_saved(path: Path):
    matcher = Matcher()
    matcher.add("a", "secret = 1")
    matcher.add("b", "open = 'removed but still compiled'")
    matcher.remove("a")
    matcher.save(path)
    assert b"secret = 1" not in path.read_bytes()


def test_lookups_must_be_given(path: Path):
    matcher = Matcher(lookups=st.LOOKUPS)
    matcher.add("a", "NYSEdb(issue) = 'IBM' AND scaled(x) > 2")
    matcher.save(path)
    with pytest.raises(SnapshotError, match="'NYSEdb', 'scaled'") as caught:
        Matcher.load(path)
    assert "lookups=" in caught.value.hint
    loaded = Matcher.load(path, lookups=st.LOOKUPS)
    assert loaded.match({"issue": "a", "x": 2}) == ["a"]


def test_saving_while_others_write(path: Path):
    matcher = Matcher()
    stop = threading.Event()

    def write() -> None:
        for i in range(100_000):
            if stop.is_set():
                return
            matcher.add(i, f"a >= {i % 7} OR b = 'x{i % 50}'")
            if i % 3 == 0:
                matcher.remove(i)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        sizes = []
        for _ in range(6):
            loaded = again(matcher, path)
            sizes.append(len(loaded))
            assert loaded.match({"a": 6}) == list(loaded)
    finally:
        stop.set()
        writer.join()
    assert sizes[-1] > sizes[0]


def test_the_page_on_snapshots_is_true(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "snapshots.md"
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.attempted > 10
    assert result.failed == 0


# --- processes ---------------------------------------------------------------

_OTHER = """
import json, re, sys
from pathlib import Path
from tamis import Matcher

matcher = Matcher.load(sys.argv[1])
found = matcher.match_many(json.loads(sys.argv[2])).to_pylist()
mapped = re.split(r"^(?=[0-9a-f]+-)", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
own = [part for part in mapped if sys.argv[1] in part]
dirty = [int(kb) for part in own for kb in re.findall(r"Private_Dirty: +(\\d+)", part)]
print(json.dumps([found, len(own), sum(dirty)]))
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells")
def test_another_process_maps_the_same_pages(path: Path):
    matcher = small()
    matcher.save(path)
    messages = [m for m in MESSAGES if math.inf not in m.values()] * 30
    given = [sys.executable, "-c", _OTHER, str(path), json.dumps(messages)]
    done = subprocess.run(given, capture_output=True, text=True, check=True)
    found, mappings, dirty = json.loads(done.stdout)
    assert found == [matcher.match(m) for m in messages]
    assert mappings == 1
    assert dirty == 0  # no page was copied: all of them are shared


# --- files that are not whole ------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("snapshot") / "whole"
    small().save(path)
    return path.read_bytes()


def refused(path: Path, data: bytes, **options) -> SnapshotError:
    path.write_bytes(data)
    with pytest.raises(SnapshotError) as caught:
        Matcher.load(path, **options)
    assert caught.value.path == str(path)
    assert str(path) in str(caught.value)
    return caught.value


def test_flipped_bits_are_noticed(whole: bytes, path: Path):
    """In the header, in arrays, in what fills their last line, in the directory."""
    rng = random.Random(1)
    for at in (*range(64), *range(64, len(whole), 5)):
        data = bytearray(whole)
        data[at] ^= 1 << rng.randrange(8)
        refused(path, bytes(data))


def test_cut_files_are_noticed(whole: bytes, path: Path):
    for length in (*range(70), *range(70, len(whole), 16), len(whole) - 1):
        refused(path, whole[:length])
        refused(path, whole[:length], verify=False)
    refused(path, whole + b"\0")
    refused(path, whole + whole)


@given(data=hst.data())
def test_any_damage_is_noticed(data, whole: bytes, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "damaged"
    at = data.draw(hst.integers(0, len(whole) - 1))
    length = data.draw(hst.integers(0, 200))
    other = data.draw(hst.binary(max_size=200))
    damaged = whole[:at] + other + whole[at + length :]
    if damaged != whole:
        refused(path, damaged)


@pytest.mark.parametrize("at", [0, 8, 100, 1000])
def test_half_written_files_have_no_header(at: int, whole: bytes, path: Path):
    assert "not written to its end" in str(refused(path, bytes(64) + whole[64 : 64 + at]))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b"T", "no snapshot of Tamis"),
        (b"a,b\n1,2\n", "no snapshot of Tamis"),
        (b"PK\3\4" + bytes(200), "no snapshot of Tamis"),
        (container.MAGIC, "cut off"),
        (os.urandom(5000), "no snapshot of Tamis"),
    ],
)
def test_other_files_are_refused(data: bytes, what: str, path: Path):
    assert what in str(refused(path, data))


def test_paths_that_are_no_file(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "missing", tmp_path / "pipe", "nul\0"):
        with pytest.raises(SnapshotError):
            Matcher.load(path)
    with pytest.raises(SnapshotError, match="cannot be written"):
        small().save(tmp_path / "no" / "such" / "folder")


def header(version: int, total: int, begin: int, directory: bytes, length: int | None = None):
    fields = container._HEADER.pack(
        container.MAGIC,
        version,
        0,
        total,
        begin,
        zlib.crc32(directory),
        len(directory) if length is None else length,
    ).ljust(60, b"\0")
    return fields + struct.pack("<I", zlib.crc32(fields))


def made(directory: bytes, version: int = container.VERSION, body: bytes = b"") -> bytes:
    """A file with right checksums around any directory."""
    begin = 64 + len(body)
    return header(version, begin + len(directory), begin, directory) + body + directory


def test_newer_and_older_formats_are_named(path: Path):
    error = refused(path, made(b"[]", version=container.VERSION + 1))
    assert f"format {container.VERSION + 1}" in error.what
    assert "newer" in error.hint
    assert "format 0" in refused(path, made(b"[]", version=0)).what


@pytest.mark.parametrize(
    "directory",
    [
        b"",
        b"[",
        b"{}",
        b"[]",
        b"null",
        b"[1]",
        b"[[1,2,3,4]]",
        b'[["a","int32",[9223372036854775807],0]]',
        b'[["a","int64",[4611686018427387904,64],0]]',
        b'[["a","int64",[0,4611686018427387904],0]]',
        b'[["a","int32",[-16],0]]',
        b'[["a","int32",[1.5],0]]',
        b'[["a","int32",[true],0]]',
        b'[["a","int32",[],0]]',
        b'[["a","int32",[1,1,1],0]]',
        b'[["a","object",[1],0]]',
        b'[["a",["int32"],[1],0]]',
        b'[[["a"],"int32",[0],0]]',
        b'[["a","int32",[0],0],["a","int32",[0],0]]',
        b'[["a","int32",[0],-1]]',
        b'[["a","int32",[' + b"9" * 5000 + b"],0]]",
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
@pytest.mark.parametrize("verify", [True, False])
def test_hostile_directories(directory: bytes, verify: bool, path: Path):
    refused(path, made(directory), verify=verify)


def test_hostile_headers(path: Path):
    huge = 2**63
    for total, begin, length in [
        (huge, 64, 2),
        (66, huge, 2),
        (66, 64, huge),
        (66, 0, 66),
        (66, 66, 0),
        (66, 2**64 - 1, 67),
    ]:
        refused(path, header(container.VERSION, total, begin, b"[]", length) + b"[]")


# --- right checksums, wrong contents -----------------------------------------

EDGES = (-1, 0, 1, 2, 7, 127, 255, 2**31 - 1, -(2**31), 2**62, INT_MAX, INT_MIN)


def tampered(rng: random.Random, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Change, cut or lengthen one array; sometimes two."""
    changed = dict(arrays)
    for _ in range(rng.choice((1, 1, 1, 2))):
        name = rng.choice(list(changed))
        array = changed[name].copy()
        way = rng.random()
        if way < 0.1 and len(array):
            array = array[: rng.randrange(len(array))]
        elif way < 0.2:
            array = np.concatenate([array, array[-1:]])
        elif way < 0.25:
            array = array.astype(rng.choice((np.int32, np.int64, np.uint8)))
        elif array.size:
            at = rng.randrange(array.size)
            value = rng.choice(
                (*EDGES, int(array.flat[at]) + 1, int(array.flat[at]) - 1, array.size)
            )
            array.flat[at] = np.array(value).astype(array.dtype)
        changed[name] = array
    return changed


def test_wrong_contents_never_reach_a_kernel(path: Path):
    """What is loaded all the same has every number within its bounds: it can be used."""
    rng = random.Random(5)
    matcher = small()
    matcher.settle()
    arrays = {name: np.concatenate(parts) for name, parts in arrays_of(matcher)}
    refusals = 0
    for _ in range(150 * ROUNDS):
        container.write(path, [(n, [a]) for n, a in tampered(rng, arrays).items()])
        try:
            loaded = Matcher.load(path)
        except SnapshotError:
            refusals += 1
            continue
        answers(loaded)
        loaded.match_many(MESSAGES * 30)
    assert refusals > 50 * ROUNDS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("node", 10_000),
        ("node", -1),
        ("event", 10_000),
        ("group", 99),
        ("root", 500),
        ("slot", 500),
        ("template", 500),
        ("access_clusters", 0),
        ("access_clusters", 500),
        ("requirement_columns", 500),
        ("words", 2**30),
        ("words", -9),
        ("question", 2**30),
        ("starts", 10**12),
        ("bounds", -1),
        ("item_starts", 10**12),
        ("family", 77),
        ("selector_bytes", 0xFF),
    ],
)
def test_numbers_out_of_bounds_are_refused(name: str, value: int, path: Path):
    arrays = {n: np.concatenate(parts) for n, parts in arrays_of(small())}
    assert arrays[name].size
    arrays[name] = np.full_like(arrays[name], value)
    container.write(path, [(n, [a]) for n, a in arrays.items()])
    for verify in (True, False):
        with pytest.raises(SnapshotError, match="no matcher has"):
            Matcher.load(path, verify=verify)


def test_arrays_that_are_missing(path: Path):
    arrays = {n: np.concatenate(parts) for n, parts in arrays_of(small())}
    for name in arrays:
        container.write(path, [(n, [a]) for n, a in arrays.items() if n != name])
        with pytest.raises(SnapshotError, match=f"there is no {name}"):
            Matcher.load(path)


# --- crashes -----------------------------------------------------------------


def test_crash_before_the_new_name_leaves_the_old_file(path: Path):
    small().save(path)
    before = path.read_bytes()
    other = Matcher()
    other.add("other", "a = 1")
    staged = container.stage(path, arrays_of(other))  # and here the power fails
    assert path.read_bytes() == before
    assert answers(Matcher.load(path)) == answers(small())
    assert Matcher.load(staged).match({"a": 1}) == ["other"]


def test_failure_leaves_the_old_file_and_nothing_else(path: Path, monkeypatch):
    small().save(path)
    before = path.read_bytes()

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for target, name in ((os, "fsync"), (Path, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, fails)
            with pytest.raises(SnapshotError, match="No space left"):
                small().save(path)
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]


def test_loaded_matcher_outlives_its_file(path: Path):
    matcher = small()
    loaded = again(matcher, path)
    Matcher().save(path)
    assert answers(loaded) == answers(matcher)
    path.unlink()
    assert answers(loaded) == answers(matcher)
    assert (
        loaded.match_many(MESSAGES * 30).to_pylist()
        == matcher.match_many(MESSAGES * 30).to_pylist()
    )


def test_error_survives_pickling():
    error = SnapshotError(Path("a"), "is empty", "save it again")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.path, copy.hint) == (str(error), "a", "save it again")

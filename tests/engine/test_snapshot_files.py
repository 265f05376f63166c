"""A file that is not whole is refused, and saving is all or nothing."""

from __future__ import annotations

import os
import pickle
import random
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as hst

from engine.snapshots import answers, small
from tamis import Matcher, SnapshotError
from tamis.engine.snapshot import file as container
from tamis.engine.snapshot.saving import arrays_of
from tamis.files import flush, staged

pytestmark = pytest.mark.slow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts.tamis"


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


# --- crashes -----------------------------------------------------------------


def test_crash_before_the_new_name_leaves_the_old_file(path: Path):
    small().save(path)
    before = path.read_bytes()
    other = Matcher()
    other.add("other", "a = 1")
    with staged(path) as (name, file):
        container.write_into(file, path, list(arrays_of(other)))
        flush(file)  # and here the power fails
        assert path.read_bytes() == before
        assert answers(Matcher.load(path)) == answers(small())
        assert Matcher.load(name).match({"a": 1}) == ["other"]


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


def test_error_survives_pickling():
    error = SnapshotError(Path("a"), "is empty", "save it again")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.path, copy.hint) == (str(error), "a", "save it again")

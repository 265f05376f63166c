"""Every way to write an output: what stands there keeps its kind, its mode and its owner."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis import Matcher, SnapshotError, files
from tamis.cli import main

ROOT = Path(__file__).parent.parent
Write = Callable[[Path], None]


def saved(path: Path) -> None:
    matcher = Matcher()
    matcher.add(1, "x > 1")
    matcher.save(path)


def command(path: Path) -> None:
    inputs = path.parent / "inputs"
    inputs.mkdir(exist_ok=True)
    (inputs / "s.jsonl").write_text('{"id": "a", "selector": "x > 1"}\n')
    (inputs / "m.jsonl").write_text('{"x": 5}\n')
    arguments = [str(inputs / "s.jsonl"), str(inputs / "m.jsonl"), "--output", str(path)]
    assert main(["match", *arguments]) == 0


def parquet(path: Path) -> None:
    (path.parent / "s.jsonl").write_text('{"id": "a", "selector": "x > 1"}\n')
    (path.parent / "m.jsonl").write_text('{"x": 5}\n')
    names = [str(path.parent / name) for name in ("s.jsonl", "m.jsonl")]
    assert main(["match", *names, "--output", str(path), "--format", "parquet"]) == 0


def report(path: Path) -> None:
    from tamis.cli.jobs.run_command import _write

    _write(str(path), b"<html>")


WAYS = pytest.mark.parametrize("write", [saved, command, parquet, report])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@WAYS
def test_a_device_stays_a_device(write: Write, folder: Path):
    path = folder / "null"
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.open("wb").close()
    except OSError:
        pytest.skip("this user, or this file system, has no devices")
    (folder / "link").symlink_to("null")
    for target in (path, folder / "link"):
        write(target)
        assert stat.S_ISCHR(path.stat().st_mode)
    assert (folder / "link").is_symlink()


@WAYS
def test_a_pipe_gets_the_bytes(write: Write, folder: Path):
    pipe, plain = folder / "pipe", folder / "plain"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(pipe)
    reader.join(20)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    write(plain)
    assert got == [plain.read_bytes()]


def test_a_pipe_that_nobody_reads_is_an_error(folder: Path, monkeypatch):
    monkeypatch.setattr(files, "READER_WAIT", 0.05)
    os.mkfifo(folder / "pipe")
    with pytest.raises(SnapshotError, match="no process reads this pipe"):
        saved(folder / "pipe")


@WAYS
def test_a_link_is_followed(write: Write, folder: Path):
    real = folder / "real"
    (folder / "first").symlink_to("second")
    (folder / "second").symlink_to(real)
    write(folder / "first")  # it leads to what is still to be made
    assert real.is_file()
    real.write_bytes(b"old")
    write(folder / "first")
    assert real.read_bytes() != b"old"
    assert (folder / "first").is_symlink()
    assert (folder / "second").is_symlink()
    assert real.is_file()
    assert not real.is_symlink()


@given(mode=st.integers(0, 0o777).map(lambda mode: mode | 0o600))
@WAYS
def test_the_mode_stays(write: Write, mode: int, tmp_path_factory):
    path = tmp_path_factory.mktemp("mode") / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path)
    assert path.read_bytes() != b"old"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@WAYS
def test_a_new_file_has_the_mode_of_new_files(write: Write, folder: Path):
    write(folder / "one")
    (folder / "other").write_bytes(b"")
    assert (folder / "one").stat().st_mode == (folder / "other").stat().st_mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@WAYS
def test_the_owner_stays(write: Write, folder: Path):
    path = folder / "file"
    path.write_bytes(b"old")
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    write(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid) == (12345, 23456)
    assert stat.S_IMODE(found.st_mode) == 0o640


@pytest.mark.parametrize("name", ["/dev/stdout", "-"])
@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_standard_output_by_its_name_is_not_replaced(name: str, mode: str, folder: Path):
    """Under its own name it may be a file that others have begun."""
    (folder / "s.jsonl").write_text('{"id": "a", "selector": "x > 1"}\n')
    (folder / "m.jsonl").write_text('{"x": 5}\n')
    out = folder / "out.jsonl"
    out.write_bytes(b"before\n")
    before = out.stat().st_ino
    code = "import sys; from tamis.cli import main; sys.exit(main())"
    names = [str(folder / "s.jsonl"), str(folder / "m.jsonl"), "--output", name]
    with out.open(mode) as stream:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        arguments = [sys.executable, "-c", code, "match", *names]
        subprocess.run(arguments, stdout=stream, check=True, env=environment)
    assert out.stat().st_ino == before
    lines = out.read_text().splitlines()
    assert lines[: len(lines) - 1] == (["before"] if mode == "ab" else [])
    assert json.loads(lines[-1]) == {"message": 0, "subscriptions": ["a"]}


def test_a_failure_leaves_what_was_there(folder: Path):
    path = folder / "file"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), files.whole_file(path) as file:
        file.write(b"new" + bytes(1 // 0))
    assert path.read_bytes() == b"old"
    assert list(folder.iterdir()) == [path]


@pytest.mark.parametrize("write", [saved, report])
def test_a_name_may_be_as_long_as_the_system_allows(write: Write, folder: Path):
    write(folder / ("x" * 255))
    assert (folder / ("x" * 255)).is_file()


def test_a_folder_is_refused(folder: Path, capsys):
    with pytest.raises(SnapshotError, match="Is a directory"):
        saved(folder)


# --- standard output and error may be closed -------------------------------------


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "s.jsonl").write_text('{"id": "a", "selector": "x > 1"}\n')
    (folder / "m.jsonl").write_text('{"x": 5}\n')
    code = "import sys; from tamis.cli import main; sys.exit(main())"
    (folder / "tamis.sh").write_text(f'exec "{sys.executable}" -c "{code}" "$@"\n')
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        ["/bin/sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "command", ["match s.jsonl m.jsonl", "check 'x > 1'", "explain 'x > 1' '{}'"]
)
def test_closed_output_is_an_error_in_a_sentence(command: str, folder: Path):
    done = shell(f"sh tamis.sh {command} >&-", folder)
    assert (done.returncode, done.stderr) == (2, "cannot write: standard output is closed\n")


def test_a_file_needs_no_standard_output(folder: Path):
    done = shell("sh tamis.sh match s.jsonl m.jsonl --output o.jsonl >&- 2>&-", folder)
    assert done.returncode == 0
    assert (folder / "o.jsonl").read_text() == '{"message": 0, "subscriptions": ["a"]}\n'

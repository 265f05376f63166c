"""Ctrl-C and forks at any moment leave a matcher that is whole."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import tamis
from tamis import Matcher
from tamis.critical_section import atomic, uninterrupted
from tamis.jit.kernel import kernel

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent / "interrupted.py"
ROUNDS = int(os.environ.get("TAMIS_INTERRUPTS", "24"))  # 1,000 take some eight minutes
FORKS = int(os.environ.get("TAMIS_FORKS", "20"))


@pytest.fixture(autouse=True)
def _ctrl_c() -> Iterator[None]:
    """As on a terminal: what runs in the background may start with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_at_any_moment_leaves_all_or_nothing() -> None:
    command = [sys.executable, str(SCRIPT), str(ROUNDS)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60 + 2 * ROUNDS)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == 6
    assert [line for line in lines if not line.endswith("interrupts, all well")] == []


@pytest.mark.parametrize("section", [uninterrupted, atomic])
def test_a_section_is_finished_before_the_interrupt_is_raised(section) -> None:
    done = []

    def work() -> None:
        with section():
            with section():
                os.kill(os.getpid(), signal.SIGINT)
                done.append("inner")
            done.append("outer")
        done.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_waits_while_a_kernel_is_loaded(monkeypatch) -> None:
    """LLVM calls Python back while it loads, and ctypes drops what is raised in there."""

    @kernel
    def double(x):
        return 2 * x

    loading = Dispatcher._compile_for_args

    def interrupted(*arguments, **named):
        @ctypes.CFUNCTYPE(None)
        def called_back() -> None:
            os.kill(os.getpid(), signal.SIGINT)

        called_back()
        return loading(*arguments, **named)

    monkeypatch.setattr(Dispatcher, "_compile_for_args", interrupted)
    with pytest.raises(KeyboardInterrupt):
        double(21)
    assert len(double.signatures) == 1
    assert double(21) == 42


def test_nothing_calls_python_where_an_object_ends() -> None:
    """Python drops what is raised there, so Ctrl-C would be lost."""
    calls = re.compile(
        r"Weak(Set|KeyDictionary|ValueDictionary)\b.*[=(]|def __del__|ref\([^()]*, lambda"
    )
    source = Path(tamis.__file__).parent
    assert [path for path in source.rglob("*.py") if calls.search(path.read_text())] == []


def test_an_error_in_a_section_goes_on() -> None:
    with pytest.raises(ValueError, match="mine"), atomic():
        raise ValueError("mine")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_can_go_on_whatever_other_threads_were_doing() -> None:
    """The child removes what the writer left, adds its own, and merges in the background."""
    matcher = Matcher()
    matcher.add_many((i, f"x > {i}") for i in range(3000))
    matcher.match({"x": 1})
    stop = threading.Event()

    def write() -> None:
        i = 0
        while not stop.is_set():
            i += 1
            matcher.add(f"w{i}", "x = 1")
            matcher.remove(f"w{i}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        codes = [_in_a_child(matcher) for _ in range(FORKS)]
    finally:
        stop.set()
        writer.join()
    assert codes == [0] * FORKS


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_does_not_wait_for_the_background_of_its_parent() -> None:
    """A matcher that is renewed has a background of its own, beside that of its contents."""
    matcher = Matcher()
    with matcher._compaction._lock:  # as while a thread is started
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            matcher.settle()
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _in_a_child(matcher: Matcher) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(20)  # a child that hangs ends with -SIGALRM
            for id in list(matcher):
                if isinstance(id, str):
                    matcher.remove(id)
            matcher.add_many((f"child{i}", f"x < {i}") for i in range(100))
            matcher.settle()
            found = matcher.match({"x": 50})
            code = found != [*range(50), *(f"child{i}" for i in range(51, 100))]
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

"""The background: what happens where it fails."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tamis import Matcher

MESSAGE = {"n": 5}


class Broken:
    """Compiling that fails in the background as long as `broken` holds."""

    def __init__(self, compile: Callable[..., object]) -> None:
        self.compile, self.broken, self.failures = compile, True, 0

    def __call__(self, *given: object, **options: object) -> object:
        if self.broken and threading.current_thread().name.startswith("tamis-"):
            self.failures += 1
            raise MemoryError("no room")
        return self.compile(*given, **options)


@pytest.fixture(params=["diagram", "implication"])
def matcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Matcher:
    monkeypatch.setattr("tamis.engine.live.merging.SEALED", 1)
    monkeypatch.setattr("tamis.engine.live.merging._QUIET", 0.001)
    return Matcher(engine=request.param)


def break_(matcher: Matcher) -> Broken:
    inside = matcher._contents.merging
    name = "_compile" if matcher.implications is None else "_planted"
    broken = Broken(getattr(inside, name))
    setattr(inside, name, broken)
    return broken


def settled(matcher: Matcher) -> bool:
    """Whether settling succeeds."""
    try:
        matcher.settle()
    except MemoryError:
        return False
    return True


def test_a_failure_is_told_once_and_the_next_change_tries_again(
    matcher: Matcher, caplog: pytest.LogCaptureFixture
) -> None:
    broken = break_(matcher)
    with caplog.at_level(logging.WARNING, "tamis"):
        for i in range(40):
            matcher.add(i, "n = 5")
        with pytest.raises(MemoryError, match="no room"):
            matcher.settle()
        before = broken.failures
        matcher.add(40, "n = 5")
        assert not settled(matcher)
        assert broken.failures > before
    assert matcher.match(MESSAGE) == list(range(41))
    told = [record for record in caplog.records if "merging failed" in record.message]
    assert len(told) == 1
    assert told[0].exc_info


@pytest.mark.parametrize("engine", ["diagram", "implication"])
def test_a_process_that_ends_in_the_midst_of_a_fold_ends_well(engine: str) -> None:
    """No crash, no traceback, no waiting for all that is left to do."""
    program = f"""if True:
        from tamis import Matcher
        matcher = Matcher(engine={engine!r})
        for i in range(300):
            matcher.add(i, f"s MATCHES '^a{{i}}.*b+$' OR t CONTAINS 'x{{i}}'")
        """
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_settling_again_folds_what_was_left(matcher: Matcher) -> None:
    broken = break_(matcher)
    for i in range(40):
        matcher.add(i, "n = 5")
    while settled(matcher):  # the failure may come a little later
        matcher.replace(0, "n = 5")
    broken.broken = False
    matcher.settle()
    matcher.settle()
    state = matcher._contents.merging.state
    assert len(getattr(state, "graphs", state.segments)) < 10
    assert sorted(matcher.match(MESSAGE)) == list(range(40))

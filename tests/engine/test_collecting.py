"""The garbage collector waits while many subscriptions are added, and works again afterwards."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest

from tamis import Matcher
from tamis.engine.ground.collecting import uncollected
from tamis.errors import SelectorError


@pytest.fixture(autouse=True)
def on_again() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


def test_the_collector_waits_for_the_last_section():
    with uncollected:
        assert not gc.isenabled()
        with uncollected:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    with uncollected:
        pass
    assert not gc.isenabled()


def test_sections_of_two_threads_may_overlap():
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with uncollected:
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(60)
    with uncollected:
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_it_works_again_after_adding_whatever_happened():
    seen: list[bool] = []
    matcher = Matcher()
    matcher.add_many([(1, "a = 1"), (2, "a =")], on_error=lambda *_: seen.append(gc.isenabled()))
    assert seen == [False]
    assert gc.isenabled()
    with pytest.raises(SelectorError):
        matcher.add_many([(3, "a = 1"), (4, "a =")])
    assert gc.isenabled()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_is_born_in_a_section_collects():
    with uncollected:
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert gc.isenabled()

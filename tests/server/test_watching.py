"""Background work that fails is reported, tried again later, and concerns itself alone."""

from __future__ import annotations

import asyncio

from tamis.errors import LogError
from tamis.server.watching import FIRST_PAUSE, LONGEST_PAUSE, Watch


class Work:
    def __init__(self, error=None):
        self.calls, self.error = 0, error

    async def __call__(self):
        self.calls += 1
        if self.error is not None:
            raise self.error


def attempt(watch, work, about=None):
    asyncio.run(watch.attempt("retention", work, about))


def test_a_failure_is_reported_until_it_works_again(caplog):
    time = [0.0]
    watch, work = Watch(lambda: time[0]), Work(ZeroDivisionError("oh"))
    attempt(watch, work, 7)
    assert watch.counts() == {"retention": 1}
    assert watch.failing["retention", 7].error == "oh"
    assert "ZeroDivisionError" in caplog.text
    attempt(watch, work, 7)
    assert work.calls == 1  # it waits
    time[0] += FIRST_PAUSE
    work.error = None
    attempt(watch, work, 7)
    assert (work.calls, watch.counts(), watch.failures) == (2, {}, 1)


def test_pauses_grow_up_to_a_limit():
    time = [0.0]
    watch, work = Watch(lambda: time[0]), Work(LogError("the disk is full"))
    pauses = []
    for _ in range(40):
        attempt(watch, work)
        again = watch.failing["retention", None].again
        pauses.append(again - time[0])
        time[0] = again
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    assert work.calls == 40


def test_one_that_fails_concerns_itself_alone():
    watch, bad, good = Watch(), Work(OSError()), Work()
    for _ in range(3):
        attempt(watch, bad, 1)
        attempt(watch, good, 2)
    assert (bad.calls, good.calls) == (1, 3)
    watch.forget(1)
    assert watch.failing == {}


def test_repeated_work_goes_on_after_a_failure():
    time = [0.0]
    watch, work = Watch(lambda: time[0]), Work(RuntimeError())

    async def main():
        task = asyncio.ensure_future(watch.repeat("history", 0, work))
        while work.calls < 3:
            time[0] += LONGEST_PAUSE
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()

    asyncio.run(asyncio.wait_for(main(), 20))

"""Fair turns: nobody waits for those who hold many."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter

import pytest

from tamis.errors import BusyError
from tamis.server.turns import Pool, Turns


def test_a_key_that_holds_its_share_does_not_stop_others():
    async def main():
        turns, order = Turns(3, (2,)), []

        async def take(key):
            await turns.take((key,))
            order.append(key)

        tasks = [asyncio.ensure_future(take(key)) for key in "aaaab"]
        await asyncio.sleep(0)
        assert order == ["a", "a", "b"]  # the third of a waits, though a turn was free
        turns.give(("b",))
        await asyncio.sleep(0.01)
        assert order == ["a", "a", "b"]
        turns.give(("a",))
        await asyncio.sleep(0.01)
        assert order == ["a", "a", "b", "a"]
        for key in "aa":
            turns.give((key,))
        await asyncio.gather(*tasks)
        turns.give(("a",))
        assert turns.taken == 0

    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_free_turn_goes_to_the_one_who_holds_fewest():
    async def main():
        turns, order = Turns(2, (2,)), []

        async def take(key):
            async with turns.turn(key):
                order.append(key)
                await asyncio.sleep(0)

        await turns.take(("a",))
        await turns.take(("a",))
        tasks = [asyncio.ensure_future(take(key)) for key in "aaabc"]
        await asyncio.sleep(0)
        turns.give(("a",))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order[0] == "b"
        turns.give(("a",))
        await asyncio.gather(*tasks)
        assert sorted(order) == list("aaabc")

    asyncio.run(asyncio.wait_for(main(), 10))


def test_every_key_of_a_turn_is_bounded():
    async def main():
        turns = Turns(10, (2, 3))
        for principal, host in (("a", "x"), ("a", "x"), ("b", "x")):
            await turns.take((principal, host))
        for keys in (("c", "x"), ("a", "y")):  # the host is full; the principal is
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(turns.take(keys), 0.01)
        await asyncio.wait_for(turns.take(("c", "y")), 1)
        assert turns.taken == 4  # those who gave up hold nothing

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(20))
def test_whoever_is_cancelled_whenever_no_turn_is_lost(seed):
    rng = random.Random(seed)

    async def main():
        turns, running, most = Turns(3, (2, 2)), Counter(), 0

        async def work(keys):
            async with turns.turn(*keys):
                running.update(keys)
                assert max(running.values()) <= 2
                try:
                    await asyncio.sleep(rng.choice((0, 0.001)))
                finally:
                    running.subtract(keys)

        tasks = []
        for _ in range(200):
            keys = rng.choice("abc"), rng.choice("xyz")
            tasks.append(asyncio.ensure_future(work(keys)))
            if rng.random() < 0.3:
                await asyncio.sleep(0)
            if rng.random() < 0.3:
                for task in rng.sample(tasks, min(len(tasks), 5)):
                    task.cancel()
            most = max(most, turns.taken)
        for task in tasks[-20:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert most <= 3
        assert (turns.taken, turns._waiting) == (0, {})
        assert not any(turns._used)
        assert not turns._queued

    asyncio.run(asyncio.wait_for(main(), 20))


def test_a_full_queue_refuses_at_once():
    async def main():
        turns = Turns(1, (1,), queue=1)
        await turns.take(("a",))
        waiting = asyncio.ensure_future(turns.take(("a",)))
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="try again"):
            await turns.take(("a",))
        turns.give(("a",))
        await waiting

    asyncio.run(main())


def test_a_thread_stays_taken_until_its_work_is_done():
    """Also when the caller gave up: else work that takes long would pile up."""

    async def main():
        pool, end, names = Pool("test", 2, 1), threading.Event(), []
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.run("slow", end.wait, 10), 0.01)
        again = asyncio.ensure_future(pool.run("slow", lambda: names.append("slow")))
        assert await pool.run("quick", lambda: 7) == 7
        assert not names
        end.set()
        await again
        assert names == ["slow"]
        pool.close()

    asyncio.run(asyncio.wait_for(main(), 20))

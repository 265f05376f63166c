"""The clock of retention and of messages, in a made-up world."""

from __future__ import annotations

from tamis.server.clock import LASTING, TOLERANCE, Clock

YEAR = 365 * 86_400.0


class World:
    def __init__(self):
        self.wall, self.steady = 1_000_000.0, 50.0

    def clock(self, start=None):
        return Clock(start, lambda: self.wall, lambda: self.steady)

    def passes(self, seconds):
        self.wall += seconds
        self.steady += seconds


def test_it_follows_the_computer():
    world = World()
    clock = world.clock()
    for seconds in (1.0, 3600.0, YEAR):
        world.passes(seconds)
        assert clock.now() == world.wall
    world.wall += TOLERANCE / 2  # as it is put right little by little
    assert clock.now() == world.wall


def test_a_jump_ahead_for_a_moment_does_not_count():
    world = World()
    clock, true = world.clock(), world.wall
    world.wall += YEAR
    assert clock.now() == true
    world.passes(LASTING / 2)
    assert clock.now() == true + LASTING / 2
    world.wall -= YEAR
    world.passes(LASTING)
    assert clock.now() == world.wall


def test_a_step_ahead_that_lasts_counts():
    world = World()
    clock = world.clock()
    world.wall += YEAR
    clock.now()
    world.passes(LASTING)
    assert clock.now() == world.wall


def test_jumps_that_follow_each_other_are_not_one_that_lasts():
    world = World()
    clock, true = world.clock(), world.wall
    for _ in range(10):
        world.wall += YEAR
        clock.now()
        world.passes(LASTING / 3)
    assert clock.now() == true + 10 * LASTING / 3


def test_a_step_back_counts_at_once():
    world = World()
    clock = world.clock()
    world.wall -= YEAR
    assert clock.now() == world.wall


def test_what_was_known_for_certain_is_believed_first():
    world = World()
    clock = world.clock(start=world.wall - YEAR)
    assert clock.now() == world.wall - YEAR
    world.passes(LASTING)
    assert clock.now() == world.wall

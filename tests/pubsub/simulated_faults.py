"""The simulated world, in which the broker's own parts fail at random.

    PYTHONPATH=src:tests python -m pubsub.simulated_faults 10000      # until 10,000 faults

Exceptions are planted in the judge (once, always for one selector, or for several subscriptions
together), in the log as it is written and read (also after the commit, and as damaged blocks), in
the registry, and in deliveries. What is around the broker does what `server/hub.py` does. All
promises hold as ever: nothing that was acknowledged is lost, whoever is not concerned goes on, and
faults are reported.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from unittest import mock

from pubsub.simulation import CHANNEL, FILTERS, MEANING, World
from tamis.errors import HoleError, LogError, RegistryError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.judge import Judge

POISON = (">", "price > 7 OR poison = 1")
MEANING[POISON] = lambda _, message: message["price"] > 7
RATE = 0.05  # of calls that fail


class PlantedError(Exception):
    pass


class PoisonError(PlantedError):
    def __str__(self) -> str:
        return "a selector on which judges fail"


class FaultyWorld(World):
    """`planted` counts faults by place, `reported` what the broker said of them."""

    EVENTS = tuple(
        (lambda self, name=name: getattr(self, name)(), weight)
        for name, weight in (
            *((event.__name__, weight) for event, weight in World.EVENTS),
            *(("poison", 1), ("crowd", 1), ("damage", 0.3)),
        )
    )

    def __init__(self, seed: int) -> None:
        self.planted, self.reported = Counter(), Counter()
        self.healing = self.poisoned = self.crowded = False
        self.damaged: set[int] = set()  # first sequences of blocks
        super().__init__(seed)

    def fails(self, place: str, rate: float = RATE) -> bool:
        if self.healing or self.random.random() >= rate:
            return False
        self.planted[place] += 1
        return True

    @contextmanager
    def planting(self):
        """While it lasts, judges fail."""
        patches = [mock.patch.object(Judge, name, self.failing(getattr(Judge, name)))
                   for name in ("judge", "hits", "put", "remove")]  # fmt: skip
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()

    def failing(self, whole):
        def call(judge, *args):
            if self.poisoned and whole.__name__ in ("judge", "hits") and is_poison(judge):
                self.planted["poison"] += 1
                raise PoisonError
            if self.crowded and whole.__name__ == "judge" and len(judge.matcher) > 1:
                self.planted["crowd"] += 1
                raise PlantedError("several subscriptions")
            if self.fails(whole.__name__):
                raise PlantedError(whole.__name__)
            return whole(judge, *args)

        return call

    # --- what is around the broker ----------------------------------------------------

    def drain(self) -> None:
        while actions := self.broker.actions():
            for action in actions:
                match action:
                    case act.Fault():
                        assert isinstance(action.error, PlantedError), action.error
                        self.reported[action.where.partition(" ")[0]] += 1
                    case act.Ended() if str(PoisonError()) in str(action.error):
                        asked = action.subscription.versions
                        assert any("poison" in version.selector for version in asked)
                    case act.Deliver() if self.fails("deliver"):
                        for subscription in {one for one, _ in action.messages}:
                            self.broker.fail(subscription, PlantedError("deliver"))
                        self.broker.written(action.session, len(action.messages))
                    case _:
                        self.hand_over(action)

    def commit(self) -> None:
        if self.full or not self.commits:
            return super().commit()
        if self.fails("append"):
            self.commits.pop()
            self.broker.not_committed(LogError("planted"))
            return None
        self.fails("after append")  # it is stored: the hub finds it in the log, and goes on
        return super().commit()

    def store(self) -> None:
        if self.stores and self.fails("registry"):
            self.stores.pop()
            self.broker.not_stored(RegistryError("planted"))
            self.broker.match()
            return
        super().store()

    def read(self) -> None:
        if not self.reads:
            return
        if self.fails("read"):
            action = self.reads.pop(self.random.randrange(len(self.reads)))
            if self.random.random() < 0.5:
                self.reads.append(action)  # it is read again
            else:
                self.broker.read_failed(action.subscription, PlantedError("read"))
            return
        action = self.reads.pop(self.random.randrange(len(self.reads)))
        try:
            records = self.log.read(CHANNEL, action.first, action.most)
            records = self.sound(action.first, records)
        except HoleError as hole:
            self.broker.read_hole(action.subscription, action.first, hole)
        else:
            self.broker.read_done(action.subscription, action.first, records)

    def sound(self, first, records):
        """As the log reads: up to the damage, or what is damaged."""
        for block in self.log.blocks.get(CHANNEL, []):
            if block.first in self.damaged and block.last >= first:
                before = [r for r in records if r.sequence < block.first]
                if not before and records and records[0].sequence >= block.first:
                    raise HoleError("", "is damaged", max(first, block.first), block.last)
                return before or records
        return records

    def poison(self) -> None:
        """A selector turns bad, or good again."""
        self.poisoned = not self.poisoned

    def crowd(self) -> None:
        """No judge can judge several subscriptions at once, or they can again."""
        self.crowded = not self.crowded

    def damage(self) -> None:
        blocks = self.log.blocks.get(CHANNEL, [])
        if blocks:
            self.planted["damage"] += 1
            self.damaged.add(self.random.choice(blocks).first)

    def filters(self):
        return [*((s, f) for s, f, _ in FILTERS), POISON]

    # --- the end ------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        with self.planting():
            super().run(steps)

    def heal(self) -> None:
        self.healing, self.poisoned, self.crowded = True, False, False
        super().heal()

    def gone(self) -> set[int]:
        blocks = self.log.blocks.get(CHANNEL, [])
        damaged = [range(b.first, b.last + 1) for b in blocks if b.first in self.damaged]
        return super().gone().union(*damaged)

    def check(self) -> None:
        super().check()
        judged = sum(self.planted[name] for name in ("judge", "hits", "put", "poison", "deliver"))
        if judged:
            assert self.reported, "faults that nobody heard of"


def is_poison(judge) -> bool:
    return any("poison" in text for _, text in judge.matcher.items())


def simulate(seed: int, steps: int = 400) -> FaultyWorld:
    world = FaultyWorld(seed)
    try:
        world.run(steps)
    except BaseException as error:
        error.add_note(f"seed {seed}: simulate({seed})")
        raise
    return world


def main() -> None:
    wanted, seed = int(sys.argv[1]), 0
    planted, reported = Counter(), Counter()
    while planted.total() < wanted:
        world = simulate(seed)
        planted.update(world.planted)
        reported.update(world.reported)
        seed += 1
        if seed % 100 == 0:
            print(seed, "seeds,", planted.total(), "faults", flush=True)
    print(f"{seed} seeds, {planted.total()} faults planted: {dict(planted)}")
    print(f"reported by the broker: {dict(reported)}")


if __name__ == "__main__":
    main()

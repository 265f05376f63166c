"""The simulated world, in which subscribers with a summary ask for the shortest sequence.

    PYTHONPATH=src:tests python -m pubsub.simulated_recaps 1000      # seeds 0 to 999

A total tells of every message that is lost or that counts twice, a maximum of a wrong order.
"""

from __future__ import annotations

import sys

import msgspec

from pubsub.simulation import CHANNEL, FILTERS, World
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.changes import Put
from tamis.pubsub.broker.recaps import Past, Recap

SUMMARY = """
space quotes(symbol: string, price: double, sequence: int) where price >= 0
state Quote keyed by symbol from quotes ordered by sequence (top: double := 0, total: double := 0)
  rule price > top => top := price, total := total + price
  rule             => total := total + price
"""


def folded(messages: list[dict]) -> dict[str, tuple[float, float]]:
    """What the summary says, in plain Python."""
    found: dict[str, tuple[float, float]] = {}
    for message in messages:
        top, total = found.get(message["symbol"], (0.0, 0.0))
        price = message["price"]
        found[message["symbol"]] = max(top, price), total + price
    return found


class RecapWorld(World):
    EVENTS = tuple(
        (lambda self, name=event.__name__: getattr(self, name)(), weight)
        for event, weight in World.EVENTS
    )

    def __init__(self, seed: int) -> None:
        self.recaps: dict[str, Recap] = {}
        self.caught = self.shortened = 0
        super().__init__(seed)
        self.summarised = {s.name for s in self.subscribers if self.random.random() < 0.8}

    def start(self) -> None:
        super().start()
        self.catch_ups: list[act.CatchUp] = []
        for name, recap in self.recaps.items():
            self.broker.channels[CHANNEL].subscriptions[name].recap = recap
        taken = self.broker.actions

        def actions() -> list[act.Action]:
            found = taken()
            self.catch_ups += [a for a in found if isinstance(a, act.CatchUp)]
            return [a for a in found if not isinstance(a, act.CatchUp)]

        self.broker.actions = actions  # type: ignore[method-assign]

    def catch_up(self) -> None:
        if not self.catch_ups:
            return
        action = self.catch_ups.pop(self.random.randrange(len(self.catch_ups)))
        one = action.subscription
        past = Past(one.summary, "quotes", self.broker.channels[CHANNEL].language, one.versions,
                    one.bound, one.recap, one.cursor)  # fmt: skip
        first = self.log.bounds(CHANNEL)[0]
        recap = past.caught_up(lambda at, most: self.log.read(CHANNEL, at, most), first,
                                action.last)  # fmt: skip
        if recap is not None:
            self.recaps[one.name] = recap
            self.caught += 1
            self.shortened += action.last - one.cursor - len(recap.records)
            if self.random.random() < 0.1:
                self.crash()
                return
        self.broker.caught_up(one, recap)

    def read(self) -> None:
        super().read()
        self.drain()
        self.catch_up()

    def subscribe(self) -> None:
        subscriber = self.random.choice(self.subscribers)
        if subscriber.name not in self.summarised or subscriber.request is not None:
            if subscriber.name not in self.summarised:
                super().subscribe()
            return
        if subscriber.session is None:
            subscriber.session = self.next_request()
            self.broker.connect(subscriber.session)
        subjects, selector, _ = self.random.choice(FILTERS)
        subscriber.request = self.next_request()
        self.broker.change(
            Put(subscriber.request, CHANNEL, subscriber.name, "somebody", subjects, selector, 1,
                subscriber.session, window=self.random.choice([0, 2]), summary=SUMMARY,
                short=self.random.random() < 0.8, have=subscriber.highest)
        )  # fmt: skip

    def check(self) -> None:
        everybody = self.subscribers
        self.subscribers = [s for s in everybody if s.name not in self.summarised]
        super().check()
        for subscriber in everybody:
            if subscriber.name in self.summarised and not subscriber.lost:
                wanted = set(self.expected(subscriber))
                messages = [r for r in self.kept if r.sequence in wanted]
                assert len(subscriber.seen) <= len(messages), subscriber.name
                found = folded(subscriber.got)
                assert found == folded([msgspec.json.decode(r.body) for r in messages])


def simulate(seed: int, steps: int = 300) -> RecapWorld:
    world = RecapWorld(seed)
    try:
        world.run(steps)
    except BaseException as error:
        error.add_note(f"seed {seed}: simulate({seed})")
        raise
    return world


def main() -> None:
    first, last = (0, int(sys.argv[1])) if len(sys.argv) == 2 else map(int, sys.argv[1:3])
    caught = shortened = 0
    for seed in range(first, last):
        world = simulate(seed)
        caught, shortened = caught + world.caught, shortened + world.shortened
        if (seed + 1) % 100 == 0:
            print(seed + 1, "seeds", flush=True)
    print(f"{last - first} seeds: {caught} recaps, {shortened} messages were not sent")


if __name__ == "__main__":
    main()

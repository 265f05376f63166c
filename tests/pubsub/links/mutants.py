"""Rules of links, each broken on purpose: the simulation has to notice.

PYTHONPATH=src:tests python -m pubsub.links.mutants 400      # seeds for each
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

from pubsub.links.network import simulate
from tamis.pubsub.links import child, parent, router
from tamis.pubsub.links import effects as fx
from tamis.pubsub.links import link_frames as wire

Child, Parent, Router = child.Child, parent.Parent, router.Router


def no_fetch_of_the_gap(self, first, last):
    self._gap = None
    self._take(child.Block(self.channel, (), covers=(first, last)))
    self._filled()


def coverage_kept_though_nobody_asks(self):
    since = self.coverage.since.copy()
    yield
    self.coverage.since |= since


def welcome_without_regard_to_coverage(self, branch):
    branch.since.clear()
    yield


def in_force_without_the_parents_word(self, branch, id, wants):
    yield
    for want in branch.missing[id]:
        self._wait_no_more(want, branch.child, id)
    branch.missing[id].clear()


def removed_before_the_other_is_in_force(self, came, gone):
    yield
    gone = [want for want in gone if self._retiring.pop(want, None) is not None]
    for want in gone:
        self.wants.discard(want)
        self.coverage.since.pop(want, None)
    self._send(wire.Remove(tuple(gone)))


def subscriptions_in_force_at_once(self, many):
    many = list(many)
    yield
    keys = tuple(key for key, *_ in many if key in self._waiting)
    self._effects.append(fx.InForce(keys, self.coverage.next))


def another_log_is_not_noticed(self, link, epoch, upto):
    return False


def a_pause_forgets_what_was_not_sent(self, name, *, paused):
    branch = self.branches[name]
    if branch.streaming and self.coverage.upto is not None and not paused:
        branch.level = self.coverage.upto
    yield


def empty_ranges_are_not_told(self, branch):
    pass


def trimmed_messages_count_as_not_wanted(self, branch):
    if branch.open and branch.level + 1 < self.coverage.oldest:
        branch.level = self.coverage.oldest - 1
    yield


def answered_by_whoever_has_some(self, request):
    return True


def a_broken_way_means_not_stored(self):
    passed, self._passed = self._passed, {}
    yield
    for link, id in passed.values():
        self._answer(link, wire.Published(id, (1,)))


def a_crash_keeps_coverage(self, *args, **more):
    yield
    self.coverage.whole = True


def around(target: type, name: str, mutant: Callable) -> mock._patch:
    """A generator runs around what is there; anything else instead of it."""
    whole = getattr(target, name)

    def call(self, *args, **more):
        found = mutant(self, *args, **more)
        if not hasattr(found, "send"):
            return found
        next(found)
        result = whole(self, *args, **more)
        next(found, None)
        return result

    return mock.patch.object(target, name, call)


MUTANTS: dict[str, tuple[type, str, Callable]] = {
    "no fetch of the gap": (Child, "_ask_gap", no_fetch_of_the_gap),
    "coverage kept though nobody asks": (Child, "_retire", coverage_kept_though_nobody_asks),
    "welcome without regard to coverage": (Parent, "_greet", welcome_without_regard_to_coverage),
    "in force without the parent's word": (Parent, "_await", in_force_without_the_parents_word),
    "removed before the other is in force": (
        Child, "change", removed_before_the_other_is_in_force),
    "subscriptions in force at once": (Router, "put_many", subscriptions_in_force_at_once),
    "another log is not noticed": (Parent, "_forked", another_log_is_not_noticed),
    "a pause forgets what was not sent": (Parent, "pause", a_pause_forgets_what_was_not_sent),
    "empty ranges are not told": (Parent, "_flush", empty_ranges_are_not_told),
    "trimmed messages count as not wanted": (
        Parent, "_go_on", trimmed_messages_count_as_not_wanted),
    "fetches answered by whoever has some": (Parent, "_has", answered_by_whoever_has_some),
    "a broken way means stored": (Router, "_lose_parent", a_broken_way_means_not_stored),
    "a copy is whole": (Router, "__init__", a_crash_keeps_coverage),
}  # fmt: skip


@contextmanager
def mutated(name: str) -> Iterator[None]:
    with around(*MUTANTS[name]):
        yield


def found_by(name: str, seeds: int) -> int | None:
    """The first seed that notices the mutant."""
    with mutated(name):
        for seed in range(seeds):
            try:
                simulate(seed)
            except Exception:
                return seed
    return None


def main() -> None:
    seeds = int(sys.argv[1])
    for name in MUTANTS:
        seed = found_by(name, seeds)
        print(f"{name}: {'SURVIVES' if seed is None else f'found by seed {seed}'}", flush=True)


if __name__ == "__main__":
    main()

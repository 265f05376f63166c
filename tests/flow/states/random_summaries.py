"""Random small summaries, and an exhaustive search over their states."""

from __future__ import annotations

import random
from itertools import product

from flow.states.examples import step
from tamis import Schema
from tamis.flow.states import Summary

WHOLE, HALVES, KINDS = (0, 1, 2, 3), (0.5, 2.5), ("A", "B")
STATES = 3_000  # states that the exhaustive search looks at


class Case:
    """A summary, all of its events, and a start and a goal that may or may not be reachable."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        self.double = rng.random() < 0.3
        self.kinds = rng.random() < 0.4
        self.partial = rng.random() < 0.25
        self.values = HALVES if self.double else WHOLE
        self.components = ["x", "y", "z"][: rng.choice((1, 2, 2, 3))]
        kind = float if self.double else int
        schema = {"p": kind, "q": kind} | ({"kind": str} if self.kinds else {})
        self.lists = rng.random() < 0.2
        parts: dict[str, object] = dict.fromkeys(self.components, (kind, self.values[0]))
        if self.lists:
            parts["log"] = [Schema.of(v=kind)]
        rules = [self.rule(last=i == 2) for i in range(rng.choice((1, 2, 3)))]
        self.summary = Summary.of("R", Schema.of(schema), parts, rules, where=self.where())
        self.start, self.goal = self.states()

    def where(self) -> str:
        values = ", ".join(map(str, self.values))
        inside = f"IN ({values})" if self.double else "IN [0, 3]"
        parts = [f"p {inside}", f"q {inside}"]
        if self.kinds:
            parts.append("kind IN ('A', 'B')")
        if self.partial:
            parts[1] = f"(q {inside} OR q IS NULL)"
        return " AND ".join(parts)

    def events(self) -> list[dict]:
        undefined = (None,) if self.partial else ()
        domains = {"p": self.values, "q": (*self.values, *undefined)}
        if self.kinds:
            domains["kind"] = KINDS
        return [dict(zip(domains, row, strict=True)) for row in product(*domains.values())]

    def rule(self, last: bool) -> tuple[str, dict]:
        rng = self.rng
        guards = [] if last else [self.guard() for _ in range(rng.choice((0, 1, 1, 2)))]
        joined = rng.choice((" AND ", " OR ")).join(guards)
        changes: dict[str, object] = {}
        for name in rng.sample(self.components, rng.randint(1, len(self.components))):
            changes[name] = self.term(name)
        if self.lists and rng.random() < 0.5:
            changes["log"] = (rng.choice(("p", "q", "x")),)
        return joined, changes

    def guard(self) -> str:
        rng = self.rng
        if self.kinds and rng.random() < 0.3:
            return rng.choice(("kind = 'A'", "kind <> 'A'", "kind IN ('A', 'B')"))
        if self.partial and rng.random() < 0.3:
            return rng.choice(("q IS NULL", "q IS NOT NULL", "NOT q > p"))
        sides = ["p", "q", *self.components, str(rng.choice(self.values))]
        left, right = rng.sample(sides, 2)
        if rng.random() < 0.15:
            return f"abs({left} - {right}) {rng.choice(('<', '>='))} {self.values[1]}"
        text = f"{left} {rng.choice(('=', '<>', '<', '<=', '>', '>='))} {right}"
        return f"NOT ({text})" if rng.random() < 0.2 else text

    def term(self, name: str) -> str:
        rng = self.rng
        chance = rng.random()
        if chance < 0.65:
            return rng.choice(("p", "q"))
        if chance < 0.75:
            return rng.choice(self.components)
        if chance < 0.82:
            return str(rng.choice(self.values))
        if self.double:
            return "p"
        return f"{name} {rng.choice('+-')} {rng.choice('pq')}"

    def states(self) -> tuple[dict, dict]:
        """A start; and a goal that some events lead to, or any."""
        rng, events = self.rng, self.events()
        start = {**self.summary.initial, **{n: rng.choice(self.values) for n in self.components}}
        goal = start
        for _ in range(rng.randint(0, 4)):
            goal = step(self.summary, goal, rng.choice(events))
        if rng.random() < 0.3:
            goal = {**goal, rng.choice(self.components): rng.choice(self.values)}
        return self.summary.fit(start), self.summary.fit(goal)


def exhaustive(case: Case, start: dict, goal: dict, depth: int = 5) -> int | str:
    """The length of the shortest sequence, `none`, or that it is longer or `unknown`."""
    events = case.events()

    def frozen(state: dict) -> tuple:
        return tuple(state.values())

    frontier, seen = [start], {frozen(start)}
    wanted = frozen(goal)
    if wanted in seen:
        return 0
    for length in range(1, depth + 1):
        following = []
        for state in frontier:
            for event in events:
                after = step(case.summary, state, event)
                if frozen(after) == wanted:
                    return length
                if frozen(after) not in seen:
                    seen.add(frozen(after))
                    following.append(after)
            if len(seen) > STATES:
                return "unknown"
        frontier = following
        if not frontier:
            return "none"
    return f"more than {depth}"

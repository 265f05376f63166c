"""A compiled segment as text: what is looked up, what leads where, and what is asked there.

For people, and for tests that say where something is wrong. Places are as in engine/layout.py: a
node `7 = 2 ? 5 : 0` has the value of place 5 where place 2 is true, else that of place 0, FALSE.
Atoms are named from the subscriptions (segment_names.py); all else is read from the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from tamis.diagram import packed
from tamis.diagram.bdd import LOWEST
from tamis.diagram.questions import Vocabulary
from tamis.engine.compile.segment import Segment
from tamis.engine.compile.segment_names import Names, names_of
from tamis.engine.intake.templates import Templates
from tamis.engine.layout import (
    ASK_BELOW,
    ASK_EVENT,
    BIT,
    BOUND,
    BOUNDS,
    CHECKED,
    CUBE,
    CUBE_COUNT,
    CUBES,
    EVENT,
    FLAG,
    FLAG_COUNT,
    FLAGS,
    GROUP,
    HOIST,
    I8,
    MUST,
    NEED,
    NODE,
    ROOT,
    ROOT_NODE,
    TEST,
    TEST_COUNT,
    TESTS,
    THRESHOLD,
    WANT,
)


def text_of(
    segment: Segment,
    vocabulary: Vocabulary,
    templates: Templates,
    name: Callable[[int], str] = "slot {}".format,
) -> str:
    """The segment, line by line; `name` says what the subscription of a slot is called."""
    names = names_of(segment, vocabulary, templates)
    return "\n".join(_Printer(segment, names, name).lines()) + "\n"


class _Printer:
    def __init__(self, segment: Segment, names: Names, name: Callable[[int], str]) -> None:
        self.segment, self.names, self.events = segment, names, names.events
        self.owners = [name(slot) for slot in segment.source.slot.tolist()]
        columns = segment.requirements.columns.tolist()
        spans = pairwise(segment.requirements.offsets.tolist())
        self.needs = [[names.flag(c, 1) for c in columns[at:end]] for at, end in spans]

    def lines(self) -> Iterator[str]:
        segment, access = self.segment, self.segment.access
        yield from self.names.lines()
        for number, text in enumerate(self.events):
            yield f"event {number}: {text}"
        for event, (at, end) in enumerate(pairwise(access.offsets.tolist())):
            if at < end:
                touched = ", ".join(map(str, access.clusters[at:end].tolist()))
                yield f"event {event} leads to cluster {touched}"
        for c in range(len(segment.clusters.starts) - 1):
            yield f"cluster {c}"
            yield from self._programs(c)
            yield from self._cubes(c)
        for t, tree in enumerate(segment.trees.tree):
            yield f"tree {t}"
            yield from self._tree(tree)

    # --- programs ------------------------------------------------------------

    def _programs(self, c: int) -> Iterator[str]:
        clusters = self.segment.clusters
        at, end = clusters.starts[c], clusters.starts[c + 1]
        roots = clusters.root[at[ROOT] : end[ROOT]]
        if not len(roots):
            return
        inputs = self._inputs(at, end)
        for place, text in enumerate(inputs, 2):
            yield f"  {place}: {text}"
        hoists = clusters.hoist[at[HOIST] : end[HOIST]].tolist()
        first = 2 + len(inputs)
        begins = [*hoists, *roots[:, ROOT_NODE].tolist(), int(end[NODE] - at[NODE])]
        parts = [
            self._nodes(at[NODE] + begin, at[NODE] + stop, first + len(hoists))
            for begin, stop in pairwise(begins)
        ]
        for i, part in enumerate(parts[: len(hoists)]):
            yield f"  {first + i}, shared: {'; '.join(part)}"
        for row, part in zip(roots.tolist(), parts[len(hoists) :], strict=True):
            _, place, subscription, need = row
            asked = self.needs[clusters.need[at[NEED] + need]]
            required = f"; needs {' AND '.join(asked)}" if asked else ""
            steps = "; ".join([*part, f"result {place}"])
            yield f"  {self.owners[subscription]}: {steps}{required}"

    def _inputs(self, at: I8, end: I8) -> list[str]:
        """What the places from 2 on hold before any node."""
        clusters, names = self.segment.clusters, self.names
        thresholds = clusters.threshold[at[THRESHOLD] : end[THRESHOLD]].tolist()
        found = [
            names.bound(column, thresholds[first + i], below=True)
            for column, first, count in clusters.group[at[GROUP] : end[GROUP]].tolist()
            for i in range(count)
        ]
        found += [self.events[e] for e in clusters.event[at[EVENT] : end[EVENT]].tolist()]
        return found + [names.flag(*row) for row in clusters.flag[at[FLAG] : end[FLAG]].tolist()]

    def _nodes(self, begin: int, stop: int, place: int) -> list[str]:
        rows = self.segment.clusters.node[begin:stop].tolist()
        return [f"{place + i} = {t} ? {high} : {low}" for i, (t, low, high) in enumerate(rows)]

    # --- cubes ---------------------------------------------------------------

    def _cubes(self, c: int) -> Iterator[str]:
        cubes = self.segment.cubes
        at, end = cubes.starts[c], cubes.starts[c + 1]
        count, tests = int(end[CUBE] - at[CUBE]), cubes.test[at[TEST] : end[TEST]].tolist()
        if not count:
            return
        bits = self._bits(c, cubes.bit[at[BIT] : end[BIT]].tolist())
        rows = cubes.bound[at[BOUND] : end[BOUND]].reshape(-1, count).T.tolist()
        for i, row in enumerate(rows):
            must, want = row[len(tests) :] or (int(at[MUST]), int(at[WANT]))
            asked = self._bounds(tests, row) + _asked(bits, must, want)
            yield f"  {self.owners[cubes.subscription[at[CUBE] + i]]}: {_joined(asked)}"

    def _bits(self, c: int, numbers: list[int]) -> list[str]:
        """What the bits of the cubes of cluster c stand for."""
        clusters = self.segment.clusters
        at, end = clusters.starts[c], clusters.starts[c + 1]
        known = [self.events[e] for e in clusters.event[at[EVENT] : end[EVENT]].tolist()]
        known += [self.names.flag(*row) for row in clusters.flag[at[FLAG] : end[FLAG]].tolist()]
        known += [" AND ".join(self.needs[n]) for n in clusters.need[at[NEED] : end[NEED]].tolist()]
        return [known[number] for number in numbers]

    def _bounds(self, tests: Sequence[int], bounds: Sequence[int]) -> list[str]:
        return [
            self.names.bound(t, b, below=False)
            if t >= 0
            else self.names.bound(~t, ~b + 1, below=True)
            for t, b in zip(tests, bounds, strict=False)
            if b != LOWEST
        ]

    # --- trees ---------------------------------------------------------------

    def _tree(self, tree: I8) -> Iterator[str]:
        trees, count, width = self.segment.trees, int(tree[CUBE_COUNT]), int(tree[TEST_COUNT])
        tests = trees.test[tree[TESTS] : tree[TESTS] + width].tolist()
        flags = trees.flag[tree[FLAGS] : tree[FLAGS] + tree[FLAG_COUNT]].tolist()
        if flags:
            must = [_literal(self.names.flag(c, bit), holds) for c, bit, holds in flags]
            yield f"  all: {' AND '.join(must)}"
        for i in range(count):
            first, size = i & ~7, min(8, count - (i & ~7))
            at = int(tree[BOUNDS]) + first * width + (i & 7)
            bounds = trees.bound[at : at + size * width : size].tolist()
            asked = self._bounds(tests, bounds)
            if tree[CHECKED] >= 0:
                asked.append(f"then {self._check(int(trees.check[tree[CHECKED] + i]))}")
            yield f"  {self.owners[trees.subscription[tree[CUBES] + i]]}: {_joined(asked)}"

    def _check(self, program: int) -> str:
        trees = self.segment.trees
        stack: list[str] = []
        for word in trees.word[trees.program[program] : trees.program[program + 1]].tolist():
            if packed.is_literal(word):
                stack.append(_literal(self._ask(packed.asked(word)), not packed.negated(word)))
                continue
            first, either = len(stack) - packed.width(word), packed.is_or(word)
            nothing = "FALSE" if either else "TRUE"
            stack[first:] = [f"({(' OR ' if either else ' AND ').join(stack[first:]) or nothing})"]
        return stack[0]

    def _ask(self, number: int) -> str:
        kind, place, bit = self.segment.trees.ask[number].tolist()
        if kind == ASK_BELOW:
            return self.names.bound(place, int(self.segment.trees.ask_key[number]), below=True)
        return self.events[place] if kind == ASK_EVENT else self.names.flag(place, bit)


def _asked(bits: list[str], must: int, want: int) -> list[str]:
    """The bits that must be set, or must not; a requirement of nothing is left out."""
    return [_literal(text, want >> b & 1) for b, text in enumerate(bits) if must >> b & 1 and text]


def _literal(text: str, holds: object) -> str:
    return text if holds else f"NOT ({text})"


def _joined(parts: list[str]) -> str:
    return " AND ".join(parts) or "TRUE"

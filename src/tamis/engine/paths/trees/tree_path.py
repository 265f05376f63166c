"""Trees: ranges, such as `lat BETWEEN 1 AND 2 AND lon > 3`, lead to subscriptions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from tamis.diagram import packed
from tamis.engine.choosing.claims import Claims, claim_by_bounds
from tamis.engine.choosing.path import (
    NO_EVENTS,
    Arrays,
    Building,
    Code,
    Frame,
    Marks,
    Path,
    PathInput,
    Printer,
)
from tamis.engine.choosing.path_wording import bounds_text, joined, literal_text
from tamis.engine.ground.kernel_output import Output
from tamis.engine.ground.layout import I4, I8
from tamis.engine.paths.trees import cube_trees as t
from tamis.engine.paths.trees.cube_trees import Trees, trees_of
from tamis.engine.paths.trees.residues import with_residues
from tamis.engine.paths.trees.tree_checks import checked_trees
from tamis.engine.paths.trees.tree_walk import run_trees
from tamis.engine.reading.templates import Template

_LISTED = 1 << 14  # blocks that messages may go through side by side
_CUBE = -1  # the place of a cube's result, which has none
_memory = threading.local()


class TreePath(Path):
    ARRAYS: ClassVar = {
        "tree_tree": (np.int64, 8), "tree_test": (np.int32, 0), "tree_flag": (np.int32, 3),
        "tree_bound": (np.int64, 0), "tree_subscription": (np.int32, 0),
        "tree_check": (np.int32, 0), "tree_program": (np.int64, 0), "tree_word": (np.int32, 0),
        "tree_ask": (np.int32, 3),
        "tree_ask_key": (np.int64, 0),
    }  # fmt: skip

    def __init__(self, trees: Trees) -> None:
        self.trees = trees

    @classmethod
    def claim(cls, claims: Claims, template: Template, members: I4) -> bool:
        return claim_by_bounds(claims, template, members)

    @classmethod
    def build(cls, building: Building) -> TreePath:
        trees, checked = trees_of(building.claims.boxes)
        return cls(with_residues(trees, checked, building.programs, building.asked))

    @classmethod
    def check(cls, arrays: Arrays, frame: Frame) -> TreePath:
        trees = Trees(*(arrays[name] for name in cls.ARRAYS))
        checked_trees(trees, frame.index, frame.count)
        return cls(trees)

    def arrays(self) -> tuple[Any, ...]:
        return self.trees

    @property
    def most(self) -> int:
        return len(self.trees.subscription)

    @property
    def events(self) -> I4:
        """Those that programs of cubes ask for."""
        ask = self.trees.ask
        checked = ask[ask[:, t.ASK_KIND] == t.ASK_EVENT, t.ASK_PLACE]
        return np.unique(checked) if len(checked) else NO_EVENTS

    def mark(self, columns: Marks, events: Marks) -> None:
        test, ask = self.trees.test, self.trees.ask
        columns[np.where(test < 0, ~test, test)] = True
        columns[ask[ask[:, t.ASK_KIND] == t.ASK_BELOW, t.ASK_PLACE]] = True
        events[ask[ask[:, t.ASK_KIND] == t.ASK_EVENT, t.ASK_PLACE]] = True

    def run(self, messages: PathInput, own: None, output: Output, mode: int) -> None:
        run_trees(self.trees, messages.block, _lists(self.trees), output, mode)

    # --- for people ----------------------------------------------------------

    def lines(self, printer: Printer) -> Iterator[str]:
        for number, tree in enumerate(self.trees.tree):
            yield f"tree {number}"
            yield from self._tree(tree, printer)

    def _tree(self, tree: I8, printer: Printer) -> Iterator[str]:
        trees, count, width = self.trees, int(tree[t.CUBE_COUNT]), int(tree[t.TEST_COUNT])
        tests = trees.test[tree[t.TESTS] : tree[t.TESTS] + width].tolist()
        flags = trees.flag[tree[t.FLAGS] : tree[t.FLAGS] + tree[t.FLAG_COUNT]].tolist()
        if flags:
            must = [literal_text(printer.names.flag(c, bit), holds) for c, bit, holds in flags]
            yield f"  all: {' AND '.join(must)}"
        for i in range(count):
            first, size = i & ~7, min(8, count - (i & ~7))
            at = int(tree[t.BOUNDS]) + first * width + (i & 7)
            bounds = trees.bound[at : at + size * width : size].tolist()
            texts = bounds_text(printer.names, tests, bounds)
            if tree[t.CHECKED] >= 0:
                texts.append(f"then {self._check(int(trees.check[tree[t.CHECKED] + i]), printer)}")
            yield f"  {printer.owners[trees.subscription[tree[t.CUBES] + i]]}: {joined(texts)}"

    def _check(self, program: int, printer: Printer) -> str:
        trees = self.trees
        stack: list[str] = []
        for word in trees.word[trees.program[program] : trees.program[program + 1]].tolist():
            if packed.is_literal(word):
                text = self._ask(packed.asked(word), printer)
                stack.append(literal_text(text, not packed.negated(word)))
                continue
            first, either = len(stack) - packed.width(word), packed.is_or(word)
            empty = "FALSE" if either else "TRUE"
            stack[first:] = [f"({(' OR ' if either else ' AND ').join(stack[first:]) or empty})"]
        return stack[0]

    def _ask(self, number: int, printer: Printer) -> str:
        kind, place, bit = self.trees.ask[number].tolist()
        if kind == t.ASK_BELOW:
            return printer.names.bound(place, int(self.trees.ask_key[number]), below=True)
        return printer.events[place] if kind == t.ASK_EVENT else printer.names.flag(place, bit)

    def codes(self, add: Callable[[int, Code], None]) -> None:
        """Each cube with the program that it is checked by."""
        trees = self.trees
        for number, tree in enumerate(trees.tree):
            tests, count, first = (int(tree[c]) for c in (t.TEST_COUNT, t.CUBE_COUNT, t.CUBES))
            full, at = count & ~7, int(tree[t.BOUNDS])
            even = trees.bound[at : at + full * tests].reshape(-1, tests, 8).transpose(0, 2, 1)
            rest = trees.bound[at + full * tests : at + count * tests].reshape(tests, -1).T
            cubes = np.concatenate([even.reshape(-1, tests), rest])
            owners = trees.subscription[first : first + count].tolist()
            for i, (subscription, cube) in enumerate(zip(owners, cubes, strict=True)):
                code = cube.tobytes()
                if tree[t.CHECKED] >= 0:
                    p = trees.check[tree[t.CHECKED] + i]
                    code += trees.word[trees.program[p] : trees.program[p + 1]].tobytes()
                add(subscription, (-1 - number, _CUBE, 0, code))


def _lists(trees: Trees) -> I8:
    """This thread's two lists of blocks."""
    size = max(_LISTED, int(trees.tree[:, t.CUBE_COUNT].max()) // 8 + 16)
    lists: I8 | None = getattr(_memory, "lists", None)
    if lists is None or lists.shape[1] < size:
        lists = _memory.lists = np.empty((2, size), np.int64)
    return lists

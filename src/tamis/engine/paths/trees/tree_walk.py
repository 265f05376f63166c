"""Trees of cubes: the subscriptions that ranges lead to, found level by level.

64 messages go down a tree together: a list of (message, block) is replaced by the blocks below
that can match. Reads of one level do not wait for each other, so cache misses overlap, and a
tree that leads nowhere costs little more than a scan (docs/decisions/023).
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.diagram import packed
from tamis.engine.choosing.bounds import enter, reach
from tamis.engine.choosing.boxes import MOST_TESTS, MOST_WORDS
from tamis.engine.ground.kernel_output import BITS, COUNT, record
from tamis.engine.ground.layout import (
    EVENT_BIT,
    EVENT_FEATURE,
    EVENT_WORD,
    EVENT_WORDS,
    FLAG_BIT,
    FLAG_COLUMN,
    FLAG_SET,
)
from tamis.engine.paths.trees.cube_trees import (
    ASK_BELOW,
    ASK_BIT,
    ASK_EVENT,
    ASK_KIND,
    ASK_PLACE,
    BOUNDS,
    CHECKED,
    CUBE_COUNT,
    CUBES,
    FLAG_COUNT,
    FLAGS,
    TEST_COUNT,
    TESTS,
)
from tamis.jit.kernel import kernel
from tamis.jit.vectors import at_most8

GROUP = 64  # messages that go down together
_LEVELS = 12  # 8 ** 12 cubes are more than memory holds


@kernel
def _gather(tree, trees, block, m, chosen, key):
    """The next messages, from m on, that have the flags of the tree, at most chosen.size of them,
    and their keys; how many, and the message behind the last."""
    tests, first, begin, end = tree[TEST_COUNT], tree[TESTS], tree[FLAGS], tree[FLAG_COUNT]
    keys, flags, test, flag = block.keys, block.flags, trees.test, trees.flag
    end += begin
    count, last = 0, flags.shape[1]
    while m < last and count < chosen.size:
        holds = True
        for i in range(begin, end):
            holds &= (flags[flag[i, FLAG_COLUMN], m] & flag[i, FLAG_BIT] != 0) == (
                flag[i, FLAG_SET] != 0
            )
        if holds:
            chosen[count] = m
            for t in range(tests):
                c = test[first + t]
                key[count * tests + t] = keys[c, m] if c >= 0 else ~keys[~c, m]
            count += 1
        m += 1
    return count, m


@kernel
def _levels(tree, firsts, counts):
    """Where the bounds of each level begin, and how many cubes it has; how many levels."""
    firsts[0], counts[0], levels = tree[BOUNDS], tree[CUBE_COUNT], 1
    while counts[levels - 1] > 8:
        firsts[levels] = firsts[levels - 1] + counts[levels - 1] * tree[TEST_COUNT]
        counts[levels] = (counts[levels - 1] + 7) >> 3
        levels += 1
    return levels


@kernel
def _walk(tree, trees, block, group, memory, output, mode):
    """Record what a group of messages matches; False: a list is too short, and nothing was."""
    chosen, key, lists, _ = memory
    tests, bound, counts = tree[TEST_COUNT], trees.bound, output.counts
    plain = mode == COUNT and output.alive.size == 0 and tree[CHECKED] < 0
    firsts, sizes = np.empty(_LEVELS, np.int64), np.empty(_LEVELS, np.int64)
    level = _levels(tree, firsts, sizes) - 1
    for j in range(group):
        lists[0, j] = np.int64(j) << 32
    now, size = 0, group
    while level >= 0:
        given, made, at = lists[now], lists[1 - now], 0
        for i in range(size):
            if at > made.size - 8:
                if level > 0:
                    return False
                _finish(tree, trees, block, made, at, memory, output, mode)
                at = 0
            j, b = given[i] >> 32, given[i] & 0xFFFFFFFF
            width = min(sizes[level] - 8 * b, 8)
            place = firsts[level] + 8 * b * tests
            found = (np.int64(1) << width) - 1
            for t in range(tests):
                found &= at_most8(bound, place + t * width, key[j * tests + t])
                if found == 0:
                    break
            if level == 0 and plain:
                counts[chosen[j]] += BITS[found]
                continue
            at = enter(made, at, found, j << 32 | 8 * b)
        now, size, level = 1 - now, at, level - 1
    _finish(tree, trees, block, lists[now], size, memory, output, mode)
    return True


@kernel
def _finish(tree, trees, block, hits, size, memory, output, mode):
    """Record hits, message of the group << 32 | cube, those whose programs are true."""
    chosen, _, _, stack = memory
    for i in range(size):
        hits[i] = np.int64(chosen[hits[i] >> 32]) << 32 | (hits[i] & 0xFFFFFFFF)
    if tree[CHECKED] >= 0 and size > 0:
        checks = trees.check[tree[CHECKED] : tree[CHECKED] + tree[CUBE_COUNT]]
        size = _filter(trees, block, checks, hits[:size], stack)
    for i in range(size):
        hits[i] += tree[CUBES]
    record(hits, size, trees.subscription, output, mode)


@kernel
def _filter(trees, block, checks, hits, stack):
    """Move the hits, message << 32 | cube, whose program is true to the front; how many.

    checks: the number of each cube's program. All in one loop, as what a function is handed costs
    more than what it would do (see engine/ground/kernel_output.py).
    """
    program, words, ask, ask_key = trees.program, trees.word, trees.ask, trees.ask_key
    keys, flags, fired, events = block.keys, block.flags, block.offsets, block.events
    asks, codes, fires = block.asks, block.codes, block.fires
    left = 0
    for h in range(hits.size):
        m, p = hits[h] >> 32, checks[hits[h] & 0xFFFFFFFF]
        depth = 0
        for i in range(program[p], program[p + 1]):
            word = np.int64(words[i])
            if word >= 0:
                a = packed.asked(word)
                what, place = ask[a, ASK_KIND], np.int64(ask[a, ASK_PLACE])
                holds = False
                if what == ASK_BELOW:
                    holds = keys[place, m] < ask_key[a]
                elif what != ASK_EVENT:
                    holds = flags[place, m] & ask[a, ASK_BIT] != 0
                elif asks.shape[0] > 0 and asks[place, EVENT_FEATURE] >= 0:
                    code = np.int64(codes[asks[place, EVENT_FEATURE], m])
                    if code >= 0:
                        bits = fires[asks[place, EVENT_WORD] + code * asks[place, EVENT_WORDS]]
                        holds = (bits >> np.uint64(asks[place, EVENT_BIT])) & np.uint64(1) != 0
                else:
                    for e in range(fired[m], fired[m + 1]):
                        holds |= events[e] == place
                stack[depth] = holds != (packed.negated(word) != 0)
                depth += 1
            else:
                either = packed.is_or(word) != 0
                holds = not either
                for _ in range(packed.width(word)):
                    depth -= 1
                    holds = holds | stack[depth] if either else holds & stack[depth]
                stack[depth] = holds
                depth += 1
        hits[left] = hits[h]
        left += 1 if stack[0] else 0
    return left


@kernel
def _run_of(tree, trees, block, group, memory, output, mode):
    """The same in a tree of one test, whose bounds ascend: what matches are the first ones."""
    chosen, key, lists, _ = memory
    begin, n, bound, counts = tree[BOUNDS], tree[CUBE_COUNT], trees.bound, output.counts
    plain = mode == COUNT and output.alive.size == 0 and tree[CHECKED] < 0
    hits, size = lists[0], 0
    for j in range(group):
        last = reach(bound, begin, n, key[j])
        if plain:
            counts[chosen[j]] += last
            continue
        for i in range(last):
            if size == hits.size:
                _finish(tree, trees, block, hits, size, memory, output, mode)
                size = 0
            hits[size] = np.int64(j) << 32 | i
            size += 1
    _finish(tree, trees, block, hits, size, memory, output, mode)


@kernel
def run_trees(trees, block, lists, output, mode):
    """Match all messages of the block against all trees. lists: two rows of working memory, which
    hold the blocks of any one tree."""
    chosen, key = np.empty(GROUP, np.int32), np.empty(GROUP * MOST_TESTS, np.int64)
    memory = chosen, key, lists, np.empty(MOST_WORDS, np.bool_)
    for i in range(trees.tree.shape[0]):
        tree = trees.tree[i]
        m, most = 0, GROUP
        while m < block.flags.shape[1]:
            before = m
            count, m = _gather(tree, trees, block, m, chosen[:most], key)
            if count == 0:
                continue
            if tree[TEST_COUNT] == 1:
                _run_of(tree, trees, block, count, memory, output, mode)
            elif not _walk(tree, trees, block, count, memory, output, mode):
                m, most = before, max(most >> 1, 1)

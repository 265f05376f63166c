"""Evaluation by a ranked frontier (US 7,136,899, figure 13), compiled.

Every subscription has a current node. The rank keeps, for each variable, the list of the
subscriptions whose current node tests it; a bitmap says which lists are not empty. The first
variable in order is decided once, for its whole list; who leaves the list goes to a lower node, so
no variable comes up again. Edges of a node that is reached move other subscriptions down with it.

A message costs what it moves, not what there is. Whoever still stands at the root of its tree is
found in lists that are made once. Whoever was moved on by an edge stays in the old list as well,
and is passed over there. A variable is quiet where its whole first list fails with it: quiet
equalities come up only where the signposts of their group leave room for them.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.diagram.bdd import HIGHEST, Variables
from tamis.engine.ground.layout import I4, I8, U1, U8
from tamis.engine.implications.condition_trees import START, Trees, narrowed, within
from tamis.engine.implications.edges import Edges
from tamis.jit.kernel import kernel
from tamis.logic.atoms import Kind

EVALUATED, IMPLIED, SHORTCUTS, VISITED = range(4)  # columns of the statistics
_BELOW = int(Kind.BELOW)


class Starters(NamedTuple):
    """Where subscriptions wait before a message comes. Never changed."""

    offsets: I8  # variable -> the subscriptions whose root tests it
    subscription: I4
    filled: U8  # bit v % 64 of word v // 64: variable v is to come up
    waiting: I4  # group -> subscriptions
    quiet_offsets: I8  # group -> its quiet variables
    quiet: I4
    always: I4  # subscriptions that every message matches


class Rank(NamedTuple):
    """Who waits where besides. An entry is a subscription and the next entry; -1 ends a list."""

    head: I4  # variable -> entry; all lists are empty between messages
    entry: I4  # rows (subscription, next entry)
    current: I4  # subscription -> node, where `moved` has the stamp of the message
    moved: I8
    filled: U8
    waiting: I4


class Questions(NamedTuple):
    """How to ask a message about a variable, and the signposts of each group."""

    kind: U1
    place: I4  # column of keys, event, or column of flags
    bit: U1  # of a flag
    threshold: I8
    post_offsets: I8  # group -> its signposts
    posts: I4  # variables, ascending
    column: I4  # group -> column of flags
    family: U1  # group -> bit of its type


class Memory(NamedTuple):
    """One reader's working memory."""

    rank: Rank
    fired: I8  # event -> stamp of the last message that fired it
    known: I8  # group -> low, high, void, stamp
    stack: I4
    cursor: I8  # next variable, stamp, results so far, entries so far


class Graph(NamedTuple):
    """What never changes: trees, edges, variables, questions, and who waits where at the start."""

    trees: Trees
    edges: Edges
    variables: Variables
    questions: Questions
    start: Starters


class Subscribers(NamedTuple):
    """Who is alive, and the slot that stands for each in the results."""

    alive: U1
    slot: I4


@kernel
def _first_bit(word):
    """The number of the lowest bit that is set."""
    at = 0
    for width in (32, 16, 8, 4, 2, 1):
        if word & ((np.uint64(1) << np.uint64(width)) - np.uint64(1)) == 0:
            word >>= np.uint64(width)
            at += width
    return at


@kernel
def _next_filled(filled, v):
    """The first variable from v on whose list is not empty; past the end where there is none."""
    w = v >> 6
    if w >= filled.size:
        return filled.size << 6
    word = filled[w] >> np.uint64(v & 63) << np.uint64(v & 63)
    while word == 0:
        w += 1
        if w == filled.size:
            return w << 6
        word = filled[w]
    return (w << 6) + _first_bit(word)


@kernel
def _truth(questions, v, block, message, memory):
    """What the message says of variable v."""
    kind, place = questions.kind[v], questions.place[v]
    if kind < _BELOW:
        return block.flags[place, message] & questions.bit[v] != 0
    if kind == _BELOW:
        return block.keys[place, message] < questions.threshold[v]
    return memory.fired[place] == memory.cursor[1]


@kernel
def _knowledge(known, group, stamp):
    if known[group, 3] != stamp:
        known[group, 0], known[group, 1], known[group, 2] = START, HIGHEST, 1
        known[group, 3] = stamp


@kernel
def _learn(variables, known, v, truth):
    row = known[variables.group[v]]
    row[0], row[1], row[2] = narrowed(variables, v, truth, row[0], row[1], row[2])


@kernel
def _read_signposts(graph, group, block, message, memory, statistics):
    """Find between which two signposts of the group the value stands."""
    questions, row = graph.questions, memory.known[group]
    statistics[EVALUATED] += 1
    if block.flags[questions.column[group], message] & questions.family[group] == 0:
        row[0], row[1] = HIGHEST, HIGHEST
        return
    row[2] = 0
    low, high = questions.post_offsets[group], questions.post_offsets[group + 1]
    while low < high:
        middle = (low + high) // 2
        v = questions.posts[middle]
        truth = _truth(questions, v, block, message, memory)
        statistics[EVALUATED] += 1
        _learn(graph.variables, memory.known, v, truth)
        if truth:
            high = middle
        else:
            low = middle + 1


@kernel
def _pays(questions, group, waiting):
    """Whether so many subscriptions wait that reading the signposts costs less than asking."""
    posts = questions.post_offsets[group + 1] - questions.post_offsets[group]
    cost = 2
    while posts > 0:
        posts >>= 1
        cost += 1
    return cost > 3 and waiting > 2 * cost


@kernel
def _release(start, variables, group, memory):
    """Let the quiet variables of a group come up that what is known of it leaves open."""
    low, high, filled = memory.known[group, 0], memory.known[group, 1], memory.rank.filled
    at, end = start.quiet_offsets[group], start.quiet_offsets[group + 1]
    first, last = at, end
    while first < last:
        middle = (first + last) // 2
        if variables.high[start.quiet[middle]] <= low:
            first = middle + 1
        else:
            last = middle
    for k in range(first, end):
        v = start.quiet[k]
        if variables.low[v] >= high:
            break
        filled[v >> 6] |= np.uint64(1) << np.uint64(v & 63)


@kernel
def _open(graph, group, block, message, memory, statistics, signposts):
    """The first variable of a group comes up: nothing is known, or what the signposts say."""
    _knowledge(memory.known, group, memory.cursor[1])
    if signposts and _pays(graph.questions, group, memory.rank.waiting[group]):
        _read_signposts(graph, group, block, message, memory, statistics)
    _release(graph.start, graph.variables, group, memory)


@kernel
def _ask(graph, v, block, message, memory, statistics):
    """Evaluate variable v, and remember what that says of its group."""
    statistics[EVALUATED] += 1
    truth = _truth(graph.questions, v, block, message, memory)
    _learn(graph.variables, memory.known, v, truth)
    return 1 if truth else 0


@kernel
def begin(graph, block, message, subscribers, memory, out):
    """Start a message: who is to come up, its events, and the subscriptions that need no test."""
    rank, start = memory.rank, graph.start
    rank.filled[:], rank.waiting[:] = start.filled, start.waiting
    memory.cursor[0] = memory.cursor[3] = 0
    memory.cursor[1] += 1
    for e in range(block.offsets[message], block.offsets[message + 1]):
        memory.fired[block.events[e]] = memory.cursor[1]
    for s in start.always:
        if subscribers.alive[s]:
            out[memory.cursor[2]] = subscribers.slot[s]
            memory.cursor[2] += 1


@kernel
def proceed(graph, block, message, subscribers, memory, out, statistics, rules):
    """Decide variables until enough matches are out; True when all is decided.

    rules: (how many are enough, whether signposts are used).
    Arrays are taken out of their tuples once: handing tuples on for each step would cost more
    than the step.
    """
    (enough, signposts), (alive, slot) = rules, subscribers
    test, low, high, owner = graph.trees.test, graph.trees.low, graph.trees.high, graph.trees.owner
    root, offsets, target = graph.trees.root, graph.edges.offsets, graph.edges.target
    group, begins, ends = graph.variables.group, graph.variables.low, graph.variables.high
    starts, starters = graph.start.offsets, graph.start.subscription
    head, entry, current, moved = memory.rank[0], memory.rank[1], memory.rank[2], memory.rank[3]
    filled, waiting = memory.rank.filled, memory.rank.waiting
    stack, known, cursor = memory.stack, memory.known, memory.cursor
    atoms, v, stamp, size, entries = group.size, cursor[0], cursor[1], cursor[2], cursor[3]
    implied = visited = steps = 0
    while size < enough:
        v = _next_filled(filled, v)
        if v >= atoms:
            break
        g = group[v]
        if known[g, 3] != stamp:
            _open(graph, g, block, message, memory, statistics, signposts)
            continue
        filled[v >> 6] &= ~(np.uint64(1) << np.uint64(v & 63))
        at, i, last, truth = head[v], starts[v], starts[v + 1], -1
        head[v] = -1
        while True:
            if at >= 0:
                s = entry[at, 0]
                at = entry[at, 1]
                node = current[s]
                if test[node] != v:
                    continue
            elif i < last:
                s = starters[i]
                i += 1
                node = root[s]
                if moved[s] == stamp:
                    continue
            else:
                break
            if truth < 0:
                if signposts:
                    truth = within(begins[v], ends[v], known[g, 0], known[g, 1], known[g, 2])
                if truth >= 0:
                    implied += 1
                else:
                    truth = _ask(graph, v, block, message, memory, statistics)
            stack[0] = high[node] if truth == 1 else low[node]
            depth = 1
            steps += 1
            while depth > 0:
                depth -= 1
                node = stack[depth]
                s = owner[node]
                here = test[current[s]] if moved[s] == stamp else test[root[s]]
                there = test[node]
                if there <= here:
                    continue
                moved[s], current[s] = stamp, node
                waiting[group[here]] -= 1
                visited += 1
                if there < atoms:
                    entry[entries, 0], entry[entries, 1] = s, head[there]
                    head[there] = entries
                    entries += 1
                    filled[there >> 6] |= np.uint64(1) << np.uint64(there & 63)
                    waiting[group[there]] += 1
                elif low[node] == 1 and alive[s]:
                    out[size] = slot[s]
                    size += 1
                for k in range(offsets[node], offsets[node + 1]):
                    stack[depth] = target[k]
                    depth += 1
    cursor[0], cursor[2], cursor[3] = v, size, entries
    statistics[IMPLIED] += implied
    statistics[VISITED] += visited
    statistics[SHORTCUTS] += visited - steps
    return v >= atoms


@kernel
def run(graph, block, first, subscribers, memory, results, statistics, signposts):
    """Messages from number `first` on, while there is room for all subscriptions in `out`.

    results: (out, ends); ends[m] is where the matches of message m end. Returns the first message
    that was not done.
    """
    out, ends = results
    rules = np.int64(1) << 62, signposts
    memory.cursor[2] = 0
    for message in range(first, ends.size):
        if memory.cursor[2] + subscribers.slot.size > out.size:
            return message
        begin(graph, block, message, subscribers, memory, out)
        proceed(graph, block, message, subscribers, memory, out, statistics, rules)
        ends[message] = memory.cursor[2]
    return ends.size


@kernel
def brute_force(graph, block, alive, memory, statistics):
    """Every tree on its own, nothing shared: how many match; predicates and nodes are counted."""
    trees = graph.trees
    atoms = graph.variables.group.size
    matches = 0
    for message in range(block.flags.shape[1]):
        memory.cursor[1] += 1
        for e in range(block.offsets[message], block.offsets[message + 1]):
            memory.fired[block.events[e]] = memory.cursor[1]
        for s in range(trees.root.size):
            node = trees.root[s]
            if node < 0:
                continue
            while trees.test[node] < atoms:
                truth = _truth(graph.questions, trees.test[node], block, message, memory)
                node = trees.high[node] if truth else trees.low[node]
                statistics[EVALUATED] += 1
                statistics[VISITED] += 1
            matches += trees.low[node] & alive[s]
    return matches

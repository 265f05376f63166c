"""An Aho-Corasick automaton over UTF-8 bytes: which patterns a text contains, in linear time.

It is for the texts that are too much work for grams.py; its memory follows the total length of
the patterns.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.engine.ground.layout import I4, U1
from tamis.engine.lookup.affixes import joined
from tamis.jit.kernel import kernel


class Automaton(NamedTuple):
    """States are numbered level by level, so the children of one stand side by side.

    State 0 is the root. Patterns are sorted and distinct.
    """

    root: I4  # byte -> child of the root, 0: none
    child: I4  # the children of state s are child[s] to child[s + 1] - 1, by ascending label
    label: U1  # the byte that leads to a state
    fail: I4  # the state of the longest proper suffix
    found: I4  # state -> the longest pattern that ends there, -1: none
    shorter: I4  # pattern -> the next shorter pattern that ends where this one does, -1: none


@kernel
def _step(auto, state, byte):
    while state != 0:
        for s in range(auto.child[state], auto.child[state + 1]):
            if auto.label[s] >= byte:
                if auto.label[s] == byte:
                    return np.int32(s)
                break
        state = auto.fail[state]
    return auto.root[byte]


@kernel
def _count_states(offsets, data):
    """The distinct prefixes of the sorted patterns, the empty one too."""
    states = 1
    for p in range(offsets.size - 1):
        begin, end = offsets[p], offsets[p + 1]
        same = 0
        if p > 0:
            before = offsets[p - 1]
            most = min(end - begin, begin - before)
            while same < most and data[begin + same] == data[before + same]:
                same += 1
        states += end - begin - same
    return states


@kernel
def _build(auto, offsets, data):
    """Make the states level by level: those above have their fail links already."""
    patterns = offsets.size - 1
    state = np.zeros(patterns, np.int32)  # that each pattern has reached
    active = np.arange(patterns).astype(np.int32)
    count, depth, states, filled = patterns, 0, 1, 0
    auto.child[0] = 1
    while count > 0:
        level_end, kept = states, 0
        parent, byte = np.int32(-1), np.uint8(0)
        for j in range(count):
            p = active[j]
            at = offsets[p] + depth
            if state[p] != parent or data[at] != byte:
                parent, byte = state[p], data[at]
                while filled < parent:
                    filled += 1
                    auto.child[filled] = states
                auto.label[states] = byte
                if parent == 0:
                    auto.root[byte] = states
                else:
                    auto.fail[states] = _step(auto, auto.fail[parent], byte)
                auto.found[states] = auto.found[auto.fail[states]]
                states += 1
            state[p] = states - 1
            if at + 1 < offsets[p + 1]:
                active[kept] = p
                kept += 1
            else:
                auto.shorter[p] = auto.found[states - 1]
                auto.found[states - 1] = p
        while filled < level_end:
            filled += 1
            auto.child[filled] = states
        count = kept
        depth += 1
    while filled < states:
        filled += 1
        auto.child[filled] = states


@kernel
def _search(auto, data, found):
    """Mark the patterns that the text contains."""
    state = np.int32(0)
    for i in range(data.size):
        state = _step(auto, state, data[i])
        p = auto.found[state]
        while p >= 0 and found[p] == 0:  # where this one was found, so were those that it ends with
            found[p] = 1
            p = auto.shorter[p]


def automaton_of(patterns: list[bytes]) -> Automaton:
    """From distinct patterns, sorted, none of them empty."""
    data, offsets = joined(patterns)
    states = _count_states(offsets, data)
    auto = Automaton(
        np.zeros(256, np.int32),
        np.zeros(states + 1, np.int32),
        np.zeros(states, np.uint8),
        np.zeros(states, np.int32),
        np.full(states, -1, np.int32),
        np.full(len(patterns), -1, np.int32),
    )
    _build(auto, offsets, data)
    return auto


def contained(auto: Automaton, text: bytes) -> list[int]:
    """The numbers of the patterns that the text contains."""
    found = np.zeros(len(auto.shorter), np.uint8)
    _search(auto, np.frombuffer(text, np.uint8), found)
    return np.flatnonzero(found).tolist()

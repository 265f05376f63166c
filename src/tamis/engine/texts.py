"""Texts of one term: which of its prefixes, suffixes, substrings and patterns a value has.

Prefixes, suffixes and substrings share one Aho-Corasick automaton over UTF-8 bytes; its
transitions are a hash table, so memory follows the total length of the patterns. Regular
expressions are an RE2 set: linear in the value, however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tamis.engine.layout import I4, I8, U1
from tamis.logic import Kind

_MEMORY = 64 << 20  # bytes of one RE2 set
_PREFIX, _SUFFIX, _CONTAINS = int(Kind.PREFIX), int(Kind.SUFFIX), int(Kind.CONTAINS)


class Automaton(NamedTuple):
    """State 0 is the root. `edge` maps (state, byte) to a state; else go by `fail`."""

    edge: I8  # hash table: (state << 8 | byte) + 1, 0: free
    target: I4
    fail: I4
    first: I4  # state -> the first pattern that ends there, -1: none
    next: I4  # pattern -> another pattern of the same text
    report: I4  # state -> the nearest state on its fail path where a pattern ends
    kind: U1  # of each pattern
    length: I4
    event: I4


@njit(cache=True, nogil=True)
def _slot(edge, state, byte):
    """Where the edge is, or the free slot where it would be."""
    key = (np.int64(state) << 8 | byte) + 1
    at = ((key * 0x9E3779B1) >> 7) & (edge.size - 1)
    while edge[at] != 0 and edge[at] != key:
        at = (at + 1) & (edge.size - 1)
    return at


@njit(cache=True, nogil=True)
def _step(auto, state, byte):
    while True:
        at = _slot(auto.edge, state, byte)
        if auto.edge[at] != 0:
            return auto.target[at]
        if state == 0:
            return np.int32(0)
        state = auto.fail[state]


@njit(cache=True, nogil=True)
def _build(auto, offsets, data):
    """Enter the patterns data[offsets[i]:offsets[i + 1]], then the fail links, breadth first."""
    states = np.int32(1)
    parent = np.zeros(auto.fail.size, np.int32)
    label = np.zeros(auto.fail.size, np.uint8)
    depth = np.zeros(auto.fail.size, np.int32)
    for p in range(offsets.size - 1):
        state = np.int32(0)
        for i in range(offsets[p], offsets[p + 1]):
            at = _slot(auto.edge, state, data[i])
            if auto.edge[at] == 0:
                auto.edge[at] = (np.int64(state) << 8 | data[i]) + 1
                auto.target[at] = states
                parent[states], label[states], depth[states] = state, data[i], depth[state] + 1
                states += 1
            state = auto.target[at]
        auto.next[p] = auto.first[state]
        auto.first[state] = p
    order = np.argsort(depth[:states], kind="mergesort")
    for s in order:
        if s == 0:
            continue
        if parent[s] != 0:
            auto.fail[s] = _step(auto, auto.fail[parent[s]], label[s])
        f = auto.fail[s]
        auto.report[s] = s if auto.first[s] >= 0 else auto.report[f]
    return states


@njit(cache=True, nogil=True)
def search(auto, offsets, data, seen, stamp, out_offsets, out):
    """The events of every text data[offsets[i]:offsets[i + 1]], each once.

    Returns the texts done; fewer than all where `out` is full.
    """
    count = out_offsets[0]
    for t in range(offsets.size - 1):
        begin, end = offsets[t], offsets[t + 1]
        state = np.int32(0)
        for i in range(begin, end):
            state = _step(auto, state, data[i])
            s = auto.report[state]
            while s > 0:
                p = auto.first[s]
                while p >= 0:
                    kind = auto.kind[p]
                    fits = kind == _CONTAINS
                    if kind == _PREFIX:
                        fits = i + 1 - begin == auto.length[p]
                    elif kind == _SUFFIX:
                        fits = i + 1 == end
                    if fits and seen[p] != stamp + t:
                        if count >= out.size:
                            return t
                        seen[p] = stamp + t
                        out[count] = auto.event[p]
                        count += 1
                    p = auto.next[p]
                s = auto.report[auto.fail[s]]
        out_offsets[t + 1] = count
    return offsets.size - 1


@dataclass(slots=True)
class TextIndex:
    automaton: Automaton | None
    within: list[tuple[str, int]]  # the value is a substring of the text: event
    patterns: list[tuple[Any, list[int]]]  # RE2 sets, and the events of their patterns

    @classmethod
    def of(cls, kinds: list[int], texts: list[str], events: list[int]) -> TextIndex:
        rows = list(zip(kinds, texts, events, strict=True))
        plain = [row for row in rows if row[0] in (_PREFIX, _SUFFIX, _CONTAINS)]
        regexes = [(text, event) for kind, text, event in rows if kind == Kind.PATTERN]
        return cls(
            _automaton(plain) if plain else None,
            [(text, event) for kind, text, event in rows if kind == Kind.WITHIN],
            _regex_sets(regexes) if regexes else [],
        )

    def events(self, values: list[str]) -> tuple[I8, I4]:
        """Offsets and events of each value."""
        offsets, found = self._found(values)
        if not self.within and not self.patterns:
            return offsets, found
        lists = [found[offsets[i] : offsets[i + 1]].tolist() for i in range(len(values))]
        for value, row in zip(values, lists, strict=True):
            row.extend(event for text, event in self.within if value in text)
            for chosen, events in self.patterns:
                row.extend(events[i] for i in chosen.Match(value) or ())
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(row) for row in lists], out=offsets[1:])
        return offsets, np.array([event for row in lists for event in row], np.int32)

    def _found(self, values: list[str]) -> tuple[I8, I4]:
        auto = self.automaton
        if auto is None:
            return np.zeros(len(values) + 1, np.int64), np.empty(0, np.int32)
        offsets, data = _bytes(values)
        out_offsets = np.zeros(len(values) + 1, np.int64)
        room = 4 * len(values) + 64
        while True:
            seen = np.full(len(auto.kind), -1, np.int64)
            out = np.empty(room, np.int32)
            if search(auto, offsets, data, seen, 0, out_offsets, out) == len(values):
                return out_offsets, out[: out_offsets[-1]]
            room *= 4


def _automaton(rows: list[tuple[int, str, int]]) -> Automaton:
    offsets, data = _bytes([text for _, text, _ in rows])
    states = len(data) + 1
    slots = 1 << (states + states // 3).bit_length()
    auto = Automaton(
        np.zeros(slots, np.int64),
        np.zeros(slots, np.int32),
        np.zeros(states, np.int32),
        np.full(states, -1, np.int32),
        np.full(len(rows), -1, np.int32),
        np.zeros(states, np.int32),
        np.array([kind for kind, _, _ in rows], np.uint8),
        np.diff(offsets).astype(np.int32),
        np.array([event for _, _, event in rows], np.int32),
    )
    used = _build(auto, offsets, data)
    return auto._replace(
        fail=auto.fail[:used].copy(),
        first=auto.first[:used].copy(),
        report=auto.report[:used].copy(),
    )


def _bytes(texts: list[str]) -> tuple[I8, U1]:
    encoded = [text.encode() for text in texts]
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(e) for e in encoded], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(encoded), np.uint8)


def _regex_sets(regexes: list[tuple[str, int]]) -> list[tuple[Any, list[int]]]:
    """One RE2 set of all patterns; two of one half each where one would be too large, and so on."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    chosen = re2.Set.SearchSet(options)
    for pattern, _ in regexes:
        chosen.Add(pattern)
    try:
        chosen.Compile()
    except re2.error:
        half = len(regexes) // 2
        if not half:
            raise
        return _regex_sets(regexes[:half]) + _regex_sets(regexes[half:])
    return [(chosen, [event for _, event in regexes])]

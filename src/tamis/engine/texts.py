"""Texts of one term: which of its prefixes, suffixes, substrings and patterns a value has.

Prefixes, suffixes and substrings share one Aho-Corasick automaton over UTF-8 bytes; its memory
follows the total length of the patterns. Most LIKE patterns have a text in them: only values in
which the automaton found it are compared with the pattern. Regular expressions are an RE2 set:
linear in the value, however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tamis.engine.layout import I4, I8, U1
from tamis.logic import Kind
from tamis.logic.wildcards import needed_text, wildcards

_MEMORY = 64 << 20  # bytes of one RE2 set
_CLUE = 32  # characters of a LIKE pattern's text that are looked for
_PREFIX, _SUFFIX, _CONTAINS = int(Kind.PREFIX), int(Kind.SUFFIX), int(Kind.CONTAINS)
_WITHIN, _PATTERN, _LIKE = int(Kind.WITHIN), int(Kind.PATTERN), int(Kind.LIKE)


class Automaton(NamedTuple):
    """States are numbered level by level, so the children of one stand side by side.

    State 0 is the root. Patterns are sorted, so equal texts stand side by side too, and the first
    of them stands for all.
    """

    root: I4  # byte -> child of the root, 0: none
    child: I4  # the children of state s are child[s] to child[s + 1] - 1, by ascending label
    label: U1  # the byte that leads to a state
    fail: I4  # the state of the longest proper suffix
    found: I4  # state -> the longest pattern that ends there, -1: none
    shorter: I4  # pattern -> the next shorter pattern that ends where this one does, -1: none
    again: U1  # pattern -> whether the next one has the same text
    kind: U1
    length: I4
    event: I4


@njit(cache=True, nogil=True)
def _step(auto, state, byte):
    while state != 0:
        for s in range(auto.child[state], auto.child[state + 1]):
            if auto.label[s] >= byte:
                if auto.label[s] == byte:
                    return np.int32(s)
                break
        state = auto.fail[state]
    return auto.root[byte]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _build(auto, offsets, data):
    """Make the states level by level: those above have their fail links already."""
    patterns = offsets.size - 1
    state = np.zeros(patterns, np.int32)  # that each pattern has reached
    active = np.arange(patterns).astype(np.int32)
    count, depth, states, filled = patterns, 0, 1, 0
    auto.child[0] = 1
    while count > 0:
        level_end, kept = states, 0
        parent, byte, ended = np.int32(-1), np.uint8(0), np.int32(-1)
        for j in range(count):
            p = active[j]
            at = offsets[p] + depth
            if state[p] != parent or data[at] != byte:
                parent, byte, ended = state[p], data[at], np.int32(-1)
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
            elif ended >= 0:
                auto.again[p - 1] = 1
            else:
                ended = p
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


@njit(cache=True, nogil=True)
def search(auto, offsets, data, seen, out_offsets, out):
    """The events of every text data[offsets[i]:offsets[i + 1]], each once.

    Returns the texts done; fewer than all where `out` is full.
    """
    count = out_offsets[0]
    for t in range(offsets.size - 1):
        begin, end = offsets[t], offsets[t + 1]
        state = np.int32(0)
        for i in range(begin, end):
            state = _step(auto, state, data[i])
            first = auto.found[state]
            while first >= 0:
                p, more = first, True
                while more:
                    kind = auto.kind[p]
                    fits = kind == _CONTAINS
                    if kind == _PREFIX:
                        fits = i + 1 - begin == auto.length[p]
                    elif kind == _SUFFIX:
                        fits = i + 1 == end
                    if fits and seen[p] != t + 1:
                        if count >= out.size:
                            return t
                        seen[p] = t + 1
                        out[count] = auto.event[p]
                        count += 1
                    more = auto.again[p] == 1
                    p += 1
                first = auto.shorter[first]
        out_offsets[t + 1] = count
    return offsets.size - 1


@dataclass(slots=True)
class TextIndex:
    automaton: Automaton | None
    within: list[tuple[str, int]]  # the value is a substring of the text: event
    patterns: list[tuple[Any, list[int]]]  # RE2 sets, and the events of their patterns
    likes: list[tuple[str, int]]  # the automaton reports ~i where likes[i] is to be looked at
    blind: list[tuple[str, int]]  # LIKE patterns of wild cards alone: any value may fit

    @classmethod
    def of(cls, kinds: list[int], texts: list[str], events: list[int]) -> TextIndex:
        plain: tuple[list[int], list[str], list[int]] = [], [], []
        index = cls(None, [], [], [], [])
        regexes: list[tuple[str, int]] = []
        for kind, text, event in zip(kinds, texts, events, strict=True):
            if kind == _LIKE:
                clue = needed_text(text)[:_CLUE]
                (index.likes if clue else index.blind).append((text, event))
                kind, text, event = _CONTAINS, clue, -len(index.likes)
            if kind == _PATTERN:
                regexes.append((text, event))
            elif kind == _WITHIN:
                index.within.append((text, event))
            elif text:
                plain[0].append(kind)
                plain[1].append(text)
                plain[2].append(event)
        if plain[0]:
            index.automaton = _automaton(*plain)
        if regexes:
            index.patterns = _regex_sets(regexes)
        return index

    def events(self, values: list[str]) -> tuple[I8, I4]:
        """Offsets and events of each value."""
        offsets, found = self._found(values)
        if self.likes:
            offsets, found = self._proved(values, offsets, found)
        if not self.within and not self.patterns and not self.blind:
            return offsets, found
        rows, events = self._asked(values)
        if not rows:
            return offsets, found
        count = np.diff(offsets) + np.bincount(rows, minlength=len(values))
        row = np.concatenate([np.repeat(np.arange(len(values)), np.diff(offsets)), rows])
        found = np.concatenate([found, np.array(events, np.int32)])
        return np.concatenate([[0], np.cumsum(count)]), found[np.argsort(row, kind="stable")]

    def _asked(self, values: list[str]) -> tuple[list[int], list[int]]:
        """What each value has to be asked by itself, as pairs: the value's number, an event."""
        rows: list[int] = []
        events: list[int] = []
        for i, value in enumerate(values):
            for chosen, own in self.patterns:
                if hits := chosen.Match(value):
                    events += [own[hit] for hit in hits]
            if self.within or self.blind:
                events += [event for text, event in self.within if value in text]
                events += [event for text, event in self.blind if wildcards(text).hold(value)]
            rows += [i] * (len(events) - len(rows))
        return rows, events

    def _found(self, values: list[str]) -> tuple[I8, I4]:
        auto = self.automaton
        if auto is None:
            return np.zeros(len(values) + 1, np.int64), np.empty(0, np.int32)
        offsets, data = _bytes([value.encode() for value in values])
        out_offsets = np.zeros(len(values) + 1, np.int64)
        room = 4 * len(values) + 64
        while True:
            seen = np.zeros(len(auto.kind), np.int32)
            out = np.empty(room, np.int32)
            if search(auto, offsets, data, seen, out_offsets, out) == len(values):
                return out_offsets, out[: out_offsets[-1]]
            room *= 4

    def _proved(self, values: list[str], offsets: I8, found: I4) -> tuple[I8, I4]:
        """Where the text of a LIKE pattern was found: look whether all of it fits."""
        clues = np.flatnonzero(found < 0)
        if not len(clues):
            return offsets, found
        keep = np.ones(len(found), bool)
        rows = np.searchsorted(offsets, clues, side="right") - 1
        for at, row, clue in zip(clues.tolist(), rows.tolist(), found[clues].tolist(), strict=True):
            pattern, event = self.likes[~clue]
            found[at] = event
            keep[at] = wildcards(pattern).hold(values[row])
        kept = np.concatenate([[0], np.cumsum(keep)])
        return kept[offsets], found[keep]


def _automaton(kinds: list[int], texts: list[str], events: list[int]) -> Automaton:
    encoded = [text.encode() for text in texts]
    order = sorted(range(len(encoded)), key=encoded.__getitem__)
    offsets, data = _bytes([encoded[i] for i in order])
    count, states = len(encoded), _count_states(offsets, data)
    auto = Automaton(
        np.zeros(256, np.int32),
        np.zeros(states + 1, np.int32),
        np.zeros(states, np.uint8),
        np.zeros(states, np.int32),
        np.full(states, -1, np.int32),
        np.full(count, -1, np.int32),
        np.zeros(count, np.uint8),
        np.array(kinds, np.uint8)[order],
        np.diff(offsets).astype(np.int32),
        np.array(events, np.int32)[order],
    )
    _build(auto, offsets, data)
    return auto


def _bytes(encoded: list[bytes]) -> tuple[I8, U1]:
    offsets = np.zeros(len(encoded) + 1, np.int64)
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

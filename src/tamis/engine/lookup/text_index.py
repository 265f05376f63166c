"""Texts of all terms of a segment: which prefixes, suffixes, substrings and patterns a value has.

Each kind has its own tables, over UTF-8 bytes, and one kernel asks all of them for as many values
as there are. Most LIKE patterns have a text in them: only values that contain it are compared with
the pattern. Regular expressions are an RE2 set: linear in the value, however many there are.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tamis.engine.ground.layout import I4, I8, U1
from tamis.engine.lookup.affixes import Affixes, Found, add_affixes, affixes_of, joined
from tamis.engine.lookup.grams import HARD, Grams, add_contained, grams_of
from tamis.engine.lookup.likes import Likes, add_blind, likes_of
from tamis.engine.lookup.substrings import Substrings, add_substrings, substrings_of
from tamis.engine.lookup.text_automaton import Automaton, automaton_of, contained
from tamis.jit.kernel import kernel
from tamis.logic import Kind
from tamis.logic.wildcards import needed_text, wildcards

_MEMORY = 64 << 20  # bytes of one RE2 set
_CLUE = 32  # characters of a LIKE pattern's text that are looked for
_LAST_MARK = np.iinfo(np.int32).max
_PREFIX, _SUFFIX, _CONTAINS = int(Kind.PREFIX), int(Kind.SUFFIX), int(Kind.CONTAINS)
_WITHIN, _PATTERN, _LIKE = int(Kind.WITHIN), int(Kind.PATTERN), int(Kind.LIKE)


class Tables(NamedTuple):
    prefixes: Affixes
    suffixes: Affixes
    grams: Grams
    likes: Likes
    substrings: Substrings


@dataclass(frozen=True, slots=True)
class Values:
    """Value i is data[offsets[i]:offsets[i + 1]], in UTF-8."""

    data: U1
    offsets: I8

    def __post_init__(self) -> None:
        self.data.flags.writeable = False  # kernels are compiled for that

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def bytes(self, i: int) -> bytes:
        return self.data[self.offsets[i] : self.offsets[i + 1]].tobytes()


Row = tuple[int, str, int]  # kind, text, event


@kernel
def _scan(tables, term, texts, first, found, out_offsets, hard):
    """The events of every text data[offsets[i]:offsets[i + 1]] of term[i] from `first` on, each
    once, written to out[out_offsets[i]:out_offsets[i + 1]].

    texts: (data, offsets). hard[i] is set where the texts that it contains are still to be found.
    Returns the texts done; fewer than all where `out` is full. `found.seen` has a place for each
    pattern that may be met twice, and no mark above mark + texts.
    """
    data, offsets = texts
    seen, mark, out = found
    base = tables.grams.offsets.size - 1
    count = out_offsets[first]
    for t in range(first, offsets.size - 1):
        k, begin, end = term[t], offsets[t], offsets[t + 1]
        found = Found(seen, mark + t + 1, out)
        count = add_affixes(tables.prefixes, k, data, begin, end, np.int64(0), out, count)
        if count >= 0:
            count = add_affixes(tables.suffixes, k, data, begin, end, np.int64(1), out, count)
        if count >= 0 and tables.substrings.event.size > 0:
            count = add_substrings(tables.substrings, k, data, begin, end, found, base, count)
        if count >= 0:
            count = add_blind(tables.likes, k, data, begin, end, out, count)
        if count >= 0:
            before = count
            count = add_contained(tables.grams, tables.likes, k, data, begin, end, found, count)
            if count == HARD:
                count = before
                hard[t] = 1
        if count < 0:
            return t
        out_offsets[t + 1] = count
    return offsets.size - 1


class _Memory:
    """What a scan writes to. `seen` has no mark above `mark`."""

    def __init__(self, patterns: int) -> None:
        self.seen, self.mark = np.zeros(patterns, np.int32), 0
        self.out = np.empty(256, np.int32)

    def marks(self, texts: int) -> int:
        """The mark before the first of so many new ones."""
        if self.mark > _LAST_MARK - texts - 1:
            self.seen[:] = self.mark = 0
        before = self.mark
        self.mark += texts
        return before


class TextIndex:
    """The texts of some terms, which are numbered from 0. Its tables are made when they are first
    asked for; two threads that ask at once may both make them."""

    def __init__(self, terms: Sequence[Sequence[Row]]) -> None:
        self._terms: Sequence[Sequence[Row]] | None = terms
        self._made: _Made | None = None

    def prepared(self) -> _Made:
        """The tables."""
        found = self._made
        if found is None:
            terms = self._terms
            found = self._made or _Made(terms or ())
            self._made, self._terms = found, None
        return found

    def events(self, term: I4, values: Values) -> tuple[I8, I4]:
        """Offsets and events of values, the i-th of which is one of term[i]."""
        return self.prepared().events(term, values)


class _Made:
    """The tables of a text index."""

    def __init__(self, terms: Sequence[Sequence[Row]]) -> None:
        own: dict[int, list[list[tuple[bytes, int]]]] = {}
        for kind in (_PREFIX, _SUFFIX, _WITHIN):
            own[kind] = [[(t.encode(), e) for k, t, e in rows if k == kind and t] for rows in terms]
        own[_SUFFIX] = [[(text[::-1], event) for text, event in rows] for rows in own[_SUFFIX]]
        self._likes = [(text, event) for rows in terms for k, text, event in rows if k == _LIKE]
        self._contained, blind = _contained(terms)
        likes = likes_of([text for text, _ in self._likes], [e for _, e in self._likes], blind)
        self._tables = Tables(
            affixes_of(own[_PREFIX]),
            affixes_of(own[_SUFFIX]),
            grams_of(self._contained),
            likes,
            substrings_of(own[_WITHIN]),
        )
        found = [[(text, event) for k, text, event in rows if k == _PATTERN] for rows in terms]
        self.patterns = [_regex_sets(rows) if rows else [] for rows in found]
        self._has_pattern = np.array([bool(own) for own in self.patterns], bool)
        self._has_patterns = any(self.patterns)
        self._automata: dict[int, tuple[Automaton, list[list[int]]]] = {}
        self._spare: list[_Memory] = []  # a thread takes one, and puts it back

    def events(self, term: I4, values: Values) -> tuple[I8, I4]:
        """Offsets and events of values, the i-th of which is one of term[i]."""
        hard = np.zeros(len(values), np.uint8)
        offsets, found = self._scanned(term, values, hard)
        if self._likes and (found < 0).any():
            offsets, found = self._proved(values, offsets, found)
        rows: list[int] = []
        events: list[int] = []
        if hard.any():
            for i in np.flatnonzero(hard).tolist():
                events += self._asked(int(term[i]), values, i)
                rows += [i] * (len(events) - len(rows))
        if self._has_patterns:
            for i in np.flatnonzero(self._has_pattern[term]).tolist():
                events += self._matched(int(term[i]), values.bytes(i))
                rows += [i] * (len(events) - len(rows))
        return _with(offsets, found, np.array(rows), events) if events else (offsets, found)

    def _scanned(self, term: I4, values: Values, hard: U1) -> tuple[I8, I4]:
        count = len(values)
        offsets = np.zeros(count + 1, np.int64)
        try:
            memory = self._spare.pop()
        except IndexError:
            memory = _Memory(len(self._tables.grams.offsets) + len(self._tables.substrings.offsets))
        done = 0
        while True:
            found = Found(memory.seen, memory.marks(count + 1), memory.out)
            done = _scan(
                self._tables, term, (values.data, values.offsets), done, found, offsets, hard
            )
            if done == count:
                break
            grown = np.empty(4 * len(memory.out), np.int32)
            grown[: offsets[done]] = memory.out[: offsets[done]]
            memory.out = grown
        events = memory.out[: offsets[count]].copy()
        if len(memory.out) <= _KEPT:
            self._spare.append(memory)
        return offsets, events

    def _asked(self, term: int, values: Values, i: int) -> list[int]:
        """The events of the texts that a value contains, by the automaton."""
        known = self._automata.get(term)
        if known is None:
            texts = sorted(self._contained[term])
            fired = [self._contained[term][text] for text in texts]
            known = self._automata[term] = automaton_of(texts), fired
        text = values.bytes(i)
        events = [event for p in contained(known[0], text) for event in known[1][p]]
        likes = [self._likes[~event] for event in events if event < 0]
        found = [event for event in events if event >= 0]
        value = text.decode() if likes else ""
        return found + [event for pattern, event in likes if wildcards(pattern).hold(value)]

    def _matched(self, term: int, value: bytes) -> list[int]:
        """The events of the regular expressions that match."""
        found: list[int] = []
        for chosen, own in self.patterns[term]:
            if hits := chosen.Match(value):
                found += [own[hit] for hit in hits]
        return found

    def _proved(self, values: Values, offsets: I8, found: I4) -> tuple[I8, I4]:
        """Where the kernel left it open whether a LIKE pattern fits."""
        keep = np.ones(len(found), bool)
        for at in np.flatnonzero(found < 0).tolist():
            row = int(np.searchsorted(offsets, at, side="right")) - 1
            pattern, event = self._likes[~found[at]]
            found[at] = event
            keep[at] = wildcards(pattern).hold(values.bytes(row).decode())
        kept = np.concatenate([[0], np.cumsum(keep)])
        return kept[offsets], found[keep]


_KEPT = 1 << 20  # events for which a thread's memory is kept


def values_of(texts: Sequence[str]) -> Values:
    return Values(*joined([text.encode() for text in texts]))


def _contained(
    terms: Sequence[Sequence[Row]],
) -> tuple[list[dict[bytes, list[int]]], list[list[int]]]:
    """The events of each text that is looked for, ~i for LIKE pattern i; and the patterns that
    have no text, of each term."""
    found: list[dict[bytes, list[int]]] = []
    blind: list[list[int]] = []
    likes = 0
    for rows in terms:
        texts: dict[bytes, list[int]] = {}
        own: list[int] = []
        for kind, text, event in rows:
            if kind == _CONTAINS and text:
                texts.setdefault(text.encode(), []).append(event)
            elif kind == _LIKE:
                clue = needed_text(text)[:_CLUE]
                if clue:
                    texts.setdefault(clue.encode(), []).append(~likes)
                else:
                    own.append(likes)
                likes += 1
        found.append(texts)
        blind.append(own)
    return found, blind


def _with(offsets: I8, found: I4, rows: I8, events: list[int]) -> tuple[I8, I4]:
    """With more events, which belong to these rows."""
    count = np.diff(offsets)
    row = np.concatenate([np.repeat(np.arange(len(count)), count), rows])
    total = np.concatenate([[0], np.cumsum(count + np.bincount(rows, minlength=len(count)))])
    joint = np.concatenate([found, np.array(events, np.int32)])
    return total.astype(np.int64), joint[np.argsort(row, kind="stable")]


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

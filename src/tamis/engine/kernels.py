"""Evaluation: 64 messages to the word, one cluster after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tamis.diagram.kernels import HIGHEST
from tamis.engine.layout import (
    EVENT,
    FLAG,
    GROUP,
    HOIST,
    I4,
    NEED,
    NODE,
    REST,
    ROOT,
    THRESHOLD,
    U8,
)
from tamis.engine.narrow import known_events, run_cubes
from tamis.engine.outputs import BIT_AT, BITMAP, BITS, COUNT, FILL, KEEP
from tamis.engine.vector import WIDE, add8, choose

_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_PLANES = 32
ROWS = 64 + _PLANES + 1


class Scratch(NamedTuple):
    """Working memory of one thread; what counts or marks is zero between calls."""

    event: U8  # event x WIDE: who fires it
    value: U8  # place
    wide: U8  # place x WIDE
    adequate: U8  # need x WIDE
    rows: U8  # 64 + _PLANES + 1 rows: results of a group, counters, carry
    count: I4  # type: ignore[assignment]  # of messages, per cluster
    last: I4  # message that touched the cluster last, per cluster
    place: I4  # of an event among those of the cluster at work, plus one
    asked: U8  # columns that each requirement asks for, of the first 64, as bits


@njit(cache=True, nogil=True)
def merge_events(codes, bases, offsets, events, out_offsets, out):
    """Each message's events: those of its code in every feature. An empty `out`: count."""
    at = 0
    filling = out.size > 0
    for m in range(codes.shape[1]):
        out_offsets[m] = at
        for f in range(codes.shape[0]):
            code = codes[f, m]
            if code >= 0:
                begin, end = offsets[bases[f] + code], offsets[bases[f] + code + 1]
                if filling:
                    for i in range(begin, end):
                        out[at + i - begin] = events[i]
                at += end - begin
    out_offsets[codes.shape[1]] = at


@njit(cache=True, nogil=True)
def mark_events(offsets, number, words, table):
    """Set the bit of every code and event: of code c, those numbered by its part of `number`."""
    for code in range(offsets.size - 1):
        for i in range(offsets[code], offsets[code + 1]):
            table[code * words + (number[i] >> 6)] |= _ONE << np.uint64(number[i] & 63)


@njit(cache=True, nogil=True)
def find_keys(keys, wanted, valid, out):
    """out[m]: the number of the ascending key that wanted[m] is, -1 where it is none."""
    if keys.size == 0:
        out[:] = -1
        return
    for m in range(out.size):
        at, size = 0, keys.size
        while size > 1:
            half = size >> 1
            at += half if keys[at + half] <= wanted[m] else 0
            size -= half
        out[m] = at if valid[m] and keys[at] == wanted[m] else -1


@njit(cache=True, nogil=True)
def defined_columns(flags, out):
    """Bit c of out[m]: message m defines column c, of the first 64."""
    out[:] = _ZERO
    for c in range(min(64, flags.shape[0])):
        shift = np.uint64(c)
        for m in range(out.size):
            out[m] |= np.uint64(flags[c, m] & 1) << shift


@njit(cache=True, nogil=True)
def _event_word(block, event, chosen):
    """Who of the chosen fires the event; it is one that the block knows."""
    feature, first, bit, words = block.asks[event]
    word, shift = _ZERO, np.uint64(bit)
    for j in range(chosen.size):
        code = block.codes[feature, chosen[j]]
        if code >= 0:
            word |= ((block.fires[first + code * words] >> shift) & _ONE) << np.uint64(j)
    return word


@njit(cache=True, nogil=True, inline="always")
def _rank(threshold, first, count, key):
    """How many of the ascending thresholds are <= key."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if threshold[first + middle] > key:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def _sweep_word(clusters, c, requirements, block, chosen, scratch):
    """Fill the places of cluster c that its conditions share; the place of their own first node."""
    at, end = clusters.starts[c], clusters.starts[c + 1]
    value = scratch.value
    value[0], value[1] = _ZERO, _ONES
    place = 2
    for g in range(at[GROUP], end[GROUP]):
        column = clusters.group[g, 0]
        first = at[THRESHOLD] + clusters.group[g, 1]
        count = clusters.group[g, 2]
        for i in range(count):
            value[place + i] = _ZERO
        for j in range(chosen.size):
            key = block.keys[column, chosen[j]]
            if key != HIGHEST:  # else undefined, or not below any threshold
                r = _rank(clusters.threshold, first, count, key)
                if r < count:
                    value[place + r] |= _ONE << np.uint64(j)
        for i in range(1, count):
            value[place + i] |= value[place + i - 1]
        place += count
    if known_events(clusters.event, at[EVENT], end[EVENT], block):
        for i in range(at[EVENT], end[EVENT]):
            value[place] = _event_word(block, clusters.event[i], chosen)
            place += 1
    elif end[EVENT] > at[EVENT]:
        known = block.asks.shape[0] > 0 and c > 0
        for j in range(chosen.size):
            bit = _ONE << np.uint64(j)
            for i in range(block.offsets[chosen[j]], block.offsets[chosen[j] + 1]):
                scratch.event[block.events[i], 0] |= bit
        for i in range(at[EVENT], end[EVENT]):
            e = clusters.event[i]
            if known and block.asks[e, 0] >= 0:
                value[place] = _event_word(block, e, chosen)
            else:
                value[place] = scratch.event[e, 0]
            place += 1
        for j in range(chosen.size):
            for i in range(block.offsets[chosen[j]], block.offsets[chosen[j] + 1]):
                scratch.event[block.events[i], 0] = _ZERO
    for f in range(at[FLAG], end[FLAG]):
        value[place] = _flag_word(block.flags, clusters.flag[f, 0], clusters.flag[f, 1], chosen)
        place += 1
    _adequate_word(clusters.need[at[NEED] : end[NEED]], requirements, block, chosen, scratch)
    for h in range(at[HOIST], end[HOIST]):
        first = at[NODE] + clusters.hoist[h]
        last = _part_end(clusters, at, end, h)
        value[place + h - at[HOIST]] = _part_word(
            clusters.node, first, last, place + end[HOIST] - at[HOIST], value
        )
    return place + end[HOIST] - at[HOIST]


@njit(cache=True, nogil=True)
def _adequate_word(needs, requirements, block, chosen, scratch):
    """Who fulfils each requirement. Each column is looked at once; of many requirements, each once
    for messages that define the same columns."""
    columns = block.flags.shape[0]
    if needs.size > 64 and columns <= 64:
        _adequate_alike(needs, block.defined, chosen, scratch)
        return
    defined, known = np.empty(columns, np.uint64), np.zeros(columns, np.bool_)
    for k in range(needs.size):
        word = _ONES if chosen.size == 64 else (_ONE << np.uint64(chosen.size)) - _ONE
        for i in range(requirements.offsets[needs[k]], requirements.offsets[needs[k] + 1]):
            c = requirements.columns[i]
            if not known[c]:
                known[c] = True
                defined[c] = _flag_word(block.flags, c, 1, chosen)
            word &= defined[c]
        scratch.adequate[k, 0] = word


@njit(cache=True, nogil=True)
def _adequate_alike(needs, defined, chosen, scratch):
    """The same by masks of columns: chosen messages that define the same ones stand together."""
    lacking, who = np.empty(64, np.uint64), np.empty(64, np.uint64)
    alike = 0
    for j in range(chosen.size):
        missing = ~defined[chosen[j]]
        if alike == 0 or lacking[alike - 1] != missing:
            lacking[alike], who[alike] = missing, _ZERO
            alike += 1
        who[alike - 1] |= _ONE << np.uint64(j)
    for k in range(needs.size):
        asked = scratch.asked[needs[k]]
        word = _ZERO
        for a in range(alike):
            if asked & lacking[a] == _ZERO:
                word |= who[a]
        scratch.adequate[k, 0] = word


@njit(cache=True, nogil=True, inline="always")
def _part_end(clusters, at, end, h):
    """The row after the last node of hoisted part h."""
    if h + 1 < end[HOIST]:
        return at[NODE] + clusters.hoist[h + 1]
    return at[NODE] + clusters.root[at[ROOT], 0] if end[ROOT] > at[ROOT] else end[NODE]


@njit(cache=True, nogil=True, inline="always")
def _part_word(node, first, last, place, value):
    """Evaluate nodes first to last into places from `place` on; the last one's word."""
    word = _ZERO
    for n in range(first, last):
        low = value[node[n, 1]]
        word = low ^ (value[node[n, 0]] & (low ^ value[node[n, 2]]))
        value[place] = word
        place += 1
    return word


@njit(cache=True, nogil=True, inline="always")
def _flag_word(flags, column, bit, chosen):
    word = _ZERO
    for j in range(chosen.size):
        if flags[column, chosen[j]] & bit:
            word |= _ONE << np.uint64(j)
    return word


@njit(cache=True, nogil=True)
def _emit(word, chosen, first, subscription, slot, output, mode):
    """Write one subscription's word of results (bit j: message chosen[first + j]).

    False where its pairs should be kept and there is no room: then they are only counted.
    """
    base = first
    pair, room = output.at[0], output.pairs.size
    while word != _ZERO:
        byte = np.int64(word & np.uint64(255))
        for b in range(BITS[byte]):
            m = chosen[base + BIT_AT[byte, b]]
            if mode == BITMAP:
                output.bits[subscription, m >> 6] |= _ONE << np.uint64(m & 63)
                continue
            if mode == FILL:
                output.out[output.counts[m]] = slot
            elif pair < room:
                output.pairs[pair] = np.int64(m) << 32 | np.int64(slot)
                pair += 1
            elif pair == room:
                pair += 1
            output.counts[m] += 1
        word >>= np.uint64(8)
        base += 8
    output.at[0] = min(pair, room)
    return pair <= room


@njit(cache=True, nogil=True, inline="always")
def _add(planes, word):
    """Add a word of ones to 64 counters that stand upright in `planes`."""
    p = 0
    while word != _ZERO:
        carry = planes[p] & word
        planes[p] ^= word
        word = carry
        p += 1


@njit(cache=True, nogil=True)
def _counted(planes, chosen, first, counts):
    for j in range(min(64, chosen.size - first)):
        total = 0
        for p in range(_PLANES):
            total += np.int64((planes[p] >> np.uint64(j)) & _ONE) << p
        counts[chosen[first + j]] += total


@njit(cache=True, nogil=True)
def _run_sparse(
    clusters, by_need, requirements, block, chosen, slots, alive, scratch, output, mode
):
    """Cluster 0 for few relevant subscriptions: only roots whose requirement somebody fulfils."""
    planes = np.zeros(_PLANES, np.uint64)
    node, root, value = clusters.node, clusters.root, scratch.value
    end = clusters.starts[1]
    for first in range(0, chosen.size, 64):
        part = chosen[first : first + 64]
        place = _sweep_word(clusters, 0, requirements, block, part, scratch)
        for k in range(end[NEED]):
            adequate = scratch.adequate[k, 0]
            if adequate == _ZERO:
                continue
            for i in range(by_need.starts[k], by_need.starts[k + 1]):
                r = by_need.roots[i]
                s = root[r, 2]
                if not alive[s]:
                    continue
                last = np.int64(root[r + 1, 0]) if r + 1 < end[ROOT] else end[NODE]
                _part_word(node, np.int64(root[r, 0]), last, place, value)
                word = value[root[r, 1]] & adequate
                if word != _ZERO:
                    if mode == COUNT:
                        _add(planes, word)
                    else:
                        _emit(word, part, 0, s, slots[s], output, mode)
        if mode == COUNT:
            _counted(planes, part, 0, output.counts)
            planes[:] = _ZERO


@njit(cache=True, nogil=True)
def _run_cluster(
    clusters, c, roots, requirements, block, chosen, slots, alive, scratch, output, mode
):
    """Evaluate roots of cluster c (all, where `roots` is empty) for the chosen messages, 64 at a
    time. The mode in which it ended: COUNT where there was no room to keep the pairs."""
    planes = np.zeros(_PLANES, np.uint64)
    at, end = clusters.starts[c], clusters.starts[c + 1]
    count = roots.size if roots.size else end[ROOT] - at[ROOT]
    mark = output.at[0]
    for first in range(0, chosen.size, 64):
        part = chosen[first : first + 64]
        place = _sweep_word(clusters, c, requirements, block, part, scratch)
        for i in range(count):
            r = roots[i] if roots.size else at[ROOT] + i
            adequate = scratch.adequate[clusters.root[r, 3], 0]
            s = clusters.root[r, 2]
            if adequate == _ZERO or not alive[s]:
                continue
            last = at[NODE] + clusters.root[r + 1, 0] if r + 1 < end[ROOT] else end[NODE]
            _part_word(clusters.node, at[NODE] + clusters.root[r, 0], last, place, scratch.value)
            word = scratch.value[clusters.root[r, 1]] & adequate
            if word != _ZERO:
                if mode == COUNT:
                    _add(planes, word)
                elif not _emit(word, part, 0, s, slots[s], output, mode):
                    output.at[0], mode = mark, COUNT
        if mode == COUNT:
            _counted(planes, part, 0, output.counts)
            planes[:] = _ZERO
    return mode


@njit(cache=True, nogil=True)
def _run_rest(
    clusters, cubes, requirements, block, work, first, alive, slots, scratch, output, mode
):
    """The roots of the touched clusters that are no cubes, from cluster number `first` on.

    How many clusters were kept, as in `run_cubes`, whose `work` this is.
    """
    touched, starts, chosen, _ = work
    kept = touched.size
    for i in range(first, touched.size):
        c = touched[i]
        roots = cubes.rest[cubes.starts[c, REST] : cubes.starts[c + 1, REST]]
        if roots.size:
            part = chosen[starts[i] : starts[i + 1]]
            ended = _run_cluster(
                clusters, c, roots, requirements, block, part, slots, alive, scratch, output, mode
            )
            if ended != mode:
                kept, mode = i, ended
    return kept


# --- wide blocks: cluster 0 --------------------------------------------------


@njit(cache=True, nogil=True)
def _places_wide(clusters, requirements, block, chosen, scratch):
    """Fill the places of cluster 0 before its nodes, for at most 64 * WIDE messages."""
    end = clusters.starts[1]
    value = scratch.wide
    value[0, :], value[1, :] = _ZERO, _ONES
    place = 2
    for g in range(end[GROUP]):
        column, first, count = clusters.group[g, 0], clusters.group[g, 1], clusters.group[g, 2]
        value[place : place + count] = _ZERO
        for j in range(chosen.size):
            key = block.keys[column, chosen[j]]
            if key != HIGHEST:
                r = _rank(clusters.threshold, first, count, key)
                if r < count:
                    value[place + r, j >> 6] |= _ONE << np.uint64(j & 63)
        for i in range(1, count):
            for w in range(WIDE):
                value[place + i, w] |= value[place + i - 1, w]
        place += count
    if end[EVENT] > 0:
        for j in range(chosen.size):
            bit = _ONE << np.uint64(j & 63)
            for i in range(block.offsets[chosen[j]], block.offsets[chosen[j] + 1]):
                scratch.event[block.events[i], j >> 6] |= bit
        fired = 0
        for j in range(chosen.size):
            fired += block.offsets[chosen[j] + 1] - block.offsets[chosen[j]]
        for i in range(end[EVENT]):
            value[place] = scratch.event[clusters.event[i]]
            place += 1
        if fired > scratch.event.shape[0]:
            scratch.event[:] = _ZERO
        else:
            for j in range(chosen.size):
                for i in range(block.offsets[chosen[j]], block.offsets[chosen[j] + 1]):
                    scratch.event[block.events[i], :] = _ZERO
    for f in range(end[FLAG]):
        for w in range(WIDE):
            part = chosen[64 * w : 64 * w + 64]
            value[place, w] = _flag_word(
                block.flags, clusters.flag[f, 0], clusters.flag[f, 1], part
            )
        place += 1
    return place


@njit(cache=True, nogil=True)
def _adequate_wide(clusters, requirements, block, chosen, scratch, active):
    """Who fulfils each requirement of cluster 0; `active`: somebody does."""
    columns = block.flags.shape[0]
    defined = np.zeros((columns, WIDE), np.uint64)
    for c in range(columns):
        for w in range(WIDE):
            defined[c, w] = _flag_word(block.flags, c, 1, chosen[64 * w : 64 * w + 64])
    everyone = np.zeros(WIDE, np.uint64)
    for w in range(WIDE):
        left = min(64, max(0, chosen.size - 64 * w))
        everyone[w] = _ONES if left == 64 else (_ONE << np.uint64(left)) - _ONE
    for k in range(clusters.starts[1, NEED]):
        r = clusters.need[k]
        some = _ZERO
        for w in range(WIDE):
            word = everyone[w]
            for i in range(requirements.offsets[r], requirements.offsets[r + 1]):
                word &= defined[requirements.columns[i], w]
            scratch.adequate[k, w] = word
            some |= word
        active[k] = some != _ZERO


@njit(cache=True, nogil=True)
def _part_wide(node, first, last, place, value):
    """Evaluate nodes first to last into places from `place` on."""
    out = np.uint64(place)
    for n in range(first, last):
        choose(value, np.uint64(node[n, 0]), np.uint64(node[n, 1]), np.uint64(node[n, 2]), out)
        out += _ONE


@njit(cache=True, nogil=True)
def _count_wide(rows, planes, carry):
    """Add 8 rows of words to counters that stand upright in `planes`."""
    add8(rows, planes, carry)
    for p in range(3, _PLANES):
        some = _ZERO
        for w in range(WIDE):
            over = carry[0, w]
            carry[0, w] = planes[p, w] & over
            planes[p, w] ^= over
            some |= carry[0, w]
        if some == _ZERO:
            break


@njit(cache=True, nogil=True)
def _transpose(words):
    """Turn 64 x 64 bits about their diagonal."""
    mask = np.uint64(0x00000000FFFFFFFF)
    step = 32
    while step:
        k = 0
        while k < 64:
            t = ((words[k] >> np.uint64(step)) ^ words[k + step]) & mask
            words[k] ^= t << np.uint64(step)
            words[k + step] ^= t
            k = (k + step + 1) & ~step
        step >>= 1
        mask ^= mask << np.uint64(step)


@njit(cache=True, nogil=True)
def _emit_wide(rows, group, size, chosen, slots, output):
    """Write the results of up to 64 subscriptions (rows of words) message by message."""
    words = np.empty(64, np.uint64)
    for w in range(WIDE):
        if 64 * w >= chosen.size:
            break
        for i in range(64):
            words[i] = rows[i, w] if i < size else _ZERO
        _transpose(words)
        for j in range(min(64, chosen.size - 64 * w)):
            word = words[j]
            m = chosen[64 * w + j]
            at = output.counts[m]
            base = 0
            while word != _ZERO:
                byte = np.int64(word & np.uint64(255))
                for b in range(BITS[byte]):
                    output.out[at] = slots[group[base + BIT_AT[byte, b]]]
                    at += 1
                word >>= np.uint64(8)
                base += 8
            output.counts[m] = at


@njit(cache=True, nogil=True)
def _roots_wide(clusters, place, chosen, slots, alive, scratch, active, output, mode):
    """Evaluate the conditions of cluster 0 one by one; count or write them in groups."""
    rows, planes, carry = scratch.rows[:64], scratch.rows[64 : 64 + _PLANES], scratch.rows[-1:]
    planes[:] = _ZERO
    group = np.empty(64, np.int64)
    size = 0
    full = 8 if mode == COUNT else 64
    end = clusters.starts[1]
    for r in range(end[ROOT]):
        s, need = clusters.root[r, 2], clusters.root[r, 3]
        if not (active[need] and alive[s]):
            continue
        last = np.int64(clusters.root[r + 1, 0]) if r + 1 < end[ROOT] else end[NODE]
        _part_wide(clusters.node, clusters.root[r, 0], last, place, scratch.wide)
        value, adequate = scratch.wide[clusters.root[r, 1]], scratch.adequate[need]
        if mode == BITMAP:
            for w in range(WIDE):
                _emit(value[w] & adequate[w], chosen, 64 * w, s, 0, output, BITMAP)
            continue
        for w in range(WIDE):
            rows[size, w] = value[w] & adequate[w]
        group[size] = s
        size += 1
        if size == full:
            if mode == COUNT:
                _count_wide(rows, planes, carry)
            else:
                _emit_wide(rows, group, size, chosen, slots, output)
            size = 0
    if mode == COUNT:
        rows[size:8] = _ZERO
        _count_wide(rows, planes, carry)
        for w in range(WIDE):
            if 64 * w < chosen.size:
                _counted(planes[:, w].copy(), chosen, 64 * w, output.counts)
    elif size:
        _emit_wide(rows, group, size, chosen, slots, output)


@njit(cache=True, nogil=True)
def _is_sparse(by_need, active, scratch):
    """Whether word by word is cheaper: a node takes near 5 ns as a row, near 2 as a word."""
    rows = words = 0
    for k in range(by_need.starts.size - 1):
        if active[k]:
            size = by_need.starts[k + 1] - by_need.starts[k]
            rows += size
            for w in range(WIDE):
                if scratch.adequate[k, w] != _ZERO:
                    words += size
    return 2 * words < 5 * rows


@njit(cache=True, nogil=True)
def _run_wide(clusters, by_need, requirements, block, chosen, slots, alive, scratch, output, mode):
    """Cluster 0 for all messages; conditions whose requirement no message of a block fulfils
    cost nothing but a look."""
    active = np.zeros(clusters.starts[1, NEED] + 1, np.bool_)
    at, end = clusters.starts[0], clusters.starts[1]
    for begin in range(0, chosen.size, 64 * WIDE):
        part = chosen[begin : begin + 64 * WIDE]
        _adequate_wide(clusters, requirements, block, part, scratch, active)
        if _is_sparse(by_need, active, scratch):
            _run_sparse(
                clusters, by_need, requirements, block, part, slots, alive, scratch, output, mode
            )
            continue
        place = _places_wide(clusters, requirements, block, part, scratch)
        own = place + end[HOIST]
        for h in range(end[HOIST]):
            first, last = clusters.hoist[h], _part_end(clusters, at, end, h)
            _part_wide(clusters.node, first, last, own, scratch.wide)
            scratch.wide[place + h] = scratch.wide[own + last - first - 1]
        _roots_wide(clusters, own, part, slots, alive, scratch, active, output, mode)


@njit(cache=True, nogil=True)
def _touch(access, block, first, last, scratch, touched):
    """Count the messages of every cluster that an event of theirs touches; how many clusters."""
    clusters = 0
    for m in range(first, last):
        for i in range(block.way_offsets[m], block.way_offsets[m + 1]):
            e = block.ways[i]
            for k in range(access.offsets[e], access.offsets[e + 1]):
                c = access.clusters[k]
                if scratch.last[c] != m + 1:
                    scratch.last[c] = m + 1
                    if scratch.count[c] == 0:
                        touched[clusters] = c
                        clusters += 1
                    scratch.count[c] += 1
    return clusters


@njit(cache=True, nogil=True)
def _gather(access, block, first, last, scratch, touched, starts):
    """The messages of the touched clusters, one cluster behind the other."""
    total = 0
    for i in range(touched.size):
        c = touched[i]
        starts[i] = total
        total += scratch.count[c]
        scratch.count[c] = starts[i]
    starts[touched.size] = total
    chosen = np.empty(total, np.int32)
    for m in range(first, last):
        for i in range(block.way_offsets[m], block.way_offsets[m + 1]):
            e = block.ways[i]
            for k in range(access.offsets[e], access.offsets[e + 1]):
                c = access.clusters[k]
                if scratch.last[c] != -(m + 1):
                    scratch.last[c] = -(m + 1)
                    chosen[scratch.count[c]] = m
                    scratch.count[c] += 1
    for c in touched:
        scratch.count[c] = 0
        scratch.last[c] = 0
    return chosen


@njit(cache=True, nogil=True)
def _grouped(defined, first, last):
    """Messages first to last, those that define the same columns side by side."""
    count = last - first
    size = 16
    while size < 2 * count:
        size *= 2
    group, label = np.full(size, -1, np.int32), np.empty(count, np.int32)
    head, total = np.empty(count, np.int64), np.zeros(count, np.int64)
    groups = 0
    for m in range(count):
        mask = defined[first + m]
        at = np.int64((mask ^ (mask >> np.uint64(29))) & np.uint64(size - 1))
        while group[at] >= 0 and defined[head[group[at]]] != mask:
            at = (at + 1) & (size - 1)
        if group[at] < 0:
            group[at] = groups
            head[groups] = first + m
            groups += 1
        label[m] = group[at]
        total[group[at]] += 1
    start = 0
    for g in range(groups):
        start, total[g] = start + total[g], start
    order = np.empty(count, np.int32)
    for m in range(count):
        order[total[label[m]]] = first + m
        total[label[m]] += 1
    return order


@njit(cache=True, nogil=True)
def _run_everywhere(
    clusters, by_need, requirements, block, first, last, slots, alive, scratch, output, mode
):
    """Cluster 0, for messages first to last."""
    everyone = np.arange(first, last).astype(np.int32)
    if everyone.size <= 64:
        every = np.empty(0, np.int32)
        _run_cluster(
            clusters, 0, every, requirements, block, everyone, slots, alive, scratch, output, mode
        )
        return
    if clusters.starts[1, NEED] > 1:
        everyone = _grouped(block.defined, first, last)
    _run_wide(clusters, by_need, requirements, block, everyone, slots, alive, scratch, output, mode)


@njit(cache=True, nogil=True)
def run(clusters, cubes, links, block, alive, scratch, output, mode, skip):
    """Match all messages of the block against every cluster that they are relevant to.

    links: (requirements, access, roots by need, slot of each subscription). In mode KEEP, cluster
    0 is only counted; how many of the touched clusters were kept (their cubes, and the other
    roots) is returned for `skip` of the FILL that has to follow, and whether one has to.
    """
    requirements, access, by_need, slots = links
    last = block.flags.shape[1]
    everywhere = clusters.starts[1, ROOT] > 0
    if everywhere:
        _run_everywhere(
            clusters,
            by_need,
            requirements,
            block,
            0,
            last,
            slots,
            alive,
            scratch,
            output,
            COUNT if mode == KEEP else mode,
        )
    if clusters.starts.shape[0] <= 2:
        return 0, 0, everywhere
    touched = np.empty(clusters.starts.shape[0] - 2, np.int32)
    count = _touch(access, block, 0, last, scratch, touched)
    touched = touched[:count]
    starts = np.empty(count + 1, np.int64)
    chosen = _gather(access, block, 0, last, scratch, touched, starts)
    work = touched, starts, chosen, scratch.place
    a = run_cubes(clusters, cubes, requirements, block, work, skip[0], alive, slots, output, mode)
    rest = mode if a == count else COUNT if mode == KEEP else mode
    b = _run_rest(
        clusters, cubes, requirements, block, work, skip[1], alive, slots, scratch, output, rest
    )
    if rest != mode:
        b = 0
    return a, b, everywhere or a < count or b < count


@njit(cache=True, nogil=True)
def sort_rows(offsets, out):
    """Each message's slots in ascending order; most rows are short or in order already."""
    spare, count = np.empty(0, np.int32), np.empty(256, np.int64)
    for m in range(offsets.size - 1):
        row = out[offsets[m] : offsets[m + 1]]
        for i in range(1, row.size):
            if row[i] < row[i - 1]:
                if row.size <= 24:
                    _insert(row)
                elif row.size <= 256:
                    row.sort()
                else:
                    if spare.size < row.size:
                        spare = np.empty(2 * row.size, np.int32)
                    _by_digits(row, spare, count)
                break


@njit(cache=True, nogil=True)
def _insert(row):
    for i in range(1, row.size):
        value, j = row[i], i
        while j > 0 and row[j - 1] > value:
            row[j] = row[j - 1]
            j -= 1
        row[j] = value


@njit(cache=True, nogil=True)
def _by_digits(row, spare, count):
    """Sort slots (never negative) by one byte after the other, the last first."""
    most, shift = row.max(), 0
    given, made = row, spare[: row.size]
    while shift < 32 and most >> shift > 0:
        count[:] = 0
        for i in range(given.size):
            count[(given[i] >> shift) & 255] += 1
        at = 0
        for d in range(256):
            at, count[d] = at + count[d], at
        for i in range(given.size):
            d = (given[i] >> shift) & 255
            made[count[d]] = given[i]
            count[d] += 1
        given, made = made, given
        shift += 8
    if shift & 8:
        row[:] = given

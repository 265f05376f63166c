"""Numeric terms evaluated for a block of messages, and looked up at once: see term_program.py."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import math

import numpy as np

from tamis.diagram.bdd import HIGHEST, LOWEST
from tamis.jit.arithmetic import add, mul, order_of, quotient, remainder, sub
from tamis.jit.kernel import kernel
from tamis.jit.vectors import at_most8

# What the values of a node are in one batch. NOWHERE: undefined; UNLIKE: unlike everything.
NOWHERE, INT, DOUBLE, BOOL, TIMESTAMP, UNLIKE = range(6)
INPUT, CONSTANT, ADD, SUB, MUL, OVER, DIV, MOD, NEGATE, ABS, EQ, NE, LT, LE, GT, GE = range(16)
BLOCK = 256  # messages that are evaluated together: whole words


@kernel
def kinds_of(op, over, kind):
    """The kind of every node; those of inputs and constants are given."""
    for n in range(op.size):
        if op[n] <= CONSTANT:
            continue
        a, b = kind[over[n, 0]], kind[over[n, 1]]
        if op[n] >= EQ:
            kind[n] = BOOL
        elif NOWHERE < a <= DOUBLE and NOWHERE < b <= DOUBLE:
            kind[n] = INT if a == INT and b == INT and op[n] != OVER else DOUBLE
        else:
            kind[n] = NOWHERE


@kernel(inline=True)
def _holds(op, order):
    """Whether `op`, one of EQ, NE, LT and LE, is true of numbers in that order."""
    return (
        (order == 0 and op != NE and op != LT)
        or (order < 0 and op != EQ)
        or (order > 0 and op == NE)
    )


@kernel
def _above(bound, low, high, key):
    """The first of bound[low:high], ascending, that is above the key."""
    while low < high:
        middle = (low + high) >> 1
        if bound[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _fire(asked, slot, kind, m, values, out, count):
    """The events of message m of the block, written to out[count:]; the new count, -1: no room.

    values is (ints, valid, entire) of `encode_terms`.
    """
    ints, valid, entire = values
    point, points, firing, event = asked.point, asked.points, asked.firing, asked.event
    for i in range(asked.pointed.size):
        t = asked.pointed[i]
        own, n = kind[asked.node[t]], slot[asked.node[t]]
        if own == NOWHERE or not (entire[n] or valid[n, m]) or not asked.active[t]:
            continue
        table = 2 * t + np.int64(own == DOUBLE)
        low, high = points[table], points[table + 1]
        key = ints[n, m]
        if own == DOUBLE:
            key = np.int64(0) if key == LOWEST else key ^ ((key >> 63) & HIGHEST)
        at = _above(point, low, high, key) - 1
        if at >= low and point[at] == key:
            for e in range(firing[at], firing[at + 1]):
                if count == out.size:
                    return np.int64(-1)
                out[count] = event[e]
                count += 1
    return count


@kernel
def encode_terms(nodes, asked, words, given, first, keys, flags, fired):
    """Flags, keys, words and events of the terms `asked`, from message `first` (a multiple of
    BLOCK) on.

    nodes, asked, words: see `Nodes`, `Asked` and `Rows` in term_program.py. given is (kind of each
    node, inputs, defined), the last two attribute x message. Writes flags[column, m];
    keys[place, m], or where the term has them rows of words.bits; and the events of message m to
    out[offsets[m]:offsets[m + 1]] of fired, which is (offsets, out). Returns the messages done:
    fewer than all where `out` is full.

    One loop for each operation: so they are vectors. All is one function, and arrays are taken
    from their tuples once: numba counts references to an array wherever it is handed on, which
    costs more than a loop.
    """
    op, left, right, slot, over, constant, slots = nodes
    node, column, place, active = asked.node, asked.column, asked.place, asked.active
    ranked, bounds, bound = asked.ranked, asked.bounds, asked.bound
    row, cuts, cut, bits = words.row, words.cuts, words.cut, words.bits
    (kind, inputs, defined), (out_offsets, out) = given, fired
    total, count = inputs.shape[1], out_offsets[first]
    width = min(total - first, BLOCK)
    ints = np.zeros((slots + 2, width), np.int64)
    reals, valid = ints.view(np.float64), np.zeros((slots, width), np.uint8)
    entire = np.zeros(slots, np.uint8)  # whether all of the block have a value: else see `valid`
    values, key = (ints, valid, entire), np.empty(BLOCK, np.int64)
    for start in range(first, total, BLOCK):
        length, t = min(total - start, BLOCK), 0
        for i in range(op.size):
            o, x, y, n = op[i], np.int64(left[i]), np.int64(right[i]), np.int64(slot[i])
            a, b, own = kind[over[i, 0]], kind[over[i, 1]], kind[i]
            whole = np.uint8(1)
            if o == INPUT:
                for m in range(length):
                    ints[n, m] = inputs[x, start + m]
                for m in range(length):
                    whole &= defined[x, start + m]
                if whole == 0:
                    for m in range(length):
                        valid[n, m] = defined[x, start + m]
            elif o == CONSTANT:
                value = constant[i]
                for m in range(length):
                    ints[n, m] = value
            elif own == NOWHERE:
                whole = np.uint8(0)
                for m in range(length):
                    valid[n, m] = 0
            else:
                ex, ey = entire[x], entire[y]
                whole = ex & ey
                if whole == 0:
                    for m in range(length):
                        valid[n, m] = (ex | valid[x, m]) & (ey | valid[y, m])
                p, q = x, y
                if own == DOUBLE and a == INT:
                    p = np.int64(slots)
                    for m in range(length):
                        reals[p, m] = float(ints[x, m])
                if own == DOUBLE and b == INT:
                    q = np.int64(slots + 1)
                    for m in range(length):
                        reals[q, m] = float(ints[y, m])
                bad = np.int64(0)
                if o >= EQ:
                    if o >= GT:  # the other way round
                        o = np.int8(LT + o - GT)
                        p, q, a, b = q, p, b, a
                    not_less = np.int64(o == LE)  # the other way round
                    less, more = (q, p) if not_less else (p, q)
                    if a == b == DOUBLE:
                        if o != EQ and o != NE:
                            for m in range(length):
                                ints[n, m] = np.int64(reals[less, m] < reals[more, m]) ^ not_less
                        else:
                            for m in range(length):
                                ints[n, m] = np.int64((reals[p, m] == reals[q, m]) == (o == EQ))
                    elif a == b and NOWHERE < a < UNLIKE:
                        if o != EQ and o != NE:
                            for m in range(length):
                                ints[n, m] = np.int64(ints[less, m] < ints[more, m]) ^ not_less
                        else:
                            for m in range(length):
                                ints[n, m] = np.int64((ints[p, m] == ints[q, m]) == (o == EQ))
                    elif a == INT and b == DOUBLE:
                        for m in range(length):
                            ints[n, m] = _holds(o, order_of(ints[p, m], reals[q, m]))
                    elif a == DOUBLE and b == INT:
                        for m in range(length):
                            ints[n, m] = _holds(o, -order_of(ints[q, m], reals[p, m]))
                    else:  # unlike each other
                        for m in range(length):
                            ints[n, m] = 0
                elif own == INT:
                    if o == ADD:
                        for m in range(length):
                            ints[n, m] = add(ints[p, m], ints[q, m])
                    elif o == SUB:
                        for m in range(length):
                            ints[n, m] = sub(ints[p, m], ints[q, m])
                    elif o == MUL:
                        for m in range(length):
                            ints[n, m] = mul(ints[p, m], ints[q, m])
                    elif o == DIV:
                        for m in range(length):
                            zero = ints[q, m] == 0
                            bad += np.int64(zero)
                            ints[n, m] = quotient(ints[p, m], np.int64(1) if zero else ints[q, m])
                    elif o == MOD:
                        for m in range(length):
                            zero = ints[q, m] == 0
                            bad += np.int64(zero)
                            ints[n, m] = remainder(ints[p, m], np.int64(1) if zero else ints[q, m])
                    else:
                        for m in range(length):
                            number = ints[p, m]
                            turned = o == NEGATE or number < 0
                            ints[n, m] = sub(np.int64(0), number) if turned else number
                else:
                    if o == ADD:
                        for m in range(length):
                            reals[n, m] = float(reals[p, m]) + float(reals[q, m])
                    elif o == SUB:
                        for m in range(length):
                            reals[n, m] = float(reals[p, m]) - float(reals[q, m])
                    elif o == MUL:
                        for m in range(length):
                            reals[n, m] = float(reals[p, m]) * float(reals[q, m])
                    elif o == MOD:
                        for m in range(length):
                            dividend, divisor = float(reals[p, m]), float(reals[q, m])
                            lost = divisor == 0.0 or math.isinf(dividend)
                            reals[n, m] = math.nan if lost else np.fmod(dividend, divisor)
                    elif o == NEGATE:
                        for m in range(length):
                            reals[n, m] = -reals[p, m]
                    elif o == ABS:
                        for m in range(length):
                            reals[n, m] = abs(reals[p, m])
                    else:
                        for m in range(length):
                            divisor = float(reals[q, m])
                            ratio = float(reals[p, m]) / (divisor if divisor != 0.0 else 1.0)
                            reals[n, m] = ratio if divisor != 0.0 else math.nan
                    for m in range(length):
                        bad += np.int64(reals[n, m] != reals[n, m])
                if bad != 0:  # NaN, or divided by zero: undefined
                    for m in range(length):
                        lost = ints[q, m] == 0 if own == INT else reals[n, m] != reals[n, m]
                        valid[n, m] = np.uint8(0) if lost else whole | valid[n, m]
                    whole = np.uint8(0)
            entire[n] = whole
            if t == node.size or node[t] != i:
                continue
            if own != NOWHERE and active[t]:
                mark, to = np.uint8(1 | 2 << 2) if own == BOOL else np.uint8(1 | 2), column[t]
                if whole:
                    for m in range(length):
                        flags[to, start + m] = mark
                else:
                    for m in range(length):
                        flags[to, start + m] = mark * valid[n, m]
                rows = row[t]
                if rows >= 0 or (place[t] >= 0 and own != BOOL):
                    if own == BOOL:  # TRUE comes first: so `at most 0` asks for it
                        for m in range(length):
                            key[m] = 1 - ints[n, m]
                    elif own == DOUBLE:
                        for m in range(length):
                            number = ints[n, m]
                            number = np.int64(0) if number == LOWEST else number
                            key[m] = number ^ ((number >> 63) & HIGHEST)
                    else:
                        for m in range(length):
                            key[m] = ints[n, m]
                    if whole == 0:
                        for m in range(length):
                            key[m] = key[m] if valid[n, m] else HIGHEST
                table = 2 * t + np.int64(own == DOUBLE)
                if rows >= 0:
                    for m in range(length, (length + 63) & ~63):
                        key[m] = HIGHEST
                    for c in range(cuts[table], cuts[table + 1]):
                        for w in range((length + 63) >> 6):
                            word = np.uint64(0)
                            for k in range(8):
                                some = np.uint64(at_most8(key, 64 * w + 8 * k, cut[c]))
                                word |= some << np.uint64(8 * k)
                            bits[rows + c - cuts[table], (start >> 6) + w] = word
                elif place[t] >= 0 and own != BOOL:
                    to = place[t]
                    if ranked[t]:
                        low, high = bounds[table], bounds[table + 1]
                        for m in range(length):
                            if key[m] != HIGHEST or whole or valid[n, m]:
                                key[m] = _above(bound, low, high, key[m]) - low
                    for m in range(length):
                        keys[to, start + m] = key[m]
            t += 1
        for m in range(length):
            count = _fire(asked, slot, kind, m, values, out, count)
            if count < 0:
                return start
            out_offsets[start + m + 1] = count
    return total

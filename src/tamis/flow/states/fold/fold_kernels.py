"""The fold: events in order, one program, states by key."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs

from __future__ import annotations

import numpy as np

from tamis.flow.states.fold.instructions import Op
from tamis.jit.arithmetic import add, mul, order_of, quotient, remainder, sub
from tamis.jit.kernel import kernel


@kernel
def fold(code, registers, first, keys, inputs, given, states, defined):
    """Run the program for each event in turn, and return how many events fitted some rule.

    code[n, 4]: rows (op, target, a, b). registers[r]: 64 bits each, constants filled in, all else
    scratch; components are registers 0.., inputs begin at register `first`. keys[e]: the row of
    event e in `states`. inputs[i, e], given[i, e]: the columns of the program and where they are
    defined. states[k, c], defined[k, c] are read and written.
    """
    doubles = registers.view(np.float64)
    known = np.ones(registers.size, np.bool_)
    components = states.shape[1]
    columns = inputs.shape[0]
    fitted = 0
    for e in range(keys.size):
        k = keys[e]
        for c in range(components):
            registers[c] = states[k, c]
            known[c] = defined[k, c]
        for i in range(columns):
            registers[first + i] = inputs[i, e]
            known[first + i] = given[i, e]
        if _run(code, registers, doubles, known):
            fitted += 1
            for c in range(components):
                states[k, c] = registers[c]
                defined[k, c] = known[c]
    return fitted


@kernel
def _run(code, x, d, known):
    """One event's way through the program; whether a rule fitted."""
    row = 0
    while True:
        op = code[row, 0]
        t = code[row, 1]
        a = code[row, 2]
        b = code[row, 3]
        row += 1
        if op == Op.UNLESS:
            if not (known[a] and x[a]):
                row = b
        elif op == Op.MOVE:
            x[t] = x[a]
            known[t] = known[a]
        elif op == Op.STOP:
            return t == 1
        elif op < Op.EQ_II:
            _logic(op, t, a, b, x, known)
        elif not (known[a] and (known[b] or op >= Op.NEG_I)):
            known[t] = False
        else:
            known[t] = True
            if op < Op.ADD_I:
                x[t] = _compare(op, a, b, x, d)
            elif op < Op.ADD_D:
                _integers(op, t, a, b, x, known)
            elif op < Op.NEG_I:
                _doubles(op, t, a, b, d, known)
            else:
                _one(op, t, a, x, d)


@kernel(inline=True)
def _logic(op, t, a, b, x, known):
    if op == Op.IS_NULL:
        x[t] = not known[a]
        known[t] = True
    elif op == Op.NOT:
        x[t] = not x[a]
        known[t] = known[a]
    elif op == Op.UNLIKE:
        x[t] = 0
        known[t] = known[a] and known[b]
    else:
        decides = op == Op.OR  # true decides OR, false decides AND
        if (known[a] and (x[a] != 0) == decides) or (known[b] and (x[b] != 0) == decides):
            x[t] = decides
            known[t] = True
        else:
            x[t] = not decides
            known[t] = known[a] and known[b]


@kernel(inline=True)
def _compare(op, a, b, x, d):
    if op < Op.EQ_DD:
        order = np.int64(x[a] > x[b]) - np.int64(x[a] < x[b])
        op -= Op.EQ_II
    elif op < Op.EQ_ID:
        order = np.int64(d[a] > d[b]) - np.int64(d[a] < d[b])
        op -= Op.EQ_DD
    elif op < Op.LT_DI:
        order = order_of(x[a], d[b])
        op -= Op.EQ_ID
    else:
        order = -order_of(x[b], d[a])
        op -= Op.LT_DI - 2
    if op == 0:
        return order == 0
    if op == 1:
        return order != 0
    return order < 0 if op == 2 else order <= 0


@kernel(inline=True)
def _integers(op, t, a, b, x, known):
    if op == Op.ADD_I:
        x[t] = add(x[a], x[b])
    elif op == Op.SUB_I:
        x[t] = sub(x[a], x[b])
    elif op == Op.MUL_I:
        x[t] = mul(x[a], x[b])
    elif x[b] == 0:
        known[t] = False
    elif op == Op.DIV_I:
        x[t] = quotient(x[a], x[b])
    else:
        x[t] = remainder(x[a], x[b])


@kernel(inline=True)
def _doubles(op, t, a, b, d, known):
    if op == Op.ADD_D:
        d[t] = d[a] + d[b]
    elif op == Op.SUB_D:
        d[t] = d[a] - d[b]
    elif op == Op.MUL_D:
        d[t] = d[a] * d[b]
    elif d[b] == 0.0:
        known[t] = False
        return
    elif op == Op.DIV_D:
        d[t] = d[a] / d[b]
    else:
        d[t] = np.fmod(d[a], d[b])
    if d[t] != d[t]:
        known[t] = False


@kernel(inline=True)
def _one(op, t, a, x, d):
    if op == Op.NEG_I:
        x[t] = sub(np.int64(0), x[a])
    elif op == Op.ABS_I:
        x[t] = abs(x[a])
    elif op == Op.NEG_D:
        d[t] = -d[a]
    elif op == Op.ABS_D:
        d[t] = abs(d[a])
    else:
        d[t] = np.float64(x[a])


@kernel
def ascending(keys, order, ordered, keys_count):
    """Whether the events of each key come in their order; an undefined order comes first."""
    now = np.zeros(keys_count, np.int64)
    seen = np.zeros(keys_count, np.bool_)
    for e in range(keys.size):
        k = keys[e]
        if not ordered[e]:
            if seen[k]:
                return False
        elif seen[k] and order[e] < now[k]:
            return False
        else:
            now[k] = order[e]
            seen[k] = True
    return True


@kernel
def latest(keys, order, ordered, last, seen, winner):
    """Find the event with the highest order of each key; how many events were late.

    last[k], seen[k]: the highest order of key k before, raised here; winner[k]: the event that
    raised it, left alone where none did. An event is late where an earlier batch held a higher
    order of its key.
    """
    late = 0
    was, had = last.copy(), seen.copy()
    for e in range(keys.size):
        if ordered[e]:
            k = keys[e]
            if had[k] and order[e] < was[k]:
                late += 1
            if not seen[k] or order[e] >= last[k]:
                last[k] = order[e]
                seen[k] = True
                winner[k] = e
    return late


@kernel
def last_events(keys, turn, wanted, starts):
    """The last events of each key, in order: wanted[k] of key k, written from starts[k] on."""
    found = np.full(wanted.sum(), -1, np.int64)
    left = wanted.copy()
    for n in range(keys.size - 1, -1, -1):
        e = n if turn.size == 0 else turn[n]
        k = keys[e]
        if left[k] > 0:
            left[k] -= 1
            found[starts[k] + left[k]] = e
    return found

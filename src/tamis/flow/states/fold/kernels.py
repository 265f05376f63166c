"""The fold: events in order, one program, states by key."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs

from __future__ import annotations

import numpy as np

from tamis.jit.kernel import kernel

_TOP = 9223372036854775808.0  # 2^63
_LOWEST = np.iinfo(np.int64).min


@kernel(inline=True)
def _order(i, d):
    """-1, 0 or 1: how an integer compares with a double, exactly."""
    if d >= _TOP:
        return -1
    if d < -_TOP:
        return 1
    whole = np.int64(d)  # truncated toward zero
    if i != whole:
        return -1 if i < whole else 1
    rest = d - np.float64(whole)
    return -1 if rest > 0 else (1 if rest < 0 else 0)


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
        if op == 2:
            if not (known[a] and x[a]):
                row = b
        elif op == 1:
            x[t] = x[a]
            known[t] = known[a]
        elif op == 0:
            return t == 1
        elif op < 8:
            _logic(op, t, a, b, x, known)
        elif not (known[a] and (known[b] or op == 26 or op == 27 or op >= 32)):
            known[t] = False
        else:
            known[t] = True
            if op < 22:
                x[t] = _compare(op, a, b, x, d)
            elif op < 28:
                _whole(op, t, a, b, x, known)
            else:
                _double(op, t, a, b, x, d, known)


@kernel(inline=True)
def _logic(op, t, a, b, x, known):
    if op == 6:
        x[t] = not known[a]
        known[t] = True
    elif op == 5:
        x[t] = not x[a]
        known[t] = known[a]
    elif op == 7:
        x[t] = 0
        known[t] = known[a] and known[b]
    else:
        decides = op == 4  # true decides OR, false decides AND
        if (known[a] and (x[a] != 0) == decides) or (known[b] and (x[b] != 0) == decides):
            x[t] = decides
            known[t] = True
        else:
            x[t] = not decides
            known[t] = known[a] and known[b]


@kernel(inline=True)
def _compare(op, a, b, x, d):
    if op == 8:
        return x[a] == x[b]
    if op == 9:
        return x[a] != x[b]
    if op == 10:
        return x[a] < x[b]
    if op == 11:
        return x[a] <= x[b]
    if op == 12:
        return d[a] == d[b]
    if op == 13:
        return d[a] != d[b]
    if op == 14:
        return d[a] < d[b]
    if op == 15:
        return d[a] <= d[b]
    if op == 16:
        return _order(x[a], d[b]) == 0
    if op == 17:
        return _order(x[a], d[b]) != 0
    if op == 18:
        return _order(x[a], d[b]) < 0
    if op == 19:
        return _order(x[a], d[b]) <= 0
    if op == 20:
        return _order(x[b], d[a]) > 0
    return _order(x[b], d[a]) >= 0


@kernel(inline=True)
def _whole(op, t, a, b, x, known):
    if op == 22:
        x[t] = x[a] + x[b]
    elif op == 23:
        x[t] = x[a] - x[b]
    elif op == 24:
        x[t] = x[a] * x[b]
    elif op == 26:
        x[t] = -x[a]
    elif op == 27:
        x[t] = abs(x[a])
    elif x[b] == 0:
        known[t] = False
    elif x[b] == -1:  # the machine's division has no answer for the smallest integer
        x[t] = -x[a]
    elif x[b] == _LOWEST:  # which is its own absolute value
        x[t] = x[a] == _LOWEST
    else:
        quotient = abs(x[a]) // abs(x[b]) if x[a] != _LOWEST else _low(x[b])
        x[t] = quotient if (x[a] < 0) == (x[b] < 0) else -quotient


@kernel
def _low(divisor):
    """-2^63 by `divisor`, which is another number, without its sign."""
    size = abs(divisor)
    most = np.iinfo(np.int64).max
    quotient = most // size
    return quotient + 1 if most - quotient * size + 1 == size else quotient


@kernel(inline=True)
def _double(op, t, a, b, x, d, known):
    if op == 28:
        d[t] = d[a] + d[b]
    elif op == 29:
        d[t] = d[a] - d[b]
    elif op == 30:
        d[t] = d[a] * d[b]
    elif op == 32:
        d[t] = -d[a]
    elif op == 33:
        d[t] = abs(d[a])
    elif op == 34:
        d[t] = np.float64(x[a])
    elif d[b] == 0.0:
        known[t] = False
        return
    else:
        d[t] = d[a] / d[b]
    if d[t] != d[t]:
        known[t] = False


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

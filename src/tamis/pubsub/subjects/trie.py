"""Kernels of the subject index: a trie in flat arrays.

`nodes` (n x 3, int32): for each node its child for `*` (0: none), how many filters end there, and
how many end there with `>`. Node 0 is the root. `table` (m x 2, int64) is an open-addressing hash
table, m a power of two: (node << 32 | field) + 1, 0 where empty, and the child. A *place* names a
filter: node * 2, plus 1 for `>`. Fields are numbers from 0; STAR and MORE stand for wildcards.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.jit.kernel import kernel

STAR, MORE, UNKNOWN = -1, -2, -3
_CHILD, _ENDS, _OPEN = 0, 1, 2


@kernel
def _slot(table, key):
    """Where the key stands, or the empty slot where it would."""
    mask = table.shape[0] - 1
    mixed = (key & 0xFFFFFFFF) * 0x27D4EB2F + (key >> 32) * 0x165667B1  # below 2^63
    at = (mixed ^ mixed >> 23) & mask
    while table[at, 0] != 0 and table[at, 0] != key:
        at = (at + 1) & mask
    return at


@kernel
def insert(nodes, table, used, fields, starts, places):
    """Add filters: i has fields[starts[i]:starts[i + 1]]; places[i] is written.

    used[0] nodes and used[1] slots are in use and updated; there is room for all fields.
    """
    for i in range(starts.size - 1):
        node, is_open = 0, 0
        for j in range(starts[i], starts[i + 1]):
            field = fields[j]
            if field == MORE:
                is_open = 1
            elif field == STAR:
                if nodes[node, _CHILD] == 0:
                    nodes[node, _CHILD] = used[0]
                    used[0] += 1
                node = nodes[node, _CHILD]
            else:
                key = (np.int64(node) << 32 | np.int64(field)) + 1
                at = _slot(table, key)
                if table[at, 0] == 0:
                    table[at, 0], table[at, 1] = key, used[0]
                    used[0] += 1
                    used[1] += 1
                node = table[at, 1]
        nodes[node, _ENDS + is_open] += 1
        places[i] = node * 2 + is_open


@kernel
def rehash(old, new):
    """Write all of one table into another, empty one."""
    for i in range(old.shape[0]):
        if old[i, 0] != 0:
            at = _slot(new, old[i, 0])
            new[at, 0], new[at, 1] = old[i, 0], old[i, 1]


@kernel
def walk(nodes, table, fields, out):
    """Write the places of all filters that match a subject; returns how many there are.

    Where there are more than `out` holds, the rest is counted only.
    """
    stack = np.empty((2 * fields.size + 2, 2), np.int32)
    stack[0, 0], stack[0, 1] = 0, 0
    top, found = 1, 0
    while top > 0:
        top -= 1
        node, depth = stack[top, 0], stack[top, 1]
        if depth == fields.size:
            if nodes[node, _ENDS] > 0:
                if found < out.size:
                    out[found] = node * 2
                found += 1
            continue
        if nodes[node, _OPEN] > 0:
            if found < out.size:
                out[found] = node * 2 + 1
            found += 1
        if nodes[node, _CHILD] != 0:
            stack[top, 0], stack[top, 1] = nodes[node, _CHILD], depth + 1
            top += 1
        if fields[depth] >= 0:
            key = (np.int64(node) << 32 | np.int64(fields[depth])) + 1
            at = _slot(table, key)
            if table[at, 0] != 0:
                stack[top, 0], stack[top, 1] = table[at, 1], depth + 1
                top += 1
    return found


@kernel
def walk_many(nodes, table, fields, starts, counts, out):
    """`walk` for subjects i with fields[starts[i]:starts[i + 1]]; counts[i] is written."""
    total = 0
    for i in range(starts.size - 1):
        own = fields[starts[i] : starts[i + 1]]
        counts[i] = walk(nodes, table, own, out[min(total, out.size) :])
        total += counts[i]
    return total

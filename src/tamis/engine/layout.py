"""The arrays of a compiled segment: clusters of subscriptions, each a small straight-line program.

A cluster evaluates in one array of words, 64 messages to the word. Its places are

    0, 1          FALSE and TRUE
    2 ...         thresholds, `value < key`: groups of one column, keys ascending
    ...           events: atoms that a message fires (memberships, texts)
    ...           flags: a column is defined, or of a family
    ...           hoisted nodes: large parts that several conditions share
    ...           the nodes of one condition at a time

A node (test, low, high) chooses between earlier places. The nodes of a condition are
evaluated one after the other into the same few places, so all of it stays in the
nearest cache; small parts that conditions share are worth less than that (see
docs/decisions/003). Cluster 0 holds the subscriptions that every message is relevant to;
the others are touched only by messages that fire one of their access events. There, a condition
of few paths is kept as cubes instead of nodes (docs/decisions/006).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
U1 = npt.NDArray[np.uint8]
U8 = npt.NDArray[np.uint64]


class Clusters(NamedTuple):
    """All clusters, one behind the other; `starts[c]` has where cluster c begins in each array.

    The columns of `starts` are the constants below.
    """

    starts: I8
    group: I4  # rows (column, first threshold, threshold count)
    threshold: I8
    event: I4
    flag: I4  # rows (column, bit)
    need: I4  # numbers of requirements
    hoist: I4  # first node of each hoisted part, counted from the cluster's first
    node: I4  # rows (test, low, high)
    root: I4  # rows (first node, place of the result, subscription, need of the cluster)


GROUP, THRESHOLD, EVENT, FLAG, NEED, HOIST, NODE, ROOT = range(8)


class Cubes(NamedTuple):
    """Conditions as cubes (see engine/cubes.py); `starts[c]` has where those of cluster c begin.

    A test is a column of keys: cube i of a cluster of n asks `bound <= key` of its test t, where
    bound is the cluster's bounds[t * n + i]. A test ~column asks the same of ~key. Behind the
    tests may stand 2 * n bounds more: `must` and `want` of each cube, which asks that of the bits
    in `must` just those in `want` are set. Where all cubes of a cluster ask for the same bits,
    these stand in `starts`. The bounds of the first test ascend.
    """

    starts: I8
    test: I4
    bound: I8
    subscription: I4
    bit: I4  # what each bit stands for: the number of an event, flag or need of the cluster


TEST, BOUND, CUBE, BIT, MUST, WANT = range(6)


class Access(NamedTuple):
    """Which clusters an event touches: `clusters[offsets[e]:offsets[e + 1]]`."""

    offsets: I8
    clusters: I4


class ByNeed(NamedTuple):
    """The roots of cluster 0 sorted by need: those of need k are roots[starts[k]:starts[k + 1]]."""

    starts: I8
    roots: I4


class Requirements(NamedTuple):
    """Requirement r: the columns `columns[offsets[r]:offsets[r + 1]]` are defined."""

    offsets: I8
    columns: I4


class Block(NamedTuple):
    """Encoded messages: what kernels know of a batch."""

    keys: I8  # column x message: where the value stands among the thresholds
    flags: U1  # column x message: bit 0 defined, bit 1 + family
    offsets: I8  # message -> its events; where `asks` has rows only those of cluster 0, and
    events: I4  # those that `asks` does not know
    way_offsets: I8  # message -> those of its events that give access
    ways: I4
    defined: U8  # message -> bit c: column c (of the first 64) is defined
    codes: I4  # feature x message: which value of the feature the message has, or -1
    asks: I8  # event -> feature (or -1), first word, bit, words to a code; no rows: not known
    fires: U8  # one bit for each code and event of a feature

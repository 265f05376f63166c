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
of few paths is kept as cubes instead of nodes (docs/decisions/006). Subscriptions that ranges lead
to stand in trees instead of cluster 0 (docs/decisions/023).
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
    group: I4  # rows: GROUP_...
    threshold: I8
    event: I4
    flag: I4  # rows: FLAG_COLUMN, FLAG_BIT
    need: I4  # numbers of requirements
    hoist: I4  # first node of each hoisted part, counted from the cluster's first
    node: I4  # rows: NODE_...
    root: I4  # rows: ROOT_...


GROUP, THRESHOLD, EVENT, FLAG, NEED, HOIST, NODE, ROOT = range(8)
GROUP_COLUMN, GROUP_FIRST, GROUP_COUNT = range(3)  # thresholds from `first` on ask the column
FLAG_COLUMN, FLAG_BIT, FLAG_SET = range(3)  # set (of trees only): whether the bit must be
NODE_TEST, NODE_LOW, NODE_HIGH = range(3)  # places
ROOT_NODE, ROOT_PLACE, ROOT_OWNER, ROOT_NEED = range(4)  # its first node, the place of the result,
# the subscription, and which need of the cluster it has


class Cubes(NamedTuple):
    """Conditions as cubes (engine/compile/cubes.py); those of cluster c begin at `starts[c]`.

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


class Trees(NamedTuple):
    """Cubes that ranges lead to (compile/cube_trees.py): each asks `bound <= key` of all tests of
    its tree, where a test ~column asks that of ~key.

    The cubes of a tree stand in blocks of 8 (the last may have fewer), a block as one row of
    bounds for each test. The level above has a cube for each block, with the least bounds in it,
    and so on until one block is left; the levels stand one behind the other, the cubes
    themselves first. A tree of one test has no levels: its bounds ascend.

    Where `CHECKED` is not -1, the cubes of the tree are necessary only: then the program numbered
    `check[CHECKED + i]` must be true as well for cube i.
    """

    tree: I8  # rows: the constants below
    test: I4
    flag: I4  # rows: FLAG_...
    bound: I8
    subscription: I4
    check: I4
    program: I8  # offsets of the words of each
    word: I4  # of programs (diagram/packed.py); literals are asks
    ask: I4  # rows: ASK_KIND (one of the three below), ASK_PLACE (column or event), ASK_BIT
    ask_key: I8  # the threshold of each


TESTS, TEST_COUNT, FLAGS, FLAG_COUNT, BOUNDS, CUBES, CUBE_COUNT, CHECKED = range(8)
ASK_KIND, ASK_PLACE, ASK_BIT = range(3)
ASK_BELOW, ASK_EVENT, ASK_FLAG = range(3)


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
    asks: I8  # a row for each event: EVENT_...; no rows: not known
    fires: U8  # one bit for each code and event of a feature
    words: Words


EVENT_FEATURE, EVENT_WORD, EVENT_BIT, EVENT_WORDS = range(4)  # the feature (or -1) that decides the
# event; its first word in `fires`, its bit there, and how many words a code has


class Words(NamedTuple):
    """What only cluster 0 asks about computed terms, 64 messages to the word: these have neither
    keys nor listed events. Empty arrays: nothing."""

    below: I4  # column of keys -> row of its first threshold in cluster 0, or -1
    event: I4  # event -> its row, or -1
    bits: U8  # row x word: bit m % 64 of word m // 64 is message m


NO_WORDS = Words(np.empty(0, np.int32), np.empty(0, np.int32), np.empty((0, 0), np.uint64))

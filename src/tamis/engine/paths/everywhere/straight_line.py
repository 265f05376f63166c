"""The arrays of a path: clusters of subscriptions, each a small straight-line program.

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

from tamis.engine.ground.layout import I4, I8


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
NODE_TEST, NODE_LOW, NODE_HIGH = range(3)  # places
ROOT_NODE, ROOT_PLACE, ROOT_OWNER, ROOT_NEED = range(4)  # its first node, the place of the result,
# the subscription, and which need of the cluster it has


class ByNeed(NamedTuple):
    """The roots of cluster 0 sorted by need: those of need k are roots[starts[k]:starts[k + 1]]."""

    starts: I8
    roots: I4

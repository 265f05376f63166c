"""What must hold of the programs of a snapshot before kernels may see them."""

from __future__ import annotations

import numpy as np

from tamis.engine.ground.layout import FLAG_BIT, FLAG_COLUMN, I4, I8
from tamis.engine.ground.sound import demand, tiling, within
from tamis.engine.lookup.term_index import Index
from tamis.engine.paths.everywhere import straight_line as s
from tamis.engine.paths.everywhere.straight_line import Clusters


def checked_programs(
    clusters: Clusters, index: Index, subscriptions: int, requirements: int
) -> None:
    """All clusters are programs as `emit` writes them."""
    starts = clusters.starts
    demand(len(starts) > 1, "there is no cluster")
    for column, field in enumerate(Clusters._fields[1:]):
        tiling(starts[:, column], len(getattr(clusters, field)), "clusters")
    sizes = np.diff(starts, axis=0)
    _inputs(clusters, sizes, index)
    within(clusters.need, requirements, "requirements")
    of_root = np.repeat(np.arange(len(sizes)), sizes[:, s.ROOT])
    within(clusters.root[:, s.ROOT_OWNER], subscriptions, "subscriptions")
    within(clusters.root[:, s.ROOT_NEED], sizes[of_root, s.NEED], "needs")
    _parts(clusters, sizes, of_root)


def _inputs(clusters: Clusters, sizes: I8, index: Index) -> None:
    """Thresholds, events and flags stand for something, and fill the places meant for them."""
    of_group = np.repeat(np.arange(len(sizes)), sizes[:, s.GROUP])
    column, first, count = clusters.group.astype(np.int64).T
    within(column, index.key_columns, "columns of thresholds")
    within(first, sizes[of_group, s.THRESHOLD] + 1, "thresholds")
    within(count, sizes[of_group, s.THRESHOLD] - first + 1, "thresholds")
    filled = np.bincount(of_group, count, minlength=len(sizes))
    demand(bool((filled == sizes[:, s.THRESHOLD]).all()), "thresholds do not fill their places")
    within(clusters.event, index.events, "events")
    within(clusters.flag[:, FLAG_COLUMN], len(index.terms), "columns of flags")
    within(clusters.flag[:, FLAG_BIT], 256, "bits of flags")


def _parts(clusters: Clusters, sizes: I8, of_root: I8) -> int:
    """Parts follow each other without a gap, and a node looks only at places filled before it."""
    starts = clusters.starts
    of_hoist = np.repeat(np.arange(len(sizes)), sizes[:, s.HOIST])
    # in each cluster first the hoisted parts, then those of the roots
    hoist_at = np.arange(len(of_hoist)) + starts[of_hoist, s.ROOT]
    root_at = np.arange(len(of_root)) + starts[of_root + 1, s.HOIST]
    cluster = np.empty(len(of_hoist) + len(of_root), np.int64)
    cluster[hoist_at], cluster[root_at] = of_hoist, of_root
    begin = np.empty_like(cluster)
    begin[hoist_at], begin[root_at] = clusters.hoist, clusters.root[:, s.ROOT_NODE]
    begin += starts[cluster, s.NODE]
    length = np.diff(begin, append=len(clusters.node))
    demand(bool((length >= 0).all() and (length[hoist_at] > 0).all()), "parts are out of order")
    first = np.flatnonzero(np.diff(cluster, prepend=-1))
    demand(bool((begin[first] == starts[cluster[first], s.NODE]).all()), "nodes belong to no part")
    within(begin, starts[cluster + 1, s.NODE] + 1, "parts")
    demand(int(length.sum()) == len(clusters.node), "nodes belong to no part")
    shared = 2 + sizes[:, [s.THRESHOLD, s.EVENT, s.FLAG]].sum(axis=1)
    own = (shared + sizes[:, s.HOIST])[cluster]
    known = own.copy()
    known[hoist_at] = shared[of_hoist] + np.arange(len(of_hoist)) - starts[of_hoist, s.HOIST]
    _nodes(clusters.node, begin, length, known, own)
    within(clusters.root[:, s.ROOT_PLACE], (own + length)[root_at], "results")
    return int(length.max(initial=0))


def _nodes(node: I4, begin: I8, length: I8, known: I8, own: I8) -> None:
    """A node of a part looks at places below `known`, or at nodes of the part before it."""
    first = np.repeat(own.astype(np.int32), length)
    place = first + (np.arange(len(node)) - np.repeat(begin, length)).astype(np.int32)
    limit = np.repeat(known.astype(np.int32), length)
    for operand in node.T:
        earlier = (operand >= first) & (operand < place)
        demand(bool((((operand >= 0) & (operand < limit)) | earlier).all()), "a node looks ahead")

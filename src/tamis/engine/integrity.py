"""What must hold of a snapshot's arrays before kernels may see them.

Kernels trust their arrays: nobody checks a bound there. A file whose checksums are right
can still be made by hand, so every number that is used as an index is checked here once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.diagram.questions import AMONG, Terms
from tamis.engine.index import Index
from tamis.engine.layout import (
    EVENT,
    FLAG,
    GROUP,
    HOIST,
    I4,
    I8,
    NEED,
    NODE,
    ROOT,
    THRESHOLD,
    Access,
    Clusters,
    Requirements,
)
from tamis.engine.segment import Source
from tamis.engine.stored import BIG, BOOL, DOUBLE, INT, STRING, Constants, Texts
from tamis.logic import Family, Kind

_Numbers = npt.NDArray[Any]
_KINDS = {
    Family.NUMBER: (BIG, INT, DOUBLE),
    Family.STRING: (STRING,),
    Family.BOOL: (BOOL,),
    Family.TIMESTAMP: (INT,),
}
_ITEMS = np.zeros((len(Family), 5), bool)  # family x kind of item: can that be?
for _family, _kinds in _KINDS.items():
    _ITEMS[_family, _kinds] = True


class UnsoundError(Exception):
    """The arrays cannot come from a matcher."""


def demand(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise UnsoundError(what)


def within(values: _Numbers, bound: int | _Numbers, what: str) -> None:
    """All values are at least 0 and below the bound (one for all, or one for each)."""
    demand(bool(((values >= 0) & (values < bound)).all()), f"{what} out of range")


def tiling(offsets: I8, length: int, what: str) -> None:
    """Offsets ascend from 0 to the length."""
    demand(len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == length, f"{what} do not fit")
    demand(bool((offsets[1:] >= offsets[:-1]).all()), f"{what} are out of order")


def texts(given: Texts, what: str) -> None:
    """Offsets fit, and every text is UTF-8."""
    import pyarrow as pa

    tiling(given.offsets, len(given.data), f"the offsets of {what}")
    buffers = [None, pa.py_buffer(given.offsets), pa.py_buffer(given.data)]
    array = pa.Array.from_buffers(pa.large_string(), len(given), buffers)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise UnsoundError(f"{what} are no texts") from None


def constants(given: Constants) -> None:
    texts(given.texts, "the texts of constants")
    count = len(given.family)
    demand(len(given.grouped) == count and len(given.starts) == count + 1, "constants do not fit")
    tiling(given.starts, len(given.kind), "the items of constants")
    within(given.kind, _ITEMS.shape[1], "kinds of items")
    within(given.family, len(Family), "families of constants")
    sizes = np.diff(given.starts)
    demand(bool(((sizes == 1) | (given.grouped == 1)).all()), "a constant is no single value")
    demand(
        bool(_ITEMS[np.repeat(given.family, sizes), given.kind].all()), "a constant is of no type"
    )
    found = np.bincount(given.kind, minlength=_ITEMS.shape[1])
    wanted = (found[STRING] + found[BIG], found[INT] + found[BOOL], found[DOUBLE])
    present = (len(given.texts), len(given.integers), len(given.doubles))
    demand(wanted == present, "constants are missing")


# --- programs ----------------------------------------------------------------


def programs(offsets: I8, words: I4, terms: int) -> None:
    """Every template is one formula in postfix, about terms that exist."""
    tiling(offsets, len(words), "templates")
    sizes = np.diff(offsets)
    demand(bool((sizes > 0).all()), "a template is empty")
    wide = words.astype(np.int64)
    # a literal adds one value to the stack, AND and OR replace some by one
    step = np.where(wide >= 0, 1, 1 - ((-wide - 1) >> 1))
    depth = np.cumsum(step)
    number = np.arange(len(sizes))
    demand(bool((depth[offsets[1:] - 1] == number + 1).all()), "a template is no formula")
    demand(bool((depth > np.repeat(number, sizes)).all()), "a template is no formula")
    questions(words[words >= 0] >> 1, terms)


def questions(asked: I4, terms: int) -> None:
    """What is asked exists: the term, and the kind of question for the family."""
    term, family, kind = asked >> 8, (asked >> 4) & 15, asked & 15
    within(term, terms, "terms")
    within(kind, AMONG + 1, "kinds of questions")
    textual = (kind >= Kind.PREFIX) & (kind <= Kind.LIKE)
    right = np.where(kind == Kind.DEFINED, family == Family.ANY, family < Family.ANY)
    right &= (family == Family.STRING) | ~textual
    demand(bool(right.all()), "a question does not suit its family")


def keys(asked: I4, given: I8, terms: Terms, pool: Constants) -> None:
    """Keys that stand for constants of the pool name one of the right family."""
    typed = np.array([kind is not None for kind in terms.types] or [False])
    family, kind = (asked >> 4) & 15, asked & 15
    plain = (family != Family.STRING) & ((family != Family.NUMBER) | typed[asked >> 8])
    pooled = (kind >= Kind.BELOW) & ((kind == AMONG) | ~plain)
    asked, given, family, kind = asked[pooled], given[pooled], family[pooled], kind[pooled]
    within(given, len(pool.family), "constants")
    demand(bool((pool.family[given] == family).all()), "a constant is of another family")
    demand(bool((pool.grouped[given] == (kind == AMONG)).all()), "a constant is of another kind")


def literals(offsets: I8, words: I4) -> tuple[I8, I4]:
    """Where the literals of each template begin among the questions of all; and these."""
    literal = words >= 0
    return np.append(0, np.cumsum(literal))[offsets], words[literal] >> 1


def asked_by(source: Source, offsets: I8, asked: I4) -> I4:
    """The question of each key of the source, which is checked on the way.

    `offsets` and `asked` are the literals of all templates.
    """
    tiling(source.offsets, len(source.keys), "keys")
    within(source.template, len(offsets) - 1, "templates of subscriptions")
    fits = len(source.template) == len(source) == len(source.offsets) - 1
    demand(fits, "subscriptions do not fit")
    sizes = np.diff(source.offsets)
    own = np.diff(offsets)[source.template]
    demand(bool((sizes == own).all()), "a subscription has not one key for each question")
    shift = offsets[:-1][source.template] - source.offsets[:-1]
    return asked[np.repeat(shift, sizes) + np.arange(len(source.keys))]


# --- compiled segments -------------------------------------------------------


def links(access: Access, requirements: Requirements, index: Index, clusters: int) -> None:
    demand(len(access.offsets) == index.events + 1, "access does not fit the events")
    tiling(access.offsets, len(access.clusters), "access offsets")
    # cluster 0 is for every message: no event leads there, and kernels keep no place for it
    within(access.clusters.astype(np.int64) - 1, clusters - 1, "clusters")
    tiling(requirements.offsets, len(requirements.columns), "requirements")
    within(requirements.columns, len(index.terms), "columns of requirements")


def program_of(clusters: Clusters, index: Index, subscriptions: int, requirements: int) -> int:
    """Check all clusters; the nodes of the longest part."""
    starts = clusters.starts
    demand(len(starts) > 1, "there is no cluster")
    for column, field in enumerate(Clusters._fields[1:]):
        tiling(starts[:, column], len(getattr(clusters, field)), "clusters")
    sizes = np.diff(starts, axis=0)
    _inputs(clusters, sizes, index)
    within(clusters.need, requirements, "requirements")
    of_root = np.repeat(np.arange(len(sizes)), sizes[:, ROOT])
    within(clusters.root[:, 2], subscriptions, "subscriptions")
    within(clusters.root[:, 3], sizes[of_root, NEED], "needs")
    return _parts(clusters, sizes, of_root)


def _inputs(clusters: Clusters, sizes: I8, index: Index) -> None:
    """Thresholds, events and flags stand for something, and fill the places meant for them."""
    of_group = np.repeat(np.arange(len(sizes)), sizes[:, GROUP])
    column, first, count = clusters.group.astype(np.int64).T
    within(column, index.key_columns, "columns of thresholds")
    within(first, sizes[of_group, THRESHOLD] + 1, "thresholds")
    within(count, sizes[of_group, THRESHOLD] - first + 1, "thresholds")
    filled = np.bincount(of_group, count, minlength=len(sizes))
    demand(bool((filled == sizes[:, THRESHOLD]).all()), "thresholds do not fill their places")
    within(clusters.event, index.events, "events")
    within(clusters.flag[:, 0], len(index.terms), "columns of flags")


def _parts(clusters: Clusters, sizes: I8, of_root: I8) -> int:
    """Parts follow each other without a gap, and a node looks only at places filled before it."""
    starts = clusters.starts
    of_hoist = np.repeat(np.arange(len(sizes)), sizes[:, HOIST])
    # in each cluster first the hoisted parts, then those of the roots
    hoist_at = np.arange(len(of_hoist)) + starts[of_hoist, ROOT]
    root_at = np.arange(len(of_root)) + starts[of_root + 1, HOIST]
    cluster = np.empty(len(of_hoist) + len(of_root), np.int64)
    cluster[hoist_at], cluster[root_at] = of_hoist, of_root
    begin = np.empty_like(cluster)
    begin[hoist_at], begin[root_at] = clusters.hoist, clusters.root[:, 0]
    begin += starts[cluster, NODE]
    length = np.diff(begin, append=len(clusters.node))
    demand(bool((length >= 0).all() and (length[hoist_at] > 0).all()), "parts are out of order")
    first = np.flatnonzero(np.diff(cluster, prepend=-1))
    demand(bool((begin[first] == starts[cluster[first], NODE]).all()), "nodes belong to no part")
    within(begin, starts[cluster + 1, NODE] + 1, "parts")
    demand(int(length.sum()) == len(clusters.node), "nodes belong to no part")
    shared = 2 + sizes[:, [THRESHOLD, EVENT, FLAG]].sum(axis=1)
    own = (shared + sizes[:, HOIST])[cluster]
    known = own.copy()
    known[hoist_at] = shared[of_hoist] + np.arange(len(of_hoist)) - starts[of_hoist, HOIST]
    _nodes(clusters.node, begin, length, known, own)
    within(clusters.root[:, 1], (own + length)[root_at], "results")
    return int(length.max(initial=0))


def _nodes(node: I4, begin: I8, length: I8, known: I8, own: I8) -> None:
    """A node of a part looks at places below `known`, or at nodes of the part before it."""
    first = np.repeat(own.astype(np.int32), length)
    place = first + (np.arange(len(node)) - np.repeat(begin, length)).astype(np.int32)
    limit = np.repeat(known.astype(np.int32), length)
    for operand in node.T:
        earlier = (operand >= first) & (operand < place)
        demand(bool((((operand >= 0) & (operand < limit)) | earlier).all()), "a node looks ahead")

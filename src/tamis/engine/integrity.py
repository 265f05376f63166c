"""What must hold of a snapshot's arrays before kernels may see them.

Kernels trust their arrays: nobody checks a bound there. A file whose checksums are right
can still be made by hand, so every number that is used as an index is checked here once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.diagram.questions import AMONG, Terms
from tamis.engine.cubes import BITS, SPARE
from tamis.engine.index import Index
from tamis.engine.layout import (
    BIT,
    BOUND,
    CUBE,
    EVENT,
    FLAG,
    GROUP,
    HOIST,
    I4,
    I8,
    MUST,
    NEED,
    NODE,
    ROOT,
    TEST,
    THRESHOLD,
    Access,
    Clusters,
    Cubes,
    Requirements,
)
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


def literals_of(template: I4, literal: I4, question: I4, offsets: I8, asked: I4) -> I8:
    """How many literals each subscription has; each asks what its template does.

    `question` is that of each variable, `offsets` and `asked` are the literals of all templates.
    """
    within(template, len(offsets) - 1, "templates of subscriptions")
    within(literal, len(question), "literals")
    sizes = np.diff(offsets)[template]
    demand(int(sizes.sum()) == len(literal), "a subscription has not one literal for each question")
    shift = offsets[:-1][template] - (np.cumsum(sizes) - sizes)
    own = asked[np.repeat(shift, sizes) + np.arange(len(literal))]
    demand(bool((question[literal] == own).all()), "a literal asks another question")
    return sizes


# --- compiled segments -------------------------------------------------------


def links(access: Access, requirements: Requirements, index: Index, clusters: int) -> None:
    demand(len(access.offsets) == index.events + 1, "access does not fit the events")
    tiling(access.offsets, len(access.clusters), "access offsets")
    # cluster 0 is for every message: no event leads there, and kernels keep no place for it
    within(access.clusters.astype(np.int64) - 1, clusters - 1, "clusters")
    tiling(requirements.offsets, len(requirements.columns), "requirements")
    within(requirements.columns, len(index.terms), "columns of requirements")


def cubes(given: Cubes, clusters: Clusters, index: Index, subscriptions: int) -> None:
    """Tests, bounds and bits are there as the kernel will read them, some bounds ahead."""
    starts = given.starts
    demand(len(starts) == len(clusters.starts), "cubes do not fit the clusters")
    lengths = (len(given.test), len(given.bound) - SPARE, len(given.subscription), len(given.bit))
    for column, length in zip((TEST, BOUND, CUBE, BIT), lengths, strict=True):
        tiling(starts[:, column], length, "cubes")
    tests, bounds, count, bits = np.diff(starts[:, :MUST], axis=0).T
    within(tests, 2 * index.key_columns + 1, "tests of cubes")
    masks = bounds - tests * count  # a mask and a wanted value for each cube, or none
    demand(bool(((masks == 0) | (masks == 2 * count)).all()), "bounds of cubes do not fit")
    within(np.where(given.test < 0, ~given.test, given.test), index.key_columns, "columns of cubes")
    within(given.subscription, subscriptions, "subscriptions of cubes")
    within(bits, BITS + 1, "bits of cubes")
    known = np.diff(clusters.starts, axis=0)[:, [EVENT, FLAG, NEED]].sum(axis=1)
    within(given.bit, np.repeat(known, bits), "bits of cubes")


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
    within(clusters.flag[:, 1], 256, "bits of flags")


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

"""What must hold of a snapshot's arrays before kernels may see them.

Kernels trust their arrays: nobody checks a bound there. A file whose checksums are right
can still be made by hand, so every number that is used as an index is checked here once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.diagram import packed
from tamis.diagram.questions import AMONG, Terms
from tamis.engine.compile.cube_trees import MOST_TESTS, MOST_WORDS
from tamis.engine.compile.cubes import BITS, SPARE
from tamis.engine.index.term_index import Index
from tamis.engine.layout import (
    ASK_FLAG,
    BIT,
    BOUND,
    BOUNDS,
    CHECKED,
    CUBE,
    CUBE_COUNT,
    CUBES,
    EVENT,
    FLAG,
    FLAG_BIT,
    FLAG_COLUMN,
    FLAG_COUNT,
    FLAGS,
    GROUP,
    HOIST,
    I4,
    I8,
    MUST,
    NEED,
    NODE,
    ROOT,
    ROOT_NEED,
    ROOT_NODE,
    ROOT_OWNER,
    ROOT_PLACE,
    TEST,
    TEST_COUNT,
    TESTS,
    THRESHOLD,
    Access,
    Clusters,
    Cubes,
    Requirements,
    Trees,
)
from tamis.engine.snapshot.codecs import BIG, BOOL, DOUBLE, INT, LINK, STRING, Constants, Texts
from tamis.logic import Family, Kind

_Numbers = npt.NDArray[Any]
_KINDS = {
    Family.NUMBER: (BIG, INT, DOUBLE, LINK),
    Family.STRING: (STRING, LINK),
    Family.BOOL: (BOOL,),
    Family.TIMESTAMP: (INT,),
}
_ITEMS = np.zeros((len(Family), LINK + 1), bool)  # family x kind of item: can that be?
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
    wanted = (found[STRING] + found[BIG], found[INT] + found[BOOL], found[DOUBLE], found[LINK])
    present = (len(given.texts), len(given.integers), len(given.doubles), len(given.links))
    demand(wanted == present, "constants are missing")
    _links(given, sizes)


def _links(given: Constants, sizes: I8) -> None:
    """A list has links alone or none; they lead to scalars of its family."""
    linked = np.append(0, np.cumsum(given.kind == LINK))[given.starts]
    links = np.diff(linked)
    demand(bool(((links == 0) | ((links == sizes) & (given.grouped == 1))).all()), "no list")
    within(given.links, len(given.family), "links of constants")
    demand(bool((given.grouped[given.links] == 0).all()), "a list holds a list")
    same = given.family[given.links] == np.repeat(given.family, links)
    demand(bool(same.all()), "a list holds another family")


# --- programs ----------------------------------------------------------------


def programs(offsets: I8, words: I4, terms: int) -> None:
    """Every template is one formula in postfix, about terms that exist."""
    formulas(offsets, words)
    questions(packed.asked(words[packed.is_literal(words)]), terms)


def formulas(offsets: I8, words: I4) -> None:
    """Every program is one formula in postfix."""
    tiling(offsets, len(words), "templates")
    sizes = np.diff(offsets)
    demand(bool((sizes > 0).all()), "a template is empty")
    wide = words.astype(np.int64)
    # a literal adds one value to the stack, AND and OR replace some by one
    step = np.where(packed.is_literal(wide), 1, 1 - packed.width(wide))
    depth = np.cumsum(step)
    number = np.arange(len(sizes))
    demand(bool((depth[offsets[1:] - 1] == number + 1).all()), "a template is no formula")
    demand(bool((depth > np.repeat(number, sizes)).all()), "a template is no formula")


def questions(asked: I4, terms: int) -> None:
    """What is asked exists: the term, and the kind of question for the family."""
    term, family, kind = packed.term(asked), packed.family(asked), packed.kind(asked)
    within(term, terms, "terms")
    within(kind, AMONG + 1, "kinds of questions")
    textual = (kind >= Kind.PREFIX) & (kind <= Kind.LIKE)
    right = np.where(kind == Kind.DEFINED, family == Family.ANY, family < Family.ANY)
    right &= (family == Family.STRING) | ~textual
    demand(bool(right.all()), "a question does not suit its family")


def keys(asked: I4, given: I8, terms: Terms, pool: Constants) -> None:
    """Keys that stand for constants of the pool name one of the right family."""
    typed = np.array([kind is not None for kind in terms.types] or [False])
    family, kind = packed.family(asked), packed.kind(asked)
    plain = (family != Family.STRING) & ((family != Family.NUMBER) | typed[packed.term(asked)])
    pooled = (kind >= Kind.BELOW) & ((kind == AMONG) | ~plain)
    asked, given, family, kind = asked[pooled], given[pooled], family[pooled], kind[pooled]
    within(given, len(pool.family), "constants")
    demand(bool((pool.family[given] == family).all()), "a constant is of another family")
    demand(bool((pool.grouped[given] == (kind == AMONG)).all()), "a constant is of another kind")


def literals(offsets: I8, words: I4) -> tuple[I8, I4]:
    """Where the literals of each template begin among the questions of all; and these."""
    literal = packed.is_literal(words)
    return np.append(0, np.cumsum(literal))[offsets], packed.asked(words[literal])


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


def trees(given: Trees, index: Index, subscriptions: int) -> None:
    """Tests, flags, bounds and programs are there as the kernel will read them."""
    tests, flags, counts = (given.tree[:, c] for c in (TEST_COUNT, FLAG_COUNT, CUBE_COUNT))
    within(tests - 1, MOST_TESTS, "tests of trees")
    within(flags, len(given.flag) + 1, "flags of trees")
    within(counts - 1, len(given.subscription), "cubes of trees")
    _starts(given.tree[:, TESTS], tests, len(given.test), "tests of trees")
    _starts(given.tree[:, FLAGS], flags, len(given.flag), "flags of trees")
    _starts(given.tree[:, CUBES], counts, len(given.subscription), "cubes of trees")
    _starts(given.tree[:, BOUNDS], _bounds(tests, counts), len(given.bound) - SPARE, "bounds")
    within(np.where(given.test < 0, ~given.test, given.test), index.key_columns, "columns of trees")
    within(given.flag[:, FLAG_COLUMN], len(index.terms), "columns of flags")
    within(given.flag[:, FLAG_BIT], 256, "bits of flags")
    within(given.subscription, subscriptions, "subscriptions of trees")
    checked = given.tree[:, CHECKED] >= 0
    own = np.where(checked, counts, 0)[checked]
    _starts(given.tree[checked, CHECKED], own, len(given.check), "programs of trees")
    _programs_of_trees(given, index)


def _starts(starts: I8, sizes: I8, length: int, what: str) -> None:
    """Each part begins where the one before it ends."""
    ends = np.cumsum(sizes)
    demand(bool((starts == ends - sizes).all()), f"{what} do not fit")
    demand(int(sizes.sum()) == length, f"{what} do not fit")


def _bounds(tests: I8, counts: I8) -> I8:
    """How many bounds trees have, all levels together; one test has one level."""
    total, level = tests * counts, counts
    while (level > 8).any():
        level = np.where((level > 8) & (tests > 1), (level + 7) >> 3, 0)
        total = total + tests * level
    return total


def _programs_of_trees(given: Trees, index: Index) -> None:
    formulas(given.program, given.word)
    within(np.diff(given.program), MOST_WORDS + 1, "words of programs")
    within(given.check, max(len(given.program) - 1, 1), "programs")
    within(packed.asked(given.word[packed.is_literal(given.word)]), len(given.ask), "asks")
    demand(len(given.ask) == len(given.ask_key), "asks do not fit")
    what, place, bit = given.ask.T
    within(what, ASK_FLAG + 1, "asks")
    most = np.array([index.key_columns, index.events, len(index.terms)])
    within(place, most[what], "what is asked")
    within(bit, 256, "bits of asks")


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
    within(clusters.root[:, ROOT_OWNER], subscriptions, "subscriptions")
    within(clusters.root[:, ROOT_NEED], sizes[of_root, NEED], "needs")
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
    within(clusters.flag[:, FLAG_COLUMN], len(index.terms), "columns of flags")
    within(clusters.flag[:, FLAG_BIT], 256, "bits of flags")


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
    begin[hoist_at], begin[root_at] = clusters.hoist, clusters.root[:, ROOT_NODE]
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
    within(clusters.root[:, ROOT_PLACE], (own + length)[root_at], "results")
    return int(length.max(initial=0))


def _nodes(node: I4, begin: I8, length: I8, known: I8, own: I8) -> None:
    """A node of a part looks at places below `known`, or at nodes of the part before it."""
    first = np.repeat(own.astype(np.int32), length)
    place = first + (np.arange(len(node)) - np.repeat(begin, length)).astype(np.int32)
    limit = np.repeat(known.astype(np.int32), length)
    for operand in node.T:
        earlier = (operand >= first) & (operand < place)
        demand(bool((((operand >= 0) & (operand < limit)) | earlier).all()), "a node looks ahead")

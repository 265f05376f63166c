"""Clusters that one value leads to, and what they ask of a message beside bounds.

Most clusters have a single way in, an event of one value (`symbol = 'IBM'`): a message meets
them once or never. Their cubes ask for bounds of keys, for other values (`venue = 'N'`) and for
flags. All that is no bound stands in one word for each message, its *signature*: a bit for every
flag, and for every term with such values a field that holds the number of the value plus one.
`engine/paths/direct/direct_run.py` evaluates such clusters.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.diagram.bdd import LOWEST
from tamis.engine.ground.layout import FLAG_BIT, FLAG_COLUMN, I4, I8, Requirements
from tamis.engine.lookup.term_index import Points
from tamis.engine.paths.clusters.cluster_path import ClusterPath
from tamis.engine.paths.clusters.cubes import BIT, BOUND, CUBE, MUST, SPARE, TEST, WANT
from tamis.engine.paths.everywhere.straight_line import EVENT, FLAG, NEED
from tamis.jit.kernel import kernel

Field = tuple[int, int]  # number of a term, and a family
Fields = dict[Field, Points]
Flag = tuple[int, int]  # column, and bit of its flags
Marks = npt.NDArray[np.bool_]

WIDTH = 62  # bits of a signature
MOST_TESTS = 6
CHUNK = 64  # cubes that can be skipped together
CHUNKED = 128  # cubes of a cluster in which that is worth it
FIRST, MASK, OWNER, COUNT, SHAPE, LEAST = range(6)  # columns of `row`
TESTS, MASKED, ASKED, WANTED, NEEDS, KEYS = range(6)  # columns of `shape`
NEEDED = KEYS + 2 * MOST_TESTS  # and behind the keys
_MOST_NEEDS = 4


class Rows(NamedTuple):
    """Clusters for the kernel: rows (first bound, first mask, first owner, cubes, shape, first of
    the least bounds or -1).

    A shape says which keys the cubes ask for, `bound <= key ^ flip`, which bits of the signature,
    and which columns must be defined beside, where signatures have no room for that. If masked,
    each cube asks for its own bits: in `mask` stand all `must`, then all `want`, and the shape has
    what every cube asks for; without tests, cubes ascend by that.
    Large clusters have the least bounds of every CHUNK cubes, one test after the other.
    """

    row: I4
    shape: I8  # tests, masked, must, want, needs; column and flip of each test; columns needed
    bound: I8
    mask: I8
    owner: I4  # subscription of each cube
    least: I8


def rows_of(
    path: ClusterPath, fields: Fields, direct: Marks
) -> tuple[Rows, dict[Field, int], dict[Flag, int]]:
    """A row for each direct cluster, and where fields and flags stand in signatures. Clusters that
    cannot be direct are struck off."""
    signs, shifts, flags = _signs(path, fields)
    return _rows(path, signs, direct, _implied(path, fields)), shifts, flags


# --- signatures --------------------------------------------------------------


class _Signs(NamedTuple):
    """What clusters ask for, as bits of a signature; what has no place there is -1."""

    event: I8  # its field
    value: I8  # the same with the number of its value
    flag: I8  # column x bits of the flag
    need: I8


def _signs(path: ClusterPath, fields: Fields) -> tuple[_Signs, dict[Field, int], dict[Flag, int]]:
    clusters, requirements = path.clusters, path.requirements
    begin = clusters.starts[1]
    needs = np.unique(clusters.need[begin[NEED] :]).tolist()
    columns = {r: _columns(requirements, r) for r in needs}
    asked = [(c, b) for c, b in np.unique(clusters.flag[begin[FLAG] :], axis=0).tolist()]
    needed = dict.fromkeys((c, 1) for r in needs for c in columns[r])
    if len(asked) + len(needed) <= WIDTH:  # else shapes ask for them
        asked += needed
    flags = {flag: place for place, flag in enumerate(dict.fromkeys(asked)) if place < WIDTH}
    event, value, shifts = _event_signs(path, fields, len(flags))
    flag = np.full((len(path.index.terms), 256), -1, np.int64)
    for (column, bit), place in flags.items():
        flag[column, bit] = 1 << place
    need = np.full(len(requirements.offsets) - 1, -1, np.int64)
    for r in needs:
        if all((c, 1) in flags for c in columns[r]):
            need[r] = sum({1 << flags[c, 1] for c in columns[r]})
    return _Signs(event, value, flag, need), shifts, flags


def _columns(requirements: Requirements, r: int) -> list[int]:
    found: list[int] = requirements.columns[slice(*requirements.offsets[r : r + 2])].tolist()
    return found


def _event_signs(path: ClusterPath, fields: Fields, used: int) -> tuple[I8, I8, dict[Field, int]]:
    """Events that just one value fires, of fields for which there is room beside `used` bits."""
    event, value = np.full((2, max(path.index.events, 1)), -1, np.int64)
    asked = np.zeros(path.index.events, bool)
    asked[path.clusters.event[path.clusters.starts[1, EVENT] :]] = True
    shifts: dict[Field, int] = {}
    for field, points in fields.items():
        width = (len(points.offsets) - 1).bit_length()
        if used + width > WIDTH or not asked[points.events].any():
            continue
        shifts[field] = used
        numbers = np.repeat(np.arange(1, len(points.offsets)), np.diff(points.offsets))
        once = np.bincount(points.events)[points.events] == 1
        event[points.events[once]] = ((1 << width) - 1) << used
        value[points.events[once]] = numbers[once] << used
        used += width
    return event, value, shifts


# --- rows --------------------------------------------------------------------


class _Implied(NamedTuple):
    """What is known to be defined."""

    led: I4  # by the value that leads to a cluster: its column
    keyed: I4  # by a key that is not the highest: the column of each column of keys


def _implied(path: ClusterPath, fields: Fields) -> _Implied:
    index, access = path.index, path.access
    fired = np.full(len(access.offsets) - 1, -1, np.int32)
    for (number, _), points in fields.items():
        fired[points.events] = index.column[number]
    led = np.full(len(path.clusters.starts) - 1, -1, np.int32)
    led[access.clusters] = np.repeat(fired, np.diff(access.offsets))
    keyed = np.full(max(index.key_columns, 1), -1, np.int32)
    for column, term in enumerate(index.terms):
        for place, _ in term.below.values():
            keyed[place] = column
    return _Implied(led, keyed)


def _rows(path: ClusterPath, signs: _Signs, direct: Marks, implied: _Implied) -> Rows:
    """A row for each cluster; those that cannot be direct are struck off."""
    clusters, cubes, count = path.clusters, path.cubes, len(direct)
    tests, size = np.diff(cubes.starts[:, TEST]), np.diff(cubes.starts[:, CUBE])
    direct &= tests <= MOST_TESTS
    masked = (np.diff(cubes.starts[:, BOUND]) > tests * size) | (
        np.diff(clusters.starts[:, EVENT]) > 0
    )
    masked &= direct
    mask = np.zeros(2 * int(size[masked].sum()) + SPARE, np.int64)
    owner = cubes.subscription.copy() if masked.any() else cubes.subscription
    row = np.zeros((count, 6), np.int32)
    chunked = direct & (size >= CHUNKED) & (tests > 1)
    least = np.zeros(int((tests * -(-size // CHUNK))[chunked].sum()) + SPARE, np.int64)
    shape = np.zeros((count, NEEDED + _MOST_NEEDS), np.int64)
    links = signs, path.requirements, implied
    shapes = _lay_out(clusters, cubes, links, direct, row, shape, mask, owner)
    row[:, LEAST] = -1
    _least(cubes, direct & chunked, row, least)
    return Rows(row, shape[:shapes].copy(), cubes.bound, mask, owner, least)


@kernel
def _sign(clusters, c, number, negated, signs):
    """Bits of the signature that an event, flag or need of cluster c asks for: must and want."""
    at, end = clusters.starts[c], clusters.starts[c + 1]
    events, flags = end[EVENT] - at[EVENT], end[FLAG] - at[FLAG]
    if number < events:
        e = clusters.event[at[EVENT] + number]
        return np.int64(-1) if negated else signs.event[e], signs.value[e]
    if number < events + flags:
        f = at[FLAG] + number - events
        bit = signs.flag[clusters.flag[f, FLAG_COLUMN], clusters.flag[f, FLAG_BIT]]
        return bit, np.int64(0) if negated else bit
    need = signs.need[clusters.need[at[NEED] + number - events - flags]]
    return np.int64(-1) if negated else need, need


@kernel
def _signed(clusters, cubes, c, must, want, signs):
    """Bits of cluster c as bits of the signature; a must of -1: they have no place there."""
    first = cubes.starts[c, BIT]
    made_must, made_want = np.int64(0), np.int64(0)
    for b in range(cubes.starts[c + 1, BIT] - first):
        if (must >> b) & 1:
            number = np.int64(cubes.bit[first + b])
            bits, values = _sign(clusters, c, number, (want >> b) & 1 == 0, signs)
            if bits < 0 or (made_want ^ values) & made_must & bits != 0:
                return np.int64(-1), np.int64(0)
            made_must |= bits
            made_want |= values
    return made_must, made_want


@kernel
def _is_implied(cubes, c, first, last, column, implied):
    """Whether the column is defined where any of cubes first to last of cluster c holds: its value
    leads there, or it has an upper bound, which the highest key is not below."""
    at, end = cubes.starts[c], cubes.starts[c + 1]
    n, known = end[CUBE] - at[CUBE], column == implied.led[c]
    for t in range(end[TEST] - at[TEST]):
        test = cubes.test[at[TEST] + t]
        if test < 0 and implied.keyed[~test] == column:
            bounds = cubes.bound[at[BOUND] + t * n + first : at[BOUND] + t * n + last]
            known |= bounds.min() > LOWEST
    return known


@kernel
def _asked_beside(clusters, cubes, c, i, links, must, want):
    """The bits that cube i of cluster c must have, without requirements that are fulfilled where
    its bounds hold."""
    signs, requirements, implied = links
    first, last, bit = clusters.starts[c], clusters.starts[c + 1], cubes.starts[c, BIT]
    others = last[EVENT] - first[EVENT] + last[FLAG] - first[FLAG]
    for b in range(cubes.starts[c + 1, BIT] - bit):
        number = np.int64(cubes.bit[bit + b])
        if (must >> b) & (want >> b) & 1 == 0 or number < others:
            continue
        r = clusters.need[first[NEED] + number - others]
        known = signs.need[r] < 0
        for k in range(requirements.offsets[r], requirements.offsets[r + 1] if known else 0):
            known &= _is_implied(cubes, c, i, i + 1, requirements.columns[k], implied)
        if known:
            must &= ~(np.int64(1) << b)
    return must


@kernel
def _needs(clusters, cubes, c, links, must, want, now):
    """Columns that the requirements of cluster c ask for and that are not defined anyway, into the
    shape `now`; the bits without these. -1: too many."""
    signs, requirements, implied = links
    at, end = cubes.starts[c], cubes.starts[c + 1]
    n, count = end[CUBE] - at[CUBE], 0
    first, last = clusters.starts[c], clusters.starts[c + 1]
    others = last[EVENT] - first[EVENT] + last[FLAG] - first[FLAG]
    for b in range(end[BIT] - at[BIT]):
        number = np.int64(cubes.bit[at[BIT] + b])
        if (must >> b) & (want >> b) & 1 == 0 or number < others:
            continue
        r = clusters.need[first[NEED] + number - others]
        if signs.need[r] >= 0:
            continue
        must &= ~(np.int64(1) << b)
        for i in range(requirements.offsets[r], requirements.offsets[r + 1]):
            column = requirements.columns[i]
            known = _is_implied(cubes, c, 0, n, column, implied)
            for k in range(count):
                known |= now[NEEDED + k] == column
            if not known:
                if count == _MOST_NEEDS:
                    return np.int64(-1)
                now[NEEDED + count] = column
                count += 1
    now[NEEDS] = count
    return must


@kernel
def _masks(clusters, cubes, c, links, mask, owner):
    """Write the masks of cluster c, ascending where it has no tests; what all cubes ask for, or
    -1 where it has no place."""
    at, end = cubes.starts[c], cubes.starts[c + 1]
    n, tests = end[CUBE] - at[CUBE], end[TEST] - at[TEST]
    own = end[BOUND] - at[BOUND] > tests * n
    common = np.int64(-1)
    for i in range(n):
        must, want = at[MUST], at[WANT]
        if own:
            must = cubes.bound[at[BOUND] + tests * n + i]
            want = cubes.bound[at[BOUND] + (tests + 1) * n + i]
        must = _asked_beside(clusters, cubes, c, i, links, must, want)
        mask[i], mask[n + i] = _signed(clusters, cubes, c, must, want, links[0])
        if mask[i] < 0:
            return np.int64(-1)
        common &= mask[i]
    if tests == 0:
        order = np.argsort(mask[n : 2 * n] & common, kind="mergesort")
        mask[:n] = mask[:n][order]
        mask[n : 2 * n] = mask[n : 2 * n][order]
        owner[:] = owner[order]
    return common


@kernel
def _shape_number(shape, count, slots):
    """The number of the shape that stands in shape[count], perhaps an earlier one."""
    at = np.int64(0)
    for i in range(shape.shape[1]):
        at = (at * 31 + (shape[count, i] & 0xFFFFF)) & 0xFFFFFFFF
    while True:
        at = (at + 1) & (slots.size - 1)
        if slots[at] == 0:
            slots[at] = count + 1
            return count
        if (shape[slots[at] - 1] == shape[count]).all():
            return slots[at] - 1


@kernel
def _lay_out(clusters, cubes, links, direct, row, shape, mask, owner):
    """Fill the rows of direct clusters; how many shapes there are. links: (signs, requirements,
    what is defined anyway)."""
    signs, size = links[0], 16
    while size < 2 * direct.size:
        size *= 2
    slots = np.zeros(size, np.int32)
    shapes, masked = 0, 0
    for c in range(1, direct.size):
        at, end = cubes.starts[c], cubes.starts[c + 1]
        n, tests = end[CUBE] - at[CUBE], end[TEST] - at[TEST]
        if not direct[c] or n == 0:
            continue
        now = shape[shapes]
        now[:] = 0
        now[TESTS] = tests
        events = clusters.starts[c + 1, EVENT] - clusters.starts[c, EVENT]
        if events > 0 or end[BOUND] - at[BOUND] > tests * n:
            now[MASKED] = 1
            part = mask[masked : masked + 2 * n]
            now[ASKED] = _masks(clusters, cubes, c, links, part, owner[at[CUBE] : end[CUBE]])
        else:
            must = _needs(clusters, cubes, c, links, at[MUST], at[WANT], now)
            now[ASKED] = must
            if must >= 0:
                now[ASKED], now[WANTED] = _signed(clusters, cubes, c, must, at[WANT], signs)
        if now[ASKED] < 0:
            direct[c] = False
            continue
        for t in range(tests):
            column = cubes.test[at[TEST] + t]
            now[KEYS + 2 * t] = column if column >= 0 else ~column
            now[KEYS + 2 * t + 1] = 0 if column >= 0 else -1
        number = _shape_number(shape, shapes, slots)
        shapes = max(shapes, number + 1)
        row[c, 0], row[c, 1], row[c, 2] = at[BOUND], masked, at[CUBE]
        row[c, 3], row[c, 4] = n, number
        masked += 2 * n if now[MASKED] else 0
    return shapes


@kernel
def _least(cubes, chunked, row, least):
    """Write the least bounds of the chunks of these clusters."""
    at = 0
    for c in range(1, chunked.size):
        if not chunked[c]:
            continue
        first, n = cubes.starts[c, BOUND], cubes.starts[c + 1, CUBE] - cubes.starts[c, CUBE]
        row[c, LEAST] = at
        for t in range(cubes.starts[c + 1, TEST] - cubes.starts[c, TEST]):
            for begin in range(0, n, CHUNK):
                place = first + t * n + begin
                least[at] = cubes.bound[place : place + min(CHUNK, n - begin)].min()
                at += 1

"""Where the boxes of a small picture are: layer by layer, with edges that go down.

The usual steps of a layered drawing: edges that pass a layer get a joint in it, the order within
each layer follows the neighbours' means, then each layer is spaced. All edges of one kind that
lead to the same node share their joints, so that a hundred edges to 0 are drawn as one stem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

GAP = 28.0
JOINT = 10.0  # the width that a joint takes
SWEEPS = 12

Place = tuple[int, int, int]  # a node: (n, -1, layer); a joint: (its target, kind of edge, layer)
Edge = tuple[int, int, int]  # from node, to node, kind


@dataclass(frozen=True, slots=True)
class Layout:
    """`x` of the middle of nodes and joints; `segments` join places of neighbouring layers."""

    x: dict[Place, float]
    segments: list[tuple[Place, Place, int]]
    width: float


def layered(
    layers: Mapping[int, int], widths: Mapping[int, float], edges: Sequence[Edge]
) -> Layout:
    """Places for nodes with a layer each. An edge leads to a layer with a larger number."""
    if not layers:
        return Layout({}, [], 0.0)
    segments = _segments(layers, edges)
    rows = _rows(layers, segments)
    above, below = _neighbours(segments)
    rank = {place: i / len(row) for row in rows for i, place in enumerate(row)}
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _sort(row, rank, above if down else below)
    x = _spaced(rows, widths, above, below)
    left = min(x[p] - _width(p, widths) / 2 for p in x)
    x = {p: at - left for p, at in x.items()}
    return Layout(x, segments, max(x[p] + _width(p, widths) / 2 for p in x))


def _segments(layers: Mapping[int, int], edges: Sequence[Edge]) -> list[tuple[Place, Place, int]]:
    found: dict[tuple[Place, Place, int], None] = {}
    for source, target, kind in edges:
        at: Place = (source, -1, layers[source])
        for layer in range(layers[source] + 1, layers[target] + 1):
            last = layer == layers[target]
            to = (target, -1, layer) if last else (target, kind, layer)
            found[at, to, kind] = None
            at = to
    return list(found)


def _rows(
    layers: Mapping[int, int], segments: Sequence[tuple[Place, Place, int]]
) -> list[list[Place]]:
    rows: list[list[Place]] = [[] for _ in range(max(layers.values()) + 1)]
    places = [(n, -1, layer) for n, layer in layers.items()]
    places += [place for pair in segments for place in pair[:2] if place[1] >= 0]
    for place in dict.fromkeys(places):
        rows[place[2]].append(place)
    return rows


Neighbours = dict[Place, list[Place]]


def _neighbours(segments: Sequence[tuple[Place, Place, int]]) -> tuple[Neighbours, Neighbours]:
    above: Neighbours = {}
    below: Neighbours = {}
    for upper, lower, _ in segments:
        below.setdefault(upper, []).append(lower)
        above.setdefault(lower, []).append(upper)
    return above, below


def _sort(row: list[Place], rank: dict[Place, float], near: Neighbours) -> None:
    """Order a row by the mean rank of each one's neighbours."""
    row.sort(key=lambda p: _mean([rank[q] for q in near[p]]) if p in near else rank[p])
    rank.update((place, i / len(row)) for i, place in enumerate(row))


def _spaced(
    rows: list[list[Place]], widths: Mapping[int, float], above: Neighbours, below: Neighbours
) -> dict[Place, float]:
    x: dict[Place, float] = {}
    for row in rows:
        x.update(zip(row, _apart([0.0] * len(row), row, widths), strict=True))
    for sweep in range(2 * SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            wanted = [_wanted(p, above.get(p, []) + below.get(p, []), x) for p in row]
            x.update(zip(row, _apart(wanted, row, widths), strict=True))
    return x


def _wanted(place: Place, near: Sequence[Place], x: Mapping[Place, float]) -> float:
    """The mean of the neighbours. Joints pull joints, so that long edges become straight."""
    if not near:
        return x[place]
    pull = [8 if place[1] >= 0 and p[1] >= 0 else 1 for p in near]
    return sum(x[p] * w for p, w in zip(near, pull, strict=True)) / sum(pull)


def _apart(wanted: list[float], row: list[Place], widths: Mapping[int, float]) -> list[float]:
    """The places nearest to the wanted ones, in order and without overlap.

    With the least distances taken off this is a monotone fit: pool neighbours that are out of
    order, and give each pool its mean.
    """
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (_width(left, widths) + _width(right, widths)) / 2 + GAP)
    pools: list[tuple[float, int, int]] = []  # mean, weight, members
    for place, target, offset in zip(row, wanted, offsets, strict=True):
        mean, weight, members = target - offset, 4 if place[1] >= 0 else 1, 1
        while pools and pools[-1][0] > mean:
            before, heavy, many = pools.pop()
            mean = (mean * weight + before * heavy) / (weight + heavy)
            weight, members = weight + heavy, members + many
        pools.append((mean, weight, members))
    fitted = [mean for mean, _, members in pools for _ in range(members)]
    return [base + offset for base, offset in zip(fitted, offsets, strict=True)]


def _width(place: Place, widths: Mapping[int, float]) -> float:
    return widths[place[0]] if place[1] < 0 else JOINT


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)

"""What compiled subscriptions tell about themselves: never, always, and the same as another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.engine.compile.segment import Segment
from tamis.engine.layout import (
    BOUND,
    BOUNDS,
    CHECKED,
    CUBE,
    CUBE_COUNT,
    CUBES,
    NEED,
    NODE,
    ROOT,
    ROOT_NODE,
    TEST_COUNT,
    Cubes,
    Trees,
)
from tamis.engine.live.state import State

Code = tuple[
    int, int, int, bytes
]  # cluster (or ~tree), place of the result, requirement, nodes or cube
_CUBE = -1  # the place of a cube's result, which has none


@dataclass(frozen=True, slots=True)
class Report:
    """Ids of subscriptions that no message can match, that every message matches, and groups of
    ids that match the same messages.

    Claims are proved by the diagrams: what they cannot decide is not listed.
    """

    unsatisfiable: tuple[str | int, ...]
    always_true: tuple[str | int, ...]
    duplicates: tuple[tuple[str | int, ...], ...]


def _free(segment: Segment, requirement: int) -> bool:
    """Whether the requirement asks for nothing."""
    offsets = segment.requirements.offsets
    return bool(offsets[requirement] == offsets[requirement + 1])


def report(state: State, ids: list[str | int]) -> Report:
    unsatisfiable: list[int] = []
    always: list[int] = []
    groups: dict[object, list[int]] = {}
    for number, part in enumerate(state.parts):
        segment, known = part.segment, _codes(part.segment)
        for subscription in np.flatnonzero(part.alive).tolist():
            codes = sorted(known.get(subscription, ()))
            slot = int(segment.source.slot[subscription])
            if all(place == 0 for _, place, _, _ in codes):
                unsatisfiable.append(slot)
            elif codes[0][:2] == (0, 1) and len(codes) == 1 and _free(segment, codes[0][2]):
                always.append(slot)
            else:
                groups.setdefault((number, *codes), []).append(slot)
    return Report(
        tuple(ids[s] for s in sorted(unsatisfiable)),
        tuple(ids[s] for s in sorted(always)),
        tuple(tuple(ids[s] for s in sorted(g)) for g in groups.values() if len(g) > 1),
    )


def _codes(segment: Segment) -> dict[int, list[Code]]:
    """Of each subscription: what it is in every cluster where some message can match it."""
    clusters = segment.clusters
    found: dict[int, list[Code]] = {}
    _add_cubes(segment.cubes, found)
    _add_trees(segment.trees, found)
    for c in np.flatnonzero(np.diff(clusters.starts[:, ROOT])).tolist():
        at, end = clusters.starts[c], clusters.starts[c + 1]
        roots = clusters.root[at[ROOT] : end[ROOT]]
        bounds = np.append(roots[:, ROOT_NODE], end[NODE] - at[NODE]) + at[NODE]
        needs = clusters.need[at[NEED] : end[NEED]]
        for i, (_, place, subscription, need) in enumerate(roots.tolist()):
            nodes = clusters.node[bounds[i] : bounds[i + 1]].tobytes()
            found.setdefault(subscription, []).append((c, place, int(needs[need]), nodes))
    return found


def _add_cubes(cubes: Cubes, found: dict[int, list[Code]]) -> None:
    """Two subscriptions with equal cubes in a cluster match the same messages there. Bits that all
    cubes of the cluster ask for need no telling."""
    for c in np.flatnonzero(np.diff(cubes.starts[:, CUBE])).tolist():
        at, end = cubes.starts[c], cubes.starts[c + 1]
        owners = cubes.subscription[at[CUBE] : end[CUBE]].tolist()
        asked = cubes.bound[at[BOUND] : end[BOUND]].reshape(-1, len(owners)).T
        for subscription, cube in zip(owners, asked, strict=True):
            found.setdefault(subscription, []).append((c, _CUBE, 0, cube.tobytes()))


def _add_trees(trees: Trees, found: dict[int, list[Code]]) -> None:
    """The same of the cubes of trees, each with the program that it is checked by."""
    for number, tree in enumerate(trees.tree):
        tests, count, first = (int(tree[c]) for c in (TEST_COUNT, CUBE_COUNT, CUBES))
        full, at = count & ~7, int(tree[BOUNDS])
        even = trees.bound[at : at + full * tests].reshape(-1, tests, 8).transpose(0, 2, 1)
        rest = trees.bound[at + full * tests : at + count * tests].reshape(tests, -1).T
        cubes = np.concatenate([even.reshape(-1, tests), rest])
        owners = trees.subscription[first : first + count].tolist()
        for i, (subscription, cube) in enumerate(zip(owners, cubes, strict=True)):
            code = cube.tobytes()
            if tree[CHECKED] >= 0:
                p = trees.check[tree[CHECKED] + i]
                code += trees.word[trees.program[p] : trees.program[p + 1]].tobytes()
            found.setdefault(subscription, []).append((-1 - number, _CUBE, 0, code))

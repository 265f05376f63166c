"""What compiled subscriptions tell about themselves: never, always, and the same as another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.engine.choosing.path import Code
from tamis.engine.live.state import State
from tamis.engine.paths.segment import Segment


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
    return requirement < 0 or bool(offsets[requirement] == offsets[requirement + 1])


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
    """Of each subscription: what decides it in every place where some message can match it."""
    codes: dict[int, list[Code]] = {}
    for path in segment.paths:
        path.codes(lambda subscription, code: codes.setdefault(subscription, []).append(code))
    return codes

"""Boxes: what some subscriptions with the same tests ask of keys, one bound for each test."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.diagram.bdd import HIGHEST, LOWEST
from tamis.engine.ground.layout import I4, I8

LEAST = 64  # cubes of a tree
MOST_TESTS = 16
MOST_WORDS = 256  # of a program that is checked for what a box finds
_SAMPLE, _PROBES = 20_000, 1_000  # cubes and values that shares are estimated with
Flag = tuple[int, int, int]  # column, bit, and whether it must be set


class Shape(NamedTuple):
    """What the cubes of one tree have in common."""

    tests: tuple[int, ...]  # columns, as in Trees
    flags: tuple[Flag, ...]
    checked: bool


class Box(NamedTuple):
    shape: Shape
    subscription: I4
    bounds: I8  # test x subscription


class Range(NamedTuple):
    """What cubes ask of one attribute."""

    low: I8
    high: I8
    open: bool  # on one side


def ranges(tests: tuple[int, ...], bounds: I8) -> list[Range]:
    """The bounds by attribute."""
    sides: dict[int, list[I8 | None]] = {}
    for test, bound in zip(tests, bounds, strict=True):
        sides.setdefault(max(test, ~test), [None, None])[test < 0] = bound
    found = []
    for low, high in sides.values():
        least = np.full(bounds.shape[1], LOWEST) if low is None else low
        most = np.full(bounds.shape[1], HIGHEST) if high is None else ~high
        found.append(Range(least, most, low is None or high is None))
    return found


def share(given: Range) -> float:
    """The expected share of the ranges that hold a value, if values are like the bounds."""
    count = len(given.low)
    step = max(1, count // _SAMPLE)
    low, high = np.sort(given.low[::step]), np.sort(given.high[::step])
    ends = low if low[-1] != LOWEST else high
    probes = ends[:: max(1, len(ends) // _PROBES)]
    inside = np.searchsorted(low, probes, "right") - np.searchsorted(high, probes, "left")
    # each probe lies in the range that it was taken from, which says little of other values
    return (float(inside.mean()) - 0.75) / len(low)

"""Exact thresholds: every numeric inequality becomes `v < c` for one canonical c.

Three lines of numbers occur. An INT attribute holds 64-bit integers, a DOUBLE
attribute holds doubles, and an attribute of no declared type may hold either:
its line is the union of both, compared exactly (2^53 + 1 is not 2^53). `at_least(c)`
is the smallest number of the line that is >= c, `above(c)` the smallest > c;
then `v < c` is `v < at_least(c)` and `v <= c` is `v < above(c)` for every v of
the line, and equal meanings get equal constants.
"""

from __future__ import annotations

import math

from tamis.schema import INT_MAX, INT_MIN, Type

Number = int | float


def simplest(number: Number) -> Number:
    """One spelling per number: 10.0 is 10, -0.0 is 0; infinities stay."""
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number


def next_double(number: Number) -> float:
    """The smallest double > number."""
    near = _nearest(number)
    return near if near > number else math.nextafter(near, math.inf)


def double_at_least(number: Number) -> float:
    """The smallest double >= number."""
    near = _nearest(number)
    return near if near >= number else math.nextafter(near, math.inf)


def at_least(number: Number, line: Type | None) -> Number:
    """The smallest number of the line that is >= number (may lie beyond its end: see `is_end`)."""
    if line is Type.INT:
        return number if math.isinf(number) else math.ceil(number)
    if line is Type.DOUBLE:
        return simplest(double_at_least(number))
    return simplest(number)


def above(number: Number, line: Type | None) -> Number:
    """The smallest number of the line that is > number."""
    if line is Type.INT:
        return number if math.isinf(number) else math.floor(number) + 1
    double = next_double(number)
    if line is Type.DOUBLE:
        return simplest(double)
    whole = math.floor(number) + 1 if not math.isinf(number) else double
    if not INT_MIN <= whole <= INT_MAX:
        return simplest(double)
    return simplest(min(whole, double))


def never_below(number: Number, line: Type | None) -> bool:
    """No value of the line is < number."""
    return number <= INT_MIN if line is Type.INT else number == -math.inf


def always_below(number: Number, line: Type | None) -> bool:
    """Every value of the line is < number. (Infinity is a value of the double lines.)"""
    return line is Type.INT and number > INT_MAX


def on_line(number: Number, line: Type | None) -> bool:
    """Whether some value of the line equals number."""
    if line is Type.INT:
        return (
            not math.isinf(number) and number == math.floor(number) and INT_MIN <= number <= INT_MAX
        )
    if line is Type.DOUBLE:
        return double_at_least(number) == number
    return True


def _nearest(number: Number) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf

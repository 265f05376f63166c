"""What a test can ask of an attribute whose values the channel restricts.

An unsigned int is never below 0, a float has 24 bits, and a publisher may promise two decimals: the
patent's `price > 3.54122` is then `price > 3.54`. Messages that keep to the channel match the same.
"""

from __future__ import annotations

import math
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from tamis.logic import sets
from tamis.logic.conjunctions import Conjunction
from tamis.logic.dnf import Filter
from tamis.logic.numbers import simplest
from tamis.logic.sets import Line, Values
from tamis.pubsub.subjects.channel import Channel, ChannelAttribute
from tamis.pubsub.subjects.typecodes import FORMS, TypeCode

_EXACT = Context(prec=1100, Emax=999_999, Emin=-999_999)


def fitted(filter: Filter, channel: Channel) -> Filter:
    """The filter as the channel's messages need it; what none of them satisfies is left out."""
    found = [_fitted_conjunction(one, channel) for one in filter.disjuncts]
    kept = dict.fromkeys(one for one in found if one is not None)
    return Filter(tuple(kept), filter.wider)


def _fitted_conjunction(one: Conjunction, channel: Channel) -> Conjunction | None:
    tests = []
    for name, values in one:
        position = channel.positions.get(name)
        if position is not None:
            fitting = fitted_values(values, channel.attributes[position])
            if fitting is None:
                return None
            values = fitting
        tests.append((name, values))
    return tuple(tests)


def fitted_values(values: Values, attribute: ChannelAttribute) -> Values | None:
    """The values of the attribute that are in the set."""
    if values.line is Line.INT:
        return _whole(values, FORMS[attribute.type].least, FORMS[attribute.type].most)
    if values.line is Line.DOUBLE and attribute.decimals is not None:
        values_or_none = _decimal(values, attribute.decimals)
        if values_or_none is None:
            return None
        values = values_or_none
    if values.line is Line.DOUBLE and attribute.type is TypeCode.FLOAT:
        return _single(values)
    return values


def _whole(values: Values, least: int, most: int) -> Values | None:
    if values.members is not None:
        return sets.among(Line.INT, [v for v in values.members if least <= v <= most])
    if (values.low or 0) > most or (values.high is not None and values.high < least):
        return None
    low = None if values.low is None or values.low <= least else values.low
    high = None if values.high is None or values.high >= most else values.high
    if low == most or high == least:
        return sets.among(Line.INT, [most if low == most else least])
    return sets.span(Line.INT, low, high, values.without)


# --- decimals -------------------------------------------------------------------


def _decimal(values: Values, decimals: int) -> Values | None:
    if values.members is not None:
        return sets.among(Line.DOUBLE, [v for v in values.members if on_grid(v, decimals)])
    low, high = values.low, values.high
    if low is not None and not on_grid(low, decimals):
        low = sets.after(Line.DOUBLE, grid(low, decimals, up=False))
    if high is not None and not on_grid(high, decimals):
        high = sets.before(Line.DOUBLE, grid(high, decimals, up=True))
    without = [v for v in values.without if on_grid(v, decimals)]
    return sets.span(Line.DOUBLE, low, high, without)


def grid(number: float, decimals: int, *, up: bool) -> float | int:
    """The nearest number of so many decimals that is not above (`up`: not below)."""
    if math.isinf(number):
        return number
    unit = Decimal(1).scaleb(-decimals)
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return simplest(float(Decimal(number).quantize(unit, rounding, _EXACT)))


def on_grid(number: float, decimals: int) -> bool:
    """Whether the number is the double of some decimal number of so many decimals."""
    return math.isinf(number) or float(round(float(number), decimals)) == number


# --- floats of 32 bits ----------------------------------------------------------


def _single(values: Values) -> Values | None:
    if values.members is not None:
        return sets.among(Line.DOUBLE, [v for v in values.members if is_single(v)])
    low = None if values.low is None else _single_at_least(values.low)
    high = None if values.high is None else -_single_at_least(-values.high)
    if low is not None and high is not None and low > high:
        return None
    return sets.span(Line.DOUBLE, low, high, [v for v in values.without if is_single(v)])


def is_single(number: float) -> bool:
    return _nearest_single(number) == number


def _nearest_single(number: float) -> float:
    try:
        return float(struct.unpack(">f", struct.pack(">f", float(number)))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _single_at_least(number: float) -> float | int:
    """The smallest float of 32 bits that is >= number."""
    near = _nearest_single(number)
    if near < number:
        bits = struct.unpack(">i", struct.pack(">f", near))[0]
        bits += 1 if bits >= 0 else -1
        if near == 0:
            bits = 1
        near = struct.unpack(">f", struct.pack(">i", bits))[0]
    return simplest(near)

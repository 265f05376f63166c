"""The value of an attribute in one message."""

import datetime
import decimal
import enum
import math
from types import MappingProxyType

import numpy as np
import pytest

from tamis.errors import MessageError
from tamis.messages import lookup

UTC = datetime.UTC
MIDNIGHT = datetime.datetime(2000, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    ["IBM", "", "naïve 🙂", 0, -(2**63), 2**63 - 1, 1.5, -0.0, math.inf, True, False, MIDNIGHT],
)
def test_a_plain_value_is_found_as_it_is(value):
    found = lookup({"v": value}, "v")
    assert found is value


@pytest.mark.parametrize("value", [None, math.nan, np.float32("nan"), np.datetime64("NaT")])
def test_none_and_nan_are_undefined(value):
    assert lookup({"v": value}, "v") is None
    assert lookup({"a": {"v": value}}, "a.v") is None


def test_the_exact_key_wins_over_nesting():
    assert lookup({"a.b": 1, "a": {"b": 2}}, "a.b") == 1
    assert lookup({"a.b": None, "a": {"b": 2}}, "a.b") is None
    assert lookup({"a": {"b": 2}}, "a.b") == 2
    assert lookup({"a": MappingProxyType({"b": {"c": "x"}})}, "a.b.c") == "x"


@pytest.mark.parametrize(
    "message", [{}, {"a": None}, {"a": 5}, {"a": {}}, {"a": b"x"}, {"a": {"b": None}}]
)
def test_a_path_that_leads_nowhere_is_undefined(message):
    assert lookup(message, "a.b") is None
    assert lookup(message, "a.b.c") is None


@pytest.mark.parametrize("text", ["12.50", "0.1", "-0.0", "1E+3", "Infinity", "-1e-300", "9" * 15])
def test_a_decimal_is_a_double(text):
    found = lookup({"v": decimal.Decimal(text)}, "v")
    assert type(found) is float
    assert found == float(text)


@pytest.mark.parametrize("text", ["0.1234567890123456789", "9007199254740993", "1E+400", "1E-400"])
def test_a_decimal_with_more_digits_is_refused(text):
    with pytest.raises(MessageError, match=r"v = .* has more digits than a double"):
        lookup({"v": decimal.Decimal(text)}, "v")


@pytest.mark.parametrize("text", ["NaN", "sNaN", "-NaN"])
def test_a_decimal_that_is_no_number_is_undefined(text):
    assert lookup({"v": decimal.Decimal(text)}, "v") is None


def test_pandas_missing_values_are_undefined():
    pandas = pytest.importorskip("pandas")
    for value in (pandas.NA, pandas.NaT):
        assert lookup({"v": value}, "v") is None
        assert lookup({"a": {"v": value}}, "a.v") is None


def test_dates_and_times_become_utc():
    two_hours = datetime.timezone(datetime.timedelta(hours=2))
    for value in (
        datetime.date(2000, 2, 1),
        datetime.datetime(2000, 2, 1),
        datetime.datetime(2000, 2, 1, 2, tzinfo=two_hours),
        np.datetime64("2000-02-01"),
        np.datetime64("2000-02-01T00:00:00.000000999"),
    ):
        found = lookup({"v": value}, "v")
        assert found == MIDNIGHT
        assert found.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        np.datetime64("20000-01-01"),
    ],
)
def test_a_time_beyond_the_calendar_is_an_error(value):
    with pytest.raises(MessageError, match="9999"):
        lookup({"v": value}, "v")


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.int8(-3), -3),
        (np.uint64(2**63 - 1), 2**63 - 1),
        (np.float32(0.5), 0.5),
        (np.float64(1.5), 1.5),
        (np.longdouble(2), 2.0),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.array(7), 7),
        (Colour.RED, "red"),
        (Level.LOW, 1),
    ],
)
def test_relatives_of_plain_values_become_plain(value, plain):
    found = lookup({"v": value}, "v")
    assert found == plain
    assert type(found) is type(plain)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, np.uint64(2**63), 10**10_000], ids=range(4))
def test_an_integer_beyond_64_bits_is_an_error(value):
    with pytest.raises(MessageError, match=r"^v = .* does not fit into 64 bits$") as caught:
        lookup({"v": value}, "v")
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("path", ["v", "a.v"])
def test_a_lone_surrogate_is_an_error(path):
    with pytest.raises(MessageError, match="lone surrogate"):
        lookup({"v": "\ud800", "a": {"v": "x\udfff"}}, path)


@pytest.mark.parametrize("value", [[1, None], (1, np.nan), np.array([1.0, np.nan])])
def test_lists_of_any_kind_are_lists(value):
    assert lookup({"v": value}, "v") == [1, None]
    assert lookup({"v": [{"x": 1}, {"x": None}]}, "v.x") == [1, None]
    assert lookup({"v": [[1, 2], datetime.date(2000, 2, 1)]}, "v") == [
        [1, 2],
        datetime.datetime(2000, 2, 1, tzinfo=datetime.UTC),
    ]


@pytest.mark.parametrize("value", [b"x", {"b": 1}, object(), np.ones((1, 1)), 1j])
def test_other_values_are_defined_and_left_alone(value):
    assert lookup({"v": value}, "v") is value

"""Never, always, the same: what subscriptions tell about themselves."""

from tamis import Matcher, Schema

SCHEMA = Schema.of(price=float, volume=int, symbol=str)


def test_add_tells_of_conditions_that_never_or_always_match() -> None:
    matcher = Matcher(SCHEMA)
    assert matcher.add("never", "price < 3 AND price > 5") == "unsatisfiable"
    assert matcher.add("also never", "FALSE") == "unsatisfiable"
    assert matcher.add("always", "price IS NULL OR price IS NOT NULL") == "always true"
    assert matcher.add("everything", "") == "always true"
    assert matcher.add("where there is a price", "price < 3 OR price >= 3") is None
    assert matcher.add("usual", "price < 3") is None


def test_report_finds_conditions_that_mean_the_same() -> None:
    matcher = Matcher(SCHEMA)
    matcher.add_many(
        {
            "a": "price < 10 AND volume > 5",
            "b": "volume >= 6 AND NOT price >= 10",
            "c": "price < 10 AND volume > 6",
            "d": "symbol IN ('x')",
            "e": "'x' = symbol",
            "f": "price < 1 AND price > 2",
        }.items()
    )
    report = matcher.report()
    assert report.duplicates == (("a", "b"), ("d", "e"))
    assert report.unsatisfiable == ("f",)
    assert report.always_true == ()


def test_duplicates_are_found_under_access_events_too() -> None:
    matcher = Matcher(SCHEMA)
    matcher.add_many((i, f"symbol = 's{i % 20}' AND price < 10") for i in range(40))
    groups = matcher.report().duplicates
    assert sorted(groups) == [(i, i + 20) for i in range(20)]


def test_conditions_of_several_cubes_are_compared_as_a_whole() -> None:
    matcher = Matcher(SCHEMA)
    matcher.add_many((f"a{i}", f"symbol = 's{i}' AND price < 10") for i in range(20))
    matcher.add("b", "symbol = 's1' AND (price < 5 AND volume < 3 OR price > 8)")
    matcher.add("c", "(price > 8 OR volume <= 2 AND price < 5) AND symbol = 's1'")
    matcher.add("d", "symbol = 's1' AND (price < 5 AND volume < 4 OR price > 8)")
    matcher.add("e", "symbol = 's1' AND price < 5 AND volume < 3")
    matcher.settle()
    report = matcher.report()
    assert report.duplicates == (("b", "c"),)
    assert report.unsatisfiable == report.always_true == ()


def test_what_never_matches_leaves_no_cube() -> None:
    matcher = Matcher(SCHEMA)
    matcher.add_many((i, f"symbol = 's{i}' AND price < 10") for i in range(20))
    assert matcher.add("never", "symbol = 's1' AND price < 3 AND price > 5") == "unsatisfiable"
    assert matcher.add("seldom", "symbol = 's1' AND price < 3 AND price >= 2") is None
    matcher.settle()
    report = matcher.report()
    assert report.unsatisfiable == ("never",)
    assert report.duplicates == ()


def test_a_removed_subscription_is_not_reported() -> None:
    matcher = Matcher(SCHEMA)
    matcher.add("f", "FALSE")
    matcher.remove("f")
    assert matcher.report().unsatisfiable == ()


def test_covers_and_example_by_id() -> None:
    matcher = Matcher(SCHEMA)
    matcher.add("wide", "price < 10")
    matcher.add("narrow", "price < 5 AND volume > 3")
    assert matcher.covers("wide", "narrow")
    assert not matcher.covers("narrow", "wide")
    found = matcher.example("narrow")
    assert found is not None
    assert "narrow" in matcher.match(found)

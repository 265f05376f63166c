"""EventBridge patterns and SNS policies: the documented meaning of each operator, case by case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tamis import Matcher, RuleError, Schema
from tamis.language import canonical
from tamis.rules import condition

PAIRS = Path(__file__).parents[1] / "golden" / "moto_pairs.jsonl"


def says(language: str, rule: object, message: dict[str, object], schema: Schema | None = None):
    matcher = Matcher(schema)
    matcher.add("rule", canonical(condition(language, rule, schema=schema)))
    one = matcher.match(message) == ["rule"]
    assert matcher.match_batch([message]).to_pylist() == [["rule"] if one else []]
    return one


# operators, values that they match, values that they do not; one array of the pattern each
LEAVES = [
    (["a", "b"], ["a", "b", ["x", "b"]], ["c", "A", [], ["x"], 1, {"a": "a"}]),
    ([1, 2.5], [1, 1.0, 2.5, ["1", 2.5]], ["1", 2, True, [2]]),
    ([True], [True, [False, True]], [False, 1, "true"]),
    ([""], ["", ["", "a"]], ["a", []]),
    ([{"prefix": "ab"}], ["ab", "abc", ["x", "abc"]], ["b", "Abc", 12]),
    ([{"prefix": "a%"}], ["a%b"], ["abc"]),
    ([{"suffix": "bc"}], ["bc", "abc"], ["abcd", "BC"]),
    ([{"equals-ignore-case": "aBÄ"}], ["ABä", ["x", "abä"]], ["ab", 1]),
    ([{"prefix": {"equals-ignore-case": "Ab"}}], ["aBc", "AB"], ["bab"]),
    ([{"suffix": {"equals-ignore-case": "Bc"}}], ["abC", "bc"], ["bcd"]),
    ([{"exactly": "a"}], ["a"], ["b"]),
    ([{"wildcard": "a*c"}], ["ac", "abc", "a*c", "a\nc"], ["abd", "xac", 1]),
    ([{"wildcard": "a\\*c*"}], ["a*c", "a*cd"], ["abc"]),
    ([{"wildcard": "a\\\\c"}], ["a\\c"], ["ac", "a\\\\c"]),
    ([{"wildcard": "*_%*"}], ["a_%b"], ["a_b"]),
    ([{"numeric": ["=", 3e2]}], [300, 300.0, [1, 300]], [301, "300"]),
    ([{"numeric": [">", 0, "<=", 5]}], [5, 0.1, [-1, 3]], [0, 5.1, [-1, 6], "3"]),
    ([{"numeric": [">=", 0, "<", 5]}], [0, 4.9], [5, -0.1, [-1, 5]]),
    ([{"numeric": ["<", 10]}], [9, -1e300], [10, True]),
    ([{"anything-but": "a"}], ["b", 1, True, ["a", "b"]], ["a", ["a", "a"], [], {"x": 1}]),
    ([{"anything-but": ["a", "b"]}], ["c", 1, ["a", "c"]], ["a", "b", ["a", "b"], [{"x": "a"}]]),
    ([{"anything-but": 5}], [6, "5", ["x"]], [5, 5.0, [5]]),
    ([{"anything-but": [5, 6]}], [7, "5"], [5, 6.0]),
    ([{"anything-but": {"prefix": "in"}}], ["out", 1], ["in", "init"]),
    ([{"anything-but": {"prefix": ["in", "o"]}}], ["a"], ["in", "out"]),
    ([{"anything-but": {"suffix": ".png"}}], ["a.jpg", 1], ["a.png"]),
    ([{"anything-but": {"equals-ignore-case": "aB"}}], ["abc", 1], ["AB", "ab"]),
    ([{"anything-but": {"equals-ignore-case": ["aB", "c"]}}], ["abc"], ["AB", "C"]),
    ([{"anything-but": {"wildcard": "*/lib/*"}}], ["/src/x"], ["/lib/x"]),
    ([{"cidr": "10.1.0.0/16"}], ["10.1.2.3", ["x", "10.1.0.0"]], ["10.2.0.0", "x", 10, "::"]),
    ([{"cidr": "2001:db8::/32"}], ["2001:db8::5", ["2001:DB8::"]], ["2001:db9::", "10.1.2.3"]),
    ([{"exists": True}], ["", 0, False, "a", ["a"], [0]], [{"x": 1}, [], {}]),
    ([{"exists": False}], [{"x": 1}, [], {}], ["", 0, False, ["a"], [False]]),
    (["x", {"prefix": "a"}, {"numeric": [">", 3]}], ["x", "ab", 4, [1, "ab"]], ["b", 3, [1, "b"]]),
]  # fmt: skip


@pytest.mark.parametrize(("leaf", "yes", "no"), LEAVES, ids=lambda one: json.dumps(one)[:40])
def test_leaves(leaf, yes, no):
    rule = {"detail": {"a": leaf}}
    for value in yes:
        assert says("eventbridge", rule, {"detail": {"a": value}}), value
    for value in no:
        assert not says("eventbridge", rule, {"detail": {"a": value}}), value
    absent = leaf == [{"exists": False}]
    for message in ({}, {"detail": {}}, {"detail": {"b": "a"}}):
        assert says("eventbridge", rule, message) is absent


def test_all_fields_must_hold_and_other_fields_do_not_count():
    rule = {"source": ["aws.ec2"], "detail": {"state": ["running"], "n": [{"numeric": ["<", 3]}]}}
    event = {"source": "aws.ec2", "detail": {"state": "running", "n": 2, "more": 1}, "id": "7"}
    assert says("eventbridge", rule, event)
    assert not says("eventbridge", rule, {**event, "source": "aws.s3"})
    assert not says("eventbridge", rule, {"source": "aws.ec2"})


OR = {
    "source": ["s"],
    "$or": [{"a": [1]}, {"b": [2], "c": [3], "$or": [{"d": [4]}, {"e": [5]}]}, {"f": {"g": [6]}}],
}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"a": 1}, True),
        ({"b": 2, "c": 3}, False),
        ({"b": 2, "c": 3, "e": 5}, True),
        ({"f": {"g": 6}}, True),
        ({}, False),
    ],
)
def test_or(event, expected):
    assert says("eventbridge", OR, {"source": "s", **event}) is expected
    assert not says("eventbridge", OR, {"source": "t", **event})


def test_fields_of_one_object_do_not_come_from_two_elements_of_an_array():
    rule = {"detail": {"employees": {"first": ["Anna"], "last": ["Jones"]}}}
    people = [{"first": "Anna", "last": "Smith"}, {"first": "Peter", "last": "Jones"}]
    assert not says("eventbridge", rule, {"detail": {"employees": people}})
    assert says("eventbridge", rule, {"detail": {"employees": {"first": "Anna", "last": "Jones"}}})
    one = {"detail": {"employees": {"first": ["Anna"]}}}
    assert says("eventbridge", one, {"detail": {"employees": people}})


def test_a_schema_says_which_attributes_are_lists():
    schema = Schema.of(source=str, resources=list[str], n=int)
    rule = {"source": [{"anything-but": "a"}], "resources": [{"prefix": "x"}], "n": ["text", 3]}
    text = canonical(condition("eventbridge", rule, schema=schema))
    assert text == "NOT source = 'a' AND any(resources) STARTS WITH 'x' AND n = 3"
    assert says("eventbridge", rule, {"source": "b", "resources": ["y", "xy"], "n": 3}, schema)
    with pytest.raises(RuleError, match=r"state: the schema has no attribute state"):
        condition("eventbridge", {"state": ["a"]}, schema=schema)


def test_two_lists_of_one_object_may_have_to_be_of_one_element():
    schema = Schema.of(**{"items.sku": list[str], "items.price": list[float]})
    rule = {"items": {"sku": ["a"], "price": [{"numeric": [">", 1]}]}}
    with pytest.raises(RuleError, match="same element"):
        condition("sns", rule, schema=schema)


REFUSED = [
    ({}, "empty object"),
    ({"a": {}}, "empty object"),
    ({"a": []}, "empty array"),
    ({"a": "b"}, "form"),
    ({"a": 1}, "form"),
    ([], "form"),
    ({"a": [["b"]]}, "form"),
    ({"a": [None]}, "null"),
    ({"a": [{"cidr": "10.0.0.0/33"}]}, "cidr"),
    ({"a": [{"cidr": "10.0.0/8"}]}, "cidr"),
    ({"a": [{"cidr": "10.0.0.1"}]}, "cidr"),
    ({"a": [{"cidr": 10}]}, "cidr"),
    ({"a": [{"cidr": "2001:db8::/80"}]}, "cidr of a list"),
    ({"a": [{"regex": "x"}]}, "regex"),
    ({"a": [{"prefix": "x", "suffix": "y"}]}, "form"),
    ({"a": [{}]}, "form"),
    ({"a": [{"prefix": 1}]}, "prefix"),
    ({"a": [{"prefix": {"wildcard": "a"}}]}, "prefix"),
    ({"a": [{"suffix": ["x"]}]}, "suffix"),
    ({"a": [{"equals-ignore-case": ["x"]}]}, "equals-ignore-case"),
    ({"a": [{"wildcard": "a**b"}]}, "wildcard"),
    ({"a": [{"wildcard": "a\\b"}]}, "wildcard"),
    ({"a": [{"wildcard": "a\\"}]}, "wildcard"),
    ({"a": [{"exists": "true"}]}, "exists"),
    ({"a": [{"numeric": []}]}, "numeric"),
    ({"a": [{"numeric": [">", "1"]}]}, "numeric"),
    ({"a": [{"numeric": [">", True]}]}, "numeric"),
    ({"a": [{"numeric": ["!=", 1]}]}, "numeric"),
    ({"a": [{"numeric": [">", 5, "<", 5]}]}, "numeric"),
    ({"a": [{"numeric": ["<", 5, ">", 1]}]}, "numeric"),
    ({"a": [{"numeric": [">", 1, "<"]}]}, "numeric"),
    ({"a": [{"numeric": [">", 6e9]}]}, "number"),
    ({"a": [10**30]}, "number"),
    ({"a": [{"anything-but": []}]}, "anything-but"),
    ({"a": [{"anything-but": [None]}]}, "anything-but"),
    ({"a": [{"anything-but": True}]}, "anything-but"),
    ({"a": [{"anything-but": ["a", 1]}]}, "anything-but"),
    ({"a": [{"anything-but": {"prefix": ""}}]}, "anything-but prefix"),
    ({"a": [{"anything-but": {"prefix": 1}}]}, "anything-but prefix"),
    ({"a": [{"anything-but": {"numeric": ["=", 1]}}]}, "anything-but numeric"),
    ({"a": [{"anything-but": {"prefix": "a", "suffix": "b"}}]}, "anything-but"),
    ({"$or": [{"a": [1]}]}, "$or"),
    ({"$or": {"a": [1]}}, "$or"),
    ({"$or": [{"a": [1]}, "b"]}, "$or"),
    ({"$or": [{"a": [1]}, {"prefix": ["b"]}]}, "$or"),
    ({"a": ["\0"]}, "NUL"),
    ({"a": ["\ud800"]}, "surrogate"),
]


@pytest.mark.parametrize(("rule", "construct"), REFUSED, ids=lambda one: repr(one)[:40])
def test_what_cannot_be_said_is_refused_by_name(rule, construct):
    with pytest.raises(RuleError) as caught:
        condition("eventbridge", rule)
    assert caught.value.construct == construct


def test_message_attributes_are_not_nested_and_sns_has_no_wildcard():
    assert says("sns", {"a": ["x"], "b": [{"anything-but": ["y"]}]}, {"a": "x", "b": ["y", "z"]})
    with pytest.raises(RuleError, match="SNS has no operator 'wildcard'"):
        condition("sns", {"a": [{"wildcard": "x*"}]})


@pytest.mark.parametrize("language", ["eventbridge", "sns"])
def test_pairs_that_moto_answered(language):
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["language"] == language]
    matcher = Matcher()
    texts = [canonical(condition(language, row["rule"])) for row in rows]
    matcher.add_many(enumerate(texts))
    found = matcher.match_batch([row["message"] for row in rows]).to_pylist()
    wrong = [row for i, row in enumerate(rows) if (i in found[i]) is not row["matches"]]
    assert wrong == []
    assert len(rows) == 150

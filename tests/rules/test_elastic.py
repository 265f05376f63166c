"""Queries of Elasticsearch: what each holds of, and what is refused."""

from __future__ import annotations

import datetime
import json

import pytest

from tamis import Matcher, RuleError, Schema
from tamis.language import canonical
from tamis.rules import condition, import_rules


def says(query, document, schema=None):
    matcher = Matcher(schema)
    matcher.add("q", canonical(condition("elastic", query, schema=schema)))
    one = matcher.match(document) == ["q"]
    assert matcher.match_batch([document]).to_pylist() == [["q"] if one else []]
    return one


A, B, C = ({"term": {name: 1}} for name in "abc")


@pytest.mark.parametrize(
    ("query", "yes", "no"),
    [
        ({"match_all": {}}, [{}], []),
        ({"match_none": {}}, [], [{}]),
        (
            {"term": {"a": "x"}},
            [{"a": "x"}, {"a": ["y", "x"]}],
            [{"a": "X"}, {}, {"a": {"b": "x"}}],
        ),
        ({"term": {"a": {"value": "x", "boost": 2}}}, [{"a": "x"}], [{"a": "y"}]),
        ({"term": {"a": {"value": "xY", "case_insensitive": True}}}, [{"a": "Xy"}], [{"a": "xyz"}]),
        ({"term": {"a": 5}}, [{"a": 5}, {"a": "5"}, {"a": [5.0]}], [{"a": 6}]),
        ({"term": {"a": True}}, [{"a": True}, {"a": "true"}], [{"a": 1}, {"a": False}]),
        (
            {"terms": {"a": ["x", 2], "boost": 1}},
            [{"a": "x"}, {"a": "2"}, {"a": [2]}],
            [{"a": "y"}],
        ),
        ({"terms": {"a": []}}, [], [{"a": "x"}]),
        ({"ids": {"values": ["1", "2"]}}, [{"_id": "2"}], [{"_id": "3"}, {}]),
        (
            {"exists": {"field": "a"}},
            [{"a": ""}, {"a": [0]}, {"a": False}],
            [{}, {"a": None}, {"a": []}],
        ),
        ({"prefix": {"a": "x%"}}, [{"a": "x%y"}, {"a": ["z", "x%"]}], [{"a": "xy"}]),
        ({"prefix": {"a": {"value": "X", "case_insensitive": True}}}, [{"a": "xy"}], [{"a": "yx"}]),
        ({"wildcard": {"a": "x*y?"}}, [{"a": "xyz"}, {"a": "x--yz"}], [{"a": "xy"}]),
        ({"wildcard": {"a": {"wildcard": r"x\*"}}}, [{"a": "x*"}], [{"a": "xy"}]),
        ({"regexp": {"a": "x.*|y"}}, [{"a": "x\nz"}, {"a": "y"}], [{"a": "wy"}, {"a": "yz"}]),
        (
            {"range": {"a": {"gt": 1, "lte": 3}}},
            [{"a": 3}, {"a": [0, 2]}],
            [{"a": 1}, {"a": [0, 5]}],
        ),
        ({"range": {"a": {"gte": 1}}}, [{"a": 1}, {"a": [1]}], [{"a": 0.5}, {"a": "2"}]),
        ({"constant_score": {"filter": A}}, [{"a": 1}], [{}]),
        ({"dis_max": {"queries": [A, B]}}, [{"a": 1}, {"b": 1}], [{"c": 1}]),
        (
            {"boosting": {"positive": A, "negative": B, "negative_boost": 0.5}},
            [{"a": 1, "b": 1}],
            [{"b": 1}],
        ),
        ({"bool": {}}, [{}], []),
        ({"bool": {"must": [A, B]}}, [{"a": 1, "b": 1}], [{"a": 1}]),
        ({"bool": {"filter": A, "should": B}}, [{"a": 1}], [{"b": 1}]),
        ({"bool": {"should": [A, B]}}, [{"a": 1}, {"b": 1}], [{}]),
        (
            {"bool": {"must_not": A}},
            [{}, {"a": 2}, {"a": []}, {"a": [2, 3]}],
            [{"a": 1}, {"a": [1, 2]}],
        ),
        (
            {"bool": {"must_not": [A, {"bool": {"must_not": B}}]}},
            [{"b": 1}],
            [{}, {"a": 1, "b": 1}],
        ),
        (
            {"bool": {"should": [A, B, C], "minimum_should_match": 2}},
            [{"a": 1, "c": 1}],
            [{"a": 1}],
        ),
        (
            {"bool": {"should": [A, B, C], "minimum_should_match": -1}},
            [{"a": 1, "c": 1}],
            [{"a": 1}],
        ),
        (
            {"bool": {"should": [A, B, C], "minimum_should_match": "70%"}},
            [{"a": 1, "c": 1}],
            [{"a": 1}],
        ),
        (
            {"bool": {"should": [A, B, C], "minimum_should_match": "-40%"}},
            [{"a": 1, "c": 1}],
            [{"a": 1}],
        ),
        (
            {"bool": {"must": A, "should": B, "minimum_should_match": 1}},
            [{"a": 1, "b": 1}],
            [{"a": 1}],
        ),
        ({"bool": {"should": [A], "minimum_should_match": 2}}, [], [{"a": 1}]),
        (
            {"nested": {"path": "o", "query": {"term": {"o.x": 1}}}},
            [{"o": [{"x": 2}, {"x": 1}]}],
            [{"o": []}],
        ),
        (
            {
                "nested": {
                    "path": "o",
                    "query": {"bool": {"must": [{"range": {"o.x": {"gt": 1, "lt": 3}}}]}},
                }
            },
            [{"o": [{"x": 2}]}],
            [{"o": [{"x": 1}, {"x": 3}]}],
        ),
    ],
    ids=lambda one: json.dumps(one)[:60],
)
def test_a_query_holds_of(query, yes, no):
    for document in yes:
        assert says(query, document), document
    for document in no:
        assert not says(query, document), document
    assert condition("elastic", {"query": query}) == condition("elastic", query)


def test_a_schema_decides_by_type():
    schema = Schema.of(n=int, s=str, at=datetime.datetime, tags=list[str])

    def text(query):
        return canonical(condition("elastic", query, schema=schema))

    assert text({"term": {"n": "5"}}) == "n = 5"
    assert text({"term": {"n": "x"}}) == "FALSE"
    assert text({"bool": {"must_not": {"term": {"s": 5}}}}) == "s IS NULL OR NOT s = '5'"
    assert text({"terms": {"tags": ["a", "b"]}}) == "any(tags) IN ('a', 'b')"
    assert text({"range": {"s": {"gte": "a", "lt": "b"}}}) == "s >= 'a' AND s < 'b'"
    moment = {"range": {"at": {"gte": "2020-01-01", "lt": "2020-01-02T10:00:00Z"}}}
    assert text(moment) == "at >= TIMESTAMP '2020-01-01' AND at < TIMESTAMP '2020-01-02T10:00:00Z'"
    for late in ({"lte": "2020-01-01"}, {"gte": "now-1d/d"}, {"gte": "2020-13-01"}):
        with pytest.raises(RuleError) as caught:
            text({"range": {"at": late}})
        assert caught.value.construct == "dates"
    with pytest.raises(RuleError, match="no attribute other"):
        text({"term": {"other": 1}})


@pytest.mark.parametrize(
    ("query", "construct"),
    [
        ({}, "form"),
        ([], "form"),
        ({"term": {"a": 1}, "prefix": {"b": "x"}}, "form"),
        ({"match": {"a": "x"}}, "match"),
        ({"match_phrase": {"a": "x"}}, "match_phrase"),
        ({"query_string": {"query": "a:b"}}, "query_string"),
        ({"geo_distance": {"distance": "1km", "p": [0, 0]}}, "geo_distance"),
        ({"geo_bounding_box": {}}, "geo_bounding_box"),
        ({"script": {}}, "script"),
        ({"fuzzy": {"a": "x"}}, "fuzzy"),
        ({"term": {}}, "form"),
        ({"term": {"a": None}}, "form"),
        ({"term": {"a": {"value": 1, "what": 2}}}, "what"),
        ({"terms": {"a": {"index": "i", "id": "1", "path": "p"}}}, "terms lookup"),
        ({"range": {"a": {"gte": "2020-01-01"}}}, "dates"),
        ({"range": {"a": {"gte": 1, "format": "yyyy"}}}, "format"),
        ({"range": {"a": {"gte": 1, "relation": "WITHIN"}}}, "relation"),
        ({"range": {"a": {"gt": 1, "gte": 2}}}, "range"),
        ({"range": {"a": {"gt": 2**60, "lt": 2**61}}}, "number"),
        ({"regexp": {"a": "a~b"}}, "regexp"),
        ({"nested": {"path": "o", "query": {"bool": {"must": [A, B]}}}}, "nested"),
        ({"nested": {"path": "o", "query": {"bool": {"must_not": [A]}}}}, "nested"),
        ({"bool": {"should": [A], "minimum_should_match": "2<75%"}}, "minimum_should_match"),
        ({"bool": {"should": [A] * 40, "minimum_should_match": 20}}, "minimum_should_match"),
        ({"bool": {"must": "a"}}, "form"),
        ({"exists": {"field": 1}}, "exists"),
    ],
    ids=lambda one: json.dumps(one)[:50],
)
def test_what_cannot_be_said_is_refused_by_name(query, construct):
    with pytest.raises(RuleError) as caught:
        condition("elastic", query)
    assert caught.value.construct == construct


def test_stored_queries(tmp_path):
    hits = [
        {"_id": "1", "_source": {"query": A, "title": "one", "tags": ["x"], "owner": "ann"}},
        {"_id": "2", "_source": {"other": 1}},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"hits": {"hits": hits}}))
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, [{"id": "3", "query": B}, C])))
    imported = import_rules("elastic", tmp_path)
    assert [rule.id for rule in imported.rules][:2] == ["1", "3"]
    assert imported.rules[0].about.title == "one"
    assert [one.construct for one in imported.refused] == ["no query"]


def test_deep_queries_are_refused(tmp_path):
    query = "{}"
    for _ in range(500):
        query = f'{{"bool": {{"must": [{query}]}}}}'
    (tmp_path / "a.json").write_text(query)
    (refusal,) = import_rules("elastic", tmp_path).refused
    assert refusal.construct == "limit depth"

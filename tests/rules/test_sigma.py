"""Sigma rules: every modifier, what is refused, columns, hostile YAML, and SQLite as a judge."""

from __future__ import annotations

import pytest

from rules.against_sqlite import compare
from tamis import Matcher, RuleError, Schema
from tamis.language import canonical
from tamis.rules import condition, import_rules


def rule(selection, how="sel", **more):
    detection = selection if "condition" in selection else {"sel": selection, "condition": how}
    return {"title": "t", "logsource": {"category": "c"}, "detection": detection, **more}


def text(selection, how="sel", **options):
    return canonical(condition("sigma", rule(selection, how), **options))


@pytest.mark.parametrize(
    ("selection", "selector"),
    [
        ({"a": "b"}, "a ILIKE 'b'"),
        ({"a": "b*c?"}, "a ILIKE 'b%c_'"),
        ({"a": "50%_!*"}, "a ILIKE '50!%!_!!%' ESCAPE '!'"),
        ({"a": r"b\*c"}, "a ILIKE 'b*c'"),
        ({"a": ["b", "c"]}, "a ILIKE 'b' OR a ILIKE 'c'"),
        ({"a": ""}, "a = ''"),
        ({"a": 7}, "a IN (7, '7')"),
        ({"a": "7"}, "a IN (7, '7')"),
        ({"a": "007"}, "a = '007'"),
        ({"a": None}, "a IS NULL"),
        ({"a": True}, "a = TRUE OR a ILIKE 'true'"),
        ({"a|contains": "b"}, "a ILIKE '%b%'"),
        ({"a|contains|all": ["b", "c"]}, "a ILIKE '%b%' AND a ILIKE '%c%'"),
        ({"a|startswith": "b"}, "a ILIKE 'b%'"),
        ({"a|endswith": "\\b"}, "a ILIKE '%\\b'"),
        ({"a|cased": "b"}, "a = 'b'"),
        ({"a|contains|cased": "B"}, "a LIKE '%B%'"),
        ({"a|re": "x.*y"}, "a MATCHES 'x.*y'"),
        ({"a|re|i|s|m": "x.*y"}, "a MATCHES '(?ims)x.*y'"),
        ({"a|gt": 5, "b|lte": 2.5}, "a > 5 AND b <= 2.5"),
        ({"a|cidr": "10.0.0.0/8"}, "a IN CIDR '10.0.0.0/8'"),
        ({"a|exists": True}, "a IS NOT NULL"),
        ({"a|exists": False}, "a IS NULL"),
        ({"a|neq": "b"}, "a IS NULL OR a NOT ILIKE 'b'"),
        ({"a|base64": "foo"}, "a ILIKE 'Zm9v'"),
        ({"a|base64offset|contains": "foo"},
         "a ILIKE '%Zm9v%' OR a ILIKE '%Zvb%' OR a ILIKE '%mb2%'"),
        ({"a|wide|base64": "ab"}, "a ILIKE 'YQBiAA=='"),
        ({"a|fieldref": "b"}, "a = b OR casefold(a) = casefold(b)"),
        ({"a|fieldref|startswith": "b"}, "casefold(a) STARTS WITH casefold(b)"),
        ([{"a": "x"}, {"b": "y"}], "a ILIKE 'x' OR b ILIKE 'y'"),
    ],
)  # fmt: skip
def test_a_selection_becomes(selection, selector):
    assert text(selection) == selector


def test_not_in_a_network():
    """A field that is missing, or is no address, is not in the network."""
    matcher = Matcher()
    matcher.add("rule", text({"a|cidr": ["10.0.0.0/8", "2001:db8::/64"]}, "not sel"))
    for outside in ({}, {"a": "x"}, {"a": "11.0.0.1"}, {"a": "2001:db9::"}, {"a": 5}):
        assert matcher.match(outside) == ["rule"], outside
    for inside in ("10.1.2.3", "2001:db8::1"):
        assert matcher.match({"a": inside}) == []


def test_windash_has_all_dashes():
    found = text({"a|windash|contains": " -x"})
    assert all(f"'% {dash}x%'" in found for dash in "-/\N{EN DASH}\N{EM DASH}\N{HORIZONTAL BAR}")


@pytest.mark.parametrize(
    ("how", "selector"),
    [
        ("s1 and not s2", "a ILIKE 'x' AND (b IS NULL OR b NOT ILIKE 'y')"),
        ("1 of s*", "a ILIKE 'x' OR b ILIKE 'y'"),
        ("all of them", "a ILIKE 'x' AND b ILIKE 'y'"),
        ("not 1 of s*", "(a IS NULL OR a NOT ILIKE 'x') AND (b IS NULL OR b NOT ILIKE 'y')"),
        ("not (s1 and s2)", "a IS NULL OR a NOT ILIKE 'x' OR b IS NULL OR b NOT ILIKE 'y'"),
        (["s1", "s2"], "a ILIKE 'x' OR b ILIKE 'y'"),
    ],
)
def test_conditions(how, selector):
    assert text({"s1": {"a": "x"}, "s2": {"b": "y"}, "condition": how}) == selector


def test_keywords_need_an_attribute_or_a_schema():
    with pytest.raises(RuleError, match="name the attribute to look in"):
        text(["net use", "x*y"])
    assert text(["net use"], keywords="raw") == "raw ILIKE '%net use%'"
    schema = Schema.of(a=str, n=int, b=str)
    assert text(["x"], schema=schema) == "a ILIKE '%x%' OR b ILIKE '%x%'"


def test_a_schema_decides_by_type():
    schema = Schema.of(a=str, n=int, flag=bool)
    assert text({"n": "7", "a": 7}, schema=schema) == "n = 7 AND a = '7'"
    assert text({"flag": "true"}, schema=schema) == "flag = TRUE"
    assert text({"n": "seven"}, schema=schema) == "FALSE"
    with pytest.raises(RuleError, match="no attribute other"):
        text({"other": "x"}, schema=schema)


@pytest.mark.parametrize(
    ("selection", "construct"),
    [
        ({"a|expand": "%admins%"}, "expand"),
        ({"a|hour": 5}, "hour"),
        ({"a|nonsense": 5}, "SigmaModifierError"),
        ({"a|re": "("}, "SigmaRegularExpressionError"),
        ({"a|windash": " -a -b -c -d -e -f"}, "windash"),
        ({"a": "\0"}, "NUL"),
        ({"a": 10**30}, "number"),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(selection, construct):
    with pytest.raises(RuleError) as caught:
        text(selection)
    assert caught.value.construct == construct


FILE = """
title: Net use
id: 5f0e7b1c-2f0b-4a3a-9b1a-0d6c2f0a7d01
author: Ann
level: high
tags: [attack.t1021]
logsource: {product: windows, category: process_creation}
detection:
  selection: {Image|endswith: '\\net.exe'}
  condition: selection
"""
CORRELATION = """
title: Many
correlation: {type: event_count, rules: [x], group-by: [user], timespan: 5m, condition: {gte: 5}}
"""


def test_columns_and_refusals_of_files(tmp_path):
    (tmp_path / "a.yml").write_text(FILE)
    (tmp_path / "b.yml").write_text(FILE.replace("id: 5f0e7b1c-2f0b-4a3a-9b1a-0d6c2f0a7d01", ""))
    (tmp_path / "c.yml").write_text(FILE)
    (tmp_path / "d.yml").write_text(FILE.replace("'\\net.exe'", "[").replace("\\", ""))
    (tmp_path / "e.yml").write_text(FILE.replace("|endswith: '\\net.exe'", "|re: '(?=x)'"))
    (tmp_path / "f.yml").write_text(FILE.replace("condition: selection", "condition: other"))
    imported = import_rules("sigma", tmp_path)
    first, second = imported.rules
    assert first.id == "5f0e7b1c-2f0b-4a3a-9b1a-0d6c2f0a7d01"
    assert (first.about.title, first.about.author, first.about.level) == ("Net use", "Ann", "high")
    assert first.about.tags == (
        "attack.t1021", "logsource.category.process_creation", "logsource.product.windows",
    )  # fmt: skip
    assert second.id == "b"
    constructs = [one.construct for one in imported.refused]
    assert constructs[:2] == ["id used twice", "YAML"]
    assert constructs[2] in ("regex", "SigmaRegularExpressionError")  # as pySigma is old or new
    assert constructs[3] == "SigmaConditionError"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    "content",
    ["", "- a", "7", "a: b: c", "\t", "[" * 100_000, "- " * 5000 + "a", BOMB, "a: &a [*a]",
     "!!python/x", "detection: 5\ntitle: t", CORRELATION, "x: " + "1" * 6000,
     "a: 2024-99-99", FILE.replace("level: high", "level: [1]"),
     FILE.replace("condition: selection", f"condition: {'(' * 50}selection{')' * 50}"),
     FILE.replace("condition: selection", f"condition: {'not ' * 3000}selection"),
     FILE.replace("condition: selection", "condition: selection | count() > 5"),
     FILE.replace("selection: {Image", "selection: {1: 2, Image")],
)  # fmt: skip
def test_hostile_files_are_refused(tmp_path, content):
    (tmp_path / "a.yml").write_text(content)
    imported = import_rules("sigma", tmp_path / "a.yml")
    assert len(imported.rules) + len(imported.refused) == 1
    assert imported.refused or "1: 2" in content


def test_pairs_with_sqlite():
    assert list(compare(1_500, seed=28)) == []


def test_sigma_convert_finds_the_backend():
    from sigma.collection import SigmaCollection
    from sigma.plugins import InstalledSigmaPlugins

    plugins = InstalledSigmaPlugins.autodiscover(include_pipelines=False, include_validators=False)
    backend = plugins.backends["tamis"]()
    assert backend.convert(SigmaCollection.from_yaml(FILE)) == ["Image ILIKE '%\\net.exe'"]


def test_a_rule_matches_events():
    matcher = Matcher()
    matcher.add("net", text({"Image|endswith": "\\net.exe", "EventID": 1}))
    assert matcher.match({"Image": "C:\\Windows\\NET.EXE", "EventID": "1"}) == ["net"]
    assert matcher.match({"Image": "C:\\Windows\\NET.EXE", "EventID": 1}) == ["net"]
    assert matcher.match({"Image": "C:\\Windows\\net1.exe", "EventID": 1}) == []

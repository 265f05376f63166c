"""Conditions on networks, in the engines and beside the oracle."""

from __future__ import annotations

import ipaddress
from random import Random

import pytest

import oracle
from dose import dose
from language.test_addresses import addresses
from tamis import Matcher, Schema
from tamis.engine.values.address_words import addresses as encoded
from tamis.engine.values.column_texts import Words
from tamis.language import parse
from tamis.language.addresses import number_of
from tamis.language.functions import ADDRESSES
from tamis.reasoning import covers

TEXTS = addresses(Random(28), dose(120, 1_000))


def network(random: Random) -> str:
    address = random.choice(TEXTS)
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "10.0.0.0/8"
    bits = random.randint(0, found.max_prefixlen)
    return str(ipaddress.ip_network(f"{found}/{bits}", strict=False))


def selectors(random: Random, count: int) -> list[str]:
    found = []
    for _ in range(count):
        nets = ", ".join(f"'{network(random)}'" for _ in range(random.choice([1, 1, 2, 3])))
        no = random.choice(["", "NOT "])
        found.append(f"a {no}IN CIDR ({nets})" + random.choice(["", " AND n < 5", " OR n = 1"]))
    return [*found, "ipv4(a) = -1", "NOT ipv6_low(a) > 0", "ipv6_high(a) IS NULL"]


@pytest.mark.parametrize("semantics", ["sql", "strict", "default"])
@pytest.mark.parametrize("schema", [None, Schema.of(a=str, n=int)], ids=["free", "schema"])
def test_networks_agree_with_the_oracle(semantics, schema):
    if schema is None and semantics == "default":
        schema = Schema.of(a=(str, "10.1.1.1"), n=int)
    random = Random(f"{semantics}{schema is None}")
    texts = selectors(random, dose(25, 200))
    messages = [{"a": text, "n": random.randrange(8)} for text in TEXTS]
    messages += [{"n": 1}, {"a": "10.0.0.1"}, {"a": None, "n": 2}]
    if schema is None:
        messages += [{"a": 5, "n": 1}, {"a": ["10.0.0.1"], "n": 1}]
    matcher = Matcher(schema, semantics=semantics)
    matcher.add_many(enumerate(texts))
    expected = [
        [i for i, text in enumerate(texts) if oracle.matches(parse(text), m, semantics, schema)]
        for m in messages
    ]
    assert matcher.match_batch(messages).to_pylist() == expected
    assert [matcher.match(message) for message in messages[::9]] == expected[::9]


def test_kernels_read_addresses_as_the_language_does():
    texts = addresses(Random(6), 1_000)
    texts += [
        "1:2:3:4:5:6:7::",
        "::1:2:3:4:5:6:7",
        "1:2:3:4::5:6:7:8",
        "1::2::3",
        ":1",
        "1:",
        ":::",
    ]
    texts += ["1:2:3:4:5:6:1.2.3.4", "::1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "::1.2.3", "1.2.3.4::"]
    texts += ["12345::", "::g", "::1.2.3.4:5", "::01.2.3.4", "ABCD::ef"]
    for name in ADDRESSES:
        valid, numbers = encoded(name, Words(texts))
        found = [int(n) if v else None for v, n in zip(valid, numbers, strict=True)]
        assert found == [number_of(name, text) for text in texts]


def test_addresses_of_lists():
    matcher = Matcher(Schema.of(ips=list[str]))
    matcher.add("any", "ANY(ips) IN CIDR '10.0.0.0/8'")
    matcher.add("all", "ALL(ips) IN CIDR '10.0.0.0/8'")
    matcher.add("six", "ANY(ips) IN CIDR '2001:db8::/32'")
    rows = [{"ips": ["1.1.1.1", "10.2.3.4"]}, {"ips": ["10.0.0.1"]}, {"ips": ["2001:db8::5"]}]
    expected = [["any"], ["any", "all"], ["six"]]
    assert matcher.match_batch(rows).to_pylist() == expected
    assert [matcher.match(row) for row in rows] == expected


def test_both_engines_and_reasoning():
    texts = ["a IN CIDR '10.0.0.0/8'", "a IN CIDR '10.1.0.0/16'", "a NOT IN CIDR '10.0.0.0/8'"]
    matcher = Matcher(engine="implication")
    for text in texts:
        matcher.add(text, text)
    assert matcher.match({"a": "10.1.2.3"}) == texts[:2]
    assert matcher.match({"a": "11.1.2.3"}) == texts[2:]
    assert matcher.match({"a": "no address"}) == []
    wide, narrow = map(parse, texts[:2])
    assert covers(wide, narrow)
    assert not covers(narrow, wide)
    plain = Matcher()
    plain.add("net", texts[1])
    assert plain.match(plain.example("net")) == ["net"]
    assert "10.1.0.0/16" in str(plain.explain("net", {"a": "10.2.0.1"}))

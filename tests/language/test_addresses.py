"""`IN CIDR`: how it is written, and that it is the range of addresses that the network is."""

from __future__ import annotations

import ipaddress
from random import Random

import pytest

from tamis import SelectorError
from tamis.language import canonical, parse
from tamis.language.addresses import number_of


@pytest.mark.parametrize(
    ("selector", "printed"),
    [
        ("a IN CIDR '10.0.0.0/8'", "a IN CIDR '10.0.0.0/8'"),
        ("a in cidr '10.1.2.3/8'", "a IN CIDR '10.0.0.0/8'"),
        ("a NOT IN CIDR '10.0.0.1'", "a NOT IN CIDR '10.0.0.1/32'"),
        ("a IN CIDR ('10.0.0.0/9', '10.128.0.0/9')", "a IN CIDR '10.0.0.0/8'"),
        ("a IN CIDR {'10.0.0.0/8', '1.1.1.1'}", "a IN CIDR '1.1.1.1/32' OR a IN CIDR '10.0.0.0/8'"),
        ("ipv4(a) BETWEEN 0 AND 255", "a IN CIDR '0.0.0.0/24'"),
        ("ipv4(a) BETWEEN 1 AND 256", "ipv4(a) BETWEEN 1 AND 256"),
        ("ipv4(a) BETWEEN 0 AND b", "ipv4(a) BETWEEN 0 AND b"),
        ("ANY(a) NOT IN CIDR '10.0.0.0/8'", "NOT all(a) IN CIDR '10.0.0.0/8'"),
        ("cidr IN CIDR '::/0' AND b = 1",
         "ipv4(cidr) = -1 AND ipv6_high(cidr) BETWEEN -9223372036854775808 AND 9223372036854775807"
         " AND b = 1"),
        ("cidr = 1", "cidr = 1"),
    ],
)  # fmt: skip
def test_printed(selector, printed):
    assert canonical(parse(selector)) == printed
    assert parse(printed) == parse(selector)


@pytest.mark.parametrize(
    ("selector", "what"),
    [
        ("a IN CIDR '10.0.0.0/33'", "this is no network"),
        ("a IN CIDR 'x'", "this is no network"),
        ("a IN CIDR 10", "networks are strings"),
        ("a IN CIDR ('10.0.0.0/8', 5)", "networks are strings"),
        ("a IN CIDR b", "IN lists hold constants only"),
        ("a IN CIDR", "IN lists hold constants only"),
        ("ANY(a) IN CIDR ('10.0.0.0/8', '11.1.0.0/16')", "of a list one network can be asked"),
        ("ANY(a) IN CIDR '::1'", "of a list only the first 64 bits of IPv6 can be asked"),
    ],
)
def test_errors(selector, what):
    with pytest.raises(SelectorError) as caught:
        parse(selector)
    assert caught.value.what == what


def test_the_jms_dialect_has_no_networks():
    with pytest.raises(SelectorError):
        parse("a IN CIDR '10.0.0.0/8'", dialect="jms")


def test_numbers_of_addresses_are_those_of_the_standard_library():
    random = Random(28)
    for text in addresses(random, 3_000):
        try:
            found = ipaddress.ip_address(text) if "%" not in text else None
        except ValueError:
            found = None
        v4 = int(found) if found and found.version == 4 else -1 if found else None
        assert number_of("ipv4", text) == v4, text
        high, low = number_of("ipv6_high", text), number_of("ipv6_low", text)
        if found and found.version == 6:
            assert ((high + 2**63) << 64) + low + 2**63 == int(found)
        else:
            assert (high, low) == (None, None)


def addresses(random: Random, count: int) -> list[str]:
    """Addresses of both kinds, and texts that are nearly some."""
    texts = ["", ".", "...", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.1.1.1", "1.1.1.1 ", "::", ":"]
    texts += ["0.0.0.0", "255.255.255.255", "1.1..1", "1.1.1.", "::ffff:1.2.3.4", "fe80::1%eth0"]
    texts += [
        "١.1.1.1",
        "1.1.1.1é",
        "a.b.c.d",
        "1:2:3:4:5:6:7:8:9",
        "999999999999.1.1.1",
        "-1.1.1.1",
    ]
    while len(texts) < count:
        six = random.random() < 0.3
        kind = ipaddress.IPv6Address if six else ipaddress.IPv4Address
        text = list(str(kind(random.getrandbits(128 if six else 32))))
        if random.random() < 0.4:
            text[random.randrange(len(text))] = random.choice("0123456789.:af x")
        texts.append("".join(text))
    return texts

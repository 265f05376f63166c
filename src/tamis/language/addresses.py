"""Addresses of networks as numbers: `IN CIDR` is a range of them.

An IPv4 address is a number of 32 bits, `ipv4(text)`; it is -1 of an IPv6 address. One of IPv6 is
two numbers of 64 bits, `ipv6_high(text)` and `ipv6_low(text)`, moved down by 2^63 so that they
are ints in the same order. Any other text, and here one of IPv4, leaves them undefined.
"""

from __future__ import annotations

import ipaddress
import re

from tamis.language.literals import ConstantError
from tamis.language.tree import (
    And,
    Between,
    Call,
    Compare,
    Condition,
    Literal,
    Or,
    Term,
    quantifier,
)
from tamis.schema import Type

V6 = -1  # what ipv4 is of an address of IPv6
_HALF = 1 << 63
_V4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)
_LONGEST = 45  # characters of an address of IPv6
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def number_of(name: str, text: str) -> int | None:
    """The value of the function `name`."""
    if ":" not in text:
        return _ipv4(text) if name == "ipv4" else None
    if len(text) > _LONGEST or "%" in text:
        return None
    try:
        value = int(ipaddress.IPv6Address(text))
    except ValueError:
        return None
    if name == "ipv4":
        return V6
    return (value >> 64 if name == "ipv6_high" else value & (1 << 64) - 1) - _HALF


def _ipv4(text: str) -> int | None:
    """Four numbers without zeros in front, each up to 255."""
    found = _V4.fullmatch(text)
    if found is None:
        return None
    value = 0
    for part in found.groups():
        if int(part) > 255 or (part[0] == "0" and part != "0"):
            return None
        value = value << 8 | int(part)
    return value


def network(text: str) -> Network:
    """The network of `10.0.0.0/8` or `2001:db8::/32`; an address alone is a network of one."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ConstantError(
            "this is no network", "write '10.0.0.0/8', or '2001:db8::/32' for IPv6"
        ) from None


def in_network(term: Term, found: Network) -> Condition:
    """The term, a text, is an address of the network."""
    first, last = int(found.network_address), int(found.broadcast_address)
    if found.version == 4:
        return _between("ipv4", term, first, last)
    high = _between("ipv6_high", term, (first >> 64) - _HALF, (last >> 64) - _HALF)
    if quantifier(term) is not None:
        if found.prefixlen > 64:
            what = "of a list only the first 64 bits of IPv6 can be asked"
            raise ConstantError(what, "name a network of /64 or larger")
        return high
    is_v6 = Compare(Call("ipv4", (term,)), "=", Literal.of(V6))
    if found.prefixlen <= 64:
        return And((is_v6, high))
    mask = (1 << 64) - 1
    low = _between("ipv6_low", term, (first & mask) - _HALF, (last & mask) - _HALF)
    return And((is_v6, high, low))


def in_networks(term: Term, found: list[Network]) -> Condition:
    """The term is an address of one of the networks."""
    merged: list[Network] = [
        *ipaddress.collapse_addresses(n for n in found if n.version == 4),
        *ipaddress.collapse_addresses(n for n in found if n.version == 6),
    ]
    parts = tuple(in_network(term, one) for one in merged)
    if len(parts) == 1:
        return parts[0]
    if quantifier(term) is not None:
        what = "of a list one network can be asked"
        raise ConstantError(what, "join several conditions by OR")
    return Or(parts)


def network_text(condition: Between) -> str | None:
    """The network that the range of ipv4 is, if it is just one."""
    match condition:
        case Between(
            Call("ipv4", (_,)), Literal(Type.INT, int(first)), Literal(Type.INT, int(last))
        ):
            size = last - first + 1
            whole = size > 0 and first >= 0 and last < 1 << 32 and size & (size - 1) == 0
            if whole and first % size == 0:
                return f"{ipaddress.IPv4Address(first)}/{33 - size.bit_length()}"
    return None


def _between(name: str, term: Term, first: int, last: int) -> Between:
    return Between(Call(name, (term,)), Literal.of(first), Literal.of(last))

"""Random event patterns, filter policies and messages for them.

They keep away from what moto is known to do differently from AWS; `against_moto.py` says what.
"""

from __future__ import annotations

from random import Random
from typing import Any

TEXTS = ["", "a", "A", "ab", "aB", "abc", "ba*b", "a\\b", "running", "Run", "x%y", "x_y"]
TEXTS += ["\N{LATIN SMALL LETTER A WITH DIAERESIS}", "\N{LATIN CAPITAL LETTER A WITH DIAERESIS}"]
TEXTS += ["10", "10.1.2.3", "10.200.0.1", "2001:db8::7"]
NETWORKS = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/23", "10.1.2.3/32", "2001:db8::/32"]
NUMBERS = [-2, 2, 3, 2.5, 3.0, 5, 10, -7.25, 1000000]
PATHS = [
    "source",
    "detail.state",
    "detail.n",
    "detail.o.x",
    "detail.o.y",
    "detail.tags",
    "detail.o.p.q",
]
Json = dict[str, Any]


def pattern(random: Random, sns: bool = False) -> Json:
    """A pattern with one to three leaves, perhaps some of them in $or."""
    node: Json = {}
    for path in random.sample(PATHS, random.choice([1, 1, 2, 2, 3])):
        _put(node, path, leaf(random, sns))
    if random.random() < 0.25 and not sns:
        some = random.sample(PATHS, random.choice([2, 3]))
        alternatives: list[Json] = [{} for _ in some]
        for one, path in zip(alternatives, some, strict=True):
            _put(one, path, leaf(random, sns))
        node["$or"] = alternatives
    return node


def leaf(random: Random, sns: bool) -> list[Any]:
    return [value(random, sns) for _ in range(random.choice([1, 1, 2, 3]))]


def value(random: Random, sns: bool) -> Any:
    kinds = ["text", "text", "number", "prefix", "suffix", "numeric", "anything", "exists"]
    kind = random.choice(kinds if sns else [*kinds, "bool", "any case", "wildcard", "cidr"])
    text = random.choice(TEXTS)
    if kind == "text":
        return text
    if kind == "cidr":
        return {"cidr": random.choice(NETWORKS)}
    if kind == "number":
        return random.choice(NUMBERS)
    if kind == "bool":
        return random.random() < 0.5
    if kind in ("prefix", "suffix"):
        folding = random.random() < 0.3 and not sns
        return {kind: {"equals-ignore-case": text} if folding else text}
    if kind == "any case":
        return {"equals-ignore-case": text}
    if kind == "wildcard":
        return {"wildcard": wildcard(random)}
    if kind == "numeric":
        return {"numeric": numeric(random)}
    if kind == "exists":
        return {"exists": random.random() < 0.6}
    return {"anything-but": unwanted(random, sns)}


def unwanted(random: Random, sns: bool) -> Any:
    kind = random.choice(["text", "texts", "number", "numbers", "prefix", "suffix", "wildcard"])
    if sns and kind in ("number", "suffix", "wildcard"):
        kind = "prefix"
    if kind == "wildcard":
        return {"wildcard": wildcard(random)}
    if kind in ("prefix", "suffix"):
        return {kind: random.choice(TEXTS[1:])}
    some = NUMBERS if kind.startswith("number") else TEXTS
    return random.sample(some, random.choice([1, 2, 3])) if kind[-1] == "s" else random.choice(some)


def numeric(random: Random) -> list[Any]:
    low, high = sorted(random.sample(sorted(NUMBERS), 2))
    if random.random() < 0.5 and low < high:
        return [random.choice([">", ">="]), low, random.choice(["<", "<="]), high]
    return [random.choice(["<", "<=", "=", ">=", ">"]), low]


def wildcard(random: Random) -> str:
    return random.choice(["*", "a*", "*b", "a*b", "*a*b*", "b*\\*b", "a\\\\*", "r*n*g", "x*y", ""])


def event(random: Random, lists: bool = True) -> Json:
    """An event; leaves may be lists, and some inner objects are missing."""
    node: Json = {}
    for path in PATHS:
        chance = random.random()
        if chance < 0.6:
            _put(node, path, scalar(random))
        elif chance < 0.75 and lists:
            _put(node, path, [scalar(random) for _ in range(random.choice([1, 2, 3]))])
    return node


def scalar(random: Random) -> Any:
    return random.choice([*TEXTS, *NUMBERS, True, False])


def flat_policy(random: Random) -> Json:
    """A policy for message attributes."""
    return {name: leaf(random, True) for name in random.sample("abcd", random.choice([1, 2, 3]))}


def attributes(random: Random) -> Json:
    """Message attributes: strings and numbers."""
    return {name: random.choice([*TEXTS, *NUMBERS]) for name in "abcd" if random.random() < 0.7}


def _put(node: Json, path: str, given: Any) -> None:
    *outer, last = path.split(".")
    for name in outer:
        node = node.setdefault(name, {})
    node[last] = given

"""Reading a selector by its shape means what parsing it means, however it is spelled."""

from __future__ import annotations

import datetime
import random

import pytest

import strategies as st
from tamis import Matcher
from tamis.language import Limits, canonical
from tamis.logic import SEMANTICS, Semantics
from tamis.schema import Schema

SCHEMA = Schema.of(
    {
        "i": int,
        "d": float,
        "s": str,
        "f": bool,
        "t": datetime.datetime,
        "j": (int, 1),
        "e": (float, 1.0),
        "z": (str, "a"),
        "to.name": str,
    }
)
NUMBERS = (
    "0", "1", "2", "-1", "10", "- 1", "-0", "0.0", "-0.0", "1.0", "1.", ".5", "-.5", "10.5", "1e0",
    "1E3", "0.1", "00012", "035", "1e-400", "-1e-400", "5e-324", "1e308", "1e999", "1e22",
    "9007199254740991", "9007199254740992", "9007199254740993", "9007199254740993.0",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809",
    "123456789012345678901234567890.0", "0x1d", "1_000", "5L", "1d", "+1",
)  # fmt: skip
STRINGS = (
    "'a'", "'b'", "'ab'", '"a"', "''", '""', "'it''s'", '"a""b"', "'a''''b'", "'a%'", "'%a'",
    "'%a%'", "'%'", "'_'", "'a_'", "'IBM'", "'é𝒳'", "'line\nline'", "'a = 1'", "' AND '", "'\0'",
    "'\ud800'", "'" + "x" * 300 + "'", "'ibm", "'\\'", "`a`",
)  # fmt: skip
OTHERS = ("TRUE", "false", "True", "TIMESTAMP '2000-02-01'", "timestamp '2000-02-01'", "NULL", "s")
COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "≤", "≥", "≠", "=<")
TEXTS = (
    "LIKE", "like", "NOT LIKE", "Not\nLike", "CONTAINS", "contains", "NOT CONTAINS", "WITHIN",
    "STARTS WITH", "starts  with", "ENDS WITH", "NOT ENDS\tWITH", "ILIKE", "MATCHES",
)  # fmt: skip
SPACES = (" ", " ", " ", "", "  ", "\n", "\t", "\r\n", "\f", "\v", "\u00a0")
TAMIS_ANDS = ("AND", "And", "and", "&", "&&", "∧")
TAMIS_ORS = ("OR", "or", "oR", "|", "||", "∨")
TAMIS_NOTS = ("NOT", "not", "!", "¬", "NOT NOT", "!!", "NOT !")
VALUES = {
    "i": (0, 1, 2, -1, 10, 12, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 29, 35, None),
    "d": (
        0.0,
        -0.0,
        1.0,
        2,
        0.5,
        -0.5,
        10.5,
        0.1,
        5e-324,
        2.0**53,
        1e22,
        1e308,
        float("inf"),
        None,
    ),
    "s": (
        "a",
        "b",
        "ab",
        "",
        "it's",
        'a"b',
        "a%",
        "IBM",
        "ibm",
        "é𝒳",
        "line\nline",
        "x" * 300,
        None,
    ),
    "f": (True, False, None),
    "t": (*st.TIMES, None),
}
VALUES |= {"j": VALUES["i"], "e": VALUES["d"], "z": VALUES["s"], "to.name": VALUES["s"]}


# Pieces that sit near the borders of what the regex cuts out.
PIECES = (
    "a = 1", "a<>-5", "b.c >= .5", "lower(a) = 'x'", "UPPER ( a )LIKE 'x%'", "a NOT LIKE 'y'",
    "a==1.", "a IN (1, -2,'x')", "a not in('x')", "a BETWEEN 1 AND 2", "a NOT BETWEEN 'x' AND -1",
    "a!=1e3", "a STARTS WITH 'x'", "a ENDS  WITH 'y'", "a contains 'b = 5'", "a = 'it''s'",
    'a = "b"', "TRUE", " AND ", " OR ", "NOT ", "AND", "OR", "NOT", "(", ")", "[", "]", " ", "&",
    "|", "!", "∧", "¬", "x", "5", ".", "'", '"', "`", "+ 1", "- 1", "= TRUE", "ESCAPE '!'",
    "NOT = 5", "lower", "é", "a = 5x", "and = 1", "lower(in) = 1", "a = 9223372036854775808",
    "a = -9223372036854775808", "a LIKE 5", "\n", "CONTAINS 5", "a CONTAINS5", "a = 1e999",
    "\u00a0", "STARTS WITH = 1", "a LI\u212aE 'x'", ", ", "f",
    "a = 035", "a = 1e-400", "a = -0.0", "a > 'x'", "a = 5L", "\v", "JMSType = 'x'", "a IN ('x')",
    "JMSReplyTo = 1", "a BETWEEN 'x' AND 'y'", "a = --5", "a < -.5", "\x01", "a BETWEEN 09 AND 1",
)  # fmt: skip


class Speller:
    """Writes selectors as no printer would."""

    def __init__(self, rng: random.Random, jms: bool) -> None:
        self.rng, self.jms = rng, jms

    def pick(self, *options: tuple[str, ...]) -> str:
        return self.rng.choice(self.rng.choice(options))

    def space(self) -> str:
        return self.rng.choice(SPACES)

    def spaced(self, *parts: str) -> str:
        return "".join(p + (self.space() if p[-1] in "=<>(),'" else self.gap()) for p in parts)

    def gap(self) -> str:
        return self.rng.choice((" ", " ", "  ", "\n"))

    def term(self) -> str:
        name = self.rng.choice(tuple(VALUES))
        if self.jms or self.rng.random() < 0.8:
            return name
        call = self.pick(("lower", "upper", "LOWER", "length", "abs"))
        return f"{call}{self.space()}({self.space()}{name}{self.space()})"

    def constant(self) -> str:
        return self.pick(NUMBERS, NUMBERS, STRINGS, STRINGS, OTHERS)

    def predicate(self) -> str:
        roll, term = self.rng.random(), self.term()
        if roll < 0.45:
            return self.spaced(term, self.rng.choice(COMPARISONS), self.constant())
        if roll < 0.65:
            return self.spaced(term, self.rng.choice(TEXTS), self.rng.choice(STRINGS))
        if roll < 0.8:
            items = [self.constant() for _ in range(self.rng.randint(1, 4))]
            word = self.pick(("IN", "in", "NOT IN", "Not In"))
            return self.spaced(term, word, "(", f"{self.space()},{self.space()}".join(items), ")")
        if roll < 0.9:
            word = self.pick(("BETWEEN", "between", "NOT BETWEEN"))
            return self.spaced(term, word, self.constant(), "AND", self.constant())
        if roll < 0.95:
            return self.spaced(term, self.pick(("IS NULL", "is not null", "IS\nNOT  NULL")))
        return self.pick(("TRUE", "FALSE", "f", "(TRUE)", "NOT false"))

    def sensible(self) -> str:
        """A predicate whose constant is of the term's type: these read by shape most often."""
        name = self.rng.choice(("i", "d", "s", "j", "e", "z"))
        op = self.rng.choice(COMPARISONS[:8])
        if name in "sz":
            op = self.pick(COMPARISONS[:8], TEXTS)
        return self.spaced(name, op, self.rng.choice(STRINGS if name in "sz" else NUMBERS))

    def selector(self, depth: int = 3) -> str:
        roll = self.rng.random()
        if depth == 0 or roll < 0.3:
            return self.sensible() if self.rng.random() < 0.6 else self.predicate()
        if roll < 0.45:
            word = self.pick(("NOT",) if self.jms else TAMIS_NOTS)
            return f"{word}{self.gap()}{self.bracketed(depth - 1)}"
        if roll < 0.55:
            return self.bracketed(depth - 1)
        words = self.rng.choice((TAMIS_ANDS, TAMIS_ORS))[: 3 if self.jms else None]
        parts = [self.selector(depth - 1) for _ in range(self.rng.randint(2, 4))]
        return f" {self.rng.choice(words)} ".join(parts)

    def bracketed(self, depth: int) -> str:
        first, last = ("(", ")") if self.jms or self.rng.random() < 0.8 else ("[", "]")
        if self.rng.random() < 0.01:
            last = self.pick(("", ")", "]", "))"))
        return f"{first}{self.space()}{self.selector(depth)}{self.space()}{last}"


class Pair:
    """Two matchers for the same selectors; one may not look at shapes."""

    def __init__(self, schema: Schema | None, semantics: Semantics, **settings: object) -> None:
        self.quick = Matcher(schema, semantics=semantics, lookups=st.LOOKUPS, **settings)
        self.slow = Matcher(schema, semantics=semantics, lookups=st.LOOKUPS, **settings)
        self.slow._contents.intake._by_shape = lambda selector: None
        self.by_shape = 0
        self._read = self.quick._contents.intake._by_shape
        self.quick._contents.intake._by_shape = self._counted

    def _counted(self, selector: str) -> object:
        found = self._read(selector)
        self.by_shape += found is not None
        return found

    def add(self, selectors: list[str]) -> int:
        """Add to both; what one refuses, the other refuses in the same words."""
        errors: list[list[tuple[str, str]]] = [[], []]
        for matcher, own in zip((self.quick, self.slow), errors, strict=True):
            matcher.add_many(
                enumerate(selectors),
                on_error=lambda id, text, error, own=own: own.append((text, str(error))),
            )
        assert errors[0] == errors[1]
        return len(self.quick)

    def compare(self, selectors: list[str], messages: list[dict[str, object]]) -> None:
        found = self.quick.match_many(messages).to_pylist()
        wanted = self.slow.match_many(messages).to_pylist()
        for message, a, b in zip(messages, found, wanted, strict=True):
            assert a == b, {selectors[i] for i in set(a) ^ set(b)} | {str(message)}


def messages_of(rng: random.Random, schema: Schema | None, total: bool) -> list[dict[str, object]]:
    """Partial ones; of any type where there is no schema."""
    found = []
    for _ in range(60):
        message = {n: rng.choice(v[:-1] if total else v) for n, v in VALUES.items()}
        if schema is None:
            for name in rng.sample(tuple(VALUES), 3):
                message[name] = rng.choice(VALUES[rng.choice(tuple(VALUES))])
        found.append(message)
    return found


@pytest.mark.parametrize("dialect", ["tamis", "jms"])
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("typed", [False, True])
def test_odd_spellings_mean_the_same_by_shape(semantics, typed, dialect) -> None:
    if semantics == "total" and not typed:
        pytest.skip("total semantics needs a schema")
    rng = random.Random(f"{semantics}{typed}{dialect}")
    speller = Speller(rng, dialect == "jms")
    schema = SCHEMA if typed else None
    pair = Pair(schema, semantics, dialect=dialect)
    selectors = [speller.selector(rng.choice((0, 0, 1, 2))) for _ in range(500)]
    good = pair.add(selectors)
    assert good >= 50
    assert pair.by_shape >= good // 3
    pair.compare(selectors, messages_of(rng, schema, semantics == "total"))


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("typed", [False, True])
def test_canonical_texts_mean_the_same_by_shape(semantics: Semantics, typed: bool) -> None:
    rng = random.Random(f"canonical {semantics}{typed}")
    for _ in range(3):
        schema = st.random_schema(rng) if typed or semantics == "total" else None
        pair = Pair(schema, semantics)
        texts = [canonical(st.random_condition(rng, schema, depth=2)) for _ in range(120)]
        assert pair.add(texts) == len(texts)
        assert pair.by_shape
        total = semantics == "total"
        messages = [st.random_message(rng, schema, total=total) for _ in range(30)]
        pair.compare(texts, messages)


@pytest.mark.parametrize(
    "selectors",
    [
        ["s LIKE 'a'", "s LIKE 'a%'", "s LIKE '%a'", "s LIKE '_'", "s LIKE ''", "s LIKE '%'"],
        ["s LIKE 'a%'", "s LIKE 'a'", "s LIKE '%b'"],
        ["s NOT LIKE 'a'", "s NOT LIKE 'a%'", "s not like '%'"],
        ["lower(s) LIKE 'ibm'", "lower(s) LIKE 'i%'"],
        ["s <= 'a'", "s <= ''", "s < ''", "s < 'a'", "s > ''", "s >= ''", "s = ''"],
        ["s CONTAINS 'a'", "s CONTAINS ''", "s WITHIN 'ab'", "s WITHIN ''"],
        ["d < 1", "d < 9007199254740993", "d <= 9007199254740993", "d = 9007199254740993"],
        ["d < 1.5", "d <= 0", "d <= -0.0", "d > 0.0", "d >= 0", "d = -0.0", "d <> 0"],
        ["i < 1", "i < 1.5", "i <= 1.5", "i = 1.5", "i <> 1.5", "i = 1.0", "i > 0.5", "i = -0.0"],
        ["i <= 9223372036854775806", "i <= 9223372036854775807", "i < -9223372036854775808"],
        ["i > 1", "i > 9223372036854775807", "i >= -9223372036854775808", "i <> 1"],
        ["f = TRUE", "f = FALSE", "f <> TRUE", "f < TRUE", "f >= FALSE"],
        ["s = 'it''s'", 's = "it\'s"', 's = "a""b"', "s = 'a\"b'"],
        ["s IN ('a', 'b')", "s IN ('b', 'a')", "s IN ('a', 'a')", "s IN ('', 'IBM')"],
        ["s IN ('IBM', \"it's\")", "s in('it''s' ,'ibm')", "s IN ('a', 'it''s')"],
        ["s NOT IN ('a', 'b')", "s NOT IN ('b', 'IBM')", "NOT s IN ('ibm', 'b')", "s IN ('a')"],
        ["lower(s) IN ('a', 'ibm')", "lower(s) IN ('IBM', 'a')", "lower(s) NOT IN ('a', 'b')"],
    ],
)
def test_one_kind_of_predicate_with_many_constants(selectors: list[str]) -> None:
    """What was learnt from one constant must hold for the next: in this order and backwards."""
    for texts in (selectors, selectors[::-1]):
        for schema in (None, SCHEMA):
            pair = Pair(schema, "sql")
            assert pair.add(texts) == len(texts)
            pair.compare(texts, messages_of(random.Random(1), schema, False))


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("typed", [False, True])
def test_lists_of_texts_mean_the_same_by_shape(semantics: Semantics, typed: bool) -> None:
    """IN, of attributes and of elements of lists: every list of some length after another."""
    if semantics == "total" and not typed:
        pytest.skip("total semantics needs a schema")
    rng = random.Random(f"lists {semantics}{typed}")
    schema = Schema.of(s=str, tags=list[str]) if typed else None
    values = [f"t{i}" for i in range(30)] + ["", "it''s"]
    selectors = [
        f"{rng.choice(('', 'NOT '))}{rng.choice(('s', 'lower(s)', 'ANY(tags)'))} IN ("
        + ", ".join(f"'{value}'" for value in rng.choices(values, k=rng.choice((1, 2, 3, 20))))
        + rng.choice((")", ") OR s = 't1'", ") AND NOT ANY(tags) = 't2'"))
        for _ in range(120)
    ]
    pair = Pair(schema, semantics)
    assert pair.add(selectors) == len(selectors)
    assert pair.by_shape > len(selectors) // 3
    texts = [*(value.replace("''", "'") for value in values), "T1"]
    messages: list[dict[str, object]] = [
        {"s": rng.choice(texts), "tags": rng.choices(texts, k=rng.randint(0, 3))} for _ in range(80)
    ]
    if semantics != "total":
        messages += [{"s": "t3"}, {"tags": ["t4"]}, {}]
    pair.compare(selectors, messages)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("s = 'a'", "s = 'a\0b'"),
        ("s = 'a'", "s = '\ud800'"),
        ("s = 'a'", "s = 'a\0b' AND s = 'a'"),
        ("i = 1", "i = 9223372036854775808"),
        ("d < 1.0", "d < 1e999"),
        ("s LIKE 'a'", "s LIKE 5"),
        ("i IN (1)", "i IN ()"),
        ("s IN ('a', 'b')", "s IN ('a', '\ud800')"),
        ("s IN ('a', 'b')", "s IN ('a' 'b')"),
        ("(i = 1)", "(i = 1]"),
        ("i = 1 AND i = 2", "i = 1 i = 2"),
        ("NOT i = 1", "NOT NOT i = 1 NOT"),
    ],
)
def test_bad_selectors_are_refused_whatever_was_seen_before(good: str, bad: str) -> None:
    for schema in (None, SCHEMA):
        pair = Pair(schema, "sql")
        assert pair.add([good, bad, good, bad]) == 2


@pytest.mark.parametrize("limit", [{"items": 2}, {"depth": 12}, {"length": 40}])
def test_limits_hold_for_known_shapes(limit: dict[str, int]) -> None:
    texts = [
        "i IN (1, 2)",
        "i IN (1, 2, 3)",
        "(" * 3 + "i = 1" + ")" * 3,
        "(" * 20 + "i = 1" + ")" * 20,
        "NOT " * 9 + "i = 1",
        "i = 1 AND " * 5 + "i = 1",
    ]
    pair = Pair(None, "sql", limits=Limits(**limit))
    assert 0 < pair.add(texts * 2) < 2 * len(texts)


@pytest.mark.parametrize("semantics", ["sql", "strict"])
def test_selectors_of_thousands_of_predicates(semantics: Semantics) -> None:
    rng = random.Random(5)
    speller = Speller(rng, False)
    pair = Pair(SCHEMA, semantics, limits=Limits(length=10**6, depth=1000))
    parts: list[str] = []
    while len(parts) < 3_000:
        part = f"({speller.sensible()})"
        if (
            "\0" not in part
            and "\ud800" not in part
            and pair.quick._contents.intake._by_shape(part)
        ):
            parts.append(part)
    pair.by_shape = 0
    pieces = [" AND ".join(parts[i : i + 3]) for i in range(0, len(parts), 3)]
    texts = [" OR ".join(f"NOT ({p})" if i % 5 == 0 else p for i, p in enumerate(pieces))]
    texts += [" AND ".join(f"(NOT {p})" for p in parts[:300]), " OR ".join(parts)]
    assert pair.add(texts) == pair.by_shape == len(texts)
    pair.compare(texts, messages_of(rng, SCHEMA, False))


@pytest.mark.parametrize("dialect", ["tamis", "jms"])
def test_pieces_near_the_borders_of_what_is_cut_out(dialect: str) -> None:
    rng = random.Random(7)
    pair = Pair(None, "sql", dialect=dialect)
    texts = ["".join(rng.choices(PIECES, k=rng.randint(1, 9))) for _ in range(10_000)]
    texts += [f"NOT ({piece}) AND\tx = 1" for piece in PIECES]
    good = pair.add(texts)
    assert 100 < pair.by_shape <= good
    pieces = (0, 1, -5, 5, 0.5, "x", "xy", "it's", "b", None, True, 2**63 - 1, -(2**63))
    messages = [{n: rng.choice(pieces) for n in ("a", "x", "JMSType")} for _ in range(50)]
    pair.compare(texts, messages)

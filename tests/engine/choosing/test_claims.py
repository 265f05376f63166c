"""Access, looked into: where subscriptions go, and that a message finds all that it matches."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

import pytest

import oracle
from engine.compiled import Read, read
from engine.test_ranges import SCHEMA as RANGES
from engine.test_ranges import everything_leads, some_condition, some_message  # noqa: F401
from tamis import Schema
from tamis.diagram.wording import text_of
from tamis.engine.choosing.boxes import LEAST, Box
from tamis.engine.choosing.claims import MIN_POINTS
from tamis.engine.ground.layout import Access, Block
from tamis.engine.paths.segment import claimed
from tamis.engine.values.single_message import Single, encode_one
from tamis.language import parse
from tamis.logic import SEMANTICS, Kind, Semantics

SCHEMA = Schema.of(symbol=str, venue=str, price=float, volume=int, note=str)


@dataclass(frozen=True)
class Placed:
    made: Read
    members: list[list[int]]  # of each cluster
    leads: Access
    boxes: list[Box]

    def clusters(self, s: int) -> list[int]:
        return [c for c, members in enumerate(self.members) if s in members]

    def boxed(self) -> set[int]:
        return {s for box in self.boxes for s in box.subscription.tolist()}

    def ways(self, s: int) -> set[str]:
        """The events that lead to clusters in which the subscription is."""
        clusters, offsets = self.leads.clusters.tolist(), self.leads.offsets.tolist()
        events = [
            e for e in range(len(offsets) - 1)
            if set(clusters[offsets[e] : offsets[e + 1]]) & set(self.clusters(s))
        ]  # fmt: skip
        return {self.event(e) for e in events}

    def event(self, number: int) -> str:
        atoms = [atom for atom in self.made.all_atoms() if atom.kind > Kind.BELOW]
        return text_of(atoms[number])

    def reached(self, block: Block) -> set[int]:
        """The subscriptions to which the one message of the block is led."""
        found, offsets = set(self.members[0]), self.leads.offsets
        for e in block.events.tolist():
            for c in self.leads.clusters[offsets[e] : offsets[e + 1]].tolist():
                found.update(self.members[c])
        for box in self.boxes:
            flags = all(
                bool(block.flags[column, 0] & bit) == bool(due)
                for column, bit, due in box.shape.flags
            )
            for i, s in enumerate(box.subscription.tolist()):
                keys = [block.keys[t, 0] if t >= 0 else ~block.keys[~t, 0] for t in box.shape.tests]
                if flags and all(
                    bound <= key for bound, key in zip(box.bounds[:, i], keys, strict=True)
                ):
                    found.add(s)
        return found


def placed(
    selectors: list[str], schema: Schema | None = SCHEMA, semantics: Semantics = "sql"
) -> Placed:
    made = read(selectors, schema, semantics)
    claims = claimed(made.compiling())
    (offsets, members, _), leads = claims.settle()
    of_cluster = [members[a:b].tolist() for a, b in pairwise(offsets)]
    return Placed(made, of_cluster, leads, claims.boxes)


def alerts(count: int) -> list[str]:
    return [f"symbol = 'S{i:02d}' AND price < {i}.5" for i in range(count)]


def test_equalities_lead_where_there_are_enough_constants() -> None:
    many, few = placed(alerts(MIN_POINTS)), placed(alerts(MIN_POINTS - 1))
    assert few.members == [list(range(MIN_POINTS - 1))]
    assert many.members[0] == []
    assert [many.ways(s) for s in (0, 7)] == [{"symbol = 'S00'"}, {"symbol = 'S07'"}]


@pytest.mark.parametrize(
    ("selector", "ways"),
    [
        ("symbol = 'S03' AND volume > 2", {"symbol = 'S03'"}),
        ("symbol IN ('S01', 'S02') AND volume > 2", {"symbol = 'S01'", "symbol = 'S02'"}),
        ("symbol = 'S01' OR symbol = 'S02'", {"symbol = 'S01'", "symbol = 'S02'"}),
        ("symbol = 'S01' OR note CONTAINS 'word 3'", {"symbol = 'S01'", "note CONTAINS 'word 3'"}),
        ("symbol = 'S01' AND venue = 'A' OR symbol = 'S01' AND venue = 'B'", {"symbol = 'S01'"}),
        ("note CONTAINS 'word 3' AND volume = 1", {"note CONTAINS 'word 3'"}),
    ],
)  # fmt: skip
def test_what_leads_to_a_subscription(selector: str, ways: set[str]) -> None:
    words = [f"note CONTAINS 'word {i}'" for i in range(MIN_POINTS)]
    found = placed([*alerts(MIN_POINTS), *words, selector])
    last = len(found.made.source) - 1
    assert last not in found.members[0]
    assert found.ways(last) == ways


@pytest.mark.parametrize(
    "selector",
    [
        "symbol <> 'S03'",
        "NOT (symbol = 'S03' AND volume > 2)",
        "symbol = 'S03' OR volume > 2",
        "symbol IS NULL",
        "price < 3 OR venue = 'A'",
        "TRUE",
    ],
)
def test_nothing_leads_to_what_any_message_may_match(selector: str) -> None:
    found = placed([*alerts(MIN_POINTS), selector])
    assert found.clusters(MIN_POINTS) == [0]


def test_texts_of_a_character_or_two_lead_nowhere() -> None:
    for width, expected in ((2, 0), (4, MIN_POINTS)):
        texts = [f"note CONTAINS '{chr(97 + i) * width}'" for i in range(MIN_POINTS)]
        assert len(placed(texts).members) == 1 + expected


def test_ranges_lead_where_there_are_enough_of_them() -> None:
    ranges = [f"price BETWEEN {10 * i} AND {10 * i + 3} AND volume > {i}" for i in range(LEAST)]
    many, few = placed(ranges), placed(ranges[:-1])
    assert (many.members, many.boxed()) == ([[]], set(range(LEAST)))
    assert (few.members, few.boxed()) == ([list(range(LEAST - 1))], set())
    (box,) = many.boxes
    assert not box.shape.checked
    columns = {t if t >= 0 else ~t for t in box.shape.tests}
    assert columns == set(range(many.made.index.key_columns))


def test_what_bounds_do_not_say_is_checked() -> None:
    ranges = [
        f"price BETWEEN {10 * i} AND {10 * i + 3} AND note <> 'n{i % 3}'" for i in range(LEAST)
    ]
    (box,) = placed(ranges).boxes
    assert box.shape.checked


@pytest.mark.usefixtures("everything_leads")
@pytest.mark.parametrize("semantics", SEMANTICS[:3])
@pytest.mark.parametrize("schema", [RANGES, None], ids=["typed", "untyped"])
def test_a_message_is_led_to_all_that_it_matches(
    schema: Schema | None, semantics: Semantics
) -> None:
    rng = random.Random(f"{schema} {semantics}")
    selectors = [some_condition(rng) for _ in range(150)]
    selectors += [f"u = '{chr(97 + i)}' AND i > {i}" for i in range(20)]
    selectors += [f"s IN ('{chr(97 + i)}', 'b') OR j = {i}" for i in range(20)]
    found = placed(selectors, schema, semantics)
    conditions = [parse(selector) for selector in selectors]
    led = False
    for message in (some_message(rng) for _ in range(40)):
        reached = found.reached(
            encode_one(found.made.index, Single(message, semantics, schema, {}))
        )
        due = {
            s for s, condition in enumerate(conditions)
            if oracle.matches(condition, message, semantics, schema)
        }  # fmt: skip
        assert due <= reached, [selectors[s] for s in due - reached]
        led |= len(reached) < len(selectors)
    assert led  # else this would prove nothing
    assert min(len(found.boxed()), len(found.members)) > 8

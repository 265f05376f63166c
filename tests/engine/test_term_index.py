"""Indexes, looked into: every atom's answer can be read off, and is that of the atom itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as hy

import oracle
import strategies as st
from engine.compiled import Read, read
from tamis import Schema
from tamis.diagram import packed
from tamis.diagram.questions import double_key
from tamis.diagram.wording import text_of
from tamis.engine.ground.layout import Block
from tamis.engine.values.block import block_of, encode
from tamis.engine.values.mappings import Mappings
from tamis.engine.values.single_message import Single, encode_one
from tamis.errors import SelectorError
from tamis.language import canonical
from tamis.language.tree import Compare, Text
from tamis.logic import Kind

TYPED = Schema.of(i=int, d=float, s=str, b=bool)
POINTS = [
    *(f"i = {n}" for n in (0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))),
    "i IN (1, 2, 3)",
    "i IN (2, 9223372036854775807)",
    *(f"d = {n}" for n in ("0.0", "-1.5", "1e308", "5e-324", "9007199254740993")),
    "d IN (0.0, -1.5)",
    *(f"s = '{text}'" for text in ("", "a", "é", "\U0001d4b3")),
    "s IN ('a', 'b', '')",
    "b = TRUE",
]
VALUES: dict[str, tuple[Any, ...]] = {
    "i": (0, 1, 2, 3, -1, 5, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)),
    "d": (0.0, -0.0, -1.5, 1e308, 5e-324, 9007199254740992.0, 7.25),
    "s": ("", "a", "b", "A", "é", "\U0001d4b3", "aa"),
    "b": (True, False),
}


@pytest.mark.parametrize("schema", [TYPED, None], ids=["typed", "untyped"])
def test_a_point_fires_the_events_of_its_constant(schema: Schema | None) -> None:
    made = read(POINTS, schema)
    atoms, events = made.all_atoms(), made.index.place
    for term in made.index.terms:
        name = canonical(term.term)
        for value in VALUES[name]:
            fired = {e for own in term.points.values() for e in events_of(own, term, value)}
            due = {
                int(events[v]) for v, atom in enumerate(atoms)
                if atom.term == term.term and atom.kind is Kind.MEMBER and atom.holds(value)
            }  # fmt: skip
            assert fired == due, (name, value)


def events_of(points: Any, term: Any, value: Any) -> list[int]:
    """What the points of one family say of a value; values that their keys cannot be are none's."""
    key = value
    if not points.numbers and term.type is not None and term.type.value == "double":
        key = double_key(value)
    at = points.find(key)
    if at < 0 or not _same_family(points, value):
        return []
    return points.events[points.offsets[at] : points.offsets[at + 1]].tolist()  # type: ignore[no-any-return]


def _same_family(points: Any, value: Any) -> bool:
    """1 and TRUE are one key of a Python dict."""
    known = [constant for constant in points.numbers if constant == value]
    return not known or isinstance(known[0], bool) == isinstance(value, bool)


def test_thresholds_of_a_column_ascend_with_their_constants() -> None:
    texts = [
        "i < 5",
        "i >= -3",
        "d < 2.5",
        "d <= 2.5",
        "d > -1e308",
        "s < 'b'",
        "s >= ''",
        "s > 'é'",
    ]
    for schema in (TYPED, None):
        made = read(texts, schema)
        below: dict[int, list[tuple[Any, int]]] = {}
        for v, atom in enumerate(made.all_atoms()):
            if atom.kind is Kind.BELOW:
                pair = atom.constant, int(made.index.threshold[v])
                below.setdefault(int(made.index.place[v]), []).append(pair)
        assert len(below) == made.index.key_columns == 3
        for pairs in below.values():
            by_constant, by_threshold = sorted(pairs), sorted(pairs, key=lambda pair: pair[1])
            assert by_constant == by_threshold
            assert len({threshold for _, threshold in pairs}) == len(pairs)


def answers(made: Read, block: Block, m: int) -> list[bool]:
    """What the block says of every atom for message m."""
    fired = set(block.events[block.offsets[m] : block.offsets[m + 1]].tolist())
    found = []
    for v, question in enumerate(made.atoms.question.tolist()):
        kind, place = packed.kind(question), int(made.index.place[v])
        if kind == Kind.BELOW:
            found.append(bool(block.keys[place, m] < made.index.threshold[v]))
        elif kind > Kind.BELOW:
            found.append(place in fired)
        else:
            bit = 1 if kind == Kind.DEFINED else 2 << packed.family(question)
            found.append(bool(block.flags[place, m] & bit))
    return found


@settings(max_examples=60)
@given(hy.data())
def test_an_encoded_message_answers_every_atom(data: hy.DataObject) -> None:
    """One by one, and together: what is looked up is what the atom says of the term's value."""
    schema = data.draw(hy.none() | st.schemas())
    conditions = data.draw(hy.lists(st.conditions(schema), min_size=1, max_size=6))
    try:
        made = read([canonical(condition) for condition in conditions], schema)
    except SelectorError:
        return
    atoms = made.all_atoms()
    messages = data.draw(hy.lists(st.partial_messages(schema), min_size=1, max_size=4))
    batch = Mappings(messages, "sql", schema)
    encoded = encode(made.index, len(messages), lambda term: batch.column(term, {}))
    block = block_of(made.index, encoded)
    for m, message in enumerate(messages):
        due = [(text_of(atom), atom.holds(worth(atom.term, message))) for atom in atoms]
        single = encode_one(made.index, Single(message, "sql", schema, {}))
        for found in (answers(made, single, 0), answers(made, block, m)):
            assert [(text_of(atom), truth) for atom, truth in zip(atoms, found, strict=True)] == due


def worth(term: Any, message: dict[str, object]) -> object:
    """A term may be a comparison of two terms, too."""
    if isinstance(term, Compare | Text):
        return oracle.evaluate(term, message)
    return oracle.value(term, message)

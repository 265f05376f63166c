"""What is said of a subscription when it is added: a witness never contradicts the diagram."""

from __future__ import annotations

import random

import pytest

import strategies as st
from tamis import Matcher
from tamis.engine.reading import selector_notices as notices
from tamis.engine.reading.notice_samples import plainly_contingent
from tamis.language import canonical
from tamis.schema import Schema

TEXTS = ("a", "ab", "b", "B", "", "é", "ΑΣ")
FORMS = ("{0} CONTAINS '{1}'", "{0} STARTS WITH '{1}'", "{0} ENDS WITH '{1}'", "{0} = '{1}'")
FORMS += ("{0} LIKE '_{1}%'", "{0} WITHIN '{1}b'", "{0} < '{1}'", "{0} = 1", "length({0}) = 1")
TERMS = ("x", "y", "lower(x)", "lower(z)", "upper(y)", "w")


def condition(rng: random.Random, depth: int = 3) -> str:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(FORMS).format(rng.choice(TERMS), rng.choice(TEXTS))
    if rng.random() < 0.2:
        return f"NOT ({condition(rng, depth - 1)})"
    joint = rng.choice((" AND ", " AND ", " OR "))
    return "(" + joint.join(condition(rng, depth - 1) for _ in range(rng.randint(2, 3))) + ")"


@pytest.mark.parametrize("semantics", ["sql", "default", "strict"])
@pytest.mark.parametrize("schema", [None, Schema.of(x=str, y=str, z=str, w=str)])
def test_a_witness_agrees_with_the_diagram(semantics, schema, monkeypatch) -> None:
    rng = random.Random(f"{semantics}{schema}")
    monkeypatch.setattr(notices, "plainly_contingent", lambda *_: False)
    plain = 0
    for _ in range(400):
        text = condition(rng)
        if schema is not None and "= 1" in text:
            text = text.replace("w = 1", "w = 'x'")
        matcher = Matcher(schema, semantics=semantics)
        try:
            template, keys = matcher._contents.intake.read(text)
        except Exception:
            continue
        inside = matcher._contents.intake
        found = inside.templates.items[template]
        if plainly_contingent(inside.vocabulary, found, keys):
            plain += 1
            assert notices.notice(inside.vocabulary, found, keys) is None, text
    assert plain > 20


def test_random_conditions(monkeypatch) -> None:
    rng = random.Random(3)
    monkeypatch.setattr(notices, "plainly_contingent", lambda *_: False)
    for _ in range(300):
        matcher = Matcher(lookups=st.LOOKUPS)
        text = canonical(st.random_condition(rng, None, lookups=tuple(st.LOOKUPS)))
        inside = matcher._contents.intake
        template, keys = inside.read(text)
        found = inside.templates.items[template]
        if plainly_contingent(inside.vocabulary, found, keys):
            assert notices.notice(inside.vocabulary, found, keys) is None, text

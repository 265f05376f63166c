"""docs/selector.md names everything that the language has, and its examples are true."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from tamis.errors import SelectorError
from tamis.language import Limits, canonical, check, parse
from tamis.language.functions import FUNCTIONS
from tamis.language.lexer import KEYWORDS, OPERATORS
from tamis.schema import Schema

PAGE = (Path(__file__).parents[2] / "docs" / "selector.md").read_text(encoding="utf-8")
CODE = " ".join(re.findall(r"``? ?(.*?) ?`?`", PAGE)) + " ".join(
    re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
)


@pytest.mark.parametrize("word", sorted(KEYWORDS) + sorted(FUNCTIONS))
def test_every_keyword_and_function_is_documented(word: str) -> None:
    assert re.search(rf"\b{word}\b", CODE)


@pytest.mark.parametrize("sign", OPERATORS)
def test_every_operator_is_documented(sign: str) -> None:
    assert sign in CODE.replace("\\|", "|")


@pytest.mark.parametrize("field", fields(Limits), ids=lambda field: field.name)
def test_every_limit_is_documented_with_its_default(field: object) -> None:
    name = field.name  # type: ignore[attr-defined]
    assert f"| `{name}` | {getattr(Limits(), name):,} |" in PAGE


def examples() -> list[str]:
    """The selectors of the first table."""
    table = PAGE.partition("## In one screen")[2].partition("Each of BETWEEN")[0]
    rows = [row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `")]
    return [text for row in rows for text in re.findall(r"`(.*?)`", row)]


def test_every_example_parses() -> None:
    assert len(examples()) > 13
    for text in examples():
        assert parse(canonical(parse(text))) == parse(text)


def test_the_first_example() -> None:
    text, expected = re.findall(r'canonical\(parse\("(.*)"\)\) +# "(.*)"', PAGE)[0]
    assert canonical(parse(text)) == expected


@pytest.mark.parametrize("text", ["price > 100 AND AND region = 'EU'", "price = 'abc'"])
def test_the_errors_shown_are_the_errors_raised(text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        check(parse(text), Schema.of(price=float), text=text)
    assert f"```\n{caught.value}\n```" in PAGE

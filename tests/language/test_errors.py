"""What a person sees when a selector is wrong: golden texts."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tamis.errors import SelectorError
from tamis.language import parse

GOLDEN = Path(__file__).parent.parent / "golden" / "selector_errors.txt"


def cases() -> list[tuple[str, str, str]]:
    """Blocks of `dialect> selector` and the error as it is shown, with empty lines between."""
    found = []
    for block in GOLDEN.read_text(encoding="utf-8").split("\n\n"):
        head, _, shown = block.strip("\n").partition("\n")
        dialect, _, text = head.partition("> ")
        found.append((dialect, text, shown))
    return found


@pytest.mark.parametrize(("dialect", "text", "shown"), cases())
def test_golden_error(dialect: str, text: str, shown: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text, dialect=dialect)  # type: ignore[arg-type]
    assert str(caught.value) == shown


def test_every_error_has_a_hint() -> None:
    assert len(cases()) > 60
    for dialect, text, shown in cases():
        assert shown.split("^ ")[-1].strip(), (dialect, text)


@pytest.mark.parametrize("text", ["a = \0", "a = '\0'", "a = '\ud800'", "\udfff", "`a\0` = 1"])
def test_characters_that_no_selector_holds(text: str) -> None:
    for dialect in ("tamis", "jms"):
        with pytest.raises(SelectorError) as caught:
            parse(text, dialect=dialect)  # type: ignore[arg-type]
        assert not text[caught.value.at].isprintable()


def test_an_error_survives_pickling() -> None:
    with pytest.raises(SelectorError) as caught:
        parse("a = ")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)

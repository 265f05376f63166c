"""`parse`: the one way from selector text to a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal as OneOf

from tamis.errors import SelectorError
from tamis.language import jms
from tamis.language.lexer import Tokens, tokenize
from tamis.language.limits import Limits
from tamis.language.literals import number
from tamis.language.parser import Parser, check_height, too_deep_for_python
from tamis.language.tree import Condition

Dialect = OneOf["tamis", "jms"]
_DEFAULT = Limits()
_DIALECTS: dict[Dialect, tuple[Callable[[str], Tokens], Callable[[str], int | float]]] = {
    "tamis": (tokenize, number),
    "jms": (jms.tokenize, jms.number),
}


def parse(text: str, *, dialect: Dialect = "tamis", limits: Limits = _DEFAULT) -> Condition:
    """The condition that `text` says. Whatever the text, only SelectorError is raised."""
    if dialect not in _DIALECTS:
        raise ValueError(f"there is no dialect {dialect!r}: choose tamis or jms")
    check_text(text, limits)
    lex, value = _DIALECTS[dialect]
    try:
        parser = Parser(text, lex(text), limits, value)
        parser.outside, parser.sql = dialect == "jms", dialect != "jms"
        condition = parser.selector()
        check_height(condition, text, limits)
        if dialect == "jms":
            jms.refuse(condition, text)
            return jms.settled(condition)
    except RecursionError:
        raise too_deep_for_python(limits, text) from None
    return condition


def check_text(text: str, limits: Limits) -> None:
    """Refuse what no dialect can read: text that is too long, NUL, half of a surrogate pair."""
    if not isinstance(text, str):
        raise SelectorError(f"a selector is a string, not {type(text).__name__}")
    if len(text) > limits.length:
        what = f"the selector has {len(text):,} characters"
        raise limits.crossed("length", what, text, limits.length)
    if "\0" in text:
        raise SelectorError(
            "a selector holds no NUL", text=text, at=text.index("\0"), hint="remove it"
        )
    if not text.isascii():
        _check_surrogates(text)


def _check_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what, hint = "half of a surrogate pair is no character", "remove it"
        raise SelectorError(what, text=text, at=error.start, hint=hint) from None

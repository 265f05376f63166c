"""A place among the tokens, and what to say when the next token does not fit there."""

from __future__ import annotations

from typing import NoReturn

from tamis.errors import SelectorError
from tamis.language.lexer import Tokens

CLOSING = {"(": ")", "[": "]", "{": "}"}


class Cursor:
    """The tokens of one selector; `i` is the current one. The last, `end`, is never passed."""

    def __init__(self, text: str, tokens: Tokens) -> None:
        self.text = text
        self.kinds, self.values, self.places = tokens
        self.i = 0

    def take(self) -> tuple[str, str, int]:
        """The current token; the next one becomes current. `end` stays current for ever."""
        i = self.i
        kind = self.kinds[i]
        if kind != "end":
            self.i = i + 1
        return kind, self.values[i], self.places[i]

    def close(self, opening: str, at: int) -> None:
        closing = CLOSING[opening]
        kind, value, place = self.kinds[self.i], self.values[self.i], self.places[self.i]
        if kind == closing:
            self.i += 1
        elif kind == "end":
            self.fail(f"this {opening} is not closed", at, f"add a {closing}")
        elif kind in (")", "]", "}"):
            self.fail(f"expected {closing}", place, f"write {closing} for this {value}")
        else:
            self.fail(
                f"expected {closing} before {value}", place, f"add a {closing} or an operator"
            )

    def fail_before_operand(self) -> NoReturn:
        kind, value, at = self.kinds[self.i], self.values[self.i], self.places[self.i]
        if kind == "end":
            self.fail("the selector ends too early", at, "a condition or a value is missing here")
        if kind in ("AND", "OR"):
            self.fail("expected a condition", at, f"remove this {value}")
        if kind == "NULL":
            self.fail("NULL is not a value", at, "write IS NULL or IS NOT NULL")
        if kind in (")", "]", "}", ","):
            self.fail("expected a condition or a value", at, f"remove this {value}")
        if kind == "NOT":
            self.fail("NOT binds weaker than this operator", at, "put NOT ... in ( )")
        if kind == "{":
            self.fail("braces hold a list of constants", at, "write IN before them")
        hint = f"write `{value}` if it is a name" if value.isalpha() else "put a value before it"
        self.fail(f"expected a value, not {value}", at, hint)

    def fail_after_condition(self) -> NoReturn:
        kind, value, at = self.kinds[self.i], self.values[self.i], self.places[self.i]
        if kind in (")", "]", "}"):
            self.fail(f"there is no bracket that this {value} closes", at, f"remove this {value}")
        if kind == "string" and self.kinds[self.i - 1] == "string":
            self.fail("two strings side by side", at, "a quote inside a string is doubled")
        self.fail("expected AND, OR or the end", at, f"an operator is missing before {value[:20]}")

    def fail(self, what: str, at: int, hint: str = "") -> NoReturn:
        raise SelectorError(what, text=self.text, at=at, hint=hint)

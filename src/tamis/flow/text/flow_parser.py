"""The tokens of one statement, and what every kind of statement is made of.

Conditions and terms are read by the parser of selectors, on the same tokens: places point into
the text of the whole flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from tamis.errors import SelectorError
from tamis.flow.model.elements import Column
from tamis.flow.model.flow_limits import FlowLimits
from tamis.language import Condition, Term
from tamis.language.lexer import OPERATORS, SOFT, Tokens, token_pattern, tokenize
from tamis.language.literals import number
from tamis.language.parser import Parser, check_height, too_deep_for_python
from tamis.language.types import nearest
from tamis.schema import Type

T = TypeVar("T")
SIGNS = OPERATORS | {sign: sign for sign in ("->", "=>", ":=", "+=", ":", ";", "...")}
_TOKEN = token_pattern(SIGNS, ("=<", "=!"), space=r"(?:\s|\#[^\n]*+)*+")
TYPES = {kind.value: kind for kind in Type}
NAMES = SOFT | {"name"}


def statements(text: str) -> Iterator[Tokens]:
    """The tokens of each statement: one begins in column 0, and indented lines continue it."""
    all_tokens = tokenize(text, _TOKEN, SIGNS)
    found = Tokens([], [], [])
    for kind, value, place in zip(*all_tokens, strict=True):
        begins = place == 0 or text[place - 1] == "\n"
        if (begins or kind == "end") and found.kinds:
            yield _ended(found, text)
            found = Tokens([], [], [])
        if kind != "end":
            found.kinds.append(kind)
            found.values.append(value)
            found.places.append(place)


def statement_ends(text: str) -> dict[int, int]:
    """Where the last token of each statement ends, by the place where the statement begins."""
    ends = {}
    for tokens in statements(text):
        last = _TOKEN.match(text, tokens.places[-2])
        assert last is not None
        ends[tokens.places[0]] = last.end()
    return ends


def _ended(tokens: Tokens, text: str) -> Tokens:
    """With the token `end` where the last line of the statement ends."""
    last = tokens.places[-1]
    line = text.find("\n", last)
    tokens.kinds.append("end")
    tokens.values.append("")
    tokens.places.append(len(text) if line < 0 else line)
    return tokens


class StatementParser(Parser):
    """Reads one statement. `title` names it in errors, as soon as that is known."""

    def __init__(self, text: str, tokens: Tokens, limits: FlowLimits) -> None:
        super().__init__(text, tokens, limits.selectors, number)
        self.flow_limits = limits
        self.title = ""

    @property
    def at(self) -> int:
        return self.places[self.i]

    def word(self, *words: str) -> bool:
        """Take the next tokens where they are just these words, not in backticks."""
        for offset, wanted in enumerate(words):
            i = self.i + offset
            if i >= len(self.kinds) or not self._is_word(i, wanted):
                return False
        self.i += len(words)
        return True

    def _is_word(self, i: int, wanted: str) -> bool:
        plain = self.text[self.places[i]] != "`" if self.kinds[i] != "end" else False
        return plain and self.values[i].lower() == wanted and self.values[i][:1].isalpha()

    def sign(self, kind: str) -> bool:
        """Take the next token where it is this sign."""
        if self.kinds[self.i] != kind:
            return False
        self.i += 1
        return True

    def need(self, kind: str, what: str, hint: str = "") -> None:
        if not self.sign(kind):
            self.fail_here(f"expected {kind} {what}".rstrip(), hint)

    def fail_here(self, what: str, hint: str = "") -> None:
        found = self.values[self.i]
        self.fail(what, self.at, hint or (f"instead of {found[:30]}" if found else "it ends here"))

    def identifier(self, what: str) -> tuple[str, int]:
        """A name, and where it stands."""
        kind, value, at = self.kinds[self.i], self.values[self.i], self.at
        if kind not in NAMES:
            keyword = kind.isalpha() and kind.isupper()
            hint = f"write `{value}` if this is its name" if keyword else ""
            self.fail_here(f"expected {what}", hint)
        self.i += 1
        return value, at

    def type(self) -> Type:
        name, at = self.identifier("a type: int, double, string, bool or timestamp")
        if name.lower() not in TYPES:
            hint = nearest(name, TYPES) or "choose int, double, string, bool or timestamp"
            self.fail(f"there is no type {name}", at, hint)
        return TYPES[name.lower()]

    def columns(self) -> tuple[Column, ...]:
        """`(name: type, ...)`."""
        self.need("(", "and the columns", "write (price: double, ...)")
        found = self.listed_items(self.column)
        self.need(")", "after the columns")
        return found

    def column(self) -> Column:
        name, at = self.identifier("the name of a column")
        self.need(":", "and the column's type", f"write {name}: double")
        return Column(name, self.type(), at)

    def listed_items(self, item: Callable[[], T]) -> tuple[T, ...]:
        found = [item()]
        while self.sign(","):
            found.append(item())
        return tuple(found)

    def whole_condition(self) -> Condition:
        """A condition, up to the first token that cannot continue it."""
        condition = self.condition(0)
        check_height(condition, self.text, self.limits)
        return condition

    def whole_term(self) -> Term:
        term = self.term(0)
        check_height(term, self.text, self.limits)
        return term

    def deep(self) -> SelectorError:
        return too_deep_for_python(self.limits, self.text, self.at)

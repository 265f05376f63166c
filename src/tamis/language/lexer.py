"""Selector text to tokens, for the tamis dialect.

A token's kind is its meaning, not its spelling: `!=`, `≠` and `<>` all have the
kind `<>`, and a keyword has its upper-case name as kind. A keyword in backticks is
a name. The last token always has the kind `end`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tamis.errors import SelectorError

RESERVED = frozenset(
    ("AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "LIKE", "ESCAPE", "TRUE", "FALSE")
)
# Words that are operators only where an operator can stand; elsewhere they are names.
SOFT = frozenset(
    ("CONTAINS", "WITHIN", "STARTS", "ENDS", "WITH", "MATCHES", "ILIKE", "TIMESTAMP", "DIV")
)
KEYWORDS = RESERVED | SOFT

OPERATORS = {
    "=": "=", "==": "=", "<>": "<>", "!=": "<>", "≠": "<>",
    "<": "<", "<=": "<=", "≤": "<=", ">": ">", ">=": ">=", "≥": ">=",
    "&": "AND", "&&": "AND", "∧": "AND", "|": "OR", "||": "OR", "∨": "OR", "!": "NOT", "¬": "NOT",
    "∈": "IN", "⊑": "⊑", "⊥": "⊥",
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%",
    "(": "(", ")": ")", "[": "[", "]": "]", "{": "{", "}": "}", ",": ",",
}  # fmt: skip
_MISTAKES = {"=<": "write <=", "=>": "write >=", "=!": "write !="}


class Tokens(NamedTuple):
    """Three parallel lists: what each token is, its text (a name without backticks), its place."""

    kinds: list[str]
    values: list[str]
    places: list[int]


# A run of other letters is taken whole and looked at by `check_name`: `re` knows no Unicode
# categories, and a wrong character in a name deserves its own message.
_OTHER = r"[^\x00-\x7f\s≠≤≥∧∨¬∈⊑⊥]"
_WORD = rf"(?:[A-Za-z_$]|{_OTHER})(?:[A-Za-z0-9_$]|{_OTHER})*+"
_PART = rf"(?:{_WORD}|`(?:[^`]|``)++`)"
_NUMBER = r"(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?![\w.$])"


def token_pattern(
    operators: Iterable[str], mistakes: Iterable[str] = (), space: str = r"\s*+"
) -> re.Pattern[str]:
    """What one token looks like in a language with these operators."""

    def one_of(signs: Iterable[str]) -> str:
        return "|".join(map(re.escape, sorted(signs, key=len, reverse=True))) or "(?!)"

    # Possessive quantifiers (`*+`): an unclosed quote must fail at once, not be tried in pieces.
    return re.compile(
        rf"""{space}(?:
            (?P<name>{_PART}(?:\.{_PART})*+)
          | (?P<number>{_NUMBER})
          | (?P<string>'[^']*+(?:''[^']*+)*+'|"[^"]*+(?:""[^"]*+)*+")
          | (?P<mistake>{one_of(mistakes)})
          | (?P<operator>{one_of(operators)})
          | (?P<end>\Z)
          | (?P<other>.)
        )""",
        re.VERBOSE | re.DOTALL,
    )


_TOKEN = token_pattern(OPERATORS, _MISTAKES)
_PARTS = re.compile(_PART)
_PLAIN = re.compile(rf"{_WORD}(?:\.{_WORD})*+")


def tokenize(
    text: str, pattern: re.Pattern[str] = _TOKEN, operators: Mapping[str, str] = OPERATORS
) -> Tokens:
    """All tokens of `text`, or the first SelectorError. Linear in the length of the text.

    A language that holds selectors gives its own `pattern` and the kinds of its operators.
    """
    tokens = Tokens([], [], [])
    for found in pattern.finditer(text):
        group = found.lastgroup or ""
        kind, value, at = group, found[group], found.start(group)
        if group == "name":
            kind, value = _name(text, value, at)
        elif group == "operator":
            kind = operators[value]
        elif group in ("mistake", "other"):
            raise bad_token(text, at)
        tokens.kinds.append(kind)
        tokens.values.append(value)
        tokens.places.append(at)
    return tokens


def is_plain(name: str) -> bool:
    """Whether `name` can stand in a selector without backticks."""
    if not _PLAIN.fullmatch(name) or name.upper() in KEYWORDS:
        return False
    return name.isascii() or first_bad_character(name) is None


def first_bad_character(name: str) -> int | None:
    """The index of the first character of `name` that no name can hold; None if all are good."""
    start = True
    for i, c in enumerate(name):
        if not (c == "." or is_letter(c) or (not start and is_digit(c))):
            return i
        start = c == "."
    return None


def is_letter(c: str) -> bool:
    """A letter in the sense of Java's identifiers: also currency signs and connectors."""
    return unicodedata.category(c) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc")


def is_digit(c: str) -> bool:
    """What a name may hold after its first letter, besides letters."""
    return unicodedata.category(c) in ("Nd", "Mn", "Mc")


def unquote(literal: str) -> str:
    """The value of a string literal or a name in backticks."""
    quote = literal[0]
    return literal[1:-1].replace(quote + quote, quote)


def bad_token(text: str, at: int) -> SelectorError:
    """The error for text that is no token at all."""
    c = text[at]
    if text[at : at + 2] in _MISTAKES:
        what, hint = f"there is no operator {text[at : at + 2]}", _MISTAKES[text[at : at + 2]]
    elif c in "'\"":
        what, hint = "this string is not closed", f"add a closing {c}; inside it is written {c}{c}"
    elif text[at : at + 2] == "``":
        what, hint = "this name is empty", "write the name between the backticks"
    elif c == "`":
        what, hint = "this name is not closed", "add a closing `; inside it is written ``"
    elif c.isdigit() or (c == "." and text[at + 1 : at + 2].isdigit()):
        what, hint = (
            "this is no number",
            "numbers look like 7, 7., .5 or 1E3; names start with a letter",
        )
    elif c == ".":
        what, hint = "a dot joins two names", "remove it, or add a name after it"
    else:
        what, hint = f"{describe(c)} means nothing here", _character_hint(c)
    return SelectorError(what, text=text, at=at, hint=hint)


def describe(c: str) -> str:
    """A character as a reader can recognise it."""
    return c if c.isprintable() and not c.isspace() else f"the character U+{ord(c):04X}"


def _character_hint(c: str) -> str:
    if c in "‘’‚“”„«»":
        return "strings stand in straight quotes: '...' or \"...\""
    return "remove it" if c in ";#@\\?^~:" else "remove it, or put the name in `backticks`"


def _name(text: str, value: str, at: int) -> tuple[str, str]:
    if "`" in value:
        parts = [unquote(p) if p[0] == "`" else p for p in _PARTS.findall(value)]
        return "name", ".".join(parts)
    if value.isascii():
        upper = value.upper()
        return (upper if upper in KEYWORDS else "name"), value
    if (bad := first_bad_character(value)) is not None:
        raise bad_token(text, at + bad)
    return "name", value

"""LIKE patterns as atoms: most are a prefix, a suffix, a substring or a plain text."""

from __future__ import annotations

from tamis.language.tree import Term
from tamis.logic.atoms import Atom, Family, Kind, member

_ANY, _ONE = None, 1  # the wild cards % and _ among the characters of a pattern


def like_atom(term: Term, pattern: str, escape: str | None) -> Atom:
    """The atom that holds just where `term LIKE pattern ESCAPE escape` is true."""
    signs = _signs(pattern, escape)
    if _ONE not in signs:
        inner = [s for s in signs if s is not _ANY]
        text = "".join(map(str, inner))
        if _ANY not in signs:
            return member(term, Family.STRING, [text])
        open_left, open_right = signs[0] is _ANY, signs[-1] is _ANY
        if signs == [_ANY] * open_left + inner + [_ANY] * open_right or not inner:
            return _open(term, text, open_left, open_right)
    return Atom(term, Kind.PATTERN, Family.STRING, like_regex(pattern, escape))


def like_regex(pattern: str, escape: str | None) -> str:
    """The RE2 pattern of a LIKE pattern; signs of regular expressions are plain characters."""
    body = "".join(
        "(?:.*)" if s is _ANY else "." if s is _ONE else _quoted(str(s))
        for s in _signs(pattern, escape)
    )
    return rf"(?s)\A{body}\z"


def _open(term: Term, text: str, left: bool, right: bool) -> Atom:
    if not text:
        return Atom(term, Kind.TYPED, Family.STRING)
    kind = Kind.CONTAINS if left and right else Kind.SUFFIX if left else Kind.PREFIX
    return Atom(term, kind, Family.STRING, text)


def _signs(pattern: str, escape: str | None) -> list[str | int | None]:
    """Characters and wild cards, runs of % as one."""
    found: list[str | int | None] = []
    rest = iter(pattern)
    for c in rest:
        if c == escape:
            found.append(next(rest, c))
        elif c == "%":
            if not found or found[-1] is not _ANY:
                found.append(_ANY)
        else:
            found.append(_ONE if c == "_" else c)
    return found


def _quoted(character: str) -> str:
    return character if character.isalnum() or character in "_ " else f"\\x{{{ord(character):x}}}"

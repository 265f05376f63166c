"""LIKE patterns as atoms: most are a prefix, a suffix, a substring or a plain text."""

from __future__ import annotations

from tamis.language.patterns import like_parts
from tamis.language.tree import Term
from tamis.logic.atoms import Atom, Family, Kind, member
from tamis.logic.wildcards import pattern_of


def like_atom(term: Term, pattern: str, escape: str | None) -> Atom:
    """The atom that holds just where `term LIKE pattern ESCAPE escape` is true."""
    match like_parts(pattern, escape):
        case [[text]]:
            return member(term, Family.STRING, [text])
        case [[""], [""]]:
            return Atom(term, Kind.TYPED, Family.STRING)
        case [[text], [""]]:
            return Atom(term, Kind.PREFIX, Family.STRING, text)
        case [[""], [text]]:
            return Atom(term, Kind.SUFFIX, Family.STRING, text)
        case [[""], [text], [""]]:
            return Atom(term, Kind.CONTAINS, Family.STRING, text)
        case parts:
            return Atom(term, Kind.LIKE, Family.STRING, pattern_of(parts))

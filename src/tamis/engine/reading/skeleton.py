"""How predicates are joined: a skeleton of AND, OR, NOT and brackets, read in one pass."""

from __future__ import annotations

import re
import sys
from itertools import product

from tamis.diagram import packed
from tamis.engine.reading.predicates import Unusual
from tamis.engine.reading.recipes import NO_TERMS, Meaning, Terms

_TOKEN = re.compile(r"\0|[()\[\]]|AND|OR|NOT|&&?|\|\|?|[!∧∨¬]", re.IGNORECASE)
_SPELLINGS = {"AND": "& && ∧", "OR": "| || ∨", "NOT": "! ¬"}
_WORDS = {sign: word for word, signs in _SPELLINGS.items() for sign in signs.split()}
_WORDS |= {
    "".join(letters): word
    for word in _SPELLINGS
    for letters in product(*((c, c.lower()) for c in word))
}


_ONE_PREDICATE = ["\0", ""]


class Skeleton:
    """Reads a skeleton in one pass, negations pushed down to the predicates."""

    def __init__(self, skeleton: str, meanings: list[Meaning]) -> None:
        self.tokens = [_WORDS.get(t) or t for t in _TOKEN.findall(skeleton)]
        self.tokens.append("")
        self.meanings = meanings
        self.at, self.required = 0, NO_TERMS
        self.words: list[int] = []
        self.sides: list[bool] = []

    def read(self, depth: int) -> bool:
        """False where only the parser can tell what is meant, or what is wrong.

        Whatever comes near the end of Python's stack goes to the parser too: what is added here
        must be explained later, and that takes the parser.
        """
        if self.tokens == _ONE_PREDICATE:
            self.required = self._one(False)
            return True
        depth = min(depth, sys.getrecursionlimit() // 8)
        nested = self.tokens.count("(") + self.tokens.count("[") + self.tokens.count("NOT")
        if 2 * nested + 4 > depth and 2 * self._deepest() + 4 > depth:
            return False
        try:
            self.required = self._either(False)
        except (Unusual, RecursionError):
            return False
        return self.tokens[self.at] == ""

    def _deepest(self) -> int:
        """How many brackets and NOT stand around a predicate at most."""
        now = most = 0
        outside, fresh = [], 0  # NOTs before each open bracket, and since the last operand
        for token in self.tokens:
            if token == "NOT":
                fresh += 1
                now += 1
            elif token in ("(", "["):
                outside.append(fresh)
                fresh, now = 0, now + 1
            elif token in (")", "]") and outside:
                now -= 1 + outside.pop()
            elif token == "\0":
                most = max(most, now)
                now, fresh = now - fresh, 0
        return most

    def _either(self, negated: bool) -> Terms:
        """An OR of ANDs; the terms that it requires."""
        required, parts = self._both(negated), 1
        while self.tokens[self.at] == "OR":
            self.at += 1
            more = self._both(negated)
            required = required | more if negated else required & more
            parts += 1
        if parts > 1:
            join = packed.conjunction if negated else packed.disjunction
            self.words.append(join(parts))
        return required

    def _both(self, negated: bool) -> Terms:
        required, parts = self._one(negated), 1
        while self.tokens[self.at] == "AND":
            self.at += 1
            more = self._one(negated)
            required = required & more if negated else required | more
            parts += 1
        if parts > 1:
            join = packed.disjunction if negated else packed.conjunction
            self.words.append(join(parts))
        return required

    def _one(self, negated: bool) -> Terms:
        token = self.tokens[self.at]
        self.at += 1
        while token == "NOT":
            negated = not negated
            token = self.tokens[self.at]
            self.at += 1
        if token == "\0":
            meaning = self.meanings[len(self.sides)]
            side = meaning.fails if negated else meaning.holds
            self.sides.append(not negated)
            self.words += side.words
            return side.required
        if token not in ("(", "["):
            raise Unusual
        required = self._either(negated)
        if self.tokens[self.at] != (")" if token == "(" else "]"):
            raise Unusual
        self.at += 1
        return required

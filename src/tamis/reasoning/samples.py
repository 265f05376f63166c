"""A few texts that a pattern is likely to match; whoever uses one checks it first.

RE2 patterns that need more than the usual signs (classes, groups, alternatives, repetition,
anchors) give no texts at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, product

from tamis.language.patterns import like_parts
from tamis.logic.wildcards import ESCAPE

MOST = 12  # texts of one pattern, or of one part of it
DEEPEST = 40  # nested groups
_LONGEST = 1000  # repetitions
_POOL = "a0 A_-x~é\n"
_CLASSES = {"d": "07", "w": "ax0", "s": " ", "D": "a ", "W": " -", "S": "a0"}
_NAMED = {"alpha": "ax", "digit": "07", "alnum": "a0", "upper": "AX", "lower": "ax", "word": "a0"}
_NAMED |= {"xdigit": "0a", "space": " ", "blank": " ", "punct": "-.", "print": "a", "graph": "a"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_EMPTY = "bBAz"


class _UnknownError(Exception):
    """The pattern has something that is not understood here."""


def samples(pattern: str, fill: str = "") -> list[str]:
    """Texts for a pattern; `fill` is what `.*` stands for, besides nothing at all."""
    reader = _Reader(pattern, fill)
    try:
        found = reader.alternatives(0)
    except (_UnknownError, IndexError, ValueError):
        return []
    return found if reader.at == len(pattern) else []


def like_samples(pattern: str, fill: str = "") -> list[str]:
    """Texts for the pattern of a LIKE atom; `fill` stands for %, besides nothing at all."""
    parts = like_parts(pattern, ESCAPE)
    made = (gap.join(one.join(texts) for texts in parts) for gap in ("", fill) for one in "a0 ")
    return _few(made)


def _few(texts: Iterable[str]) -> list[str]:
    return list(islice(dict.fromkeys(islice(texts, 4 * MOST)), MOST))


class _Reader:
    """Reads a pattern from left to right; every method gives the texts of what it has read."""

    def __init__(self, pattern: str, fill: str) -> None:
        self.pattern, self.fill, self.at = pattern, fill, 0

    def next(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def sees(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def take(self, text: str) -> bool:
        found = self.sees(text)
        self.at += len(text) * found
        return found

    def alternatives(self, depth: int) -> list[str]:
        if depth > DEEPEST:
            raise _UnknownError
        found = self.sequence(depth)
        while self.take("|"):
            found = found[: MOST - 2] + self.sequence(depth)
        return _few(found)

    def sequence(self, depth: int) -> list[str]:
        found = [""]
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            part = self.repeated(depth)
            # the first texts of both sides come first, then each side varies
            found = _few(a + b for b, a in product(part, found))
        return found

    def repeated(self, depth: int) -> list[str]:
        wild = self.sees(".")
        found = self.one(depth)
        while self.at < len(self.pattern) and self.pattern[self.at] in "*+?{":
            low, high = self.bounds()
            self.take("?")
            counts = [n for n in (low, low + 1, low + 2) if high is None or n <= high]
            found = _few(text * n for n in counts for text in found)
            if wild and self.fill and high is None:
                found = _few([self.fill, *found] if len(self.fill) >= low else found)
        return found

    def bounds(self) -> tuple[int, int | None]:
        sign = self.next()
        if sign != "{":
            return (1 if sign == "+" else 0), (1 if sign == "?" else None)
        end = self.pattern.index("}", self.at)
        low, comma, high = self.pattern[self.at : end].partition(",")
        self.at = end + 1
        if int(low) > _LONGEST:
            raise _UnknownError
        return int(low), (int(high) if high else None) if comma else int(low)

    def one(self, depth: int) -> list[str]:
        sign = self.next()
        match sign:
            case "(":
                return self.group(depth)
            case "[":
                return self.members()
            case ".":
                return ["a", "0", " "]
            case "^" | "$":
                return [""]
            case "\\":
                return self.escaped()
        return [sign]

    def group(self, depth: int) -> list[str]:
        if self.take("?"):
            name = self.take("P<") or (self.take("<") and not self.sees("=") and not self.sees("!"))
            while (sign := self.next()) != (">" if name else ":"):
                if sign == ")" and not name:
                    return [""]  # flags for what follows
                if not name and sign not in "imsU-":
                    raise _UnknownError
        found = self.alternatives(depth + 1)
        if not self.take(")"):
            raise _UnknownError
        return found

    def escaped(self) -> list[str]:
        sign = self.next()
        if sign == "x":
            return [self.code()]
        if sign in _EMPTY:
            return [""]
        if sign == "Q":
            end = self.pattern.find("\\E", self.at)
            end = len(self.pattern) if end < 0 else end
            text, self.at = self.pattern[self.at : end], min(end + 2, len(self.pattern))
            return [text]
        if sign in "pP" or sign.isdigit():
            raise _UnknownError
        return list(_CLASSES.get(sign, _CONTROLS.get(sign, sign)))

    def code(self) -> str:
        if self.take("{"):
            end = self.pattern.index("}", self.at)
            digits, self.at = self.pattern[self.at : end], end + 1
        else:
            digits, self.at = self.pattern[self.at : self.at + 2], self.at + 2
        return chr(int(digits, 16))

    def members(self) -> list[str]:
        """Some signs of a class such as [a-z0-9_] or [^"]."""
        negated = self.take("^")
        ranges: list[tuple[str, str]] = []
        while not (self.sees("]") and ranges):
            if self.take("[:"):
                end = self.pattern.index(":]", self.at)
                ranges += [(c, c) for c in _NAMED.get(self.pattern[self.at : end], "")]
                self.at = end + 2
                continue
            ranges += self.range()
        self.at += 1
        if negated:
            return [c for c in _POOL if not any(low <= c <= high for low, high in ranges)][:4]
        return _few(c for pair in ranges for c in pair)

    def range(self) -> list[tuple[str, str]]:
        low = self.member()
        if len(low) == 1 and self.sees("-") and not self.sees("-]"):
            self.at += 1
            return [(low[0], self.member()[0])]
        return [(c, c) for c in low]

    def member(self) -> list[str]:
        sign = self.next()
        return self.escaped() if sign == "\\" else [sign]

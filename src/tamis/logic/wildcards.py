"""LIKE patterns on values: in time that no pattern can blow up.

A pattern is cut at its %. The first part must stand at the start of the value and the last at
its end; each part between is looked for behind the one before, and its first place is as good
as any later one. So nothing is ever tried twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tamis.language.patterns import like_parts

ESCAPE = "!"
_SIGNS = re.compile("[%_!]")
_WILD = re.compile("[%_]")


class Gapped:
    """Texts with exactly one character, whichever, between each two."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.size = sum(map(len, texts)) + len(texts) - 1

    def stands(self, value: str, at: int) -> bool:
        for text in self.texts:
            if not value.startswith(text, at):
                return False
            at += len(text) + 1
        return True

    @cached_property
    def _somewhere(self) -> re.Pattern[str]:
        return re.compile(".".join(map(re.escape, self.texts)), re.DOTALL)  # no choice: no backing

    def end_of_first(self, value: str, at: int, end: int) -> int:
        found = self._somewhere.search(value, at, end)
        return found.end() if found else -1


Part = str | Gapped


@dataclass(frozen=True, slots=True)
class Wildcards:
    """A LIKE pattern that was read. `last` is None where it has no %."""

    first: Part
    between: tuple[Part, ...]
    last: Part | None
    shortest: int  # characters of a value at least

    def hold(self, value: str) -> bool:
        """Whether the value is LIKE this."""
        if len(value) < self.shortest or not _stands(self.first, value, 0):
            return False
        if self.last is None:
            return len(value) == self.shortest
        end = len(value) - _size(self.last)
        if not _stands(self.last, value, end):
            return False
        at = _size(self.first)
        for part in self.between:
            at = _end_of_first(part, value, at, end)
            if at < 0:
                return False
        return True


def _size(part: Part) -> int:
    return len(part) if isinstance(part, str) else part.size


def _stands(part: Part, value: str, at: int) -> bool:
    return value.startswith(part, at) if isinstance(part, str) else part.stands(value, at)


def _end_of_first(part: Part, value: str, at: int, end: int) -> int:
    if not isinstance(part, str):
        return part.end_of_first(value, at, end)
    found = value.find(part, at, end)
    return found + len(part) if found >= 0 else -1


def pattern_of(parts: list[list[str]]) -> str:
    """The LIKE pattern of these parts, with ! as its escape: what LIKE atoms hold."""
    if _SIGNS.search("".join(["".join(texts) for texts in parts])):
        return "%".join(["_".join(map(_escaped, texts)) for texts in parts])
    return "%".join(["_".join(texts) for texts in parts])


def _escaped(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


@lru_cache(maxsize=4096)
def wildcards(pattern: str) -> Wildcards:
    """What `pattern_of` wrote, ready for use."""
    parts = [t[0] if len(t) == 1 else Gapped(t) for t in like_parts(pattern, ESCAPE)]
    last = parts.pop() if len(parts) > 1 else None
    shortest = sum(map(_size, parts)) + (0 if last is None else _size(last))
    return Wildcards(parts[0], tuple(parts[1:]), last, shortest)


def needed_text(pattern: str) -> str:
    """The longest text that every value LIKE this contains; empty where there is none."""
    if ESCAPE not in pattern:
        return max(_WILD.split(pattern), key=len)
    return max((text for part in like_parts(pattern, ESCAPE) for text in part), key=len)

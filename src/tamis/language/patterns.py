"""Patterns of LIKE and MATCHES: what makes one legal."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from tamis.language.literals import ConstantError

_WILD = re.compile("%[%_]++")
REGEX_MEMORY = 1 << 20  # bytes that RE2 may use for one pattern


def check_like(pattern: str, escape: str | None) -> None:
    """Refuse a pattern whose last character is an escape: nothing is left to be escaped."""
    if escape is None or not pattern.endswith(escape):
        return
    run = len(pattern) - len(pattern.rstrip(escape))
    if run % 2:
        raise ConstantError(
            "the escape at the end escapes nothing", f"write it twice: {escape * 2}"
        )


def like_parts(pattern: str, escape: str | None) -> list[list[str]]:
    """A LIKE pattern cut at its %, and each part at its _: `a_b%c` is [["a", "b"], ["c"]].

    `%_` and `_%` mean the same: here a _ never follows a %, and only the ends can be empty.
    """
    if escape is None or escape not in pattern:
        return _cut(pattern)
    many, one = _unused(pattern)
    plain = {"%": many, "_": one, "": escape}
    hidden = re.sub(
        f"{re.escape(escape)}(.?)", lambda m: plain.get(m[1], m[1]), pattern, flags=re.DOTALL
    )
    parts = _cut(hidden)
    if many in hidden or one in hidden:
        for part in parts:
            part[:] = [text.replace(many, "%").replace(one, "_") for text in part]
    return parts


def _cut(pattern: str) -> list[list[str]]:
    settled = _WILD.sub(lambda m: "_" * m[0].count("_") + "%", pattern)
    return [part.split("_") for part in settled.split("%")]


def _unused(text: str) -> tuple[str, str]:
    """Two characters that do not occur."""
    used = set(text)
    free = (chr(code) for code in range(0xE000, 0x110000) if chr(code) not in used)
    return next(free), next(free)


def longest_search(pattern: str, escape: str | None) -> int:
    """Characters of the longest part that must be looked for and has a _ in it: every place of a
    value may have to be compared with all of it."""
    if "%" not in pattern or "_" not in pattern:
        return 0
    parts = like_parts(pattern, escape)[1:-1]
    return max((len("_".join(texts)) for texts in parts if len(texts) > 1), default=0)


def folded(text: str) -> str:
    """The text without its case, one character for one: what ILIKE compares.

    A character becomes its case folding where that is one character, else its lower case where
    that is one, else it stays: ς is σ, ẞ is ß, and İ is like itself alone.
    """
    if text.isascii():
        return text.lower()
    whole = text.casefold()  # it looks at no neighbours, and no character folds to nothing
    return whole if len(whole) == len(text) else "".join(map(_folded_character, text))


@lru_cache(maxsize=4096)
def _folded_character(c: str) -> str:
    return next((f for f in (c.casefold(), c.lower()) if len(f) == 1), c)


def compile_regex(pattern: str) -> Any:
    """`pattern` compiled by RE2 with the options that all of Tamis uses, or a ConstantError."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = REGEX_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "unknown"
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        if "too large" in reason:
            hint = "cut it into several patterns, joined by OR"
            raise ConstantError(
                f"RE2 needs more than {REGEX_MEMORY:,} bytes for it", hint
            ) from None
        raise ConstantError(f"this is no RE2 pattern: {reason}", "see the RE2 syntax") from None

"""Patterns of LIKE and MATCHES: what makes one legal."""

from __future__ import annotations

import re
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
    free = (chr(code) for code in range(0xE000, 0x110000) if chr(code) not in text)
    return next(free), next(free)


def longest_search(pattern: str, escape: str | None) -> int:
    """Characters of the longest part that must be looked for and has a _ in it: every place of a
    value may have to be compared with all of it."""
    if "%" not in pattern or "_" not in pattern:
        return 0
    parts = like_parts(pattern, escape)[1:-1]
    return max((len("_".join(texts)) for texts in parts if len(texts) > 1), default=0)


def case_free_like(pattern: str, escape: str | None) -> tuple[str, str | None]:
    """The pattern and escape of `lower(term) LIKE ...` that mean `term ILIKE pattern`."""
    if escape is None or escape.lower() == escape.upper():
        return pattern.lower(), escape
    # A letter as escape would be mixed up with its other case: use a backslash instead.
    parts, waiting = [], False
    for c in pattern:
        if c == escape and not waiting:
            waiting = True
            continue
        parts.append("\\" + c if c == "\\" or (waiting and c in "%_") else c)
        waiting = False
    return "".join(parts).lower(), "\\"


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

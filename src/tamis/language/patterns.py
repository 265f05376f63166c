"""Patterns of LIKE and MATCHES: what makes one legal."""

from __future__ import annotations

from typing import Any

from tamis.language.literals import ConstantError

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
        raise ConstantError(f"this is no RE2 pattern: {reason}", "see the RE2 syntax") from None

"""Values that no honest client sends: beyond every number type, empty, huge, of the wrong type."""

from __future__ import annotations

BIG = 1 << 20
EDGES = [2**31, 2**53, 2**63, 2**64]
NUMBERS = sorted({sign * edge + step for edge in EDGES for sign in (1, -1) for step in (-1, 0, 1)}
                 | {0, 1, -1, 10**400, -(10**400)})  # fmt: skip
_WORDS = ["", " ", "\0", "a\0b", "\r\n", "\N{ZERO WIDTH SPACE}", "\N{GRINNING FACE}", "*", ">", "#",
          "#.COMMAND", "..", "a..b", "../../etc/passwd", "~1~x", "%", "%s%n", "{}", "'", "''", "\"",
          "\\", "now", "all", "true", "null", "NaN", "Infinity", "1e400", "1.5", "+1", "0x10",
          "\u0665", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "2026-02-30", "already",
          "there is no", "x = 1", "price <", "((((", "a/b", "f/x/y"]  # fmt: skip
TEXTS = [*_WORDS, *map(str, NUMBERS), "(" * 5000, "NOT " * 5000 + "TRUE", "x" * 300, "x" * BIG]

# As JSON: also what Python's encoder would not write.
FRAGMENTS = [
    *map(str, NUMBERS), "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1.5", "-0.0", "5e-324",
    "null", "true", "[]", "{}", "[null]", '{"":{}}', '{"a":[[{"b":null}]]}',
    "[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000, "[" * 100_000, "01", "'x'", "",
    r'"\ud800"', r'"\udc00\ud800"', r'"\u0000"', '"' + "x" * BIG + '"', '"unclosed',
    *(f'"{word}"' for word in ("", "*", ">", "a..b", "all", "-1", "9" * 400, "x = 1", "1e400")),
]  # fmt: skip

"""Detection rules and the events that they watch: many text patterns, few hits.

The set has the shape of public rule sets: 3,000 conditions with 26,000 case-insensitive patterns
and 200 regexes, one condition of 4,400 atoms and 350,000 characters, and one that would be
4 * 10^10 terms in disjunctive normal form. The words are made up.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tamis.language import Limits
from tamis.schema import Schema

LIMITS = Limits(length=400_000)

_BY_EVENT = {
    "process": (
        *("image", "command_line", "parent_image", "parent_command_line", "current_directory"),
        *("original_file_name", "product", "company", "description", "hashes", "integrity_level"),
    ),
    "file": ("image", "target_filename", "creation_time", "hashes"),
    "registry": ("image", "target_object", "details", "event_type"),
    "network": ("image", "destination_hostname", "destination_ip", "destination_port", "protocol"),
    "dns": ("image", "query_name", "query_status", "query_results"),
    "script": ("script_block_text", "script_path", "host_application"),
}
_COMMON = ("event_kind", "computer", "user", "logon_id")
_INTEGERS = ("destination_port", "query_status", "logon_id")
ATTRIBUTES = tuple(dict.fromkeys([*_COMMON, *(n for names in _BY_EVENT.values() for n in names)]))
SCHEMA = Schema.of({name: int if name in _INTEGERS else str for name in ATTRIBUTES})
_KINDS = tuple(_BY_EVENT)
_KIND_WEIGHTS = (40, 20, 15, 15, 7, 3)
_WATCHED = {  # where the rules on each kind of event look for words
    "process": (
        "command_line",
        "command_line",
        "command_line",
        "parent_command_line",
        "description",
    ),
    "file": ("target_filename",),
    "registry": ("target_object", "details"),
    "network": ("destination_hostname",),
    "dns": ("query_name",),
    "script": ("script_block_text",),
}
_SYLLABLES = tuple(c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou")
_CONSONANTS = "bdfgklmnprst"


@dataclass(frozen=True, slots=True)
class Part:
    """`attribute` passes one of the patterns (or all of them, where `every`)."""

    attribute: str
    op: str
    patterns: tuple[str, ...]
    every: bool = False

    def text(self) -> str:
        term = f"lower({self.attribute})"
        joint = " AND " if self.every else " OR "
        return joint.join(f"{term} {self.op} '{pattern}'" for pattern in self.patterns)

    def value(self, chance: random.Random) -> str:
        """A value that passes, in mixed case."""
        chosen = self.patterns if self.every else (chance.choice(self.patterns),)
        inner = " ".join(chosen)
        if self.op == "MATCHES":
            inner = inner.replace(r"\d{2,4}", "123").replace(r"[a-z]+", "abc").replace(r"\.", ".")
        before = "" if self.op == "STARTS WITH" else _filler(chance) + " "
        after = "" if self.op == "ENDS WITH" else " " + _filler(chance)
        return (before + inner + after).title()


@dataclass(frozen=True, slots=True)
class Rule:
    """All parts hold, on events of one kind, and none of the exceptions does."""

    kind: str
    parts: tuple[Part, ...]
    exceptions: tuple[Part, ...] = ()

    def text(self) -> str:
        wanted = " AND ".join(f"({part.text()})" for part in self.parts)
        unwanted = "".join(f" AND NOT ({part.text()})" for part in self.exceptions)
        return f"event_kind = '{self.kind}' AND {wanted}{unwanted}"


def _word(chance: random.Random, syllables: int) -> str:
    return "".join(chance.choices(_SYLLABLES, k=syllables)) + chance.choice(_CONSONANTS)


def _filler(chance: random.Random) -> str:
    """Words too short to hold a pattern."""
    return " ".join(_word(chance, chance.randint(1, 2)) for _ in range(chance.randint(1, 6)))


# --- the rules ---------------------------------------------------------------


def rules(count: int = 3_000, patterns: int = 26_000, seed: int = 1) -> list[Rule]:
    """So many rules with so many patterns in all; the two giants are among them at full size."""
    chance = random.Random(seed)
    giants = [_long(chance, 4_400), _product(chance)] if count >= 1_000 else []
    left = patterns - sum(len(p.patterns) for rule in giants for p in rule.parts)
    plain = count - len(giants)
    budgets = _shares(chance, left, plain)
    regexes = set(chance.sample(range(plain), plain // 15))  # 200 of 3,000
    made = [_rule(chance, budget, i in regexes) for i, budget in enumerate(budgets)]
    return made + giants


def texts(made: Sequence[Rule]) -> list[str]:
    return [rule.text() for rule in made]


def _shares(chance: random.Random, total: int, parts: int) -> list[int]:
    """`total` as so many numbers, each at least 2, most of them small."""
    weights = [chance.paretovariate(1.5) for _ in range(parts)]
    scale = (total - 2 * parts) / sum(weights)
    shares = [2 + int(w * scale) for w in weights]
    for i in range(total - sum(shares)):
        shares[i % parts] += 1
    return shares


def _rule(chance: random.Random, budget: int, regex: bool) -> Rule:
    """One or two parts on words and, where the budget allows, one exception; maybe a regex."""
    kind = chance.choices(_KINDS, _KIND_WEIGHTS)[0]
    program = Part("image", "ENDS WITH", (f"\\{_word(chance, 3)}.exe",))
    has_program = budget > 2 and kind != "script" and chance.random() < 0.7
    exception = (
        (_part(chance, kind, 1, "CONTAINS"),) if budget > 4 and chance.random() < 0.4 else ()
    )
    rest = budget - has_program - len(exception)
    first = chance.randint(1, rest - 1)
    parts = [_part(chance, kind, first), _part(chance, kind, rest - first)]
    if has_program:
        parts.insert(0, program)
    if regex:
        parts.append(_regex(chance, kind))
    return Rule(kind, tuple(parts), exception)


def _part(chance: random.Random, kind: str, words: int, op: str | None = None) -> Part:
    op = op or chance.choices(("CONTAINS", "STARTS WITH", "ENDS WITH"), (75, 7, 18))[0]
    every = op == "CONTAINS" and 1 < words <= 4 and chance.random() < 0.3
    chosen = tuple(_pattern(chance) for _ in range(words))
    return Part(chance.choice(_WATCHED[kind]), op, chosen, every)


def _pattern(chance: random.Random) -> str:
    """Rare in other texts: at least four syllables of ninety."""
    form = chance.choice(("{}", " -{}", "\\{}.exe", "/{} ", ".{}(", "{}.dll"))
    return form.format(_word(chance, chance.randint(4, 6)))


def _regex(chance: random.Random, kind: str) -> Part:
    first, second = _word(chance, 3), _word(chance, 3)
    form = chance.choice((r"{} \d{{2,4}} {}", r"{}[a-z]+{}", r"{}\.{}\d{{2,4}}"))
    return Part(chance.choice(_WATCHED[kind]), "MATCHES", (form.format(first, second),))


def _long(chance: random.Random, atoms: int) -> Rule:
    """One condition of so many atoms, near 80 characters each."""
    words = tuple(
        f"{_word(chance, 8)} {_word(chance, 8)} {_word(chance, 4)}" for _ in range(atoms - 1)
    )
    return Rule("process", (Part("command_line", "CONTAINS", words),))


def _product(chance: random.Random) -> Rule:
    """Six choices of 20 and two of 25: 20^6 * 25^2 = 4 * 10^10 terms when multiplied out."""
    names = ("command_line", "parent_command_line", "description", "current_directory")
    sizes = (20, 20, 20, 20, 20, 20, 25, 25)
    return Rule(
        "process",
        tuple(
            Part(names[i % 4], "CONTAINS", tuple(_pattern(chance) for _ in range(size)))
            for i, size in enumerate(sizes)
        ),
    )


# --- the events --------------------------------------------------------------


def events(count: int, made: Sequence[Rule], hits: float = 0.005, seed: int = 1) -> pa.Table:
    """So many events, of which the share `hits` is written so as to satisfy one rule each."""
    chance = random.Random(seed)
    rows = [
        _hit(chance, chance.choice(made)) if chance.random() < hits else _event(chance, None)
        for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=_arrow_schema())


def _arrow_schema() -> pa.Schema:
    return pa.schema(
        [(name, pa.int64() if name in _INTEGERS else pa.string()) for name in ATTRIBUTES]
    )


def _event(chance: random.Random, kind: str | None) -> dict[str, object]:
    """An event that no rule waits for, save by accident."""
    kind = kind or chance.choices(_KINDS, _KIND_WEIGHTS)[0]
    row: dict[str, object] = {
        "event_kind": kind,
        "computer": f"HOST{chance.randrange(500):03d}",
        "user": f"user{chance.randrange(2000)}",
        "logon_id": chance.randrange(1 << 20),
    }
    for name in _BY_EVENT[kind]:
        if chance.random() < 0.85:
            row[name] = _value(chance, name)
    return row


def _value(chance: random.Random, name: str) -> object:
    if name in _INTEGERS:
        return chance.randrange(65_536)
    if name in ("image", "parent_image"):
        return f"C:\\Program Files\\{_word(chance, 2).title()}\\{_word(chance, 2).title()}.exe"
    if name in ("command_line", "parent_command_line", "script_block_text"):
        return _line(chance)
    return _filler(chance).title()


def _line(chance: random.Random) -> str:
    """A command line of 20 to 400 characters, most of them short."""
    length = min(400, 20 + int(chance.expovariate(1 / 90)))
    line = f"C:\\Windows\\{_word(chance, 2)}.exe"
    while len(line) < length:
        line += chance.choice((" -", " /", " ", "\\")) + _word(chance, chance.randint(1, 5))
    return line[:length]


def _hit(chance: random.Random, rule: Rule) -> dict[str, object]:
    """An event with a passing value for each part; where two parts share an attribute, both."""
    row = _event(chance, rule.kind)
    written: dict[str, str] = {}
    for part in _in_writing_order(rule.parts):
        value = part.value(chance)
        before = written.get(part.attribute)
        written[part.attribute] = value if before is None else f"{before}{value}"
    return {**row, **written}


def _in_writing_order(parts: Sequence[Part]) -> list[Part]:
    """Prefixes first and suffixes last, so that joined values still pass."""
    place = {"STARTS WITH": 0, "ENDS WITH": 2}
    return sorted(parts, key=lambda p: place.get(p.op, 1))

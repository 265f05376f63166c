"""Detection rules as people write them, on events as they come: all ways agree with the oracle."""

from __future__ import annotations

import datetime
import os
import random

import pyarrow as pa
import pytest

import oracle
from tamis import Matcher, Schema
from tamis.language import parse
from tamis.logic import Semantics

pytestmark = pytest.mark.slow

RULES = int(os.environ.get("TAMIS_RULES", "120"))
EVENTS = int(os.environ.get("TAMIS_EVENTS", "60"))
Event = dict[str, object]

# --- known answers -----------------------------------------------------------

WHOAMI = {
    "Image": r"C:\Windows\System32\whoami.exe",
    "CommandLine": "WHOAMI.EXE /all",
    "EventID": 4688,
    "user": {"name": "SYSTEM", "groups": ["admins"]},
    "user.id": "17",
    "Target Filename": "C:\\temp\\a b.ps1",
    "user-agent": "curl/8.0 (x; 'y')",
    "Hashes": None,
}
ANSWERS = [
    (r"Image ENDS WITH '\whoami.exe'", True),
    (r"Image ENDS WITH '\\whoami.exe'", False),  # a backslash is a character like any other
    (r"Image CONTAINS '\System32\'", True),
    (r"Image LIKE '%\whoami.exe'", True),
    (r"Image LIKE 'C:\Windows\%\whoami.exe' AND NOT Image LIKE '%\temp\%'", True),
    (r"Image MATCHES '\\whoami\.exe$'", True),
    (r"Image MATCHES '(?i)\\SYSTEM32\\[a-z]+\.EXE$'", True),
    (r"lower(Image) STARTS WITH 'c:\windows\'", True),
    ("lower(CommandLine) CONTAINS 'whoami'", True),
    ("CommandLine CONTAINS 'whoami'", False),
    ("CommandLine ILIKE 'whoami%'", True),
    ("EventID IN (4624, 4688) AND Image IS NOT NULL", True),
    ("EventID IN ('4624', '4688')", False),  # a number is no text
    ("NOT EventID = '4688'", True),
    ("EventID <> '4688'", False),
    ("user.id = '17'", True),
    ("user.id = 17", False),
    ("user.name = 'SYSTEM'", True),
    ("user.name.first = 'x' OR user.name.first IS NULL", True),
    ("user IS NOT NULL AND NOT user = 'SYSTEM'", True),
    ("user.groups IS NOT NULL AND NOT user.groups CONTAINS 'admins'", True),
    ("`Target Filename` ENDS WITH '.ps1'", True),
    ("`user-agent` STARTS WITH 'curl' AND `user-agent` CONTAINS '''y'''", True),
    ("`user-agent` CONTAINS \"'y'\"", True),
    ("Hashes IS NULL AND NOT Hashes IS NOT NULL", True),
    ("NOT (Hashes CONTAINS 'MD5=' OR ParentImage ENDS WITH 'x')", False),  # unknown
    ("NOT (Hashes CONTAINS 'MD5=' AND EventID = 1)", True),  # unknown and false is false
    ("Image CONTAINS 'm32' OR\n\tHashes CONTAINS 'MD5='\r\n", True),
    ("image CONTAINS 'whoami'", False),  # names have their case
    ("`Image` ENDS WITH 'exe' AND [EventID > 4000]", True),
]


@pytest.mark.parametrize(("selector", "matches"), ANSWERS)
def test_known_answers(selector: str, matches: bool) -> None:
    matcher = Matcher()
    matcher.add("it", selector)
    wanted = ["it"] if matches else []
    assert oracle.matches(parse(selector), WHOAMI) is matches
    assert matcher.match(WHOAMI) == wanted
    assert matcher.match_many([WHOAMI, WHOAMI]).to_pylist() == [wanted] * 2
    assert matcher.explain("it", WHOAMI).matches is matches


# --- many rules, many events ---------------------------------------------------

TEXTS = (
    *("Image", "CommandLine", "ParentImage", "ParentCommandLine", "OriginalFileName", "Hashes"),
    *("TargetObject", "Details", "QueryName", "ScriptBlockText", "User", "Computer", "Product"),
    *("process.name", "process.parent.name", "winlog.event_data.Param1", "winlog.channel"),
    *("`Target Filename`", "`user-agent`", "`cs-uri-query`", "`odd``name`", "`a.b`.c"),
)
NUMBERS = ("EventID", "DestinationPort", "ProcessId", "event.code", "Score")
FLAGS = ("Signed", "process.elevated")
TIMES = ("UtcTime",)
WORDS = (
    *(
        "whoami",
        ".exe",
        "\\cmd.exe",
        "\\powershell.exe",
        "-enc",
        " /c ",
        "http://",
        "MD5=",
        "%temp%",
    ),
    *("C:\\Windows\\", "\\", "'", '"', "_", "%", "é", "ß", "İ", "SYSTEM", "nt authority\\", "4688"),
    *("admin", "Admin", "ADMIN", "a", "", "10.0.0.", "\n", "\t", "🦊", "svchost", "-nop -w hidden"),
)
PATTERNS = (
    *(r"(?i)who.mi", r"\\[a-z]+\.exe$", r"^C:\\", r"(?i)\bpowershell(\.exe)?\b", r"[0-9]{4}"),
    *(r"(?i)(admin|system)", r"^\s*$", r"%.*%", r"http[s]?://[^/]+", r"(?s).*\n.*"),
)
TYPED = Schema.of(
    {
        **{name.replace("``", "\0").replace("`", "").replace("\0", "`"): str for name in TEXTS},
        **dict.fromkeys(NUMBERS[:-1], int),
        "Score": float,
        **dict.fromkeys(FLAGS, bool),
        "UtcTime": datetime.datetime,
    }
)
MOMENTS = [datetime.datetime(2024, 1, day, tzinfo=datetime.UTC) for day in (1, 2, 3)]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Writer:
    """Writes rules the way rule sets are written."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def word(self) -> str:
        return quoted("".join(self.rng.choices(WORDS, k=self.rng.choice((1, 1, 1, 2)))))

    def term(self) -> str:
        name = self.rng.choice(TEXTS)
        return self.rng.choice((name, name, f"lower({name})", f"UPPER( {name} )"))

    def like(self) -> str:
        word = "".join(self.rng.choices((*WORDS, "%", "%", "_"), k=self.rng.randint(1, 4)))
        return quoted(word) + self.rng.choice(("", "", " ESCAPE '\\'" * (word[-1:] != "\\")))

    def text(self) -> str:
        term, no = self.term(), self.rng.choice(("", "", "NOT "))
        match self.rng.randrange(8):
            case 0 | 1 | 2:
                op = self.rng.choice(("CONTAINS", "STARTS WITH", "ENDS WITH", "contains", "WITHIN"))
                return f"{term} {no}{op} {self.word()}"
            case 3:
                return f"{term} {no}{self.rng.choice(('LIKE', 'ILIKE'))} {self.like()}"
            case 4:
                return f"{term} {no}MATCHES {quoted(self.rng.choice(PATTERNS))}"
            case 5:
                count = self.rng.choice((1, 3, 9))
                return f"{term} {no}IN ({', '.join(self.word() for _ in range(count))})"
            case 6:
                return f"{term} {self.rng.choice(('=', '<>', '!=', '<', '>='))} {self.word()}"
        return f"{term} IS {no}NULL"

    def other(self) -> str:
        match self.rng.randrange(5):
            case 0:
                op = self.rng.choice(("=", "<>", "<", ">="))
                return f"{self.rng.choice(NUMBERS)} {op} {self.rng.choice((4688, 443, -1, 1.5))}"
            case 1:
                return f"{self.rng.choice(NUMBERS)} IN (4624, 4688, 443, 80)"
            case 2:
                return f"{self.rng.choice(NUMBERS)} NOT BETWEEN 80 AND 4688"
            case 3:
                return f"UtcTime {self.rng.choice(('<', '>=', '='))} TIMESTAMP '2024-01-02'"
        return self.rng.choice((*FLAGS, f"{FLAGS[0]} = FALSE", f"{FLAGS[1]} IS NULL"))

    def predicate(self) -> str:
        return self.other() if self.rng.random() < 0.25 else self.text()

    def keywords(self) -> str:
        """One of some words in one of some attributes."""
        words = [self.word() for _ in range(self.rng.randint(1, 3))]
        names = self.rng.sample(TEXTS, self.rng.randint(2, 4))
        return " OR ".join(f"lower({n}) CONTAINS {w.lower()}" for n in names for w in words)

    def selection(self) -> str:
        if self.rng.random() < 0.2:
            return f"({self.keywords()})"
        joint = self.rng.choice((" AND ", " OR ", "\n  and ", " && ", "\tor\r\n"))
        return f"({joint.join(self.predicate() for _ in range(self.rng.randint(1, 4)))})"

    def rule(self) -> str:
        wanted = self.rng.choice((" AND ", " OR ")).join(
            self.selection() for _ in range(self.rng.randint(1, 3))
        )
        filters = "".join(
            f"\nAND NOT {self.selection()}" for _ in range(self.rng.choice((0, 0, 1, 2)))
        )
        return f"({wanted}){filters}"


def value_of(rng: random.Random, name: str, *, clean: bool) -> object:
    if not clean and rng.random() < 0.12:
        return rng.choice(
            (
                7,
                4688,
                1.5,
                float("nan"),
                True,
                ["cmd"],
                b"cmd",
                {"x": "cmd"},
                "4688",
                None,
                MOMENTS[0],
            )
        )
    if name in NUMBERS[:-1]:
        return rng.choice((4624, 4688, 443, 80, -1, 2**63 - 1))
    if name == "Score":
        return rng.choice((1.5, -0.0, 4688.0, float("inf"), 80))
    if name in FLAGS:
        return rng.random() < 0.5
    if name in TIMES:
        return rng.choice(MOMENTS)
    return "".join(rng.choices(WORDS, k=rng.randint(0, 5)))


def event(rng: random.Random, *, clean: bool) -> Event:
    """Some attributes, dotted ones now as keys, now nested."""
    found: Event = {}
    for name in rng.sample(list(TYPED), rng.randint(0, len(TYPED) - 1)):
        value = value_of(rng, name, clean=clean)
        *path, last = [name] if rng.random() < 0.3 else name.split(".")
        inside = found
        for step in path:
            nested = inside.setdefault(step, {})
            inside = nested if isinstance(nested, dict) else {}
        inside[last] = value
    return found


def arrow(events: list[Event]) -> pa.Table:
    """A column for each attribute; those of `process` and `winlog` as structs."""
    flat = [{n: oracle.attribute(n, e) for n in TYPED} for e in events]
    kinds = {"string": pa.string(), "int": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
    kinds["timestamp"] = pa.timestamp("us", "UTC")
    columns = {n: pa.array([row[n] for row in flat], kinds[a.type.value]) for n, a in TYPED.items()}
    for root in ("process.parent", "process", "winlog.event_data", "winlog"):
        inner = {n: columns.pop(n) for n in list(columns) if n.startswith(root + ".")}
        names = [n[len(root) + 1 :] for n in inner]
        columns[root] = pa.StructArray.from_arrays(list(inner.values()), names)
    return pa.table(columns)


@pytest.mark.parametrize("semantics", ["sql", "strict", "default"])
@pytest.mark.parametrize("typed", [False, True])
def test_rules_agree_with_the_oracle(semantics: Semantics, typed: bool) -> None:
    rng = random.Random(f"{semantics}{typed}")
    writer = Writer(rng)
    schema = TYPED if typed else None
    rules = [writer.rule() for _ in range(RULES)]
    conditions = [parse(rule) for rule in rules]
    matcher = Matcher(schema, semantics=semantics)
    matcher.add_many(enumerate(rules[: RULES // 2]))
    for i, rule in enumerate(rules[RULES // 2 :], RULES // 2):
        matcher.add(i, rule)
    for clean in (True, False) if schema is None else (True,):
        events = [event(rng, clean=clean) for _ in range(EVENTS)]
        wanted = [
            [i for i, c in enumerate(conditions) if oracle.matches(c, e, semantics, schema)]
            for e in events
        ]
        assert RULES * EVENTS // 50 < sum(map(len, wanted)) < RULES * EVENTS
        assert matcher.match_many(events).to_pylist() == wanted
        assert [matcher.match(e) for e in events] == wanted
        for e, ids in zip(events[:3], wanted, strict=False):
            assert [i for i in matcher if matcher.explain(i, e).matches] == ids
        if clean:
            assert matcher.match_batch(arrow(events)).to_pylist() == wanted
            assert matcher.count_batch(arrow(events)).tolist() == [len(ids) for ids in wanted]


def test_rules_survive_a_snapshot(tmp_path: object) -> None:
    rng = random.Random(8)
    writer = Writer(rng)
    matcher = Matcher()
    matcher.add_many((f"rule {i}", writer.rule()) for i in range(RULES))
    matcher.save(f"{tmp_path}/rules")
    events = [event(rng, clean=False) for _ in range(EVENTS)]
    wanted = matcher.match_many(events).to_pylist()
    loaded = Matcher.load(f"{tmp_path}/rules")
    assert loaded.match_many(events).to_pylist() == wanted
    assert any(wanted)

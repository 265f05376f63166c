"""Event patterns and filter policies, translated, beside what moto says of them.

    python tests/rules/against_moto.py [PAIRS]      compares; needs `pip install moto`
    python tests/rules/against_moto.py --record     writes tests/golden/moto_pairs.jsonl

moto differs from the documentation of AWS in some ways, which the random cases leave out: null,
`true` beside 1, arrays of objects, empty arrays (for `exists`), and for SNS: `anything-but`
of an array (documented: one element that is something else is enough), prefixes of what is not a
string, numbers under `anything-but`, and a missing field, which ends a list of alternatives.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import event_patterns as cases

from tamis import Matcher, RuleError
from tamis.language import canonical
from tamis.rules import condition

GOLDEN = Path(__file__).parents[1] / "golden" / "moto_pairs.jsonl"
Json = dict[str, Any]


def eventbridge(pattern: Json, event: Json) -> bool | None:
    """None where moto takes a truth value for a number."""
    if "numeric" in json.dumps(pattern) and {"true", "false"} & set(_words(event)):
        return None
    from moto.events.models import EventPattern

    return EventPattern(None, pattern).matches_event(event)


def _words(event: Json) -> list[str]:
    return re.findall("[a-z]+", json.dumps(event))


def sns(policy: Json, attributes: Json) -> bool | None:
    """None where moto fails: it looks for the prefix of a number."""
    from moto.sns.utils import FilterPolicyMatcher

    types = {str: "String", int: "Number", float: "Number"}
    given = {name: {"Type": types[type(v)], "Value": v} for name, v in attributes.items()}
    try:
        return FilterPolicyMatcher(policy, "MessageAttributes").matches(given, "")
    except TypeError:
        return None


Oracle = Callable[[Json, Json], bool | None]
LANGUAGES: dict[str, tuple[Oracle, Callable[..., Json], Callable[..., Json]]] = {
    "eventbridge": (eventbridge, cases.pattern, cases.event),
    "sns": (sns, cases.flat_policy, cases.attributes),
}


def answers(language: str, patterns: list[Json], messages: list[Json]) -> list[set[int]]:
    """For each message the numbers of the patterns that Tamis says it matches."""
    matcher = Matcher()
    matcher.add_many((i, canonical(condition(language, p))) for i, p in enumerate(patterns))
    return [set(found) for found in matcher.match_batch(messages).to_pylist()]


def compare(language: str, pairs: int, seed: int) -> Iterator[str]:
    """What differs, over about so many pairs."""
    random = Random(seed)
    oracle, make_pattern, make_message = LANGUAGES[language]
    side = int(pairs**0.5) + 1
    patterns = [p for p in (make_pattern(random) for _ in range(side)) if usable(language, p)]
    messages = [make_message(random) for _ in range(pairs // len(patterns) + 1)]
    found = answers(language, patterns, messages)
    hits = 0
    for message, ours in zip(messages, found, strict=True):
        for i, pattern in enumerate(patterns):
            expected = oracle(pattern, message)
            hits += expected is True
            if expected is not None and expected != (i in ours):
                yield f"{json.dumps(pattern)}\n  {json.dumps(message)}\n  moto says {expected}"
    print(f"{language}: {len(patterns) * len(messages):,} pairs, {hits:,} match")


def usable(language: str, pattern: Json) -> bool:
    try:
        condition(language, pattern)
    except RuleError as error:
        print("refused:", error, pattern)
        return False
    return not (language == "sns" and _differs(pattern))


def _differs(policy: Json) -> bool:
    """Whether moto may raise an error or leave the list of alternatives early."""
    return any(len(values) > 1 for values in policy.values())


def record(count: int = 150, seed: int = 28) -> None:
    lines, random = [], Random(seed)
    for language, (oracle, make_pattern, make_message) in LANGUAGES.items():
        done = 0
        while done < count:
            pattern, message = make_pattern(random), make_message(random)
            if not usable(language, pattern):
                continue
            expected = oracle(pattern, message)
            if expected or (expected is False and random.random() < 0.3):
                row = {"language": language, "rule": pattern, "message": message}
                lines.append(json.dumps({**row, "matches": expected}, ensure_ascii=False))
                done += 1
    GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    else:
        wanted = int(sys.argv[1]) if sys.argv[1:] else 10_000
        differing = [line for name in LANGUAGES for line in compare(name, wanted, seed=wanted)]
        print("\n".join(differing[:10]), f"{len(differing):,} differ", sep="\n")
        sys.exit(bool(differing))

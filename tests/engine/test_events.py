"""Messages that fire many events answer as those that fire few: looked up, not listed."""

import random

import pyarrow as pa

import oracle
from tamis import Matcher
from tamis.engine.values import block as encode
from tamis.language import parse

PLACES = [f"P{i:02d}" for i in range(40)]
LINES = [f"L{i}" for i in range(12)]


def _condition(rng: random.Random) -> str:
    places = ", ".join(f"'{p}'" for p in rng.sample(PLACES, rng.randint(1, 12)))
    lines = ", ".join(f"'{p}'" for p in rng.sample(LINES, rng.randint(1, 4)))
    part = rng.choice(["N", "N1", "10", "A", "4", "NA"])
    return rng.choice(
        [
            f"place IN ({places}) AND line IN ({lines})",
            f"NOT place IN ({places}) AND hour < {rng.randint(0, 23)}",
            f"tail CONTAINS '{part}{rng.randint(0, 99)}' AND place IN ({places})",
            f"tail STARTS WITH 'N{rng.randint(0, 9)}' AND NOT line IN ({lines}) OR hour = 3",
            f"line = '{rng.choice(LINES)}' AND (place IN ({places}) OR tail LIKE '%{part}%')",
            f"hour IN ({', '.join(map(str, rng.sample(range(24), 9)))}) AND place IN ({places})",
        ]
    )


def _message(rng: random.Random) -> dict[str, object]:
    given: dict[str, object] = {
        "place": rng.choice([*PLACES, "nowhere", None]),
        "line": rng.choice([*LINES, None]),
        "tail": rng.choice([f"N{rng.randint(100, 999)}A", "", None]),
        "hour": rng.choice([rng.randint(0, 23), 3, None]),
    }
    return {name: value for name, value in given.items() if value is not None or rng.random() < 0.5}


def _compare(words: int, monkeypatch) -> int:
    """Compare 300 messages with the oracle; how often events were looked up."""
    monkeypatch.setattr(encode, "_MOST_WORDS", words)
    looked, made = 0, encode._matrix

    def matrix(*given):
        nonlocal looked
        looked += 1
        return made(*given)

    monkeypatch.setattr(encode, "_matrix", matrix)
    rng = random.Random(words)
    conditions = [_condition(rng) for _ in range(400)]
    messages = [_message(rng) for _ in range(300)]
    matcher = Matcher()
    matcher.add_many(enumerate(conditions))
    trees = [parse(c) for c in conditions]
    wanted = [[i for i, c in enumerate(trees) if oracle.matches(c, m, "sql")] for m in messages]
    assert matcher.match_many(messages).to_pylist() == wanted
    rows = pa.Table.from_pylist(
        [{n: m.get(n) for n in ("place", "line", "tail", "hour")} for m in messages]
    )
    assert matcher.match_batch(rows).to_pylist() == wanted
    assert matcher.count_batch(rows).tolist() == [len(w) for w in wanted]
    ids, bits = matcher.bitmap_batch(rows)
    found = [[i for i in ids if int(bits[i, m >> 6]) >> (m & 63) & 1] for m in range(300)]
    assert found == wanted
    matcher.remove(7)
    assert matcher.match_batch(rows).to_pylist() == [[i for i in w if i != 7] for w in wanted]
    return looked


def test_many_events_are_looked_up(monkeypatch) -> None:
    assert _compare(1 << 22, monkeypatch) > 0


def test_events_of_large_features_stay_in_lists(monkeypatch) -> None:
    """The table has room for some features only: clusters ask for events of both kinds."""
    assert _compare(600, monkeypatch) > 0


def test_no_room_at_all(monkeypatch) -> None:
    assert _compare(0, monkeypatch) > 0


def test_numbers_of_two_types_fire_the_same_events() -> None:
    """Integers and doubles of one attribute are two features with the same events."""
    matcher = Matcher()
    rng = random.Random(5)
    sets = [rng.sample(range(30), 12) for _ in range(120)]
    matcher.add_many(
        (i, f"x IN ({', '.join(map(str, s))}) AND y = 'a'") for i, s in enumerate(sets)
    )
    messages = [{"x": rng.choice([float, int])(rng.randint(0, 35)), "y": "a"} for _ in range(200)]
    wanted = [[i for i, s in enumerate(sets) if m["x"] in s] for m in messages]
    assert matcher.match_many(messages).to_pylist() == wanted

"""Make subscriptions.jsonl: 300 standing queries that people might have about flights.

    python examples/flights/make_subscriptions.py

The seed is fixed, so every run writes the same file.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

COUNT = 300
ORIGINS = ("EWR", "JFK", "LGA")
CARRIERS = ("9E", "AA", "B6", "DL", "EV", "FL", "MQ", "UA", "US", "VX", "WN")
COAST = ("LAX", "SFO", "SEA", "SAN", "PDX", "LGB", "SNA", "OAK", "SJC")
SUN = ("MCO", "FLL", "MIA", "TPA", "PBI", "RSW", "SJU", "HNL", "STT")
INLAND = ("ATL", "ORD", "CLT", "DTW", "DFW", "RDU", "IAH", "MSP", "DEN", "BNA", "STL", "CLE")
NEAR = ("BOS", "DCA", "IAD", "BUF", "ROC", "SYR", "BTV", "PWM", "PIT", "BWI")
PLACES = COAST + SUN + INLAND + NEAR
FLEETS = ("JB", "MQ", "AA", "UA", "DL", "US", "WN", "EV")  # how many tail numbers end

dice = random.Random(2013)


def texts(values: tuple[str, ...], count: int) -> str:
    """`count` of the values as the list of an IN."""
    return ", ".join(f"'{value}'" for value in sorted(dice.sample(values, count)))


def traveller() -> str:
    """Someone waits for one route and wants to hear of trouble."""
    route = f"origin = '{dice.choice(ORIGINS)}' AND dest = '{dice.choice(PLACES)}'"
    late = dice.choice((15, 30, 45, 60, 90))
    return f"{route} AND (dep_delay >= {late} OR dep_time IS NULL)"


def commuter() -> str:
    """The same carrier, the same hours of the day."""
    first = dice.randrange(5, 19)
    return (
        f"carrier = '{dice.choice(CARRIERS)}' AND dest IN ({texts(PLACES, 6)})"
        f" AND hour BETWEEN {first} AND {first + dice.randint(1, 3)}"
    )


def airline_desk() -> str:
    """Long delays of one airline, by flight number."""
    low = dice.randrange(1, 3000, 50)
    return (
        f"carrier = '{dice.choice(CARRIERS)}' AND flight BETWEEN {low} AND {low + 1500}"
        f" AND arr_delay > {dice.randrange(20, 120, 10)}"
    )


def cancelled() -> str:
    """A flight that never left has no departure time."""
    return (
        f"dep_time IS NULL AND origin = '{dice.choice(ORIGINS)}' AND month = {dice.randint(1, 12)}"
    )


def diverted() -> str:
    """It left but has no time in the air: it landed elsewhere."""
    return f"dep_time IS NOT NULL AND air_time IS NULL AND carrier IN ({texts(CARRIERS, 5)})"


def caught_up() -> str:
    """Left late, arrived early: one attribute against another."""
    gain = dice.randrange(20, 60, 5)
    return f"dep_delay - arr_delay >= {gain} AND distance > {dice.choice((500, 1000, 2000))}"


def fast() -> str:
    """Average speed in miles per hour, a term that is computed."""
    return (
        f"distance / air_time * 60 > {dice.randrange(480, 560, 10)}"
        f" AND dest IN ({texts(COAST + SUN, 4)}) AND NOT carrier = '{dice.choice(CARRIERS)}'"
    )


def spotter() -> str:
    """Aeroplanes by their tail numbers."""
    fleet, digit = dice.choice(FLEETS), dice.randint(1, 9)
    tests = f"LIKE 'N{digit}__{fleet}'", f"ENDS WITH '{fleet}'", f"STARTS WITH 'N{digit}0'"
    tail = dice.choice(tests)
    return f"tailnum {tail} AND dest IN ({texts(PLACES, 5)}) AND hour > {dice.randrange(6, 20)}"


def holiday() -> str:
    """One week of the year to somewhere warm, but not with just any airline."""
    start = date(2013, 1, 1) + timedelta(days=dice.randrange(0, 358))
    end = start + timedelta(days=7)
    return (
        f"time_hour BETWEEN TIMESTAMP '{start}' AND TIMESTAMP '{end}'"
        f" AND dest IN ({texts(SUN, 4)}) AND carrier NOT IN ({texts(CARRIERS, 2)})"
    )


def night() -> str:
    """Noise: late departures that were planned for the day."""
    return (
        f"origin = '{dice.choice(ORIGINS)}' AND sched_dep_time < 2100"
        f" AND (dep_time >= {dice.choice((2230, 2300, 2330))} OR dep_time < 500)"
    )


def either() -> str:
    """Two wishes in one subscription."""
    short = (
        f"distance < {dice.choice((200, 250, 300))} AND arr_delay > {dice.randrange(60, 180, 20)}"
    )
    far = f"distance > {dice.choice((2400, 2500))} AND arr_delay < {dice.randrange(-50, -20, 5)}"
    return f"({short}) OR ({far} AND NOT (origin = '{dice.choice(ORIGINS)}' OR hour < 8))"


KINDS: tuple[tuple[Callable[[], str], int], ...] = (
    (traveller, 10),
    (commuter, 8),
    (airline_desk, 5),
    (holiday, 5),
    (spotter, 4),
    (night, 2),
    (either, 2),
    (fast, 2),
    (caught_up, 1),
    (cancelled, 2),
    (diverted, 1),
)


def subscriptions() -> list[dict[str, str]]:
    """COUNT different subscriptions, named by kind and number."""
    kinds, weights = zip(*KINDS, strict=True)
    found: dict[str, str] = {}
    while len(found) < COUNT:
        kind = dice.choices(kinds, weights)[0]
        found.setdefault(kind(), kind.__name__.replace("_", "-"))
    return [
        {"id": f"{name}-{number:03}", "selector": selector}
        for number, (selector, name) in enumerate(found.items(), 1)
    ]


if __name__ == "__main__":
    target = Path(__file__).with_name("subscriptions.jsonl")
    lines = [json.dumps(subscription) for subscription in subscriptions()]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{target}: {len(lines)} subscriptions")

"""Make subscriptions: 20,000 standing queries that people might have about flights.

    python examples/flights/subscriptions.py SUBSCRIPTIONS.jsonl

The seed is fixed, so every run writes the same file.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

COUNT = 20_000
ORIGINS = ("EWR", "JFK", "LGA")
CARRIERS = ("9E", "AA", "B6", "DL", "EV", "FL", "MQ", "UA", "US", "VX", "WN")
COAST = ("LAX", "SFO", "SEA", "SAN", "PDX", "LGB", "SNA", "OAK", "SJC")
SUN = ("MCO", "FLL", "MIA", "TPA", "PBI", "RSW", "SJU", "HNL", "STT")
INLAND = ("ATL", "ORD", "CLT", "DTW", "DFW", "RDU", "IAH", "MSP", "DEN", "BNA", "STL", "CLE")
NEAR = ("BOS", "DCA", "IAD", "BUF", "ROC", "SYR", "BTV", "PWM", "PIT", "BWI")
PLACES = COAST + SUN + INLAND + NEAR
FLEETS = ("JB", "MQ", "AA", "UA", "DL", "US", "WN", "EV")  # how many tail numbers end

dice = random.Random()


def texts(values: tuple[str, ...], count: int) -> str:
    """`count` of the values as the list of an IN."""
    return ", ".join(f"'{value}'" for value in sorted(dice.sample(values, count)))


def traveller() -> str:
    """Someone waits for one route and wants to hear of trouble."""
    route = f"origin = '{dice.choice(ORIGINS)}' AND dest = '{dice.choice(PLACES)}'"
    late, first = dice.randrange(15, 120, 5), dice.randrange(5, 20)
    hours = f"hour BETWEEN {first} AND {first + dice.randint(1, 4)}"
    return f"{route} AND {hours} AND (dep_delay >= {late} OR dep_time IS NULL)"


def host() -> str:
    """Someone fetches a guest: a flight of one airline or two, on one day."""
    day = date(2013, 1, 1) + timedelta(days=dice.randrange(365))
    return (
        f"month = {day.month} AND day = {day.day} AND origin = '{dice.choice(ORIGINS)}'"
        f" AND carrier IN ({texts(CARRIERS, 2)}) AND hour >= {dice.randrange(6, 20)}"
    )


def connection() -> str:
    """A late departure means that the next flight is lost."""
    return (
        f"origin = '{dice.choice(ORIGINS)}' AND dep_delay > {dice.randrange(30, 150, 5)}"
        f" AND carrier IN ({texts(CARRIERS, dice.randint(1, 3))})"
        f" AND dest IN ({texts(PLACES, dice.randint(1, 4))})"
    )


def commuter() -> str:
    """The same carrier, the same hours of the day."""
    first = dice.randrange(5, 19)
    return (
        f"carrier = '{dice.choice(CARRIERS)}' AND dest IN ({texts(PLACES, 3)})"
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
        f"dep_time IS NULL AND month = {dice.randint(1, 12)}"
        f" AND (dest IN ({texts(PLACES, 3)}) OR carrier = '{dice.choice(CARRIERS)}')"
    )


def diverted() -> str:
    """It left but has no time in the air: it landed elsewhere."""
    return (
        f"dep_time IS NOT NULL AND air_time IS NULL AND carrier IN ({texts(CARRIERS, 5)})"
        f" AND distance > {dice.randrange(200, 2400, 100)}"
    )


def caught_up() -> str:
    """Left late, arrived early: one attribute against another."""
    gain = dice.randrange(20, 60, 5)
    return (
        f"dep_delay - arr_delay >= {gain} AND distance > {dice.randrange(500, 2500, 250)}"
        f" AND dest IN ({texts(PLACES, 4)})"
    )


def fast() -> str:
    """Average speed in miles per hour, a term that is computed."""
    return (
        f"distance / air_time * 60 > {dice.randrange(480, 560, 5)}"
        f" AND dest IN ({texts(COAST + SUN, 3)}) AND NOT carrier = '{dice.choice(CARRIERS)}'"
    )


def spotter() -> str:
    """Aeroplanes by their tail numbers."""
    fleet, digits = dice.choice(FLEETS), dice.randint(10, 99)
    tests = (
        f"LIKE 'N{digits}_{fleet}'",
        f"ENDS WITH '{digits % 10}{fleet}'",
        f"STARTS WITH 'N{digits}'",
        f"CONTAINS '{digits}{fleet[0]}'",
    )
    return (
        f"tailnum {dice.choice(tests)} AND dest IN ({texts(PLACES, 5)})"
        f" AND hour > {dice.randrange(6, 20)}"
    )


def holiday() -> str:
    """One week of the year to somewhere warm, but not with just any airline."""
    start = date(2013, 1, 1) + timedelta(days=dice.randrange(0, 358))
    end = start + timedelta(days=7)
    return (
        f"time_hour BETWEEN TIMESTAMP '{start}' AND TIMESTAMP '{end}'"
        f" AND dest IN ({texts(SUN, 3)}) AND carrier NOT IN ({texts(CARRIERS, 2)})"
    )


def night() -> str:
    """Noise: late departures that were planned for the day."""
    late = dice.choice((2230, 2245, 2300, 2315, 2330, 2345))
    return (
        f"origin = '{dice.choice(ORIGINS)}' AND sched_dep_time < {dice.randrange(1800, 2200, 100)}"
        f" AND (dep_time >= {late} OR dep_time < 500) AND month = {dice.randint(1, 12)}"
    )


def either() -> str:
    """Two wishes in one subscription."""
    short = (
        f"distance < {dice.randrange(180, 300, 10)} AND arr_delay > {dice.randrange(90, 240, 10)}"
    )
    far = f"distance > {dice.choice((2400, 2500))} AND arr_delay < {dice.randrange(-60, -30, 5)}"
    return f"({short}) OR ({far} AND NOT (origin = '{dice.choice(ORIGINS)}' OR hour < 8))"


KINDS: tuple[tuple[Callable[[], str], int], ...] = (
    (traveller, 30),
    (host, 20),
    (connection, 20),
    (commuter, 6),
    (airline_desk, 3),
    (holiday, 8),
    (spotter, 8),
    (cancelled, 6),
    (diverted, 3),
    (caught_up, 2),
    (fast, 1),
    (night, 2),
    (either, 1),
)


def subscriptions(count: int = COUNT) -> list[dict[str, str]]:
    """Different subscriptions, each named by its kind and a number."""
    kinds, weights = zip(*KINDS, strict=True)
    dice.seed(2013)
    found: dict[str, str] = {}
    while len(found) < count:
        kind = dice.choices(kinds, weights)[0]
        found.setdefault(kind(), kind.__name__.replace("_", "-"))
    return [
        {"id": f"{name}-{number:05}", "selector": selector}
        for number, (selector, name) in enumerate(found.items(), 1)
    ]


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(subscription) for subscription in subscriptions()]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{target}: {len(lines):,} subscriptions")

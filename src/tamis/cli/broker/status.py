"""`tamis status` and `tamis top`: how a broker is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.cli.broker.broker_address import LOCAL, Broker, api
from tamis.cli.broker.printed_tables import AsJson, print_json, print_rows

if TYPE_CHECKING:
    from tamis.client import Agent

_FIGURES = ("messages", "matches", "deliveries")
_SLOWEST = ("channel", "name", "principal", "state", "lag", "waiting", "failures", "dead")
_CLEAR = "\x1b[H\x1b[2J"


def status(*, json: AsJson = False, broker: Broker = LOCAL) -> None:
    """Print how the broker is: totals, busiest channels, slowest subscribers, problems.

    Parameters
    ----------
    json
        Print JSON.
    """
    with broker.agent() as agent:
        found = _status(agent)
    if json:
        print_json(found)
    else:
        _print(broker.server, found, {})


def top(
    *,
    every: Annotated[float, Parameter(validator=Number(gte=0.1))] = 2.0,
    count: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    json: AsJson = False,
    broker: Broker = LOCAL,
) -> None:
    """Print the status again and again, with what happened a second meanwhile, until Ctrl-C.

    Parameters
    ----------
    every
        Seconds between two looks.
    count
        Stop after this many; 0 goes on.
    json
        Print JSON, one object to a line.
    """
    from json import dumps

    for found, rates in _samples(broker, every, count):
        if json:
            print(dumps({**found, "rates": rates}, ensure_ascii=False), flush=True)
            continue
        if sys.stdout.isatty():
            print(_CLEAR, end="")
        _print(broker.server, found, rates)
        sys.stdout.flush()


def _samples(
    broker: Broker, every: float, count: int
) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
    """The status, and how much a second each figure rose since the look before."""
    with broker.agent() as agent:
        found, then, rates, number = _status(agent), time.monotonic(), dict[str, float](), 0
        while True:
            yield found, rates
            number += 1
            if number == count:
                return
            time.sleep(every)
            old, found, before, then = found, _status(agent), then, time.monotonic()
            rates = {name: (found[name] - old[name]) / (then - before) for name in _FIGURES}


def _status(agent: Agent) -> dict[str, Any]:
    return {**agent.call("GET", "/health"), **agent.call("GET", api("overview"))}


def _print(server: str, found: dict[str, Any], rates: dict[str, float]) -> None:
    print(f"{server}: {found['status']}, up {_duration(found['seconds'])}")
    for name in _FIGURES:
        rate = f"  {rates[name]:12,.0f} a second" if rates else ""
        print(f"{name:14}{found[name]:16,}{rate}")
    print(f"{'subscriptions':14}{found['subscriptions']:16,}")
    if found["channels"]:
        print("\nchannels by messages a second")
        print_rows(found["channels"], ("name", "rate"), False)
    if found["slowest"]:
        print("\nsubscribers by lag")
        print_rows(found["slowest"], _SLOWEST, False)
    for problem in found["problems"]:
        print(f"\nproblem: {problem}")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"

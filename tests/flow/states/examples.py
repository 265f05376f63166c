"""The summaries of the paper, and a slow, obvious meaning of any summary."""

from __future__ import annotations

import oracle
from tamis import Schema
from tamis.flow.states import Append, Assign, Derived, DerivedEvent, Summary

QUOTE = Summary.of(
    "Quote",
    Schema.of(issue=str, price=float, seq=int),
    {"max": (float, 0.0), "cur": (float, 0.0)},
    [("price > max", {"max": "price", "cur": "price"}), ("", {"cur": "price"})],
    key="issue",
    order="seq",
    where="price > 0",
    source="Ticks",
)
ACCOUNT = Summary.of(
    "Account",
    Schema.of(kind=str, amt=int, id=int),
    {"bal": (int, 0), "ov": [Schema.of(amt=int, id=int)]},
    [
        ("kind = 'D'", {"bal": "bal + amt"}),
        ("kind = 'W' AND bal >= amt", {"bal": "bal - amt"}),
        ("kind = 'W'", {"ov": ("amt", "id")}),
    ],
    order="id",
    source="Teller",
)
ALERTS = Derived.of(
    "Alerts",
    ACCOUNT,
    [
        DerivedEvent.of("B", Schema.of(bal=int), {"bal": "event.bal"}),
        DerivedEvent.of("OD", Schema.of(amt=int, id=int), {"ov": ("amt", "id")}),
    ],
)


def step(summary: Summary, state: dict, event: dict) -> dict:
    """One event, by the oracle of conditions and terms."""
    message = {**event, **{f"event.{n}": v for n, v in event.items()}}
    message |= {n: state[n] for n in summary.scalars}
    for rule in summary.rules:
        if oracle.evaluate(rule.condition, message) is True:
            return {
                **state,
                **{c.component: changed(summary, c, state, message) for c in rule.changes},
            }
    return state


def changed(summary: Summary, change, state: dict, message: dict) -> object:
    match change:
        case Assign(name, term):
            return typed(oracle.value(term, message), summary.scalars[name].type.value)
        case Append(name, terms):
            fields = summary.lists[name].attributes
            row = [
                typed(oracle.value(t, message), f.type.value)
                for t, f in zip(terms, fields, strict=True)
            ]
            return (*state[name], tuple(row))
    return ()


def typed(value: object, kind: str) -> object:
    return float(value) if kind == "double" and isinstance(value, int) else value


def collapsed(summary: Summary, events: list[dict]) -> dict[tuple, dict]:
    """All events, one after the other, sorted by their order."""

    def order(event: dict) -> list:
        return [(event[n] is not None, event[n] or 0) for n in summary.order]

    states: dict[tuple, dict] = {}
    for event in sorted(events, key=order):
        key = tuple(event[n] for n in summary.key)
        states[key] = step(summary, states.get(key, summary.initial), event)
    return states

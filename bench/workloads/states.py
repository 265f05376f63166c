"""The summaries that are measured."""

from __future__ import annotations

from tamis import Schema
from tamis.flow.states import Derived, DerivedEvent, Summary

QUOTE = Summary.of(
    "Quote",
    Schema.of(issue=str, price=float, seq=int),
    {"max": (float, 0.0), "cur": (float, 0.0)},
    [("price > max", {"max": "price", "cur": "price"}), ("", {"cur": "price"})],
    key="issue",
    order="seq",
    where="price > 0",
)
MANY = Summary.of(
    "Many",
    Schema.of(k=int, v=float, n=int, seq=int),
    {"top": (float, 0.0), "cur": (float, 0.0), "sum": (int, 0)},
    [("v > top", {"top": "v", "cur": "v", "sum": "sum + n"}), ("", {"cur": "v", "sum": "sum + n"})],
    key="k",
    order="seq",
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
)
ALERTS = Derived.of(
    "Alerts",
    ACCOUNT,
    [
        DerivedEvent.of("B", Schema.of(bal=int), {"bal": "event.bal"}),
        DerivedEvent.of("OD", Schema.of(amt=int, id=int), {"ov": ("amt", "id")}),
    ],
)


def wide(components: int) -> Summary:
    """Neighbours change together, and the first only rises: constrained, whatever its width."""
    names = [f"x{i}" for i in range(components)]
    rules = [
        (f"kind = {i} AND a > x0" if i == 0 else f"kind = {i}",
         {names[i]: "a", names[(i + 1) % components]: "b"})
        for i in range(components)
    ]  # fmt: skip
    events = Schema.of(kind=int, a=int, b=int)
    return Summary.of("Wide", events, dict.fromkeys(names, (int, 0)), rules)

"""Routers of the network: how each channel comes from its home, and what a link lets pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from tamis.drawing import svg
from tamis.drawing.pictures import DASHED, SOLID, Box, Picture, clipped
from tamis.errors import TamisError
from tamis.server.pages.asking import L
from tamis.server.pages.view import View, address, told

_MOST_BOXES = 100  # of a drawing
_MOST_DRAWINGS = 10
_MOST_ROWS = 500
Rows = Sequence[Mapping[str, Any]]


async def routers_page(view: View) -> Response:
    found = await view.api.get("/api/links")
    links, chosen = found["links"], view.asked("channel")
    channels = sorted({row["channel"] for row in links})
    tabs = [("All channels", "/routers", not chosen)]
    tabs += [(name, address("routers", channel=name), name == chosen) for name in channels[:20]]
    rows = [row for row in links if not chosen or row["channel"] == chosen]
    return view.shown(
        "routers.html", router=found["router"], parents=found["parents"], rows=rows[:_MOST_ROWS],
        left=max(len(rows) - _MOST_ROWS, 0), tabs=tabs if len(channels) > 1 else [],
        chosen=chosen, drawings=_drawings(found["router"], rows),
    )  # fmt: skip


def _drawings(router: str, rows: Rows) -> list[tuple[list[str], Markup]]:
    """One for all channels that come the same way; empty if it would have too many boxes."""
    of_channel: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        of_channel.setdefault(row["channel"], []).append(row)
    ways: dict[Any, list[str]] = {}
    for channel, own in sorted(of_channel.items()):
        key = frozenset((row["direction"], *row["path"], row["state"]) for row in own)
        ways.setdefault(key, []).append(channel)
    same = list(ways.values())[:_MOST_DRAWINGS]
    return [(channels, _drawn(router, of_channel[channels[0]])) for channels in same]


def _drawn(router: str, rows: Rows) -> Markup:
    """The home on top, below each router those that it feeds. All ways end alike: with the way of
    this router."""
    states = {row["path"][0]: row["state"] for row in rows if row["path"]}
    names = dict.fromkeys(name for row in rows for name in reversed(row["path"]))
    if len(names) > _MOST_BOXES:
        return Markup("")
    number = {name: place for place, name in enumerate(names)}
    layers = {name: at for row in rows for at, name in enumerate(reversed(row["path"]))}
    feeds = dict.fromkeys((upper, lower) for row in rows
                          for lower, upper in pairwise(row["path"]))  # fmt: skip
    boxes = {
        number[name]: Box("root" if name == router else "operation", layers[name],
                          (clipped(name), _role(name, layers[name], states)), name)
        for name in names
    }  # fmt: skip
    edges = [(number[upper], number[lower],
              SOLID if states.get(lower, "live") == "live" else DASHED)
             for upper, lower in feeds]  # fmt: skip
    return Markup(svg(Picture(f"{len(boxes)} routers", boxes, edges), styled=False))


def _role(name: str, layer: int, states: Mapping[str, str]) -> str:
    return states.get(name, "home" if layer == 0 else "router")


async def link_page(view: View) -> Response:
    """What it lets pass, and why a message crosses it."""
    other, channel, q = view.names["r"], view.names["c"], view.asked("q")
    found = await view.api.get(f"{L}/wants", other, channel, query={"q": q, "limit": 200})
    rows = (await view.api.get("/api/links"))["links"]
    row = next((one for one in rows if (one["router"], one["channel"], one["direction"])
                == (other, channel, found["direction"])), None)  # fmt: skip
    sequence, why, error = view.asked("sequence"), None, None
    if sequence and found["direction"] == "down":
        try:
            why = await view.api.get(f"{L}/why", other, channel, query={"sequence": sequence})
        except TamisError as problem:
            error = told(problem)
    return view.shown("link.html", 422 if error else 200, link=row, found=found, q=q, why=why,
                      sequence=sequence, error=error, router=view.parts.network.name)  # fmt: skip

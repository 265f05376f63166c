"""What a run of a flow came to: figures for a terminal, and a page with the drawing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tamis.flow.showing import picture, svg
from tamis.spark.flows.flow_run import FlowRunning
from tamis.spark.jobs.page import document, figure_cards, section, shown, table


def arcs(running: FlowRunning) -> list[tuple[str, str]]:
    """Each arc with how many messages passed it."""
    counts = running.counting.counts
    if counts is None:
        return []
    return [
        (f"{arc.source} -> {arc.target}", f"{counts.arcs[arc.number]:,}")
        for arc in running.job.graph.arcs
    ]


def spaces(running: FlowRunning) -> list[tuple[str, str]]:
    """Each space with how many messages came into it."""
    counts = running.counting.counts
    return [] if counts is None else [(name, f"{n:,}") for name, n in counts.spaces.items()]


def flow_page(running: FlowRunning, title: str, settings: Sequence[tuple[str, str]]) -> str:
    """The report: one page of HTML that needs nothing else."""
    drawn = svg(picture(running.job.graph, running.counting.counts))
    body = [
        f"<h1>{shown(title)}</h1>",
        f'<p class="soft">{datetime.now(UTC):%Y-%m-%d %H:%M} UTC</p>',
        figure_cards(running.figures()),
        section("The flow", drawn),
    ]
    if spaces(running):
        body.append(section("Messages of each space", table(("space", "matches"), spaces(running))))
        body.append(section("Messages of each arc", table(("arc", "matches"), arcs(running))))
    body.append(section("The run", table((), settings)))
    return document(title, "\n".join(body).replace(">matches<", ">messages<"))

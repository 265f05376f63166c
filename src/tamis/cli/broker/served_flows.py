"""`tamis flow serve`, `list`, `served` and `end`: flows that a broker serves as derived spaces."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.cli.broker.broker_address import LOCAL, Broker, api
from tamis.cli.broker.printed_tables import AsJson, print_json, print_rows
from tamis.cli.flows import flow_app
from tamis.cli.flows.flow_options import tables_of
from tamis.cli.jobs.job_options import Many, Maybe, pairs
from tamis.errors import FlowError

if TYPE_CHECKING:
    from tamis.flow import Graph


@flow_app.command(name="serve")
def serve_flow(
    file: Path,
    /,
    *,
    name: Maybe = None,
    channel: Many = (),
    lookup: Many = (),
    json: AsJson = False,
    broker: Broker = LOCAL,
) -> None:
    """Register the flow in FILE with a broker, which serves each of its spaces as NAME/SPACE.

    A flow that is there already under this name is replaced.

    Parameters
    ----------
    file
        The flow.
    name
        The name of the flow in the broker; else that of the file, without its ending.
    channel
        The channel of a source space, as SPACE=CHANNEL; may be given again. Else it has the name
        of the space.
    lookup
        The table of a lookup, as NAME=FILE; may be given again. Else the flow names its file.
    json
        Print JSON.
    """
    from tamis.flow import check, read_flow

    graph = check(read_flow(file))
    _refuse_states(graph)
    form = {
        "text": graph.flow.text,
        "channels": pairs("channel", channel),
        "lookups": _tables(graph, str(file), lookup),
    }
    chosen = name or file.stem
    with broker.agent() as agent:
        found = agent.call("PUT", api("flows", chosen), form)
    if json:
        print_json(found)
        return
    for space, attributes in found["spaces"].items():
        columns = ", ".join(f"{attribute}: {kind}" for attribute, kind in attributes.items())
        print(f"{chosen}/{space}({columns})")


def _refuse_states(graph: Graph) -> None:
    if graph.states:
        state = graph.states[0].statement
        raise FlowError(
            "a broker does not serve flows with states",
            where=state.title,
            text=graph.flow.text,
            at=state.at,
            hint="run it on Spark: tamis flow run",
        )


def _tables(graph: Graph, file: str, lookup: tuple[str, ...]) -> dict[str, list[list[Any]]]:
    """The tables of lookups as JSON has them: pairs, moments as ISO texts."""
    tables = tables_of(graph, file, lookup)
    return {name: [[_plain(k), _plain(v)] for k, v in t.items()] for name, t in tables.items()}


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.datetime) else value


@flow_app.command(name="list")
def list_flows(*, json: AsJson = False, broker: Broker = LOCAL) -> None:
    """List the flows that a broker serves.

    Parameters
    ----------
    json
        Print JSON.
    """
    with broker.agent() as agent:
        found = agent.call("GET", api("flows"))["flows"]
    print_rows(found if json else [_short(one) for one in found],
               ("name", "channels", "spaces"), json)  # fmt: skip


@flow_app.command(name="served")
def show_flow(name: str, /, *, json: AsJson = False, broker: Broker = LOCAL) -> None:
    """Show flow NAME of a broker: its text, its channels, its spaces.

    Parameters
    ----------
    name
        The name of the flow.
    json
        Print JSON.
    """
    with broker.agent() as agent:
        found = agent.call("GET", api("flows", name))
    if json:
        print_json(found)
        return
    print(found["text"].rstrip())
    for space, channel in found["channels"].items():
        print(f"# {space} is channel {channel}")
    for space, attributes in found["spaces"].items():
        columns = ", ".join(f"{attribute}: {kind}" for attribute, kind in attributes.items())
        print(f"# {space}({columns})")


@flow_app.command(name="end")
def end_flow(name: str, /, *, broker: Broker = LOCAL) -> None:
    """End flow NAME of a broker.

    Parameters
    ----------
    name
        The name of the flow.
    """
    with broker.agent() as agent:
        agent.call("DELETE", api("flows", name))


def _short(flow: dict[str, dict[str, str]]) -> dict[str, str | dict[str, str]]:
    return {**flow, "channels": " ".join(flow["channels"].values()),
            "spaces": " ".join(flow["spaces"])}  # fmt: skip

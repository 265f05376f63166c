"""`tamis flow list`, `served` and `end`: flows that a broker serves as derived spaces."""

from __future__ import annotations

from tamis.cli.broker.place import LOCAL, Broker, api
from tamis.cli.broker.tables import AsJson, print_json, print_rows
from tamis.cli.flows import flow_app


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

"""`tamis links`: the routers beside a broker."""

from __future__ import annotations

from cyclopts import App

from tamis.cli.broker.broker_address import LOCAL, Broker, api
from tamis.cli.broker.printed_tables import AsJson, print_json, print_rows

links = App(name="links", help="Show and steer the links of a router to others.")
_COLUMNS = (
    *("channel", "direction", "router", "state", "lag", "wants", "messages", "bytes", "path"),
)


@links.command(name="list")
def list_links(*, json: AsJson = False, broker: Broker = LOCAL) -> None:
    """List the links of a router: whereto, how far behind, how many wants and messages.

    Parameters
    ----------
    json
        Print JSON.
    """
    with broker.agent() as agent:
        found = agent.call("GET", "/api/links")
    if json:
        print_json(found)
        return
    for parent in found["parents"]:
        print(f"{found['router']}: {parent['state']}")
    rows = [{**row, "path": " > ".join(row["path"])} for row in found["links"]]
    print_rows(rows, _COLUMNS, as_json=False)


@links.command
def pause(router: str, channel: str, /, *, broker: Broker = LOCAL) -> None:
    """Send ROUTER nothing of CHANNEL until `tamis links resume`; nothing is lost."""
    with broker.agent() as agent:
        agent.call("POST", api("links", router, channel, "pause"))


@links.command
def resume(router: str, channel: str, /, *, broker: Broker = LOCAL) -> None:
    """Go on sending ROUTER what it wants of CHANNEL."""
    with broker.agent() as agent:
        agent.call("POST", api("links", router, channel, "resume"))


@links.command
def drain(*, broker: Broker = LOCAL) -> None:
    """Send all children of this router to other parents, until it starts again."""
    with broker.agent() as agent:
        agent.call("POST", "/api/links/drain")


@links.command
def why(router: str, channel: str, sequence: int, /, *, broker: Broker = LOCAL) -> None:
    """Say what ROUTER wants of the message with this SEQUENCE of CHANNEL."""
    with broker.agent() as agent:
        path = api("links", router, channel, "why")
        found = agent.call("GET", f"{path}?sequence={sequence}")
    if not found["wants"]:
        print(f"{sequence} does not cross: nobody below {router} wants it")
    for want in found["wants"]:
        print(f"{want['subjects']}  {want['selector'] or 'TRUE'}")

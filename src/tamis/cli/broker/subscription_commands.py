"""`tamis subscription ...`: durable subscriptions."""

from __future__ import annotations

import sys
from typing import Annotated, Any
from urllib.parse import urlencode

from cyclopts import App, Parameter
from cyclopts.validators import Number

from tamis.cli.broker.broker_address import LOCAL, Broker, api
from tamis.cli.broker.printed_tables import AsJson, print_record, print_rows
from tamis.errors import InputError

subscription = App(
    name="subscription", help="List, show, create, pause, resume and end durable subscriptions."
)
_COLUMNS = ("channel", "name", "principal", "state", "lag", "matched", "subjects", "selector")
_PAGE = 1_000


@subscription.command(name="list")
def list_subscriptions(
    search: Annotated[str, Parameter(show_default=False, allow_leading_hyphen=True)] = "",
    /,
    *,
    limit: Annotated[int, Parameter(validator=Number(gte=1))] = 1_000,
    json: AsJson = False,
    broker: Broker = LOCAL,
) -> None:
    """List the durable subscriptions that you may see.

    Parameters
    ----------
    search
        Words, and 'channel:quotes', 'subscriber:NAME', 'attribute:price', 'state:never-matched',
        'matches:{...}' (a message) or 'covers:SELECTOR'.
    limit
        How many to list.
    json
        Print JSON.
    """
    rows: list[dict[str, Any]] = []
    more = True
    with broker.agent() as agent:
        while more and len(rows) < limit:
            after = f"{rows[-1]['channel']}/{rows[-1]['name']}" if rows else ""
            query = {"q": search, "after": after, "limit": min(_PAGE, limit - len(rows))}
            page = agent.call("GET", f"{api('subscriptions')}?{urlencode(query)}")
            rows += page["subscriptions"]
            more = page["more"]
    print_rows(rows, _COLUMNS, json)
    if more:
        print("there are more: give a search, or a higher --limit", file=sys.stderr)


@subscription.command(name="show")
def show_subscription(
    channel: str, name: str, /, *, json: AsJson = False, broker: Broker = LOCAL
) -> None:
    """Show subscription NAME of CHANNEL, or of a derived space FLOW/SPACE.

    Parameters
    ----------
    channel
        The name of the channel.
    name
        The name of the subscription.
    json
        Print JSON.
    """
    with broker.agent() as agent:
        print_record(agent.call("GET", _path(channel, name)), json)


@subscription.command(name="create")
def create_subscription(
    channel: str,
    name: str,
    selector: Annotated[str, Parameter(allow_leading_hyphen=True)] = "",
    /,
    *,
    subjects: str = ">",
    start: Annotated[str, Parameter(name="--from")] = "now",
    webhook: Annotated[str, Parameter(show_default=False)] = "",
    secret: Annotated[str, Parameter(show_default=False, env_var="TAMIS_WEBHOOK_SECRET")] = "",
    email: Annotated[str, Parameter(show_default=False)] = "",
    digest: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    json: AsJson = False,
    broker: Broker = LOCAL,
) -> None:
    """Create durable subscription NAME of CHANNEL, or change its filter.

    Parameters
    ----------
    channel
        The name of the channel; FLOW/SPACE is a derived space.
    name
        The name of the subscription.
    selector
        What the messages must satisfy; without it all come.
    subjects
        A subject filter such as 'quotes.*' or 'quotes.>'.
    start
        now, all, a sequence, or a time such as 2026-02-01T09:30:00Z.
    webhook
        An address that gets the messages as HTTP requests.
    secret
        What requests to the webhook are signed with.
    email
        An e-mail address that gets the messages.
    digest
        Seconds for which messages are gathered into one mail.
    json
        Print JSON.
    """
    if secret and not webhook:
        raise InputError("--secret needs --webhook")
    if digest and not email:
        raise InputError("--digest needs --email")
    form = {"selector": selector, "subjects": subjects, "webhook": webhook, "secret": secret,
            "email": email, "digest": digest,
            "start": int(start) if start.isdigit() else start}  # fmt: skip
    with broker.agent() as agent:
        made = agent.call("PUT", _path(channel, name), form)
    for note in made.pop("notes", []):
        print(f"note: {note}", file=sys.stderr)
    print_record(made, json)


@subscription.command(name="pause")
def pause_subscription(
    channel: str, name: str, /, *, json: AsJson = False, broker: Broker = LOCAL
) -> None:
    """Pause subscription NAME of CHANNEL: messages wait for it.

    Parameters
    ----------
    channel
        The name of the channel.
    name
        The name of the subscription.
    json
        Print JSON.
    """
    with broker.agent() as agent:
        print_record(agent.call("POST", f"{_path(channel, name)}/pause"), json)


@subscription.command(name="resume")
def resume_subscription(
    channel: str, name: str, /, *, json: AsJson = False, broker: Broker = LOCAL
) -> None:
    """Resume subscription NAME of CHANNEL with the messages that waited.

    Parameters
    ----------
    channel
        The name of the channel.
    name
        The name of the subscription.
    json
        Print JSON.
    """
    with broker.agent() as agent:
        print_record(agent.call("POST", f"{_path(channel, name)}/resume"), json)


@subscription.command(name="end")
def end_subscription(channel: str, name: str, /, *, broker: Broker = LOCAL) -> None:
    """End subscription NAME of CHANNEL for ever.

    Parameters
    ----------
    channel
        The name of the channel; FLOW/SPACE is a derived space.
    name
        The name of the subscription.
    """
    with broker.agent() as agent:
        agent.call("DELETE", _path(channel, name))


def _path(channel: str, name: str) -> str:
    flow, slash, space = channel.partition("/")
    if slash:
        return api("flows", flow, "spaces", space, "subscriptions", name)
    return api("channels", channel, "subscriptions", name)

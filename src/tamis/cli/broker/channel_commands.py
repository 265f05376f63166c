"""`tamis channel ...`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from tamis.cli.broker.broker_address import LOCAL, Broker, need_broker
from tamis.cli.broker.printed_tables import AsJson, print_json
from tamis.cli.terminal.progress import counted

if TYPE_CHECKING:
    from tamis.errors import TamisError

channel = App(name="channel", help="Create, show, list and close channels.")


@channel.command(name="create")
def create_channel(
    name: str,
    attributes: Annotated[str, Parameter(show_default=False)] = "",
    /,
    *,
    file: Annotated[Path | None, Parameter(show_default=False)] = None,
    number: Annotated[int | None, Parameter(validator=Number(gte=0), show_default=False)] = None,
    sentence: str = "",
    subject: Annotated[list[str] | None, Parameter(negative="", show_default=False)] = None,
    semantics: Literal["sql", "strict", "default", "total"] = "sql",
    dialect: Literal["tamis", "jms"] = "tamis",
    retention: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    retention_bytes: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    broker: Broker = LOCAL,
) -> None:
    """Create channel NAME, or change it.

    Parameters
    ----------
    name
        The name of the channel.
    attributes
        Predefined attributes, such as 'symbol:string,price:double'.
    file
        A channel file, TOML or the form of table 13, instead of attributes, subjects and retention.
    number
        The id of the channel in the file, if it has several.
    sentence
        What the channel is about.
    subject
        A subject that messages may have; give it again for more. Without any, all are allowed.
    semantics
        What undefined attributes mean.
    dialect
        The language of the selectors.
    retention
        Minutes that messages are kept; without it they are kept for ever.
    retention_bytes
        Bytes of messages that are kept; 0 is without end.
    """
    pairs = [part.partition(":") for part in attributes.split(",") if part.strip()]
    form: dict[str, Any] = {
        "sentence": sentence,
        "attributes": {name.strip(): kind.strip() or "string" for name, _, kind in pairs},
        "subjects": subject or [],
        "semantics": semantics,
        "dialect": dialect,
        "retention": retention,
        "retention_bytes": retention_bytes,
    }
    if file is not None:
        form["file"] = _channel_text(file, number)
    with broker.agent() as agent:
        agent.put_channel(name, form)
    print(f"channel {name}")


def _channel_text(path: Path, number: int | None) -> str:
    """One channel of a file, as a broker reads it."""
    from tamis.cli.terminal.channel_option import channel_of
    from tamis.pubsub.subjects.channel_files import write_toml

    return write_toml([channel_of(str(path), number)])


@channel.command(name="list")
def list_channels(*, json: AsJson = False, broker: Broker = LOCAL) -> None:
    """List the channels that you may use.

    Parameters
    ----------
    json
        Print JSON.
    """
    with broker.agent() as agent:
        found = agent.channels()
        if json:
            print_json(found)
            return
        for one in found:
            attributes = ",".join(f"{name}:{kind}" for name, kind in one["attributes"].items())
            count = one["next"] - 1
            print(f"{one['name']}\t{count} messages\t{one['subscriptions']} subscriptions\t"
                  f"{attributes}")  # fmt: skip


@channel.command(name="show")
def show_channel(name: str, /, *, json: AsJson = True, broker: Broker = LOCAL) -> None:
    """Print all about channel NAME as JSON.

    Parameters
    ----------
    name
        The name of the channel.
    json
        Print JSON, which it does in any case.
    """
    with broker.agent() as agent:
        print_json(agent.channel(name))


@channel.command(name="follow")
def follow_channel(
    name: str,
    folder: str,
    /,
    *,
    every: Annotated[float, Parameter(validator=Number(gte=0))] = 5.0,
    once: Annotated[bool, Parameter(negative="")] = False,
    broker: Broker = LOCAL,
) -> None:
    """Keep the Subscriptions table in FOLDER as what subscribers of channel NAME ask for.

    A subscription that the table cannot hold is put aside and reported on standard error.

    Parameters
    ----------
    name
        The name of the channel.
    folder
        A folder for the table; Spark jobs may follow it.
    every
        Seconds between two looks.
    once
        Look once, and end.
    """
    need_broker()
    from tamis.client.mirror import Mirror

    mirror = Mirror(
        folder, name, server=broker.server, token=broker.token, timeout=broker.timeout, ca=broker.ca
    )

    reported = set[tuple[str, str]]()

    def tell(version: int) -> None:
        print(f"version {version}: {counted(len(mirror.table), 'subscription')}", flush=True)
        problems = {(one["id"], one["reason"]) for one in mirror.problems()}
        for id, reason in sorted(problems - reported):
            _note(f"subscription {id} is put aside: {reason}")
        reported.clear()
        reported.update(problems)

    def failed(error: TamisError) -> None:
        _note(f"{error}; trying again")

    if once:
        tell(mirror.update())
    else:
        mirror.follow(every, tell=tell, failed=failed)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@channel.command(name="close")
def close_channel(name: str, /, *, broker: Broker = LOCAL) -> None:
    """Close channel NAME; its messages and subscriptions go.

    Parameters
    ----------
    name
        The name of the channel.
    """
    with broker.agent() as agent:
        agent.close_channel(name)

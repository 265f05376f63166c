"""The commands of the broker: serve, channel, publish, subscribe, principal."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from tamis.cli.progress import counted
from tamis.errors import InputError, TamisError

if TYPE_CHECKING:
    from tamis.client import Agent
    from tamis.server.deliveries import MailServer

HERE = "http://127.0.0.1:8216"
channel = App(name="channel", help="Create, show, list and close channels.")


def need_broker() -> None:
    """Say in one sentence what is missing."""
    for name in ("argon2", "msgspec", "starlette", "uvicorn", "websockets"):
        if find_spec(name) is None:
            raise InputError(f"the broker needs {name}: pip install 'tamis[broker]'")


@Parameter(name="*")
@dataclass(frozen=True)
class Broker:
    """Which broker, and who asks: two options of every command that talks to one.

    Parameters
    ----------
    server
        The address of the broker.
    token
        A token that says who you are.
    """

    server: Annotated[str, Parameter(env_var="TAMIS_SERVER")] = HERE
    token: Annotated[
        str, Parameter(env_var="TAMIS_TOKEN", show_default=False, allow_leading_hyphen=True)
    ] = ""

    def agent(self) -> Agent:
        need_broker()
        from tamis.client import Agent

        return Agent(self.server, token=self.token)


LOCAL = Broker()


def serve(
    directory: Path = Path("tamis-data"),
    /,
    *,
    http: str = "127.0.0.1:8216",
    stomp: Annotated[str | None, Parameter(show_default=False)] = None,
    packets: Annotated[str | None, Parameter(show_default=False)] = None,
    certificate: Annotated[Path | None, Parameter(show_default=False)] = None,
    key: Annotated[Path | None, Parameter(show_default=False)] = None,
    smtp: Annotated[str | None, Parameter(show_default=False)] = None,
    mail_from: Annotated[str, Parameter(show_default=False)] = "",
    quiet: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Run a broker that keeps everything in DIRECTORY, until Ctrl-C or SIGTERM.

    Parameters
    ----------
    directory
        Where messages, channels and subscriptions are kept.
    http
        HOST:PORT for HTTP and WebSocket.
    stomp
        HOST:PORT for STOMP; without it there is none.
    packets
        HOST:PORT for binary packets; without it there are none.
    certificate
        A file with the TLS certificate; everything is encrypted then.
    key
        A file with its private key.
    smtp
        HOST:PORT of a mail server, for subscriptions by e-mail; TAMIS_SMTP_USER and
        TAMIS_SMTP_PASSWORD log in there.
    mail_from
        The address that mails come from; needed with --smtp.
    quiet
        Log warnings and errors only.
    """
    need_broker()
    import logging

    from tamis.server.serve import Address, Settings, run

    level = logging.WARNING if quiet else logging.INFO
    form = 'time=%(asctime)s level=%(levelname)s msg="%(message)s"'
    logging.basicConfig(level=level, format=form, stream=sys.stderr)
    found = Settings(
        directory,
        Address.parse(http),
        None if stomp is None else Address.parse(stomp, 61613),
        None if packets is None else Address.parse(packets, 8217),
        certificate,
        key,
        None if smtp is None else _mail_server(smtp, mail_from),
    )
    run(found)


def _mail_server(smtp: str, sender: str) -> MailServer:
    import os

    from tamis.server.deliveries import MailServer
    from tamis.server.serve import Address

    found, login = Address.parse(smtp, 25), ("TAMIS_SMTP_USER", "TAMIS_SMTP_PASSWORD")
    if not sender:
        raise InputError("--smtp needs --mail-from, the address that mails come from")
    user, password = (os.environ.get(name, "") for name in login)
    return MailServer(found.host, found.port, sender, user, password)


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
    from tamis.cli.wire import channel_of
    from tamis.pubsub.channel_files import write_toml

    return write_toml([channel_of(str(path), number)])


@channel.command(name="list")
def list_channels(*, broker: Broker = LOCAL) -> None:
    """List the channels that you may use."""
    with broker.agent() as agent:
        for one in agent.channels():
            attributes = ",".join(f"{name}:{kind}" for name, kind in one["attributes"].items())
            count = one["next"] - 1
            print(f"{one['name']}\t{count} messages\t{one['subscriptions']} subscriptions\t"
                  f"{attributes}")  # fmt: skip


@channel.command(name="show")
def show_channel(name: str, /, *, broker: Broker = LOCAL) -> None:
    """Print all about channel NAME as JSON.

    Parameters
    ----------
    name
        The name of the channel.
    """
    import json

    with broker.agent() as agent:
        print(json.dumps(agent.channel(name), indent=2, ensure_ascii=False))


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

    mirror = Mirror(folder, name, server=broker.server, token=broker.token)

    def tell(version: int) -> None:
        print(f"version {version}: {counted(len(mirror.table), 'subscription')}", flush=True)

    if once:
        tell(mirror.update())
    else:
        mirror.follow(every, tell=tell)


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


def publish(
    name: str,
    messages: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-",
    /,
    *,
    subject: str = "",
    publisher: str = "",
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    batch: Annotated[int, Parameter(validator=Number(gte=1, lte=10_000))] = 500,
    broker: Broker = LOCAL,
) -> None:
    """Publish MESSAGES, one JSON object to a line, to channel NAME.

    Parameters
    ----------
    name
        The name of the channel.
    messages
        A file of JSON lines; - is standard input.
    subject
        The subject of all messages; without it, the name of the channel.
    publisher
        A name under which lines are numbered: a file that is sent again is stored once.
    dry_run
        Store nothing; print which subscriptions would get each message.
    batch
        Messages that are sent at a time.
    """
    from tamis.cli.broker_lines import publish_lines, published

    with broker.agent() as agent:
        count = publish_lines(agent, name, messages, subject, publisher, dry_run, batch)
    if not dry_run:
        print(published(count), file=sys.stderr)


def subscribe(
    name: str,
    selector: Annotated[str, Parameter(allow_leading_hyphen=True)] = "",
    /,
    *,
    subjects: str = ">",
    start: Annotated[str, Parameter(name="--from")] = "now",
    durable: Annotated[str, Parameter(show_default=False)] = "",
    summary: Annotated[Path | None, Parameter(show_default=False)] = None,
    explain: Annotated[bool, Parameter(negative="")] = False,
    count: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    broker: Broker = LOCAL,
) -> None:
    """Print the messages of channel NAME that SELECTOR matches, as they come.

    Parameters
    ----------
    name
        The name of the channel.
    selector
        What the messages must satisfy; without it all come.
    subjects
        A subject filter such as 'quotes.*' or 'quotes.>'.
    start
        now, all, a sequence, or a time such as 2026-02-01T09:30:00Z.
    durable
        A name under which the broker remembers what you have got.
    summary
        A file with a state that says what the messages mean: what was missed comes as the shortest
        sequence that means the same. Needs --durable.
    explain
        Tell predicate by predicate why each message matches.
    count
        Stop after so many messages; 0 goes on.
    """
    from tamis.cli.broker_lines import print_matches

    with broker.agent() as agent:
        options = {"selector": selector, "subjects": subjects, "start": start, "durable": durable}
        if summary is not None:
            options |= {"summary": _summary(summary, durable), "catch_up": "shortest"}
        print_matches(agent, name, options, explain, count)


def _summary(path: Path, durable: str) -> str:
    if not durable:
        raise InputError("--summary needs --durable: only what is remembered can be missed")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def principal(
    name: str,
    /,
    *,
    directory: Path = Path("tamis-data"),
    tenant: str = "main",
    password: Annotated[bool, Parameter(negative="")] = False,
    selector: str = "",
    rate: Annotated[float, Parameter(validator=Number(gte=0))] = 0.0,
    right: Annotated[list[str] | None, Parameter(negative="", show_default=False)] = None,
    token: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Make or change principal NAME in the registry of DIRECTORY, also while a broker runs.

    It logs in as NAME; in a tenant other than main, as TENANT/NAME.

    Parameters
    ----------
    name
        The name of the principal.
    directory
        The directory of the broker.
    tenant
        The namespace of its name and its channels.
    password
        Read a password from standard input.
    selector
        What the broker ANDs to every selector of the principal.
    rate
        Messages a second that it may publish; 0 is without end.
    right
        VERB:CHANNEL:SUBJECTS such as 'publish:quotes:nyse.>' or 'manage:*'; may be repeated.
    token
        Make a token and print it; it is shown only once.
    """
    need_broker()
    from msgspec import structs

    from tamis.registry import VERBS, Principal, Right, SqliteRegistry
    from tamis.server.access import hashed, new_token

    directory.mkdir(parents=True, exist_ok=True)
    registry = SqliteRegistry(directory / "registry.db")
    secret = hashed(sys.stdin.readline().rstrip("\r\n")) if password else ""
    made = Principal(name, tenant, secret, selector, rate)
    known = next((p for p in registry.principals() if p.login == made.login), None)
    if known is not None and not secret:
        made = structs.replace(made, password=known.password)
    registry.put_principal(made)
    for text in right or ():
        verb, _, rest = text.partition(":")
        where, _, subjects = rest.partition(":")
        if verb not in VERBS:
            raise TamisError(f"{text!r} is no right: begin with publish, subscribe or manage")
        registry.put_right(Right(made.login, verb, where or "*", subjects or ">"))
    if token:
        print(new_token(registry, made.login))
    registry.close()

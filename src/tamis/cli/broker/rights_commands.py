"""`tamis access ...`: principals, rights and tokens of a running broker."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from tamis.cli.broker.broker_address import LOCAL, Broker, api
from tamis.cli.broker.printed_tables import AsJson, print_json, print_record, print_rows
from tamis.errors import InputError

access = App(name="access", help="Principals of a running broker, their rights and their tokens.")
Verb = Literal["publish", "subscribe", "manage"]
_VERBS = ("publish", "subscribe", "manage")
_DAY = 86_400


@access.command(name="list")
def list_principals(*, json: AsJson = False, broker: Broker = LOCAL) -> None:
    """List the principals and their rights.

    Parameters
    ----------
    json
        Print JSON.
    """
    with broker.agent() as agent:
        found = agent.call("GET", api("principals"))["principals"]
    shown = found if json else [{**one, "rights": _rights(one["rights"])} for one in found]
    print_rows(shown, ("login", "rights", "selector", "rate"), json)


@access.command(name="put")
def put_principal(
    name: str,
    /,
    *,
    password: Annotated[bool, Parameter(negative="")] = False,
    selector: Annotated[str | None, Parameter(show_default=False)] = None,
    rate: Annotated[float | None, Parameter(validator=Number(gte=0), show_default=False)] = None,
    subscriptions: Annotated[
        int | None, Parameter(validator=Number(gte=0), show_default=False)
    ] = None,
    json: AsJson = False,
    broker: Broker = LOCAL,
) -> None:
    """Create principal NAME, or change what the options name.

    Parameters
    ----------
    name
        The name of the principal.
    password
        Read a password from standard input.
    selector
        What the broker ANDs to every selector of the principal.
    rate
        Messages a second that it may publish; 0 is without end.
    subscriptions
        Durable subscriptions that it may have; 0 is without end.
    json
        Print JSON.
    """
    form: dict[str, Any] = {"selector": selector, "rate": rate, "subscriptions": subscriptions}
    if password:
        form["password"] = sys.stdin.readline().rstrip("\r\n")
        if not form["password"]:
            raise InputError("--password: standard input holds no password")
    named = {key: value for key, value in form.items() if value is not None}
    with broker.agent() as agent:
        print_record(agent.call("PUT", api("principals", name), named), json)


@access.command(name="end")
def end_principal(name: str, /, *, broker: Broker = LOCAL) -> None:
    """End principal NAME with its rights, tokens and subscriptions.

    Parameters
    ----------
    name
        The name of the principal.
    """
    with broker.agent() as agent:
        agent.call("DELETE", api("principals", name))


@access.command(name="grant")
def grant(name: str, right: str, /, *, json: AsJson = False, broker: Broker = LOCAL) -> None:
    """Give principal NAME a RIGHT.

    Parameters
    ----------
    name
        The name of the principal.
    right
        VERB:CHANNEL:SUBJECTS such as 'publish:quotes:nyse.>' or 'manage:*'.
    json
        Print JSON.
    """
    _change_right(broker, "POST", name, right, json)


@access.command(name="revoke")
def revoke(name: str, right: str, /, *, json: AsJson = False, broker: Broker = LOCAL) -> None:
    """Take a RIGHT from principal NAME.

    Parameters
    ----------
    name
        The name of the principal.
    right
        As it was given, such as 'publish:quotes:nyse.>'.
    json
        Print JSON.
    """
    _change_right(broker, "DELETE", name, right, json)


@access.command(name="tokens")
def list_tokens(name: str, /, *, json: AsJson = False, broker: Broker = LOCAL) -> None:
    """List the tokens of principal NAME, without their secrets.

    Parameters
    ----------
    name
        The name of the principal.
    json
        Print JSON.
    """
    with broker.agent() as agent:
        found = agent.call("GET", api("principals", name, "tokens"))["tokens"]
    print_rows(found, ("id", "label", "verbs", "expires"), json)


@access.command(name="token")
def make_token(
    name: str,
    /,
    *,
    label: str = "",
    verb: Annotated[list[Verb] | None, Parameter(negative="", show_default=False)] = None,
    days: Annotated[float, Parameter(validator=Number(gte=0))] = 0.0,
    json: AsJson = False,
    broker: Broker = LOCAL,
) -> None:
    """Make a token for principal NAME and print it; it is shown only once.

    Parameters
    ----------
    name
        The name of the principal.
    label
        What the token is for.
    verb
        What it may be used for, if not for all that the principal may do; may be repeated.
    days
        Days until it expires; 0 is never.
    json
        Print JSON.
    """
    form = {"label": label, "verbs": verb or _VERBS, "seconds": days * _DAY}
    with broker.agent() as agent:
        made = agent.call("POST", api("principals", name, "tokens"), form)
    if json:
        print_json(made)
    else:
        print(made["token"])


@access.command(name="end-token")
def end_token(name: str, token_id: str, /, *, broker: Broker = LOCAL) -> None:
    """End a token of principal NAME.

    Parameters
    ----------
    name
        The name of the principal.
    token_id
        The id of the token, as `tamis access tokens` lists it.
    """
    with broker.agent() as agent:
        agent.call("DELETE", api("principals", name, "tokens", token_id))


@access.command(name="audit")
def audit(
    *,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=1_000))] = 100,
    json: AsJson = False,
    broker: Broker = LOCAL,
) -> None:
    """List who changed what, the newest first.

    Parameters
    ----------
    limit
        How many changes.
    json
        Print JSON.
    """
    with broker.agent() as agent:
        found = agent.call("GET", f"{api('audit')}?limit={limit}")["audit"]
    shown = found if json else [{**one, "time": _moment(one["time"])} for one in found]
    print_rows(shown, ("time", "principal", "action", "target"), json)


def _change_right(broker: Broker, method: str, name: str, right: str, json: bool) -> None:
    verb, _, rest = right.partition(":")
    channel, _, subjects = rest.partition(":")
    if verb not in _VERBS:
        raise InputError(f"{right!r} is not a right: begin with {', '.join(_VERBS)}")
    form = {"verb": verb, "channel": channel or "*", "subjects": subjects or ">"}
    with broker.agent() as agent:
        found = agent.call(method, api("principals", name, "rights"), form)
    if json:
        print_json(found)
    else:
        print(_rights(found["rights"]))


def _rights(rights: list[dict[str, str]]) -> str:
    return " ".join(f"{one['verb']}:{one['channel']}:{one['subjects']}" for one in rights)


def _moment(micros: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(micros / 1e6, UTC).isoformat(sep=" ", timespec="seconds")

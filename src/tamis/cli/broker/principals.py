"""`tamis principal`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.cli.broker.place import need_broker
from tamis.errors import TamisError


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

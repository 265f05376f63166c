"""`tamis principal`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.cli.broker.broker_address import need_broker
from tamis.errors import InputError

_BEFORE = {"lock", "server.log"}  # what a broker that did not start may leave


def principal(
    name: str,
    /,
    *,
    directory: Path = Path("tamis-data"),
    tenant: str = "main",
    password: Annotated[bool, Parameter(negative="")] = False,
    selector: Annotated[str | None, Parameter(show_default=False)] = None,
    rate: Annotated[float | None, Parameter(validator=Number(gte=0), show_default=False)] = None,
    right: Annotated[list[str] | None, Parameter(negative="", show_default=False)] = None,
    token: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Make or change principal NAME in the registry of DIRECTORY, also while a broker runs.

    It logs in as NAME; in a tenant other than main, as TENANT/NAME. What no option names stays.

    Parameters
    ----------
    name
        The name of the principal.
    directory
        The directory of the broker. It must exist.
    tenant
        The namespace of its name and its channels.
    password
        Read a password from standard input.
    selector
        What the broker ANDs to every selector of the principal; '' takes it away.
    rate
        Messages a second that it may publish; 0 is without end.
    right
        VERB:CHANNEL:SUBJECTS such as 'publish:quotes:nyse.>' or 'manage:*'; may be repeated.
    token
        Make a token and print it; it is shown only once.
    """
    need_broker()
    from tamis.registry import AuditEntry, SqliteRegistry
    from tamis.registry.registry_values import login
    from tamis.server import accounts
    from tamis.server.access import LOCAL, hashed, new_token

    _check_directory(directory)
    own = login(tenant, name)
    named = {"selector": selector, "rate": rate}
    named = {key: value for key, value in named.items() if value is not None}
    rights = [accounts.read_right(own, text) for text in right or ()]
    accounts.change(tenant, name, **named)  # what is wrong is refused before a password is read
    if password:
        named["password"] = hashed(_read_password())

    def audited(action: str, target: str) -> AuditEntry:
        return AuditEntry(int(time.time() * 1e6), LOCAL, action, target, tenant)

    with SqliteRegistry(directory / "registry.db") as registry:
        registry.change_principal(own, accounts.change(tenant, name, **named))
        registry.audit(audited("principal.put", own))
        for one in rights:
            registry.put_right(one)
            target = f"{own} {one.verb} {one.channel} {one.subjects}"
            registry.audit(audited("right.give", target))
        if token:
            print(new_token(registry, own))
            registry.audit(audited("token.make", own))


def _read_password() -> str:
    found = sys.stdin.readline().rstrip("\r\n")
    if not found:
        raise InputError("--password: standard input holds no password")
    return found


def _check_directory(directory: Path) -> None:
    """A mistyped one would get a registry that no broker reads."""
    if not directory.is_dir():
        raise InputError(
            f"{directory}: there is no such directory: name that of the broker, or make it first"
        )
    known = (directory / "registry.db").exists()
    if not known and any(p.name not in _BEFORE for p in directory.iterdir()):
        raise InputError(f"{directory}: this is not the directory of a broker")

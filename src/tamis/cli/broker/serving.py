"""`tamis serve`."""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.cli.broker.broker_address import need_broker
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.server.deliveries import MailServer

DIRECTORY = Path("tamis-data")
_PARENTS = {"directory", "detach"}  # what a server in the background is not given as an option


def serve(
    directory: Annotated[Path | None, Parameter(show_default=False)] = None,
    /,
    *,
    demo: Annotated[bool, Parameter(negative="")] = False,
    http: Annotated[str, Parameter(env_var="TAMIS_HTTP")] = "127.0.0.1:8216",
    stomp: Annotated[str | None, Parameter(show_default=False)] = None,
    packets: Annotated[str | None, Parameter(show_default=False)] = None,
    certificate: Annotated[Path | None, Parameter(show_default=False)] = None,
    key: Annotated[Path | None, Parameter(show_default=False)] = None,
    smtp: Annotated[str | None, Parameter(show_default=False)] = None,
    mail_from: Annotated[str, Parameter(show_default=False)] = "",
    origin: Annotated[list[str] | None, Parameter(show_default=False, negative="")] = None,
    connections: Annotated[int, Parameter(validator=Number(gte=1))] = 10_000,
    connections_per_address: Annotated[
        int | None, Parameter(show_default=False, validator=Number(gte=1))
    ] = None,
    without_principals: Annotated[bool, Parameter(negative="")] = False,
    webhook_key: Annotated[
        Path | None, Parameter(show_default=False, env_var="TAMIS_WEBHOOK_KEY")
    ] = None,
    name: Annotated[str, Parameter(show_default=False)] = "",
    parent: Annotated[list[str] | None, Parameter(show_default=False, negative="")] = None,
    parent_token: Annotated[
        str,
        Parameter(env_var="TAMIS_PARENT_TOKEN", show_default=False, allow_leading_hyphen=True),
    ] = "",
    parent_ca: Annotated[str, Parameter(show_default=False)] = "",
    quiet: Annotated[bool, Parameter(negative="")] = False,
    detach: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Run a broker that keeps everything in DIRECTORY, until Ctrl-C or SIGTERM.

    A browser shows it at the address where it listens.

    Parameters
    ----------
    directory
        Where messages, channels and subscriptions are kept; ./tamis-data by default.
    demo
        Sample channels and subscriptions, and messages that keep coming. Without DIRECTORY they
        are gone when it stops.
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
    origin
        An origin such as https://app.example whose pages may use the broker; may be repeated.
    connections
        How many connections may be open at a time, over all protocols.
    connections_per_address
        How many of them from one address, the loopback included; by default half of them.
    without_principals
        Start on an address that other machines reach though no principal exists: all is refused
        until `tamis principal` makes one.
    webhook_key
        A file with the key that encrypts the secrets of webhooks, made if there is none; else
        webhooks.key in DIRECTORY.
    name
        What this router is called in a network; by default a name that is made once.
    parent
        URL of a router that this one follows, or URL#CHANNEL,CHANNEL for some channels only; of
        several for the same channels the next one is taken when one does not answer.
    parent_token
        A token of a principal of the parents, whose rights the link has.
    parent_ca
        A file of certificate authorities for https parents, instead of those of the system.
    quiet
        Log warnings and errors only.
    detach
        Run in the background, logging to DIRECTORY/server.log; return once it listens.
    """
    given = {name: value for name, value in locals().items() if name not in _PARENTS}
    need_broker()
    if detach:
        _detach(directory or DIRECTORY, given)
        return
    import logging

    from tamis.server.process.serve import Address, Settings, run
    from tamis.server.sockets.limits import SocketLimits

    level = logging.WARNING if quiet else logging.INFO
    form = 'time=%(asctime)s level=%(levelname)s msg="%(message)s"'
    logging.basicConfig(level=level, format=form, stream=sys.stderr)
    with contextlib.ExitStack() as stack:
        if demo and directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tamis-demo-")))
        found = Settings(
            directory or DIRECTORY,
            Address.parse(http),
            None if stomp is None else Address.parse(stomp, 61613),
            None if packets is None else Address.parse(packets, 8217),
            certificate,
            key,
            None if smtp is None else _mail_server(smtp, mail_from),
            SocketLimits(connections, connections_per_address or 0),
            tuple(origin or ()),
            demo,
            without_principals,
            webhook_key,
            name,
            tuple(parent or ()),
            parent_token,
            parent_ca,
        )
        run(found)


def _detach(directory: Path, given: dict[str, object]) -> None:
    """Serve with the same options, in another process."""
    from tamis.server.detaching import start

    arguments = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, list) else [value] if value else []
        arguments += [option if one is True else f"{option}={one}" for one in values]
    print(f"{start(directory, arguments)}; stop it with: tamis stop {shlex.quote(str(directory))}")


def stop(
    directory: Path = Path("tamis-data"),
    /,
    *,
    timeout: Annotated[float, Parameter(validator=Number(gt=0))] = 30.0,
) -> None:
    """Stop the broker that runs in DIRECTORY on this machine, and wait until it has stopped.

    Parameters
    ----------
    directory
        The directory of the broker.
    timeout
        Seconds to wait.
    """
    need_broker()
    from tamis.server.detaching import stop

    print(f"stopped process {stop(directory, timeout)}")


def _mail_server(smtp: str, sender: str) -> MailServer:
    import os

    from tamis.server.deliveries import MailServer
    from tamis.server.process.serve import Address

    found, login = Address.parse(smtp, 25), ("TAMIS_SMTP_USER", "TAMIS_SMTP_PASSWORD")
    if not sender:
        raise InputError("--smtp needs --mail-from, the address that mails come from")
    user, password = (os.environ.get(name, "") for name in login)
    return MailServer(found.host, found.port, sender, user, password)

"""The options of `tamis serve` by group, and the settings that they make."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.server.deliveries import MailServer
    from tamis.server.process.serve import Settings

TOKEN = "TAMIS_PARENT_TOKEN"
Maybe = Annotated[str | None, Parameter(show_default=False)]
MaybeFile = Annotated[Path | None, Parameter(show_default=False)]
Text = Annotated[str, Parameter(show_default=False)]
Many = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]


def _group(name: str) -> Any:
    return Parameter(name="*", group=name)


@_group("Connections")
@dataclass(frozen=True)
class Listening:
    """The addresses of the broker, and limits of its connections."""

    http: Annotated[str, Parameter(env_var="TAMIS_HTTP")] = "127.0.0.1:8216"
    "HOST:PORT for HTTP and WebSocket."

    stomp: Maybe = None
    "HOST:PORT for STOMP (off by default)."

    packets: Maybe = None
    "HOST:PORT for binary packets (off by default)."

    certificate: MaybeFile = None
    "A file with the TLS certificate; everything is encrypted then."

    key: MaybeFile = None
    "A file with its private key."

    origin: Many = ()
    "An origin such as https://app.example whose pages may use the broker; may be repeated."

    connections: Annotated[int, Parameter(validator=Number(gte=1))] = 10_000
    "How many connections may be open at a time, over all protocols."

    connections_per_address: Annotated[
        int | None, Parameter(show_default=False, validator=Number(gte=1))
    ] = None
    "How many of them from one address, the loopback included; by default half of them."


@_group("Webhooks and mail")
@dataclass(frozen=True)
class Deliveries:
    """Deliveries to other hosts."""

    smtp: Maybe = None
    """HOST:PORT of a mail server, for subscriptions by e-mail; TAMIS_SMTP_USER and
    TAMIS_SMTP_PASSWORD log in there."""

    mail_from: Text = ""
    "The address that mails come from; needed with --smtp."

    webhook_key: Annotated[
        Path | None, Parameter(show_default=False, env_var="TAMIS_WEBHOOK_KEY")
    ] = None
    """A file with the key that encrypts the secrets of webhooks, made if there is none; else
    webhooks.key in DIRECTORY."""


@_group("Network")
@dataclass(frozen=True)
class Network:
    """This broker as a router."""

    name: Text = ""
    "The name of this router in a network; by default a name that is made once."

    parent: Many = ()
    """URL of a router that this one follows, or URL#CHANNEL,CHANNEL for some channels only; of
    several for the same channels the next one is taken when one does not answer."""

    parent_token: Annotated[
        str, Parameter(env_var=TOKEN, show_default=False, allow_leading_hyphen=True)
    ] = ""
    "A token of a principal of the parents, whose rights the link has."

    parent_ca: Text = ""
    "A file of certificate authorities for https parents, instead of those of the system."


LISTENING, DELIVERIES, NETWORK = Listening(), Deliveries(), Network()


def settings_of(
    directory: Path,
    listening: Listening,
    deliveries: Deliveries,
    network: Network,
    *,
    demo: bool,
    without_principals: bool,
    reports: Path | None,
) -> Settings:
    from tamis.server.process.serve import Address, Settings
    from tamis.server.sockets.limits import SocketLimits

    stomp, packets = listening.stomp, listening.packets
    return Settings(
        directory,
        Address.parse(listening.http),
        stomp=None if stomp is None else Address.parse(stomp, 61613),
        packets=None if packets is None else Address.parse(packets, 8217),
        certificate=listening.certificate,
        key=listening.key,
        mail=_mail_server(deliveries),
        sockets=SocketLimits(listening.connections, listening.connections_per_address or 0),
        origins=listening.origin,
        demo=demo,
        without_principals=without_principals,
        webhook_key=deliveries.webhook_key,
        name=network.name,
        parents=network.parent,
        parent_token=network.parent_token,
        parent_ca=network.parent_ca,
        reports=reports,
    )


def _mail_server(deliveries: Deliveries) -> MailServer | None:
    from tamis.server.deliveries import MailServer
    from tamis.server.process.serve import Address

    if deliveries.smtp is None:
        return None
    address, login = Address.parse(deliveries.smtp, 25), ("TAMIS_SMTP_USER", "TAMIS_SMTP_PASSWORD")
    if not deliveries.mail_from:
        raise InputError("--smtp needs --mail-from, the address that mails come from")
    user, password = (os.environ.get(name, "") for name in login)
    return MailServer(address.host, address.port, deliveries.mail_from, user, password)

"""E-mail: messages are mailed, those of an interval together."""

from __future__ import annotations

import datetime
import ipaddress
import re
import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from tamis.errors import InputError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.subscription import Subscription
from tamis.server.deliveries.delivery import Arrived, Delivery, Problem, Tally
from tamis.server.hub import Hub
from tamis.server.turns import Pool

MAIL_THREADS = 4  # each waits for the mail server; one principal has up to half of them
PATIENCE = 30.0  # seconds for an answer of the mail server
SHOWN = 2_000  # characters of one message that a mail shows
LONGEST_INTERVAL = 7 * 24 * 3600  # seconds
_SMTPS = 465  # the port on which TLS is spoken from the first byte
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


def check_mail_address(address: str) -> None:
    if not _ADDRESS.fullmatch(address) or len(address) > 254:
        raise InputError(f"{address[:80]!r} is no e-mail address: write NAME@HOST")


@dataclass(frozen=True)
class MailServer:
    """Where mail is handed over, and in whose name."""

    host: str
    port: int
    sender: str
    user: str = ""
    password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        check_mail_address(self.sender)

    def hand_over(self, mail: EmailMessage) -> None:
        """OSError (smtplib's errors are such) where the server does not take it."""
        context = ssl.create_default_context()
        if self.port == _SMTPS:
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                self.host, self.port, timeout=PATIENCE, context=context
            )
        else:
            server = smtplib.SMTP(self.host, self.port, timeout=PATIENCE)
        with server:
            server.ehlo()
            encrypted = self.port == _SMTPS
            if not encrypted and server.has_extn("starttls"):
                server.starttls(context=context)
                encrypted = True
            if self.user:
                if not encrypted and not _is_loopback(self.host):
                    raise smtplib.SMTPException("the server offers no TLS: no password is sent")
                server.login(self.user, self.password)
            server.send_message(mail)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Mail(Delivery):
    """A mail server that is busy, or does not know us yet, wants to be left alone for minutes."""

    first_pause, longest_pause = 30.0, 3600.0

    def __init__(
        self,
        hub: Hub,
        subscription: Subscription,
        tally: Tally,
        server: MailServer | None,
        channel: str,
        pool: Pool,
    ) -> None:
        super().__init__(hub, subscription, tally, float(subscription.delivery.get("digest", 0)))
        self._server, self.channel, self._pool = server, channel, pool

    def check(self) -> None:
        if self._server is None:
            raise InputError("this broker was started without --smtp")

    async def send(self, made: list[Arrived], lost: list[act.Lost]) -> Problem | None:
        assert self._server is not None
        principal = self.subscription.principal
        return await self._pool.run(principal, self._hand_over, self._server, made, lost)

    def _hand_over(
        self, server: MailServer, made: list[Arrived], lost: list[act.Lost]
    ) -> Problem | None:
        to, records = str(self.target["email"]), [one.record for one in made]
        try:
            mail = written(server.sender, to, self.channel, self.subscription.name, records,
                           str(self.target.get("space", "")), lost)  # fmt: skip
            server.hand_over(mail)
        except smtplib.SMTPDataError as error:
            return _refused(error.smtp_code, error.smtp_error)
        except smtplib.SMTPRecipientsRefused as error:
            return _refused(*error.recipients[to])
        except OSError as error:  # also a wrong password: it may be put right
            return Problem(str(error) or type(error).__name__)
        return None


def _refused(code: int, told: bytes | str) -> Problem:
    """5xx is final, by RFC 5321."""
    text = told.decode(errors="replace") if isinstance(told, bytes) else told
    return Problem(f"{code} {text}", code >= 500)


def written(
    sender: str,
    to: str,
    channel: str,
    subscription: str,
    records: list[Record],
    space: str = "",
    lost: Sequence[act.Lost] = (),
) -> EmailMessage:
    """The mail of some messages of a channel, or of a space that is derived from it, and of what is
    lost around them. The same messages have the same Message-ID: mail that was sent once more after
    a crash can be told."""
    sequences = [r.sequence for r in records] + [s for one in lost for s in (one.first, one.last)]
    first, last = min(sequences), max(sequences)
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"] = sender, to
    count = "a message" if len(records) == 1 else f"{len(records)} messages"
    mail["Subject"] = f"{space or channel}: {count} for {subscription}"
    mail["Date"] = format_datetime(datetime.datetime.now(datetime.UTC))
    host = sender.rpartition("@")[2]
    mail["Message-ID"] = f"<{channel}.{subscription}.{first}-{last}@{host}>"
    mail["Auto-Submitted"] = "auto-generated"
    holes = [f"{one.first} to {one.last} are lost: {one.reason}\n" for one in lost]
    mail.set_content("\n".join([*holes, *map(_shown, records)]))
    return mail


def _shown(record: Record) -> str:
    moment = datetime.datetime.fromtimestamp(record.time / 1e6, datetime.UTC)
    body = record.body.decode()
    if len(body) > SHOWN:
        body = f"{body[:SHOWN]}... ({len(body):,} characters)"
    told = f"{record.sequence}  {record.subject}  {moment.isoformat(timespec='milliseconds')}"
    return f"{told}\n{body}\n"

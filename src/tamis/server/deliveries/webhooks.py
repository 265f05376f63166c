"""Webhooks: messages are posted to an address, signed with HMAC-SHA256."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ssl
import time
from urllib.parse import urlsplit

from tamis.errors import InputError
from tamis.server.deliveries.delivery import Arrived, Delivery, Problem
from tamis.server.frames import arrived, piece

PATIENCE = 10.0  # seconds for an answer


def check_address(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or len(address) > 2000:
        raise InputError(f"{address[:80]!r} is no address of a webhook: write https://HOST/PATH")


class Webhook(Delivery):
    def send(self, made: list[Arrived]) -> Problem | None:
        """An answer of 2xx takes them."""
        parts = urlsplit(str(self.target["webhook"]))
        body = b'{"subscription":"%b","messages":[%b]}' % (
            self.subscription.name.encode(),
            b",".join(
                b"{" + (arrived(source, path, record) if source else piece(record))
                for record, source, path in made
            ),
        )
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            if parts.scheme == "https":
                context = ssl.create_default_context()
                connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                    parts.hostname or "", parts.port, timeout=PATIENCE, context=context
                )
            else:
                connection = http.client.HTTPConnection(
                    parts.hostname or "", parts.port, timeout=PATIENCE
                )
            try:
                connection.request("POST", path, body, self._headers(body))
                status = connection.getresponse().status
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            return Problem(str(error) or type(error).__name__)
        return None if 200 <= status < 300 else Problem(f"answered {status}")

    def _headers(self, body: bytes) -> dict[str, str]:
        moment = str(int(time.time()))
        signed = signature(str(self.target.get("secret", "")), moment, body)
        return {"Content-Type": "application/json", "Tamis-Time": moment,
                "Tamis-Signature": f"sha256={signed}"}  # fmt: skip


def signature(secret: str, moment: str, body: bytes) -> str:
    """HMAC-SHA256 of the time, a dot, and the body."""
    return hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()

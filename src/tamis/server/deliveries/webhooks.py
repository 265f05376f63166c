"""Webhooks: messages are posted to an address, signed with HMAC-SHA256."""

from __future__ import annotations

import hashlib
import hmac
import time

from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.subscription import Subscription
from tamis.server.deliveries.delivery import Arrived, Delivery, Problem, Tally
from tamis.server.deliveries.posting import Address, Poster
from tamis.server.deliveries.sealing import Sealing
from tamis.server.frames import arrived, encode, piece
from tamis.server.hub import Hub


class Webhook(Delivery):
    def __init__(
        self,
        hub: Hub,
        subscription: Subscription,
        tally: Tally,
        poster: Poster,
        sealing: Sealing,
    ) -> None:
        super().__init__(hub, subscription, tally)
        self._poster, self._sealing, self._secret = poster, sealing, ""

    def check(self) -> None:
        Address.parse(str(self.target["webhook"]))
        sealed = str(self.target.get("sealed", ""))
        self._secret = self._sealing.open(sealed) if sealed else ""

    async def send(self, made: list[Arrived], lost: list[act.Lost]) -> Problem | None:
        """An answer of 2xx takes them."""
        address, principal = Address.parse(str(self.target["webhook"])), self.subscription.principal
        async with self._poster.turns.turn(principal, address.host):
            body = self._body(made, lost)
            try:
                status = await self._poster.post(principal, address, self._headers(body), body)
            except OSError as error:
                return Problem(str(error) or type(error).__name__)
        return None if 200 <= status < 300 else Problem(f"answered {status}")

    def _body(self, made: list[Arrived], lost: list[act.Lost]) -> bytes:
        holes = [{"first": one.first, "last": one.last, "reason": one.reason} for one in lost]
        return b'{"subscription":"%b","messages":[%b]%b}' % (
            self.subscription.name.encode(),
            b",".join(
                b"{" + (arrived(source, path, record) if source else piece(record))
                for record, source, path in made
            ),
            b',"lost":%b' % encode(holes) if holes else b"",
        )

    def _headers(self, body: bytes) -> dict[str, str]:
        moment = str(int(time.time()))
        signed = signature(self._secret, moment, body)
        return {"Content-Type": "application/json", "Tamis-Time": moment,
                "Tamis-Signature": f"sha256={signed}"}  # fmt: skip


def signature(secret: str, moment: str, body: bytes) -> str:
    """HMAC-SHA256 of the time, a dot, and the body."""
    return hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()

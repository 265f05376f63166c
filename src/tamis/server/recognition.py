"""Who calls, for every protocol. Looking up and hashing have threads of their own, with fair shares
by address; what can be refused without hashing is refused first.
"""

from __future__ import annotations

from tamis.server.access import Caller, Door, basic, hashed, unknown, verified
from tamis.server.guesses import Guesses, Results, network
from tamis.server.turns import Pool

LOOKUP_THREADS = 2
HASHING_THREADS = 1  # argon2 takes 64 MB and several cores by itself
HASHING_QUEUE = 4  # passwords of one address that wait for their hash


class Recognition:
    """Recognises callers; `address` is where they call from."""

    def __init__(self, door: Door) -> None:
        self.door, self.guesses = door, Guesses()
        self._lookups = Pool("recognition", LOOKUP_THREADS, LOOKUP_THREADS)
        self._hashing = Pool("passwords", HASHING_THREADS, HASHING_THREADS, HASHING_QUEUE)
        self._results = Results()

    async def caller(self, authorization: str | None, address: str) -> Caller:
        """The caller of an Authorization header, or of none."""
        kind, _, secret = (authorization or "").partition(" ")
        if kind.lower() == "basic":
            login, _, password = basic(secret).partition(":")
            return await self.by_password(login, password, address)
        return await self._lookups.run(network(address), self.door.recognise, authorization)

    async def by_token(self, secret: str, address: str) -> Caller:
        return await self._lookups.run(network(address), self.door.by_token, secret)

    async def by_password(self, login: str, password: str, address: str) -> Caller:
        """A password that was right lately never waits for those that are wrong."""
        address = network(address)
        caller, stored = await self._lookups.run(address, self.door.claimed, login)
        if not await self._right(login, stored, password, address) or caller is None:
            raise unknown()
        return caller

    async def _right(self, login: str, stored: str, password: str, address: str) -> bool:
        digest = self._results.digest(login, stored, password)
        known = self._results.get(digest)
        if known is not None:
            return known
        self.guesses.check(address, login)
        right = await self._hashing.run(address, verified, stored, password)
        self._results.put(digest, right)
        (self.guesses.succeeded if right else self.guesses.failed)(address, login)
        return right

    async def hashed(self, password: str, principal: str) -> str:
        """A new password as the registry keeps it; `principal` is who sets it."""
        return await self._hashing.run(principal, hashed, password)

    def close(self) -> None:
        self._lookups.close()
        self._hashing.close()

"""Who calls, for every protocol. Looking up and hashing have threads of their own, with fair shares
by address; what can be refused without hashing is refused first.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NoReturn

from tamis.errors import AccessError, BusyError
from tamis.server.access import Caller, Door, basic, digest, hashed, unknown, verified
from tamis.server.guesses import MOST, Guesses, Refusals, Results, network
from tamis.server.turns import Pool

Claim = tuple[Caller | None, str]  # who it is, None: nobody; the hash of their password

LOOKUP_THREADS = 2
HASHING_THREADS = 1  # argon2 takes 64 MB and several cores by itself
HASHING_QUEUE = 4  # passwords of one address that wait for their hash
_UNNAMED = ""  # the key of those who do not say who they are


class Claims:
    """What was looked up in the registry; forgotten as soon as rights may have changed."""

    def __init__(self, door: Door) -> None:
        self._door, self._seen = door, door.renewals
        self._known: OrderedDict[str, Claim] = OrderedDict()

    def get(self, key: str) -> Claim | None:
        if self._seen != self._door.renewals:
            self._known.clear()
            self._seen = self._door.renewals
        return self._known.get(key)

    def put(self, key: str, claim: Claim, seen: int) -> None:
        """`seen`: `Door.renewals` before it was looked up."""
        if seen == self._seen == self._door.renewals:
            self._known[key] = claim
            if len(self._known) > MOST:
                self._known.popitem(last=False)


class Recognition:
    """Recognises callers; `address` is where they call from.

    Who was recognised, or refused, is remembered: the next time it costs no thread.
    """

    def __init__(self, door: Door) -> None:
        self.door, self.guesses = door, Guesses()
        self._lookups = Pool("recognition", LOOKUP_THREADS, LOOKUP_THREADS)
        self._hashing = Pool("passwords", HASHING_THREADS, HASHING_THREADS, HASHING_QUEUE)
        self._results, self._refusals = Results(), Refusals()
        self._callers, self._logins = Claims(door), Claims(door)

    async def caller(self, authorization: str | None, address: str) -> Caller:
        """The caller of an Authorization header, or of none."""
        kind, _, secret = (authorization or "").partition(" ")
        if kind.lower() == "basic":
            login, _, password = basic(secret).partition(":")
            return await self.by_password(login, password, address)
        if kind.lower() == "bearer":
            return await self.by_token(secret.strip(), address)
        if authorization:
            await self._refuse(address)
        return await self._known(_UNNAMED, lambda: self.door.recognise(None), address)

    async def by_token(self, secret: str, address: str) -> Caller:
        return await self._known(digest(secret), lambda: self.door.by_token(secret), address)

    async def _known(self, key: str, recognise: Callable[[], Caller], address: str) -> Caller:
        claim, seen = self._callers.get(key), self.door.renewals
        if claim is None or _has_run_out(claim[0]):
            claim = await self._lookups.run(network(address), _claim, recognise)
            self._callers.put(key, claim, seen)
        return claim[0] or await self._refuse(address)

    async def by_password(self, login: str, password: str, address: str) -> Caller:
        """A password that was right lately never waits for those that are wrong."""
        address = network(address)
        claim, seen = self._logins.get(login), self.door.renewals
        if claim is None:
            claim = await self._lookups.run(address, self.door.claimed, login)
            self._logins.put(login, claim, seen)
        caller, stored = claim
        if not await self._right(login, stored, password, address) or caller is None:
            return await self._refuse(address)
        return caller

    async def _refuse(self, address: str) -> NoReturn:
        await self._refusals.wait(network(address))
        raise unknown()

    async def _right(self, login: str, stored: str, password: str, address: str) -> bool:
        digest = self._results.digest(login, stored, password)
        known = self._results.get(digest)
        if known is not None:
            return known
        try:
            self.guesses.check(address, login)
            right = await self._hashing.run(address, verified, stored, password)
        except BusyError:
            await self._refusals.wait(address)
            raise
        self._results.put(digest, right)
        (self.guesses.succeeded if right else self.guesses.failed)(address, login)
        return right

    async def hashed(self, password: str, principal: str) -> str:
        """A new password as the registry keeps it; `principal` is who sets it."""
        return await self._hashing.run(principal, hashed, password)

    def close(self) -> None:
        self._lookups.close()
        self._hashing.close()


def _claim(recognise: Callable[[], Caller]) -> Claim:
    try:
        return recognise(), ""
    except AccessError:
        return None, ""


def _has_run_out(caller: Caller | None) -> bool:
    return caller is not None and 0 < caller.expires < time.time() * 1e6

"""Wrong passwords: remembered, and answered with growing pauses."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from tamis.errors import BusyError

MOST = 10_000  # addresses, logins and passwords of each kind that are remembered
RIGHT_SECONDS, WRONG_SECONDS = 3600.0, 600.0  # for which the result of a password is remembered
FORGET_SECONDS = 900.0  # without a wrong password, after which an address or a login is as before
FIRST_PAUSE = 1.0  # seconds; it doubles with each further wrong password
FREE, LONGEST_PAUSE = 5, 60.0  # wrong passwords of one address for one login; seconds
SHARED_FREE, SHARED_PAUSE = 30, 5.0  # the same for an address, and for a login: many may share it
REFUSALS_AT_ONCE, REFUSALS_PER_SECOND = 200, 50  # of one address that are told without delay
LATEST_REFUSAL = 5.0  # seconds after which every refusal is told
Clock = Callable[[], float]


class Results:
    """Which passwords are right and which are wrong, as far as they were seen lately.

    Keys are hashes with a key of this process, so nothing here helps to guess a password.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock, self._key = clock, secrets.token_bytes(32)
        self._known: dict[bool, OrderedDict[bytes, float]] = {
            right: OrderedDict() for right in (True, False)
        }

    def digest(self, login: str, stored: str, password: str) -> bytes:
        """The login counts: all that do not exist have one hash, which would give them away."""
        text = f"{len(login)} {len(stored)} {login}{stored}{password}".encode(errors="replace")
        return hashlib.blake2b(text, key=self._key, digest_size=32).digest()

    def get(self, digest: bytes) -> bool | None:
        """None: it has to be verified."""
        for right, known in self._known.items():
            if known.get(digest, 0) > self._clock():
                if right:
                    self.put(digest, right)  # who comes often is never verified again
                return right
        return None

    def put(self, digest: bytes, right: bool) -> None:
        known = self._known[right]
        known.pop(digest, None)
        known[digest] = self._clock() + (RIGHT_SECONDS if right else WRONG_SECONDS)
        if len(known) > MOST:
            known.popitem(last=False)


class Pauses:
    """After `free` failures each further one makes the next pause of its key twice as long."""

    def __init__(self, free: int, longest: float, clock: Clock = time.monotonic) -> None:
        self._free, self._longest, self._clock = free, longest, clock
        self._known: OrderedDict[str, tuple[int, float]] = OrderedDict()  # failures, last time

    def __contains__(self, key: str) -> bool:
        return self._failures(key) > 0

    def left(self, key: str) -> float:
        """Seconds until the next attempt; 0: now."""
        failures = self._failures(key)
        if failures < self._free:
            return 0.0
        pause = min(FIRST_PAUSE * 2.0 ** min(failures - self._free, 60), self._longest)
        return max(self._known[key][1] + pause - self._clock(), 0.0)

    def failed(self, key: str) -> None:
        failures = self._failures(key)
        self._known.pop(key, None)
        self._known[key] = failures + 1, self._clock()
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def forget(self, key: str) -> None:
        self._known.pop(key, None)

    def _failures(self, key: str) -> int:
        failures, last = self._known.get(key, (0, 0.0))
        return failures if self._clock() - last < FORGET_SECONDS else 0


class Guesses:
    """Wrong passwords by address and login.

    An address that guesses the password of one login waits long; all that it guesses together, and
    all guesses of a login together, wait a little: others may share the address, and the owner of
    the login comes from an address without failures, which never waits for those of others.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._pairs = Pauses(FREE, LONGEST_PAUSE, clock)
        self._addresses = Pauses(SHARED_FREE, SHARED_PAUSE, clock)
        self._logins = Pauses(SHARED_FREE, SHARED_PAUSE, clock)
        self.refused = 0

    def check(self, address: str, login: str) -> None:
        """BusyError while the pause lasts."""
        pair = f"{address} {login}"
        left = max(self._pairs.left(pair), self._addresses.left(address))
        if pair in self._pairs:
            left = max(left, self._logins.left(login))
        if left:
            self.refused += 1
            raise BusyError(
                f"too many wrong passwords: try again in {math.ceil(left)} s", retry=left
            )

    def failed(self, address: str, login: str) -> None:
        self._pairs.failed(f"{address} {login}")
        self._addresses.failed(address)
        self._logins.failed(login)

    def succeeded(self, address: str, login: str) -> None:
        self._pairs.forget(f"{address} {login}")


class Refusals:
    """Who is refused and comes back at once is answered later and later, up to `LATEST_REFUSAL`.

    Refusing takes the time of others: an address gets so many a second, its first ones at once.
    Who is recognised never waits here.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._next: OrderedDict[str, float] = OrderedDict()  # when the next one is due

    def delay(self, address: str) -> float:
        """Seconds until this refusal may be told."""
        now = self._clock()
        due = max(self._next.pop(address, 0.0), now - REFUSALS_AT_ONCE / REFUSALS_PER_SECOND)
        due = min(due + 1 / REFUSALS_PER_SECOND, now + LATEST_REFUSAL)
        self._next[address] = due
        if len(self._next) > MOST:
            self._next.popitem(last=False)
        return max(due - now, 0.0)

    async def wait(self, address: str) -> None:
        if delay := self.delay(address):
            await asyncio.sleep(delay)


def network(address: str) -> str:
    """What counts as one address: of IPv6 the first 64 bits, for one host has all the others."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)

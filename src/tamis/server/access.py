"""Who calls, and what they may do. Everything that no right allows is denied."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import secrets
import time
from dataclasses import dataclass, field

from tamis.errors import AccessError, SubjectError
from tamis.pubsub.subjects.subject import Subject, SubjectFilter
from tamis.registry import VERBS, Principal, Registry, Right, Token
from tamis.registry.registry_values import MAIN, Verb

LOCAL, LOCAL_TENANT = "local", MAIN
_EVERYTHING = SubjectFilter.parse(">")


@dataclass(frozen=True)
class Caller:
    """Somebody who was recognised. `rights` None: the owner of the machine, who may do all.

    `proof` is the hash that they were recognised by: of a token, or of their password.
    """

    name: str  # its login
    tenant: str
    rights: tuple[Right, ...] | None = None
    verbs: tuple[Verb, ...] = VERBS
    selector: str = ""
    rate: float = 0.0
    subscriptions: int = 0
    proof: str = field(default="", repr=False)
    expires: int = 0  # microseconds since 1970; 0: never
    seen: int = field(default=0, compare=False)  # `Door.renewals` before it was recognised

    @property
    def qualified(self) -> str:
        """TENANT/NAME, of the main tenant, too."""
        return self.name if self.tenant != MAIN else f"{MAIN}/{self.name}"

    def may(
        self, verb: Verb, channel: str, subjects: Subject | SubjectFilter | None = None
    ) -> bool:
        if verb not in self.verbs:
            return False
        if self.rights is None:
            return True
        return any(
            right.verb == verb
            and right.channel in ("*", channel)
            and _includes(right.subjects, subjects)
            for right in self.rights
        )

    def require(
        self, verb: Verb, channel: str, subjects: Subject | SubjectFilter | None = None
    ) -> None:
        if not self.may(verb, channel, subjects):
            on = f" on {subjects}" if subjects is not None else ""
            raise AccessError(f"{self.name} has no right to {verb}{on} in {channel}")

    def operates(self) -> bool:
        """Whether the router itself is theirs, beyond the channels of a tenant."""
        return self.tenant == MAIN and self.may("manage", "*")

    def require_router(self) -> None:
        if not self.operates():
            raise AccessError(f"{self.name} has no right to manage the router: that is for "
                              f"managers of all channels of the tenant {MAIN}")  # fmt: skip

    def filters(self, verb: Verb, channel: str) -> tuple[str, ...]:
        """The subjects on which it has the right, as subject filters."""
        if verb not in self.verbs or self.rights is None:
            return (">",) if verb in self.verbs else ()
        return tuple(right.subjects for right in self.rights
                     if right.verb == verb and right.channel in ("*", channel))  # fmt: skip

    def reads_all(self, channel: str) -> bool:
        """Whether every message of the channel may be read: on all subjects, without a mandatory
        selector."""
        return not self.selector and self.may("subscribe", channel, _EVERYTHING)

    def sees_figures(self, channel: str) -> bool:
        """Whether it may know how much passes through the channel, and who subscribes."""
        return self.may("manage", channel) or self.reads_all(channel)

    def require_subscriptions(self, channel: str) -> None:
        """Who subscribes has subscriptions of its own; who manages the channel sees all."""
        if not self.may("manage", channel):
            self.require("subscribe", channel)

    def may_any(self, verb: Verb | None = None) -> bool:
        """Whether it has the right anywhere; any right, if none is named."""
        verbs = self.verbs if verb is None else (verb,)
        own = verbs if self.rights is None else [right.verb for right in self.rights]
        return bool(set(verbs) & set(own) & set(self.verbs))

    def require_any(self, verb: Verb | None = None) -> None:
        """Whoever has no right at all learns nothing, not even that there is nothing to see."""
        if not self.may_any(verb):
            raise AccessError(f"{self.name} has no right to {verb or 'anything'}")

    def require_sight(self, channel: str) -> None:
        """Some right on channels of this name, whether there is one or not: so who has none cannot
        learn which there are."""
        if not self.sees(channel):
            raise AccessError(f"{self.name} has no right to anything in {channel}")

    def sees(self, channel: str) -> bool:
        """Whether the caller may know of channels of this name."""
        if self.rights is None:
            return bool(self.verbs)
        return any(self.may(verb, channel) for verb in self.verbs)


def _includes(pattern: str, subjects: Subject | SubjectFilter | None) -> bool:
    if subjects is None:
        return True
    try:
        own = SubjectFilter.parse(pattern)
    except SubjectError:
        return False
    return own.matches(subjects) if isinstance(subjects, Subject) else own.covers(subjects)


@dataclass
class Door:
    """Recognises callers. `local`: the server listens on the loopback only."""

    registry: Registry
    local: bool
    renewals: int = 0  # how often rights may have changed
    _open: tuple[int, bool] = (-1, False)  # `renewals` when it was looked up, and the result

    @property
    def open(self) -> bool:
        """Nobody was registered, and nobody from outside can come: all is allowed.

        Asked at every request, so it is looked up once for each change of rights."""
        seen = self.renewals
        if self._open[0] != seen:
            self._open = seen, self.local and not self.registry.principals()
        return self._open[1]

    def recognise(self, authorization: str | None) -> Caller:
        """The caller of an Authorization header; passwords are for `Recognition`."""
        kind, _, secret = (authorization or "").partition(" ")
        if kind.lower() == "bearer":
            return self.by_token(secret.strip())
        seen = self.renewals
        if not authorization and self.open:
            return Caller(LOCAL, LOCAL_TENANT, seen=seen)
        raise unknown()

    def renewed(self, caller: Caller) -> Caller:
        """The same caller as things are now; AccessError where nobody would be recognised."""
        if caller.rights is None:
            return self.recognise(None)
        seen, token = self.renewals, self.registry.token(caller.proof)
        if token is not None:
            return self._of_token(token, seen)
        principal = self._principal(caller.name)
        if principal is None or not caller.proof or principal.password != caller.proof:
            raise unknown()
        return self._caller(principal, VERBS, seen, caller.proof)

    def principal(self, login: str) -> Caller | None:
        """What a principal may do by itself; None: there is none. Whoever came without saying who
        they are may do nothing any more once there is a principal."""
        found = self._principal(login)
        if found is not None:
            return self._caller(found, VERBS, self.renewals)
        return Caller(LOCAL, LOCAL_TENANT) if login == LOCAL and self.open else None

    def by_token(self, secret: str) -> Caller:
        seen, token = self.renewals, self.registry.token(digest(secret))
        if token is None:
            raise unknown()
        return self._of_token(token, seen)

    def _of_token(self, token: Token, seen: int) -> Caller:
        principal = self._principal(token.principal)
        if principal is None or (token.expires and token.expires < time.time() * 1e6):
            raise unknown()
        return self._caller(principal, token.verbs, seen, token.digest, token.expires)

    def claimed(self, login: str) -> tuple[Caller | None, str]:
        """Who it is if the password is right, and the hash to verify it by. A login that does not
        exist has one as well: refusing it must not cost less."""
        seen, principal = self.renewals, self._principal(login)
        if principal is None or not principal.password:
            return None, _nobodys()
        return self._caller(principal, VERBS, seen, principal.password), principal.password

    def _principal(self, login: str) -> Principal | None:
        return next((p for p in self.registry.principals() if p.login == login), None)

    def _caller(
        self,
        principal: Principal,
        verbs: tuple[Verb, ...],
        seen: int,
        proof: str = "",
        expires: int = 0,
    ) -> Caller:
        rights = tuple(self.registry.rights(principal.login))
        return Caller(principal.login, principal.tenant, rights, verbs, principal.selector,
                      principal.rate, principal.subscriptions, proof, expires, seen)  # fmt: skip


def unknown() -> AccessError:
    """A new one each time: an error that is raised again and again would hold on to the frames of
    all who were refused."""
    return AccessError("say who you are: a token or a password is needed", known=False)


def basic(secret: str) -> str:
    try:
        return base64.b64decode(secret, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise unknown() from None


def verified(stored: str, password: str) -> bool:
    """Whether the password has this hash. Takes tens of milliseconds and 64 MB, on purpose."""
    from argon2 import PasswordHasher
    from argon2.exceptions import Argon2Error, InvalidHashError

    try:
        return PasswordHasher().verify(stored, password)
    except (Argon2Error, InvalidHashError):
        return False


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def hashed(password: str) -> str:
    """A password as the registry keeps it."""
    from argon2 import PasswordHasher

    return PasswordHasher().hash(password)


@functools.cache
def _nobodys() -> str:
    """The hash of a password that nobody has."""
    return hashed(secrets.token_urlsafe(32))


def new_token(
    registry: Registry,
    principal: str,
    label: str = "",
    verbs: tuple[Verb, ...] = VERBS,
    seconds: float = 0,
) -> str:
    """A new secret, which is told only here."""
    secret = secrets.token_urlsafe(32)
    expires = int((time.time() + seconds) * 1e6) if seconds else 0
    registry.put_token(Token(digest(secret), principal, label, verbs, expires))
    return secret

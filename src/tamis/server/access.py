"""Who calls, and what they may do. Everything that no right allows is denied."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import time
from dataclasses import dataclass, field

from tamis.errors import AccessError, SubjectError
from tamis.pubsub.subject import Subject, SubjectFilter
from tamis.registry import VERBS, Principal, Registry, Right, Token
from tamis.registry.values import Verb

LOCAL_TENANT = "main"
_NOBODY = AccessError("say who you are: a token or a password is needed", known=False)


@dataclass(frozen=True)
class Caller:
    """Somebody who was recognised. `rights` None: the owner of the machine, who may do all."""

    name: str
    tenant: str
    rights: tuple[Right, ...] | None = None
    verbs: tuple[Verb, ...] = VERBS
    selector: str = ""
    rate: float = 0.0
    subscriptions: int = 0

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

    def require_any(self) -> None:
        """Whoever has no right at all learns nothing, not even that there is nothing to see."""
        if self.rights == ():
            raise AccessError(f"{self.name} has no rights")

    def sees(self, channel: str) -> bool:
        """Whether the channel exists, as far as the caller may know."""
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
    _verified: dict[bytes, float] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Nobody was registered, and nobody from outside can come: all is allowed."""
        return self.local and not self.registry.principals()

    def recognise(self, authorization: str | None) -> Caller:
        """The caller of an Authorization header; slow for a password that was not seen lately."""
        kind, _, secret = (authorization or "").partition(" ")
        if kind.lower() == "bearer":
            return self.by_token(secret.strip())
        if kind.lower() == "basic":
            name, _, password = _basic(secret).partition(":")
            return self.by_password(name, password)
        if not authorization and self.open:
            return Caller("local", LOCAL_TENANT)
        raise _NOBODY

    def by_token(self, secret: str) -> Caller:
        token = self.registry.token(digest(secret))
        if token is None or (token.expires and token.expires < time.time() * 1e6):
            raise _NOBODY
        return self._caller(token.principal, token.verbs)

    def by_password(self, name: str, password: str) -> Caller:
        principal = next((p for p in self.registry.principals() if p.name == name), None)
        if principal is None or not principal.password or not self._right(principal, password):
            raise _NOBODY
        return self._caller(name, VERBS)

    def _right(self, principal: Principal, password: str) -> bool:
        """Verifying takes tens of milliseconds on purpose, so a right password is remembered."""
        from argon2 import PasswordHasher
        from argon2.exceptions import Argon2Error, InvalidHashError

        known = hashlib.sha256(f"{principal.password}\0{password}".encode()).digest()
        if self._verified.get(known, 0) > time.monotonic():
            return True
        try:
            PasswordHasher().verify(principal.password, password)
        except (Argon2Error, InvalidHashError):
            return False
        if len(self._verified) > 1000:
            self._verified.clear()
        self._verified[known] = time.monotonic() + 300
        return True

    def _caller(self, name: str, verbs: tuple[Verb, ...]) -> Caller:
        principal = next((p for p in self.registry.principals() if p.name == name), None)
        if principal is None:
            raise _NOBODY
        return Caller(name, principal.tenant, tuple(self.registry.rights(name)), verbs,
                      principal.selector, principal.rate, principal.subscriptions)  # fmt: skip


def _basic(secret: str) -> str:
    try:
        return base64.b64decode(secret, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise _NOBODY from None


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def hashed(password: str) -> str:
    """A password as the registry keeps it."""
    from argon2 import PasswordHasher

    return PasswordHasher().hash(password)


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

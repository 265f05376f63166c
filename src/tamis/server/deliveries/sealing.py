"""Secrets of webhooks as they are stored: encrypted with a key in a file of its own.

AES-SIV encrypts the same secret to the same text, so a subscription that is put once more as it was
does not change. cryptography is imported by the first secret.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.errors import RegistryError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

KEY = "webhooks.key"  # in the directory of the broker, unless another file is named
_BYTES = 64
Target = dict[str, str | int]


class Sealing:
    """`path`: the file of the key. The first secret that is encrypted makes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cipher: AESSIV | None = None

    def seal(self, secret: str) -> str:
        return base64.b64encode(self._known(make=True).encrypt(secret.encode(), None)).decode()

    def open(self, sealed: str) -> str:
        """RegistryError if the key is missing, or another one."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._known().decrypt(base64.b64decode(sealed), None).decode()
        except (InvalidTag, ValueError):
            raise RegistryError(
                f"{self.path}: the secret was encrypted with another key",
                "restore the file from a backup, or give the subscription a new secret",
            ) from None

    def sealed(self, target: Target) -> Target:
        """The target of a webhook as it is stored; earlier versions stored its secret as it is."""
        secret = str(target.get("secret", ""))
        others = {name: value for name, value in target.items() if name != "secret"}
        return {**others, "sealed": self.seal(secret)} if secret else others

    def _known(self, make: bool = False) -> AESSIV:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        if self._cipher is None:
            try:
                self._cipher = AESSIV(self._key(make))
            except OSError as error:
                raise RegistryError(
                    f"{self.path}: {error.strerror}",
                    "it has the key for the secrets of webhooks: restore it from a backup, or give "
                    "all webhooks new secrets",
                    status=503,
                ) from None
        return self._cipher

    def _key(self, make: bool) -> bytes:
        if make and not self.path.exists():
            _write_new(self.path, secrets.token_hex(_BYTES).encode() + b"\n")
        text = self.path.read_bytes().strip()
        with contextlib.suppress(ValueError):
            key = bytes.fromhex(text.decode("latin-1"))
            if len(key) == _BYTES:
                return key
        raise RegistryError(
            f"{self.path} holds no key: {2 * _BYTES} hexadecimal digits",
            "restore the file from a backup, or remove it and give all webhooks new secrets",
            status=503,
        )


def _write_new(path: Path, data: bytes) -> None:
    """Whole or not at all; a file that another broker wrote meanwhile stays."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    place = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(place, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

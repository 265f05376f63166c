"""A server in the background: started, waited for until it listens, and stopped.

A server says that it listens by the protocol of systemd (`sd_notify`, Type=notify), so a service
manager is answered by the same words.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tamis.errors import DeadlineError, InputError

LOG_NAME = "server.log"
_MAIN = "import sys; from tamis.cli import main; sys.exit(main())"
_ADDRESS = "NOTIFY_SOCKET"
_POLL = 0.1  # seconds between two looks whether a process has ended


def announce(status: str) -> None:
    """Tell the process that started this one, if it asked, that the server is ready."""
    address = os.environ.get(_ADDRESS)
    if not address:
        return
    if address.startswith("@"):  # Linux: a name that is not a file
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer, contextlib.suppress(OSError):
        peer.sendto(f"READY=1\nSTATUS={status}\n".encode(), address)


def start(directory: Path, arguments: Sequence[str], secrets: Mapping[str, str]) -> str:
    """Run `tamis serve DIRECTORY ARGUMENTS` in a session of its own; returns, once it listens, what
    it announced. If it ends before, InputError has what it logged. `secrets`: more variables of its
    environment."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ears,
        _opened(directory) as log,
    ):
        address = f"{folder}/ready"
        ears.bind(address)
        ears.settimeout(_POLL)
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, "serve", str(directory.absolute()), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **secrets, _ADDRESS: address},
        )
        begin = log.tell()
        try:
            while process.poll() is None:
                with contextlib.suppress(TimeoutError):
                    told = ears.recv(4096).decode().partition("STATUS=")[2]
                    return f"{told.strip()} (process {process.pid})"
        except BaseException:  # Ctrl-C: it is wanted no more
            process.terminate()
            process.wait()
            raise
        log.seek(begin)
        said = log.read().decode(errors="replace").strip()
        raise InputError(said or f"the server ended with code {process.returncode}")


def stop(directory: Path, timeout: float) -> int:
    """Ask the server of the directory to stop, wait until it has; returns its process id."""
    try:
        lock = os.open(directory / "lock", os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{directory}: no broker was ever run here ({error.strerror})") from None
    with os.fdopen(lock) as file:
        if _free(lock):
            raise InputError(f"{directory}: no broker runs here")
        text = file.read().strip()
        if not text.isdigit():
            raise InputError(f"{directory}: the broker that runs here did not write its process id")
        os.kill(int(text), signal.SIGTERM)
        end = time.monotonic() + timeout
        while not _free(lock):
            if time.monotonic() > end:
                raise DeadlineError(f"process {text} did not stop within {timeout:g} s")
            time.sleep(_POLL)
    return int(text)


def _free(lock: int) -> bool:
    """Whether no server holds the lock. The lock is let go at once."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True


def _opened(directory: Path) -> IO[bytes]:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = os.open(directory / LOG_NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise InputError(f"{error.filename or directory}: {error.strerror}") from None
    file = os.fdopen(number, "r+b", buffering=0)
    file.seek(0, os.SEEK_END)
    return file

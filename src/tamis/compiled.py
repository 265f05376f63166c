"""Where compiled kernels are kept, and from which sources they were compiled.

numba keeps compiled kernels beside their module and compiles again when that module
changes, but not when a kernel that it calls, or a constant that it uses, changes in
another module. So all modules with kernels, and the modules that they import, share one
stamp. Where it differs, everything compiled is thrown away. A module has kernels if it
imports a decorator of tamis.kernel.

Where the package's own folders are read-only, the folder is one of the user's, or a temporary one,
and begins with what was compiled into the package by others (`tamis warm` in an image).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_name
from numba import config
from numba.core import caching

_ROOT = Path(__file__).parent
_IMPORT = re.compile(rb"^from (tamis\.[\w.]+) import (\w+)", re.MULTILINE)
_DECORATORS = re.compile(rb"^from tamis\.kernel import .*\b(kernel|shared|vector)\b", re.MULTILINE)
_COMPILED = "*.nb[ci]"
_PAUSE = 0.1  # seconds after which is looked again whether another process has compiled all


def modules() -> list[Path]:
    """The modules that have kernels."""
    sources = ((path, path.read_bytes()) for path in _ROOT.rglob("*.py"))
    return sorted(path for path, source in sources if _DECORATORS.search(source))


def _sources(found: list[Path]) -> list[Path]:
    """All that decides how the kernels of these modules compile."""
    imported = {
        _ROOT.parent.joinpath(*name.decode().split("."))
        for path in found
        for module, name_in_it in _IMPORT.findall(path.read_bytes())
        for name in (module, module + b"." + name_in_it)
    }
    return sorted(
        {*found, *(path for base in imported if (path := base.with_suffix(".py")).exists())}
    )


class Store:
    """The compiled kernels of the sources as they are. `elsewhere`: not beside the modules."""

    def __init__(self) -> None:
        self._modules = modules()
        parts = map(Path.read_bytes, _sources(self._modules))
        self.stamp = hashlib.sha256(b"".join(parts)).hexdigest()
        self._mark = f"{self.stamp} {sys.version} {numba.__version__} {get_host_cpu_name()}"
        self.elsewhere: Path | None = None
        own = _ROOT / "__pycache__"
        if _writable(own):
            self._refresh(own / "kernels.stamp")
        else:
            self.elsewhere = self._other_folder()
        folder = self.elsewhere or own
        self._ready, self._lock = folder / "kernels.ready", folder / "kernels.lock"
        if self.elsewhere and not self.ready and _read(own / "kernels.ready") == self._mark:
            self._copy()

    def _refresh(self, kept: Path) -> None:
        """Drop what was compiled from other sources."""
        if _read(kept) != self.stamp:
            for folder in {path.parent / "__pycache__" for path in self._modules}:
                for compiled in folder.glob(_COMPILED):
                    compiled.unlink(missing_ok=True)
            kept.write_text(self.stamp)

    def _other_folder(self) -> Path | None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        temporary = Path(tempfile.gettempdir()) / f"tamis-{os.getuid()}"
        folders = (base / f"kernels-{self.stamp[:16]}" for base in (home / "tamis", temporary))
        return next(filter(_own, folders), None)

    def _copy(self) -> None:
        """Take over what is compiled beside the modules."""
        assert self.elsewhere is not None
        with contextlib.suppress(OSError):
            for path in self._modules:
                to = self.elsewhere / _subpath(path)
                to.mkdir(parents=True, exist_ok=True)
                for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.{_COMPILED}"):
                    shutil.copy(compiled, to)
            self.all_compiled()

    @property
    def ready(self) -> bool:
        """Whether all kernels are compiled, for this kind of processor."""
        return _read(self._ready) == self._mark

    def all_compiled(self) -> None:
        """Remember that all of them are."""
        with contextlib.suppress(OSError):
            self._ready.write_text(self._mark)

    def count(self) -> int:
        """How many kernels are compiled by now."""
        folders = {
            self.elsewhere / _subpath(path) if self.elsewhere else path.parent / "__pycache__"
            for path in self._modules
        }
        return sum(1 for folder in folders for _ in folder.glob("*.nbi"))

    @contextlib.contextmanager
    def to_compile(self) -> Iterator[int | None]:
        """One process compiles at a time, others wait here. Inside it is the turn of this one: the
        file descriptor of the lock, or None if all is compiled.

        A process that inherits the descriptor goes on with the turn if this one dies. The lock is
        released by name, as a fork of this process may hold the file open for hours.
        """
        with self._lock.open("w") as file:
            while not self.ready:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(_PAUSE)
                    continue
                try:
                    yield None if self.ready else file.fileno()
                finally:
                    fcntl.flock(file, fcntl.LOCK_UN)
                return
            yield None

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Kernels that are made inside are kept here."""
        before = config.CACHE_DIR  # type: ignore[attr-defined]
        if self.elsewhere is not None:
            config.CACHE_DIR = str(self.elsewhere)  # type: ignore[attr-defined]
        try:
            yield
        finally:
            config.CACHE_DIR = before  # type: ignore[attr-defined]


def _subpath(module: Path) -> str:
    """Where numba keeps what belongs to a module, in a folder that it was given."""
    find: Any = caching._CacheLocator.get_suitable_cache_subpath
    return str(find(str(module)))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _own(folder: Path) -> bool:
    """Whether it can be written, and by nobody else: what is in it will be run."""
    if not _writable(folder):
        return False
    known = (folder.stat(), folder.parent.stat())
    return all(
        s.st_uid == os.getuid() and not s.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for s in known
    )

"""Where compiled kernels are kept, and from which sources they were compiled.

numba keeps compiled kernels beside their module and compiles again when that module
changes, but not when a kernel that it calls, or a constant that it uses, changes in
another module. So all modules with kernels, and the modules that they import, share one
stamp. Where it differs, everything compiled is thrown away. A module has kernels if it
imports a decorator of tamis.jit.kernel.

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
import threading
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_name
from numba import config
from numba.core import caching

_ROOT = Path(__file__).parents[1]
_OWN = _ROOT / "__pycache__"
_READY = "kernels.ready"
_LOCK = threading.RLock()
_IMPORT = re.compile(rb"^from (tamis\.[\w.]+) import (\w+)", re.MULTILINE)
_DECORATORS = re.compile(
    rb"^from tamis\.jit\.kernel import .*\b(kernel|shared|vector)\b", re.MULTILINE
)
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


class Cache:
    """The compiled kernels of the sources as they are. `elsewhere`: not beside the modules.

    Sources are read when the first kernel is called, and nothing is written before one is loaded or
    compiled: who imports Tamis to read it changes nothing.
    """

    @cached_property
    def _modules(self) -> list[Path]:
        return modules()

    @cached_property
    def stamp(self) -> str:
        parts = map(Path.read_bytes, _sources(self._modules))
        return hashlib.sha256(b"".join(parts)).hexdigest()

    @cached_property
    def _mark(self) -> str:
        return f"{self.stamp} {sys.version} {numba.__version__} {get_host_cpu_name()}"

    @cached_property
    def elsewhere(self) -> Path | None:
        """The folder that is used instead of the package's own, if those are read-only. Files of
        other sources are dropped now."""
        with _LOCK:
            if _writable(_OWN):
                self._refresh(_OWN / "kernels.stamp")
                return None
            folder = self._other_folder()
            if folder and not self._is_ready(folder) and self._is_ready(_OWN):
                self._copy(folder)
            return folder

    def _refresh(self, kept: Path) -> None:
        """Drop what was compiled from other sources."""
        if _read(kept) != self.stamp:
            for folder in {path.parent / "__pycache__" for path in self._modules}:
                for compiled in folder.glob(_COMPILED):
                    compiled.unlink(missing_ok=True)
            (_OWN / _READY).unlink(missing_ok=True)
            kept.write_text(self.stamp)

    def _other_folder(self) -> Path | None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        temporary = Path(tempfile.gettempdir()) / f"tamis-{os.getuid()}"
        folders = (base / f"kernels-{self.stamp[:16]}" for base in (home / "tamis", temporary))
        return next(filter(_own, folders), None)

    def _copy(self, folder: Path) -> None:
        """Take over the kernels that are compiled beside the modules."""
        with contextlib.suppress(OSError):
            for path in self._modules:
                to = folder / _subpath(path)
                to.mkdir(parents=True, exist_ok=True)
                for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.{_COMPILED}"):
                    shutil.copy(compiled, to)
            (folder / _READY).write_text(self._mark)

    @property
    def _folder(self) -> Path:
        return self.elsewhere or _OWN

    def _is_ready(self, folder: Path) -> bool:
        return _read(folder / _READY) == self._mark

    @property
    def ready(self) -> bool:
        """Whether the kernels of the engine are compiled, for this kind of processor."""
        return self._is_ready(_OWN) or self._is_ready(self._folder)

    def all_compiled(self) -> None:
        """Remember that they are."""
        with contextlib.suppress(OSError):
            (self._folder / _READY).write_text(self._mark)

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
        with (self._folder / "kernels.lock").open("w") as file:
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

    def attach(self, kernel: Any) -> None:
        """Let numba look for the files of a kernel here, and write them here."""
        elsewhere = self.elsewhere
        with _LOCK:
            before = config.CACHE_DIR  # type: ignore[attr-defined]
            if elsewhere is not None:
                config.CACHE_DIR = str(elsewhere)  # type: ignore[attr-defined]
            try:
                kernel.enable_caching()
            finally:
                config.CACHE_DIR = before  # type: ignore[attr-defined]


CACHE = Cache()


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

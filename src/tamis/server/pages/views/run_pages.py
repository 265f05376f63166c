"""Reports of `tamis run` in the folder of `tamis serve --reports`, each shown in a sandbox."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import NamedTuple

from starlette.responses import Response

from tamis.errors import AccessError, InputError, RegistryError
from tamis.server.pages.rendering import HEADERS
from tamis.server.pages.view import View

_NAME = re.compile(r"[\w@-][\w.@ -]{0,200}\.html")
_MOST = 200  # reports of the list
_LARGEST = 20 << 20  # bytes
# A document of its own: no scripts, forms or requests, and none of this broker's cookies.
_POLICY = ("sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
           "base-uri 'none'; frame-ancestors 'none'")  # fmt: skip


class Report(NamedTuple):
    name: str
    micros: int
    size: int


async def list_page(view: View) -> Response:
    found = await asyncio.to_thread(_listed, _folder(view))
    return view.shown("runs.html", reports=found[:_MOST], left=max(len(found) - _MOST, 0))


async def report_page(view: View) -> Response:
    data = await asyncio.to_thread(_read, _folder(view), view.names["r"])
    headers = {**HEADERS, "Content-Security-Policy": _POLICY, "Cache-Control": "no-store"}
    return Response(data, 200, headers, "text/html; charset=utf-8")


def _folder(view: View) -> Path:
    view.caller.require_router()
    if view.parts.reports is None:
        raise AccessError("this broker shows no reports: start it with --reports DIR")
    return view.parts.reports


def _listed(folder: Path) -> list[Report]:
    """The newest first; nothing that leads out of the folder."""
    found = []
    try:
        for path in folder.iterdir():
            if _NAME.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                seen = path.stat()
                found.append(Report(path.name, int(seen.st_mtime * 1e6), seen.st_size))
    except OSError as error:
        raise InputError(f"the folder of reports cannot be read: {error.strerror}") from None
    return sorted(found, key=lambda one: (-one.micros, one.name))


def _read(folder: Path, name: str) -> bytes:
    path = folder / name
    if not _NAME.fullmatch(name) or path.is_symlink() or not path.is_file():
        raise RegistryError("there is no such report", status=404)
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(f"the report has more than {_LARGEST:,} bytes: open the file itself")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"the report cannot be read: {error.strerror}") from None

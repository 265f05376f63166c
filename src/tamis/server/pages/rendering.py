"""From templates to answers: what all pages share, and the headers that keep them safe."""

from __future__ import annotations

import functools
import gzip
import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup
from starlette.responses import Response

from tamis.server.pages import charts

POLICY = "; ".join([
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
    "connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
])  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
_FOLDER = resources.files("tamis.server.pages") / "static"
_HASHED = re.compile(r"(\w+)-[0-9A-Z]{8}\.(\w+)")


@functools.cache
def built() -> dict[str, str]:
    """The name of each built file, with its hash, by its plain one."""
    found = {}
    for file in _FOLDER.iterdir():
        if match := _HASHED.fullmatch(file.name):
            found[f"{match[1]}.{match[2]}"] = file.name
    return found


@functools.cache
def _file(name: str) -> tuple[bytes, bytes]:
    data = (_FOLDER / name).read_bytes()
    return data, gzip.compress(data, mtime=0)


def static(name: str, accepted: str) -> Response | None:
    """A built file, whose content never changes under its name; None: there is none."""
    if name not in built().values():
        return None
    plain, packed = _file(name)
    zipped = "gzip" in accepted
    response = Response(packed if zipped else plain, media_type=_KINDS[name.rpartition(".")[2]])
    response.headers.update(HEADERS)
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    response.headers["Vary"] = "Accept-Encoding"
    if zipped:
        response.headers["Content-Encoding"] = "gzip"
    return response


# --- how values look --------------------------------------------------------------------


def number(value: float | None) -> str:
    """1,234,567; 12.3 where it is a fraction below 100."""
    if value is None:
        return "–"
    whole = isinstance(value, int) or abs(value) >= 100 or value == int(value)
    return f"{value:,.0f}" if whole else f"{value:,.1f}"


def moment(micros: int) -> str:
    """Microseconds since 1970 as people read them."""
    try:
        return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return str(micros)


def ago(micros: int) -> Markup:
    """`4 s ago`, with the full time in the title."""
    text = f"{_since(time.time() - micros / 1e6)} ago"
    return Markup('<time data-micros="{}" title="{}">{}</time>').format(
        micros, moment(micros), text
    )


def _since(seconds: float) -> str:
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def plain(value: Any) -> str:
    """A value of a message as JSON."""
    return json.dumps(value, ensure_ascii=False)


def first_named(attributes: Mapping[str, Any], names: Iterable[str]) -> list[tuple[str, Any, bool]]:
    """Attributes with those first that a filter names, and whether it does."""
    tops = {name.partition(".")[0].partition("[")[0] for name in names}
    rows = [(name, value, name in tops) for name, value in attributes.items()]
    return sorted(rows, key=lambda row: not row[2])


@functools.cache
def environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("tamis.server.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters.update(number=number, moment=moment, ago=ago, plain=plain,
                         first_named=first_named)  # fmt: skip
    found.globals.update(built=lambda name: f"/static/{built()[name]}", line=charts.line,
                         bars=charts.bars, area=charts.area)  # fmt: skip
    return found


def rendered(template: str, status: int, context: Mapping[str, Any]) -> Response:
    nonce = secrets.token_urlsafe(16)
    text = environment().get_template(template).render(context, nonce=nonce)
    response = Response(text, status, media_type="text/html; charset=utf-8")
    response.headers.update(HEADERS)
    # The editor of selectors makes its styles while it runs; this page's number lets them in.
    policy = POLICY.replace("style-src 'self'", f"style-src 'self' 'nonce-{nonce}'")
    response.headers["Content-Security-Policy"] = policy
    response.headers["Cache-Control"] = "no-store"
    return response

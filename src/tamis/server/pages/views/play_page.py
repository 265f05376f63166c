"""The playground as a page; all that it shows is in its address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from tamis.errors import InputError
from tamis.language.parsing import Dialect
from tamis.server.pages.playing import EXAMPLE, SEMANTICS, play
from tamis.server.pages.view import View, told


def context(query: Mapping[str, str]) -> dict[str, Any]:
    """What the template shows."""
    empty = not any(name in query for name in EXAMPLE)
    fields = {name: query.get(name, EXAMPLE[name] if empty else "") for name in EXAMPLE}
    fields = {name: text.replace("\r\n", "\n") for name, text in fields.items()}
    dialect: Dialect = "jms" if query.get("dialect") == "jms" else "tamis"
    chosen = (_number(query.get("s", "1")), _number(query.get("m", "1")))
    found = play(fields["schema"], fields["selectors"], fields["messages"], dialect, chosen)
    return {
        "fields": fields, "dialect": dialect, "found": found, "chosen": chosen,
        "semantics": SEMANTICS, "error": told(found.error) if found.error else None,
        "problems": [told(one.error) if one.error else None for one in found.selectors],
    }  # fmt: skip


def _number(text: str) -> int:
    """From 1 on in the address."""
    if not (text.isascii() and text.isdigit() and len(text) < 4):
        raise InputError(f"{text[:20]!r} is not the number of a selector or a message")
    return int(text) - 1


async def play_page(view: View) -> Response:
    view.caller.require_any()
    query = dict(view.request.query_params)
    shown = await view.parts.questions.run(view.caller.name, context, query)
    return view.shown("try.html", **shown)

"""All pages, as a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.responses import Response

from tamis.server.pages.view import View
from tamis.server.pages.views import entering, overview_page

Handler = Callable[[View], Awaitable[Response]]


class Page(NamedTuple):
    method: str
    path: str
    handler: Handler
    open: bool = False  # also for people who have not logged in


PAGES: tuple[Page, ...] = (
    Page("GET", "/login", entering.login_page, open=True),
    Page("POST", "/login", entering.log_in, open=True),
    Page("POST", "/logout", entering.log_out, open=True),
    Page("POST", "/theme", entering.choose_theme, open=True),
    Page("GET", "/", overview_page.overview_page),
)

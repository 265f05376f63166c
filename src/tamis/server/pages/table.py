"""All pages, as a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.responses import Response

from tamis.server.pages.view import View
from tamis.server.pages.views import (
    channel_pages,
    delivery_page,
    entering,
    flow_pages,
    overview_page,
    play_page,
    router_pages,
    run_pages,
    subscription_pages,
    why_page,
)

Handler = Callable[[View], Awaitable[Response]]


class Page(NamedTuple):
    method: str
    path: str
    handler: Handler
    open: bool = False  # also for people who have not logged in


_C, _S = "/channels/{c}", "/channels/{c}/subscriptions/{s}"
PAGES: tuple[Page, ...] = (
    Page("GET", "/login", entering.login_page, open=True),
    Page("POST", "/login", entering.log_in, open=True),
    Page("POST", "/logout", entering.log_out, open=True),
    Page("POST", "/theme", entering.choose_theme, open=True),
    Page("GET", "/", overview_page.overview_page),
    Page("GET", "/channels", channel_pages.list_page),
    Page("GET", "/new-channel", channel_pages.new_page),
    Page("POST", "/new-channel", channel_pages.make),
    Page("GET", _C, channel_pages.live_page),
    Page("GET", f"{_C}/subscriptions", channel_pages.subscriptions_page),
    Page("GET", f"{_C}/schema", channel_pages.schema_page),
    Page("GET", f"{_C}/publish", channel_pages.publish_page),
    Page("POST", f"{_C}/publish", channel_pages.publish),
    Page("GET", f"{_C}/messages/{{n}}", channel_pages.message_page),
    Page("GET", f"{_C}/subscribe", subscription_pages.subscribe_page),
    Page("POST", f"{_C}/subscribe", subscription_pages.subscribe),
    Page("GET", f"{_C}/values/{{a}}", subscription_pages.values),
    Page("GET", _S, subscription_pages.subscription_page),
    Page("POST", _S, subscription_pages.change),
    Page("POST", f"{_S}/dead/retry", subscription_pages.retry),
    Page("POST", f"{_S}/cursor", subscription_pages.move),
    Page("GET", f"{_S}/{{verb}}", subscription_pages.sure_page),
    Page("POST", f"{_S}/{{verb}}", subscription_pages.act),
    Page("GET", "/subscriptions", subscription_pages.search_page),
    Page("GET", "/subscriptions.jsonl", subscription_pages.export),
    Page("GET", "/why", why_page.why_page),
    Page("GET", "/flows", flow_pages.list_page),
    Page("GET", "/new-flow", flow_pages.new_page),
    Page("POST", "/new-flow", flow_pages.edit),
    Page("GET", "/flows/{f}", flow_pages.flow_page),
    Page("POST", "/flows/{f}", flow_pages.edit),
    Page("POST", "/flows/{f}/end", flow_pages.end),
    Page("GET", "/try", play_page.play_page),
    Page("GET", "/deliveries", delivery_page.deliveries_page),
    Page("GET", "/runs", run_pages.list_page),
    Page("GET", "/runs/{r}", run_pages.report_page),
    Page("GET", "/routers", router_pages.routers_page),
    Page("GET", "/routers/{r}/{c}", router_pages.link_page),
)

"""Requests that /openapi.json describes, and some that it does not: never a server error.

TAMIS_SCHEMA=100 tries more of them than CI does.
"""

from __future__ import annotations

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from server.servers import QUOTES, served
from tamis.registry import Principal, Right
from tamis.server.access import new_token
from tamis.server.web.routes.table import ROUTES

EXAMPLES = int(os.environ.get("TAMIS_SCHEMA", "3"))
ENDLESS = ["/api/events", "/api/channels/{c}/live", "/api/flows/{f}/spaces/{x}/live"]
KNOWN = {
    "r": "edge",
    "c": "quotes",
    "s": "mine",
    "p": "alice",
    "a": "price",
    "t": "0",
    "f": "flow",
    "x": "Low",
}
FLOW = {"text": "space quotes(symbol: string, price: double)\nquotes -> Low : select price < 9"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture(scope="module")
def headers(server):
    registry = server.parts.hub.registry
    registry.put_principal(Principal("boss", "main"))
    for verb in ("publish", "subscribe", "manage"):
        registry.put_right(Right("boss", verb))
    return {"authorization": f"Bearer {new_token(registry, 'boss')}"}


@pytest.fixture(scope="module")
def api(server, headers):
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json", headers=headers)
    return schema.exclude(path=ENDLESS)


@pytest.fixture(scope="module")
def prepare(server, headers):
    """The things that paths name are there, whatever a request did to them."""

    def put():
        with server.http(headers=headers) as http:
            http.put("/api/channels/quotes", json=QUOTES)
            http.put("/api/channels/quotes/subscriptions/mine", json={"selector": "price > 1"})
            http.put("/api/principals/alice", json={})
            assert http.put("/api/flows/flow", json=FLOW).status_code == 200

    return put


@pytest.mark.parametrize("route", [r for r in ROUTES if r.path not in ENDLESS],
                         ids=lambda r: f"{r.method} {r.path}")  # fmt: skip
def test_no_request_is_a_server_error(route, api, headers, prepare):
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(api[route.path][route.method].as_strategy())
    def check(case):
        for known in (False, True):
            if known:
                prepare()
                case.path_parameters = {n: KNOWN[n] for n in case.path_parameters or {}}
            response = case.call(headers=headers, timeout=20)
            assert response.status_code < 500, (case, response.text)

    check()

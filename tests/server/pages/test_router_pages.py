"""Routers in a browser: drawn, as a table, link by link; nothing for those who may not see it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from server.pages.browsing import log_in
from server.test_links import Network, chain, until
from tamis.registry import Principal, Right
from tamis.server.access import new_token


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """home feeds middle, which feeds edge; both want something of quotes."""
    with ExitStack() as stack:
        found = Network(stack, tmp_path_factory.mktemp("routers"))
        writer = chain(found, "home", "middle", "edge")
        found.agent("edge").subscribe("quotes", "price > 10")
        found.agent("middle").subscribe("quotes", "symbol LIKE '<b>%'")
        until(lambda: [row["wants"] for row in found.links("middle")] == [2, 1])
        writer.publish_many("quotes", [{"attributes": {"price": p}} for p in (5.0, 20.0)])
        until(lambda: found.links("middle")[1]["messages"] == 1)
        yield found


def test_links_are_drawn_and_listed(net):
    with net.routers["middle"].http() as http:
        page = http.get("/routers").text
    assert page.count("<svg xmlns") == 1
    drawing = page.partition("<svg xmlns")[2].partition("</svg>")[0]
    assert [drawing.count(f"<title>{name}</title>") for name in ("home", "middle", "edge")] == [
        1
    ] * 3
    assert "middle › home" in page
    assert "edge › middle › home" in page
    assert "<style" not in page


def test_a_link_opens_to_its_pieces_and_why(net):
    with net.routers["middle"].http() as http:
        up = http.get("/routers/home/quotes").text
        assert "price &gt; 10" in up
        assert "&lt;b&gt;" in up
        assert "subscriptions here" in up
        assert 'href="/routers/edge/quotes"' in up
        assert "1 of 1 found among 2" in http.get("/routers/home/quotes?q=PRICE").text
        crosses, stays, unknown = (
            http.get(f"/routers/edge/quotes?sequence={n}") for n in ("2", "77", "x")
        )
        assert "Message 2 crosses" in crosses.text
        assert (stays.status_code, unknown.status_code) == (422, 422)
        assert "does not have message 77" in stays.text
        assert http.get("/routers/nowhere/quotes").status_code == 422
        found = http.get("/api/links/home/quotes/wants?limit=1").json()
        assert (found["direction"], found["of"], len(found["wants"])) == ("up", 2, 1)
    with net.routers["home"].http() as http:
        assert "Message 1 does not cross" in http.get("/routers/middle/quotes?sequence=1").text


def test_a_broker_alone_says_how_to_join(net, tmp_path):
    alone = net.add("alone")
    with alone.http() as http:
        assert "--parent URL" in http.get("/routers").text


def test_who_manages_no_channel_sees_no_router(net):
    parts = net.routers["edge"].parts
    registry = parts.hub.registry
    tokens = {}
    for name, verb in (("reader", "subscribe"), ("manager", "manage")):
        registry.put_principal(Principal(name, "main"))
        registry.put_right(Right(name, verb, "quotes"))
        tokens[name] = new_token(registry, name)
    parts.door.renewals += 1
    for name, status in (("reader", 403), ("manager", 200)):
        with net.routers["edge"].http() as http:
            log_in(http, secret=tokens[name])
            assert ('href="/routers"' in http.get("/").text) == (status == 200)
            for path in ("/routers", "/routers/middle/quotes"):
                page = http.get(path)
                assert page.status_code == status, (name, path)
                assert ("middle" in page.text.partition("<main")[2]) == (status == 200)

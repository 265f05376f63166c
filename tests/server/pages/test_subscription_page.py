"""A subscription's page without JavaScript: its cursor is set."""

from __future__ import annotations

import pytest

from server.pages.browsing import sent
from server.servers import QUOTES, served

PAGE = "/channels/quotes/subscriptions/mine"


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with served(tmp_path_factory.mktemp("one")) as found, found.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        http.put(f"/api{PAGE}", json={"selector": "price > 2"})
        rows = [{"attributes": {"price": float(p)}} for p in range(9)]
        http.post("/api/channels/quotes/messages", json=rows)
        yield http


@pytest.mark.parametrize(
    ("start", "place", "cursor"),
    [("other", " 5 ", 4), ("all", "", 0), ("now", "", 9), ("other", "2000-01-01", 0)],
)
def test_the_cursor_is_set(http, start, place, cursor):
    answer = sent(http, f"{PAGE}/cursor", PAGE, start=start, place=place)
    assert answer.headers["location"] == f"{PAGE}?done=moved"
    assert "The cursor was set" in http.get(answer.headers["location"]).text
    assert http.get(f"/api{PAGE}").json()["cursor"] == cursor


def test_what_is_no_place_is_told_and_nothing_moves(http):
    before = http.get(f"/api{PAGE}").json()["cursor"]
    for place in ("", "soon", "9" * 30, "<b>"):
        answer = sent(http, f"{PAGE}/cursor", PAGE, start="other", place=place)
        assert (answer.status_code, 'role="alert"' in answer.text) == (422, True), place
        assert "<b>" not in answer.text
    assert http.get(f"/api{PAGE}").json()["cursor"] == before

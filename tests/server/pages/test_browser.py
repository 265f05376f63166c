"""Pages in a real browser: by role and name, by keyboard, without JavaScript, for everybody.

`HYPOTHESIS_PROFILE=deep` looks at every page in light and dark, wide and narrow; else at some.
"""

from __future__ import annotations

import json
import re

import pytest

from dose import DEEP
from server.servers import QUOTES, served

PAGES = {
    "overview": "/",
    "channels": "/channels",
    "new channel": "/new-channel",
    "live": "/channels/quotes?selector=price+%3C+100",
    "subscriptions of a channel": "/channels/quotes/subscriptions",
    "schema": "/channels/quotes/schema",
    "publish": "/channels/quotes/publish",
    "message": "/channels/quotes/messages/3",
    "subscribe": "/channels/quotes/subscribe?selector=price+%3C+100&misses=1",
    "subscribe by form": "/channels/quotes/subscribe?by=form&selector=price+%3C+100",
    "bad selector": "/channels/quotes/subscribe?selector=price+%3C+%3C+100",
    "subscription": "/channels/quotes/subscriptions/cheap?message=3",
    "ending": "/channels/quotes/subscriptions/cheap/end",
    "search": "/subscriptions?q=price",
    "why": "/why?channel=quotes&message=%7B%22price%22%3A+50%7D&subscription=cheap",
    "near misses": "/why?channel=quotes&message=%7B%22price%22%3A+50%7D",
    "deliveries": "/deliveries",
    "routers": "/routers",
    "playground": "/try",
    "flows": "/flows",
    "flow": "/flows/cheap",
    "new flow": "/new-flow",
}
LOOKS = [("light", 1200), ("dark", 1200), ("light", 390)]
FEW = ["overview", "subscribe", "subscription", "deliveries", "flow"]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("pages")) as found, found.http() as http:
        http.put("/api/channels/quotes", json={**QUOTES, "sentence": "Stock quotes"})
        here = "/api/channels/quotes/subscriptions"
        http.put(f"{here}/cheap", json={"selector": "price < 100 AND symbol = 'IBM'"})
        http.put(f"{here}/dear", json={"selector": "price > 100"})
        text = "space quotes(symbol: string, price: double)\nquotes -> Low : select price < 9\n"
        http.put("/api/flows/cheap", json={"text": text})
        for price in range(90, 110):
            publish(http, price)
        yield found


def publish(http, price, symbol="IBM"):
    message = {"attributes": {"symbol": symbol, "price": float(price), "volume": 7}}
    answer = http.post("/api/channels/quotes/messages", json=message)
    return answer.json()["sequences"][0]


@pytest.mark.parametrize("name", PAGES if DEEP else FEW)
def test_everybody_can_use_every_page(server, opened, name):
    """In light and dark, wide and narrow."""
    from axe_playwright_python.sync_playwright import Axe

    with opened(server, PAGES[name]) as page:
        assert page.locator("h1").count() == 1
        for scheme, width in LOOKS if DEEP else LOOKS[1:]:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            found = Axe().run(page, options={"runOnly": RULES}).response["violations"]
            assert [(v["id"], v["nodes"][0]["html"]) for v in found] == [], scheme
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width


def test_the_bar_leads_to_every_part(server, opened):
    with opened(server) as page:
        bar = page.get_by_role("navigation", name="Pages")
        names = bar.get_by_role("link").all_inner_texts()
        assert names == ["Channels", "Subscriptions", "Flows", "Deliveries", "Routers", "Why",
                         "Playground"]  # fmt: skip
        for name in names:
            bar.get_by_role("link", name=name, exact=True).click()
            assert bar.get_by_role("link", name=name, exact=True).get_attribute("aria-current")


def test_the_story_of_figure_12(server, opened):
    """Find a channel, write a selector, see matches before saving, subscribe, ask why one did not
    come, end."""
    with opened(server, "/channels") as page, server.http() as http:
        page.get_by_role("link", name="Subscribe to quotes").click()
        page.get_by_role("link", name="By form").click()
        page.get_by_label("Attribute").first.fill("price")
        page.get_by_label("Operator").first.select_option("<")
        page.get_by_label("Value").first.fill("95")
        page.get_by_text("5 of the last 20").wait_for()
        page.get_by_role("link", name="As text").click()
        selector = page.get_by_role("textbox", name="Selector")
        assert text_in(selector) == "price < 95"
        selector.fill("price < 95 AND symbol = 'IBM'")
        page.get_by_text("price < 95 AND symbol = 'IBM'", exact=True).first.wait_for()
        page.get_by_text("0 since this page opened").wait_for()
        live = publish(http, 60)
        publish(http, 96)
        page.get_by_role("link", name=str(live), exact=True).wait_for()
        page.get_by_text("1 since this page opened").wait_for()
        page.get_by_label("Name of the subscription").fill("below-95")
        page.get_by_role("button", name="Subscribe").click()
        page.get_by_text("The subscription was made.").wait_for()
        got = publish(http, 70)
        page.get_by_role("link", name=str(got), exact=True).click()
        page.get_by_text("Matches 2 subscriptions").wait_for()
        page.get_by_role("button", name="Close").click()
        missed = publish(http, 96)
        page.goto(f"/channels/quotes/messages/{missed}")
        page.get_by_role("link", name="Who just misses it?").click()
        page.get_by_role("link", name="below-95").click()
        page.get_by_role("heading", name="It does not match below-95").wait_for()
        assert "✗ false" in page.get_by_role("row", name="price < 95").inner_text()
        page.get_by_role("link", name="below-95").click()
        page.get_by_role("link", name="End", exact=True).click()
        page.get_by_role("button", name="End the subscription").click()
        page.get_by_text("The subscription was ended.").wait_for()
        assert http.get("/api/channels/quotes/subscriptions/below-95").status_code == 404


def text_in(field):
    tag = field.evaluate("one => one.tagName")
    return field.input_value() if tag == "TEXTAREA" else field.inner_text()


def test_reading_subscribing_and_ending_need_no_script(server, opened):
    with opened(server, "/", java_script_enabled=False) as page:
        page.get_by_role("link", name="Channels", exact=True).click()
        page.get_by_role("link", name="quotes", exact=True).click()
        page.get_by_label("Show only").fill("price = 91")
        page.get_by_role("button", name="Show").click()
        assert page.locator("tr[data-row]").count() == 1
        page.get_by_role("link", name="Subscribe to these").click()
        page.get_by_role("textbox", name="Selector").fill("price <")
        page.get_by_role("button", name="Check").click()
        assert "ends too early" in page.get_by_role("alert").inner_text()
        page.get_by_role("textbox", name="Selector").fill("price = 92")
        page.get_by_role("button", name="Check").click()
        page.get_by_label("Name of the subscription").fill("plain")
        page.get_by_role("button", name="Subscribe").click()
        assert "The subscription was made." in page.get_by_role("main").inner_text()
        page.get_by_role("button", name="Pause deliveries").click()
        assert "paused" in page.get_by_role("main").inner_text()
        page.get_by_role("link", name="End", exact=True).click()
        page.get_by_role("button", name="End the subscription").click()
        assert "The subscription was ended." in page.get_by_role("main").inner_text()
        page.get_by_role("button", name="Dark").click()
        assert page.locator("html").get_attribute("data-theme") == "dark"


def test_the_keyboard_is_enough(server, opened):
    with opened(server, "/channels/quotes") as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("j")
        first = page.evaluate("document.activeElement.textContent")
        page.keyboard.press("j")
        assert int(page.evaluate("document.activeElement.textContent")) == int(first) - 1
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        page.get_by_text("Subject", exact=True).last.wait_for()
        assert "Paused" in page.locator("[data-summary]").inner_text()
        page.keyboard.press("Escape")
        assert page.locator("[data-opened]").count() == 0
        assert page.evaluate("document.activeElement.textContent") == first
        page.keyboard.press("?")
        page.get_by_role("dialog", name="Keys").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "selector"
        page.keyboard.press("Escape")
        page.locator("h1").click()
        page.keyboard.press("g")
        page.keyboard.press("s")
        page.wait_for_url("**/subscriptions")


def test_a_fast_channel_costs_a_tab_four_frames_a_second(server, opened):
    many = [{"attributes": {"symbol": "T", "price": float(n)}} for n in range(5_000)]
    with opened(server, "/channels/quotes?selector=symbol+%3D+%27T%27") as page, \
            server.http() as http:  # fmt: skip
        frames = []
        page.on("websocket", lambda own: own.on("framereceived", lambda one: frames.append(one)))
        page.reload()
        page.get_by_text("0 since this page opened").wait_for()
        page.wait_for_timeout(200)
        begun = page.evaluate("performance.now()")
        for _ in range(4):
            http.post("/api/channels/quotes/messages", json=many)
        page.get_by_text("20,000 since this page opened").wait_for()
        seconds = (page.evaluate("performance.now()") - begun) / 1000
        rows = [json.loads(one) for one in frames if '"rows"' in str(one)]
        assert len(rows) <= 4 * seconds + 2
        assert max(len(one["rows"]) for one in rows) <= 50
        assert page.locator("tr[data-row]").count() <= 200


def test_the_editor_completes_and_marks_mistakes(server, opened):
    """Attributes, operators by their type, values that were seen; Tab leaves it."""
    with opened(server, "/channels/quotes/subscribe") as page, server.http() as http:
        publish(http, 50)
        editor = page.get_by_role("textbox", name="Selector")
        editor.click()
        for typed, offered in (("pr", "price"), (" ", None), ("> 9", None), (" AND sym", "symbol"),
                               (" = 'I", "'IBM'")):  # fmt: skip
            page.keyboard.type(typed)
            if offered:
                page.get_by_role("option", name=offered).first.wait_for()
                page.wait_for_timeout(150)  # it takes no Enter that comes too early
                page.keyboard.press("Enter")
        assert editor.inner_text() == "price > 9 AND symbol = 'IBM'"
        page.get_by_text("price > 9 AND symbol = 'IBM'", exact=True).last.wait_for()
        page.keyboard.type(" AND AND")
        page.locator(".cm-lintRange-error, .cm-lintPoint-error").first.wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "subjects"


EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def test_stored_html_is_text_on_every_page(tmp_path, opened):
    """In whatever may hold free text: sentences, selectors, attributes, values, errors."""
    with served(tmp_path) as server, server.http() as http:
        form = {"sentence": EVIL, "attributes": {"symbol": "string"}}
        assert http.put("/api/channels/evil", json=form).status_code == 201
        selector = f"symbol = '{EVIL.replace(chr(39), chr(39) * 2)}'"
        place = "/api/channels/evil/subscriptions/mine"
        made = http.put(place, json={"selector": selector})
        assert made.status_code == 200
        message = {"attributes": {"symbol": EVIL, EVIL: {EVIL: [EVIL]}}}
        assert http.post("/api/channels/evil/messages", json=message).status_code == 200
        fields = {"selector": selector, "message": json.dumps(message), "q": EVIL}
        with opened(server, "/") as page:
            for path in ("/", "/channels", "/channels/evil", "/channels/evil/messages/1",
                         "/channels/evil/subscriptions/mine?message=1",
                         "/subscriptions"):  # fmt: skip
                page.goto(path)
                page.wait_for_timeout(50)
            for path, names in {"/channels": "q", "/subscriptions": "q",
                                "/channels/evil": "selector",
                                "/channels/evil/subscribe": "selector",
                                "/channels/evil/publish": "message",
                                "/why": "message selector"}.items():  # fmt: skip
                query = {name: fields[name] for name in names.split()} | {"channel": "evil"}
                page.goto(http.build_request("GET", path, params=query).url.raw_path.decode())
                page.wait_for_timeout(50)
                assert page.locator("img, main script").count() == 0
            page.goto("/channels/evil")
            http.post("/api/channels/evil/messages", json=message)
            page.get_by_role("link", name="2", exact=True).click()
            page.get_by_text("Matches 1 subscription").wait_for()


def test_a_page_of_another_site_shows_no_frame_of_ours(server, chromium):
    """Clickjacking: the browser refuses to show it."""
    context = chromium.new_context()
    page = context.new_page()
    lines = []
    page.on("console", lambda line: lines.append(line.text))
    page.set_content(f'<iframe src="{server.url}/" width="500" height="500"></iframe>')
    page.wait_for_timeout(500)
    assert any(re.search("frame-ancestors|X-Frame-Options", line) for line in lines)
    context.close()

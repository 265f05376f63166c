"""A real browser, where there is one."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                None)  # fmt: skip
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]  # fmt: skip


@pytest.fixture(scope="module")
def chromium():
    """A browser for one module: while it is open, an event loop runs in this thread."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """Opens pages of a server; whatever the browser complains of fails the test."""

    @contextmanager
    def open_page(server, path="/", **more):
        complaints = []
        context = chromium.new_context(base_url=server.url, **more)
        context.set_default_timeout(8_000)
        page = context.new_page()
        page.on("console", lambda line: complaints.append(line.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda one: complaints.append(one.url)
                if not one.url.startswith((server.url, "data:")) else None)  # fmt: skip
        page.goto(path)
        try:
            yield page
            assert complaints == []
        finally:
            context.close()

    return open_page

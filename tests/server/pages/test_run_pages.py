"""Reports of runs: listed for operators, shown without scripts, and nothing beside the folder."""

from __future__ import annotations

import os

import pytest

from server.pages.browsing import log_in
from server.servers import served
from tamis.registry import Principal, Right, SqliteRegistry
from tamis.server.access import new_token


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for age, name in enumerate(("late.html", "early.html")):
        (folder / name).write_text(f"<!doctype html><script>1</script>{name}", "utf-8")
        os.utime(folder / name, (2e9 - age, 2e9 - age))
    (folder.parent / "secret.html").write_text("secret")
    (folder / "link.html").symlink_to(folder.parent / "secret.html")
    (folder / "notes.txt").write_text("secret")
    directory, tokens = tmp_path_factory.mktemp("broker"), {}
    registry = SqliteRegistry(directory / "registry.db")
    for tenant, name, channel in (("main", "boss", "*"), ("main", "one", "quotes"),
                                  ("acme", "eve", "*")):  # fmt: skip
        made = Principal(name, tenant)
        registry.put_principal(made)
        registry.put_right(Right(made.login, "manage", channel))
        tokens[name] = new_token(registry, made.login)
    registry.close()
    with served(directory, reports=folder) as found:
        yield found, tokens


def test_reports_are_listed_and_shown_in_a_sandbox(place):
    server, tokens = place
    with server.http() as http:
        log_in(http, secret=tokens["boss"])
        page = http.get("/runs").text
        assert page.index("late.html") < page.index("early.html")
        assert "link.html" not in page
        assert "notes" not in page
        report = http.get("/runs/late.html")
        assert report.text.endswith("late.html")
        policy = report.headers["content-security-policy"]
        assert policy.startswith("sandbox; default-src 'none'")
        assert "script" not in policy
        for name in ("link.html", "notes.txt", "..%2Fsecret.html", "%2e%2e/secret.html", "no.html"):
            assert http.get(f"/runs/{name}").status_code == 404, name


@pytest.mark.parametrize("who", ["one", "eve"])
def test_only_operators_of_the_router_see_them(place, who):
    server, tokens = place
    with server.http() as http:
        log_in(http, secret=tokens[who])
        assert 'href="/runs"' not in http.get("/").text
        for path in ("/runs", "/runs/late.html", "/runs/no.html"):
            assert http.get(path).status_code == 403

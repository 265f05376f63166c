"""Every page and every form, for people who may not see or do what they are about.

Pages ask the routes of /api, which tests/server/test_walk.py walks through; this looks at what the
pages themselves could let slip.
"""

from __future__ import annotations

import pytest

from server.pages.browsing import log_in, token_of
from server.servers import QUOTES, served
from tamis.registry import VERBS, Principal, Right, SqliteRegistry
from tamis.server.access import new_token
from tamis.server.pages.table import PAGES

HERE = {"c": "wares", "s": "kept-one", "n": "1", "a": "symbol", "f": "secret-flow", "verb": "end",
        "r": "secret-router"}  # fmt: skip
NOWHERE = {
    "c": "WARES",
    "s": "KEPT-ONE",
    "n": "1",
    "a": "symbol",
    "f": "SECRET-FLOW",
    "verb": "end",
    "r": "SECRET-ROUTER",
}
WORDS = ("wares", "kept-one", "secret-flow", "Sentence", "ZYX", "boss")
FLOW = "space wares(symbol: string, price: double)\nwares -> Low : select price < 9\n"
FORMS = ({"do": "publish", "message": "{}"}, {"name": "kept-one", "selector": "price < 1"},
         {"do": "save", "name": "secret-flow", "text": FLOW}, {"name": "wares"})  # fmt: skip
OWN = {"/login", "/logout", "/theme"}  # for everybody


@pytest.fixture(scope="module")
def tokens():
    return {}


@pytest.fixture(scope="module")
def server(tmp_path_factory, tokens):
    """nobody has no right; elsewhere has all, on another channel; eve has all, in another tenant;
    reader may subscribe, and no more."""
    directory = tmp_path_factory.mktemp("broker")
    registry = SqliteRegistry(directory / "registry.db")
    rights = {"boss": (VERBS, "*"), "nobody": ((), "*"), "elsewhere": (VERBS, "another"),
              "eve": (VERBS, "*"), "reader": (("subscribe",), "wares")}  # fmt: skip
    for name, (verbs, channel) in rights.items():
        made = Principal(name, "other" if name == "eve" else "acme")
        registry.put_principal(made)
        tokens[name] = new_token(registry, made.login)
        for verb in verbs:
            registry.put_right(Right(made.login, verb, channel))
    registry.close()
    with served(directory) as found:
        with found.http(headers={"authorization": f"Bearer {tokens['boss']}"}) as http:
            http.put("/api/channels/wares", json={**QUOTES, "sentence": "Sentence"})
            http.put(
                "/api/channels/wares/subscriptions/kept-one", json={"selector": "symbol = 'ZYX'"}
            )
            http.put("/api/flows/secret-flow", json={"text": FLOW})
            message = {"attributes": {"symbol": "ZYX", "price": 1.0, "volume": 1}}
            http.post("/api/channels/wares/messages", json=message)
        yield found


def entered(http, tokens, name):
    assert log_in(http, secret=tokens[name]).status_code == 303
    return http


def shown(text: str) -> str:
    """The content of a page, without what the caller typed into the address."""
    return text.partition("<main")[2].partition("<dialog")[0]


@pytest.mark.parametrize("who", ["nobody", "elsewhere", "eve"])
def test_pages_show_nothing_to_those_who_may_not_see_it(server, tokens, who):
    with server.http() as http:
        entered(http, tokens, who)
        for page in PAGES:
            if page.method != "GET" or page.path in OWN:
                continue
            answers = [http.get(page.path.format(**names)) for names in (HERE, NOWHERE)]
            here, nowhere = (shown(answer.text) for answer in answers)
            assert answers[0].status_code == answers[1].status_code, page.path
            for name in ("c", "s", "f", "r"):
                nowhere = nowhere.replace(NOWHERE[name], HERE[name])
            assert here == nowhere, page.path
            if "{" not in page.path:
                assert [word for word in WORDS if word in here] == [], page.path


@pytest.mark.parametrize("who", ["nobody", "elsewhere", "eve", "reader"])
def test_forms_do_nothing_for_those_who_may_not_do_it(server, tokens, who):
    with server.http() as http, server.http() as boss:
        entered(http, tokens, who)
        boss.headers["authorization"] = f"Bearer {tokens['boss']}"
        before = [boss.get(path).json() for path in LOOKED_AT]
        token = token_of(http.get("/").text)
        for page in PAGES:
            if page.method != "POST" or page.path in OWN:
                continue
            for form in FORMS:
                for verb in ("end", "pause", "drop"):
                    path = page.path.format(**{**HERE, "verb": verb})
                    found = http.post(path, data={"csrf": token, **form})
                    assert found.status_code < 500, path
        assert [boss.get(path).json() for path in LOOKED_AT] == before


LOOKED_AT = ("/api/channels/wares/subscriptions/kept-one", "/api/flows/secret-flow",
             "/api/channels/wares/messages")  # fmt: skip


def test_a_reader_is_offered_what_a_reader_may_do(server, tokens):
    with server.http() as http:
        entered(http, tokens, "reader")
        page = http.get("/channels/wares").text
        assert "/channels/wares/subscribe" in page
        assert "/channels/wares/publish" not in page
        assert "New channel" not in http.get("/channels").text
        assert "kept-one" not in shown(http.get("/subscriptions").text)
        assert http.get("/channels/wares/publish").status_code == 403

"""Flows in a browser without JavaScript: drawn from nothing, checked, rewritten, tried, saved."""

from __future__ import annotations

import html
import re

import pytest

from server.pages.browsing import sent
from server.servers import served

# Gryphon, figure 2: two markets, one space of large trades.
FIGURE_2 = """space NYSE(issue: string, price: double, vol: int)
space NASDAQ(issue: string, price: double, vol: int)
"""
ARCS = [
    ("NYSE", "Combined", "", "[issue, price, vol] => [issue, price, vol]"),
    ("NASDAQ", "Combined", "", "[issue, price, vol] => [issue, price, vol]"),
    ("Combined", "Large", "", "[issue, price, vol] => [issue, cap := price * vol]"),
    ("Large", "Larger", "cap >= 1000000", ""),
]


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with served(tmp_path_factory.mktemp("flows")) as found, found.http() as http:
        for name in ("NYSE", "NASDAQ"):
            kinds = {"issue": "string", "price": "double", "vol": "int"}
            assert http.put(f"/api/channels/{name}", json={"attributes": kinds}).status_code == 201
        yield http


def text_of(page):
    return html.unescape(
        page.text.split("<textarea", 2)[1].partition(">")[2].split("</textarea")[0]
    )


def test_a_new_flow_begins_with_the_channels(http):
    assert "space NYSE(issue: string, price: double, vol: int)" in text_of(http.get("/new-flow"))


def test_figure_2_from_nothing_to_a_subscription(http):
    text = FIGURE_2
    for source, target, select, transform in ARCS:
        fields = {"from": source, "to": target, "select": select, "transform": transform}
        page = sent(http, "/new-flow", do="add", name="figure-2", text=text, **fields)
        assert page.status_code == 200, page.text
        text = text_of(page)
    assert text.endswith("Large -> Larger : select cap >= 1000000\n")
    for rule in ("externalise", "enumerate paths", "push selects", "join transforms"):
        assert f"{rule}</strong>" in page.text
    assert page.text.count("<svg") > 6
    assert "<style" not in page.text
    message = '{"issue": "IBM", "price": 100.0, "vol": 20000}'
    tried = sent(http, "/new-flow", do="check", text=text, space="NYSE", message=message)
    assert "1 message arrives in Larger" in tried.text, tried.text.partition("alert")[2][:300]
    assert (
        "0 messages arrive in Larger"
        in sent(
            http, "/new-flow", text=text, space="NYSE", message=message.replace("20000", "2")
        ).text
    )
    saved = sent(http, "/new-flow", do="save", name="figure-2", text=text)
    assert saved.headers["location"] == "/flows/figure-2?done=flow"
    place = "/api/flows/figure-2/spaces/Larger/subscriptions/mine"
    assert http.put(place, json={}).status_code == 200
    http.delete(place)
    again = sent(http, "/new-flow", do="save", name="figure-2", text=text)
    assert (again.status_code, "already" in again.text) == (422, True)


def test_a_save_never_overwrites_what_another_saved(http):
    form = {"text": FIGURE_2 + "NYSE -> A : select price > 1\n"}
    assert http.put("/api/flows/shared", json=form).status_code == 200
    page = http.get("/flows/shared").text
    began = page.split('name="began" value="')[1].split('"')[0]
    http.put("/api/flows/shared", json={"text": form["text"].replace("> 1", "> 2")})
    mine = form["text"].replace("> 1", "> 3")
    found = sent(http, "/flows/shared", do="save", text=mine, began=began)
    assert (found.status_code, "Nothing was overwritten" in found.text) == (422, True)
    assert "price > 3" in text_of(found)  # the draft is not lost
    assert "> 2" in http.get("/api/flows/shared").json()["text"]
    began = http.get("/flows/shared").text.split('name="began" value="')[1].split('"')[0]
    assert sent(http, "/flows/shared", do="save", text=mine, began=began).status_code == 303
    assert sent(http, "/flows/shared/end", "/flows/shared").status_code == 303
    assert http.get("/flows/shared").status_code == 404


@pytest.mark.parametrize(
    ("text", "told"),
    [("space A(", "A"), ("A -> B", "A"), (FIGURE_2 + "NYSE -> B : select nothing > 1", "nothing")],
)
def test_mistakes_are_told_and_the_draft_stays(http, text, told):
    page = sent(http, "/new-flow", do="check", name="x", text=text)
    assert page.status_code == 422
    assert told in page.text.split('role="alert"')[1]
    assert text_of(page).strip() == text


COMMENTED = """# markets
space NYSE(issue: string, price: double, vol: int)
NYSE -> A :  # why
  select price > 1  # cheap ones are noise
NYSE -> `B c` : select issue = '# -> "'
# the end
"""


def test_one_arc_is_changed_or_removed_and_the_rest_stays(http):
    page = sent(http, "/new-flow", do="check", text=COMMENTED)
    assert page.status_code == 200, page.text.partition("alert")[2][:300]
    first, second = (html.unescape(v) for v in re.findall('value="open:([^"]*)"', page.text))
    assert first == "NYSE -> A :  # why\n  select price > 1"
    opened = sent(http, "/new-flow", do=f"open:{first}", text=COMMENTED)
    assert 'name="changed"' in opened.text
    to = first.replace("> 1", "> 2")
    found = text_of(sent(http, "/new-flow", do="change", arc=first, changed=to, text=COMMENTED))
    assert found.strip() == COMMENTED.replace("> 1", "> 2").strip()
    page = sent(http, "/new-flow", do=f"remove:{second}", text=COMMENTED.replace("\n", "\r\n"))
    assert text_of(page).strip().splitlines()[-2:] == ["  select price > 1  # cheap ones are noise",
                                                       "# the end"]  # fmt: skip
    assert "no such arc any more" in sent(http, "/new-flow", do="remove:x", text=COMMENTED).text


def test_drafts_are_checked_rewritten_and_tried_by_programs(http):
    text = FIGURE_2 + "NYSE -> A : select price > 1\nA -> B : select vol > 2\n"
    found = http.post("/api/flows/none-yet/check", json={"text": text}).json()
    assert [(arc["source"], arc["target"]) for arc in found["arcs"]] == [("NYSE", "A"), ("A", "B")]
    assert [text[arc["first"] : arc["end"]] for arc in found["arcs"]] == text.splitlines()[2:]
    assert found["spaces"]["B"] == {"issue": "string", "price": "double", "vol": "int"}
    form = {"text": text, "wanted": "B"}
    steps = http.post("/api/flows/none-yet/rewrite", json=form).json()["steps"]
    assert "join_selects" in [step["rule"] for step in steps]
    assert "select price > 1 AND vol > 2" in steps[-1]["text"]
    trial = {**form, "space": "NYSE", "message": {"issue": "x", "price": 2.0, "vol": 2}}
    (tried,) = http.post("/api/flows/none-yet/try", json=trial).json()["spaces"]
    assert "0 messages arrive in B" in tried["explanation"]
    assert http.post("/api/flows/none-yet/check", json={}).status_code == 404
    assert http.post("/api/flows/x/check", json={"text": "a -> "}).status_code == 422
    http.put("/api/flows/kept", json={"text": text}).raise_for_status()
    assert http.post("/api/flows/kept/check", json={}).json() == found

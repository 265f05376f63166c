"""The routes of HTTP, by a client that we did not write, on a real socket."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time

import pytest

from server.servers import QUOTES, served
from tamis.engine.matcher import Matcher
from tamis.server.web.application import http as http_module


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture
def channel(http, request):
    name = re.sub(r"\W", "_", request.node.name)[:90]
    assert http.put(f"/api/channels/{name}", json=QUOTES).status_code == 201
    return f"/api/channels/{name}"


def message(symbol="IBM", price=120.0, volume=5, **more):
    return {"attributes": {"symbol": symbol, "price": price, "volume": volume}, **more}


def publish(http, channel, *messages, **params):
    response = http.post(f"{channel}/messages", json=list(messages), params=params)
    assert response.status_code == 200, response.text
    return response.json()["sequences"]


def lines(response):
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def test_health_metrics_and_openapi(http):
    assert http.get("/health").json()["status"] == "ok"
    assert "tamis_published_messages_total" in http.get("/metrics").text
    document = http.get("/openapi.json").json()
    assert "/api/channels/{c}/messages" in document["paths"]


def test_channels_are_made_changed_listed_and_closed(http, channel):
    shown = http.get(channel).json()
    assert shown["attributes"] == {"symbol": "string", "price": "double", "volume": "int64"}
    more = {**QUOTES["attributes"], "venue": "string"}
    assert http.put(channel, json={"attributes": more}).status_code == 200
    fewer = http.put(channel, json={"attributes": {"symbol": "string"}})
    assert (fewer.status_code, "added" in fewer.json()["error"]) == (422, True)
    assert shown["name"] in [c["name"] for c in http.get("/api/channels").json()["channels"]]
    assert http.delete(channel).status_code == 204
    assert http.get(channel).status_code == 404


def test_one_many_and_lines_are_published(http, channel):
    assert http.post(f"{channel}/messages", json=message()).json() == {"sequences": [1]}
    assert publish(http, channel, message(), message()) == [2, 3]
    text = "\n".join(json.dumps(message(price=float(i))) for i in range(3))
    kind = {"content-type": "application/x-ndjson"}
    response = http.post(f"{channel}/messages", content=text, headers=kind)
    assert response.json() == {"sequences": [4, 5, 6]}
    assert [m["sequence"] for m in lines(http.get(f"{channel}/messages"))] == [1, 2, 3, 4, 5, 6]


def test_a_frame_before_the_handshake_is_answered_is_not_lost_silently(server, monkeypatch):
    """RFC 6455, 4.1: a client waits for the answer. One that does not is told."""
    original = http_module.Reception.caller

    async def slow(*arguments):
        await asyncio.sleep(0.3)
        return await original(*arguments)

    monkeypatch.setattr(http_module.Reception, "caller", slow)
    upgrade = (b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
               b"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
               b"Sec-WebSocket-Version: 13\r\n\r\n")  # fmt: skip
    early, port = b"\x81\x82\0\0\0\0{}", int(server.url.rpartition(":")[2])
    for pieces in ([upgrade + early], [upgrade, early]):
        with socket.create_connection(("127.0.0.1", port), 10) as peer:
            for piece in pieces:
                peer.sendall(piece)
                time.sleep(0.1)
            found = b""
            while data := peer.recv(4096):
                found += data
        head, _, frames = found.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101")
        assert frames == b"\x88\x02" + (1002).to_bytes(2, "big")


def test_a_message_is_stored_once_by_number_and_by_id(http, channel):
    first = [message(sequence=i) for i in (1, 2)]
    assert publish(http, channel, *first, publisher="p") == [1, 2]
    assert publish(http, channel, *first, message(sequence=3), publisher="p") == [0, 0, 3]
    assert publish(http, channel, *first, publisher="another") == [4, 5]
    assert publish(http, channel, message(id="x"), message(id="x"), message(id="y")) == [6, 6, 7]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"attributes": {"price": "cheap"}}, "price"),
        ({"attributes": {"volume": 2**63}}, "64 bits"),
        ({"attributes": {"x": {"y": 2**70}}}, "64 bits"),
        ({"attributes": [1]}, "object"),
        ({"subject": "a..b", "attributes": {}}, "empty field"),
        ({"subject": "a.*", "attributes": {}}, "wildcards"),
        ({"attributes": {}, "sequence": -1}, "sequence"),
        ({"attributes": {}, "colour": 1}, "colour"),
        ({}, "attributes"),
    ],
)
def test_bad_messages_are_refused_with_a_reason(http, channel, bad, told):
    response = http.post(f"{channel}/messages", json=bad)
    assert response.status_code == 422
    assert told in response.json()["error"]
    assert lines(http.get(f"{channel}/messages")) == []


def test_replay_by_sequence_time_subject_and_selector(http, channel):
    publish(http, channel, *(message(price=float(i), subject=f"q.{i % 2}") for i in range(10)))
    found = lines(http.get(f"{channel}/messages", params={"selector": "price > 3", "first": 3}))
    assert [m["sequence"] for m in found] == [5, 6, 7, 8, 9, 10]
    found = lines(http.get(f"{channel}/messages", params={"subjects": "*.1", "limit": 2}))
    assert [m["subject"] for m in found] == ["q.1", "q.1"]
    assert lines(http.get(f"{channel}/messages", params={"since": "2100-01-01"})) == []
    assert lines(http.get(f"{channel}/messages", params={"until": "2000-01-01"})) == []
    assert http.get(f"{channel}/messages", params={"since": "soon"}).status_code == 422


def test_subscriptions_are_made_shown_paused_and_ended(http, channel):
    one = f"{channel}/subscriptions/cheap"
    made = http.put(one, json={"selector": "price < 10"}).json()
    assert (made["state"], made["notes"]) == ("gone", [])
    publish(http, channel, message(price=5.0), message(price=50.0))
    assert http.get(one).json()["matched"] == 1
    assert http.get(one).json()["lag"] == 2
    assert http.post(f"{one}/pause").json()["state"] == "paused"
    assert http.post(f"{one}/resume").json()["state"] == "gone"
    found = http.get(f"{channel}/subscriptions", params={"q": "price <"}).json()
    assert [s["name"] for s in found["subscriptions"]] == ["cheap"]
    assert http.delete(one).status_code == 204
    assert http.get(one).status_code == 404


def test_notes_tell_never_always_equal_and_covered(http, channel):
    def notes(name, selector):
        return http.put(f"{channel}/subscriptions/{name}", json={"selector": selector}).json()[
            "notes"
        ]

    assert notes("a", "price < 10") == []
    assert notes("b", "price < 5") == ["covered by a"]
    assert notes("c", "NOT price >= 10") == ["equal to a"]
    assert notes("d", "price < 1 AND price > 2") == ["unsatisfiable"]


def test_notes_find_what_covers_among_many(http, channel):
    path = f"{channel}/subscriptions"
    for i in range(60):
        http.put(f"{path}/many{i}", json={"selector": f"volume = {i} AND price > {i}"})
    http.put(f"{path}/wide", json={"selector": "volume < 1000"})
    told = http.put(f"{path}/new", json={"selector": "volume = 55 AND price > 60"}).json()["notes"]
    assert told == ["covered by many55", "covered by wide"]
    told = http.put(f"{path}/same", json={"selector": "price > 58 AND volume = 58"}).json()["notes"]
    assert told == ["equal to many58", "covered by wide"]
    assert http.put(f"{path}/other", json={"selector": "volume > 2000"}).json()["notes"] == []


def test_notes_prove_each_selector_once(http, channel, monkeypatch):
    path, proofs, covers = f"{channel}/subscriptions", [], Matcher.covers

    def counted(matcher, a, b):
        proofs.append((a, b))
        return covers(matcher, a, b)

    for i in range(10):
        http.put(f"{path}/same{i}", json={"selector": "price > 5"})
    monkeypatch.setattr(Matcher, "covers", counted)
    told = http.put(f"{path}/new", json={"selector": "price > 6"}).json()["notes"]
    assert told == [f"covered by same{i}" for i in range(10)]
    assert len(proofs) == 2  # it is covered, and it is not equal


def test_bad_selectors_are_told_with_their_place(http, channel):
    response = http.put(f"{channel}/subscriptions/bad", json={"selector": "price > AND 3"})
    assert response.status_code == 422
    assert response.json()["at"] == 8
    response = http.put(f"{channel}/subscriptions/bad", json={"selector": "price = 'x'"})
    assert response.status_code == 422
    response = http.put(f"{channel}/subscriptions/bad", json={"selector": "price > 1) OR (TRUE"})
    assert response.status_code == 422


def test_dry_run_tells_who_would_get_it_and_stores_nothing(http, channel):
    http.put(f"{channel}/subscriptions/a", json={"selector": "price < 10"})
    http.put(f"{channel}/subscriptions/b", json={"subjects": "q.*"})
    two = [message(price=5.0), message(price=50.0, subject="q.ny")]
    found = http.post(f"{channel}/messages", json=two, params={"dry": "1"}).json()
    assert found == {"matches": [["a"], ["b"]], "among": "all"}
    assert lines(http.get(f"{channel}/messages")) == []


def test_check_explain_near_and_values(http, channel):
    publish(
        http,
        channel,
        *(message(price=float(i), symbol="IBM" if i % 2 else "LU") for i in range(10)),
    )
    found = http.post(f"{channel}/check", json={"selector": "price>=5"}).json()
    assert (found["reads"], found["matching"], found["recent"]) == ("price >= 5", 5, 10)
    http.put(f"{channel}/subscriptions/a", json={"selector": "price < 10 AND symbol = 'IBM'"})
    asked = {"subscription": "a", "message": {"price": 5.0, "symbol": "LU"}}
    assert http.post(f"{channel}/explain", json=asked).json()["matches"] is False
    near = http.post(f"{channel}/near", json={"message": asked["message"]}).json()
    assert [one["subscription"] for one in near["near"]] == ["a"]
    assert "symbol" in near["near"][0]["fails"]
    values = http.get(f"{channel}/values/symbol", params={"q": "i"}).json()["values"]
    assert values == [{"value": "IBM", "count": 5}]


FORMS = {
    "attributes alone": lambda subject, held: held,
    "as published": lambda subject, held: {"attributes": held},
    "as published under a subject": lambda subject, held: {"subject": subject, "attributes": held},
    "as received": lambda subject, held: {
        "subscription": "a", "sequence": 3, "time": 5, "subject": subject, "attributes": held
    },
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_questions_take_messages_in_every_form(http, channel, form):
    http.put(f"{channel}/subscriptions/a", json={"selector": "price < 10 AND symbol = 'IBM'"})
    http.put(f"{channel}/subscriptions/ny", json={"subjects": "q.*", "selector": "price < 10"})
    http.put(f"{channel}/subscriptions/all", json={"subjects": "q.*"})
    good = FORMS[form]("q.ny", {"price": 5.0, "symbol": "IBM"})
    subject = "subject" in good

    def explained(**asked):
        return http.post(f"{channel}/explain", json={"message": good, **asked}).json()

    assert explained(subscription="a")["matches"] is True
    assert explained(selector="price < 10")["lines"][0]["why"] == "price = 5.0"
    for name in ("ny", "all"):
        found = explained(subscription=name)
        assert found["matches"] is subject
        assert found["lines"][0]["text"] == "subjects q.*"
        assert ("=> match" in found["text"].splitlines()) is subject
    near = http.post(f"{channel}/near", json={"message": good}).json()["near"]
    assert near == ([] if subject else [{"subscription": "ny", "fails": "subjects q.*"}])
    line = {"q": f"channel:{channel.split('/')[-1]} matches:{json.dumps(good)}"}
    reached = http.get("/api/subscriptions", params=line).json()["subscriptions"]
    assert [one["name"] for one in reached] == (["a", "all", "ny"] if subject else ["a"])


def test_an_attribute_may_be_called_attributes(http, channel):
    asked = {"selector": "attributes.price = 5", "message": {"attributes": {"price": 5}, "x": 1}}
    assert http.post(f"{channel}/explain", json=asked).json()["matches"] is True
    asked["message"] = {"attributes": {"attributes": {"price": 5}}}
    assert http.post(f"{channel}/explain", json=asked).json()["matches"] is True


def test_names_do_not_change_the_status_of_an_error(http, channel):
    """The words of an error, which hold names of users, say nothing about its status."""
    subscription = f"{channel}/subscriptions/already"
    state = "state already from x ordered by sequence (m: double := 0)"
    for path in (subscription, "/api/channels/already", "/api/flows/already"):
        assert http.get(path).status_code == 404
    assert http.put("/api/flows/already", json={"text": "there is no already"}).status_code == 422
    assert http.put(subscription, json={}).status_code == 200
    assert http.put(subscription, json={"summary": state}).status_code == 422


def test_a_fault_of_the_broker_is_its_own(server, http, channel, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(server.parts.hub.registry, "change_subscriptions", broken)
    found = http.put(f"{channel}/subscriptions/mine", json={})
    assert (found.status_code, "ZeroDivisionError" in found.text) == (500, True)


@pytest.mark.parametrize("subject", [5, None, "a..b", "#.x y"])
@pytest.mark.parametrize("path", ["explain", "near"])
def test_bad_subjects_in_questions_are_refused(http, channel, path, subject):
    http.put(f"{channel}/subscriptions/a", json={"selector": "price < 10"})
    asked = {"message": {"subject": subject, "attributes": {}}}
    asked |= {"selector": "price < 10"} if path == "explain" else {}
    assert http.post(f"{channel}/{path}", json=asked).status_code == 422


def test_live_events_by_a_plain_stream(server, http, channel):
    with server.http() as other, other.stream("GET", f"{channel}/live?selector=price>5") as stream:
        events = stream.iter_lines()
        assert next(events) == ": connected"
        publish(http, channel, message(price=1.0), message(price=9.0))
        found = [next(events) for _ in range(3)]
    assert found[1] == "id: 2"
    assert json.loads(found[2].removeprefix("data: "))["attributes"]["price"] == 9.0


def test_last_event_id_goes_on_behind_it(server, http, channel):
    publish(http, channel, *(message(price=float(i)) for i in range(5)))
    with server.http() as other:
        headers = {"last-event-id": "3"}
        with other.stream("GET", f"{channel}/live", headers=headers) as stream:
            found = [line for _, line in zip(range(8), stream.iter_lines(), strict=False)]
    assert [line for line in found if line.startswith("id")] == ["id: 4", "id: 5"]


def test_oversize_and_packed_requests_are_refused(http, channel):
    big = b'{"attributes": {"x": "' + b"x" * (2 << 20) + b'"}}'
    response = http.post(f"{channel}/messages", content=big)
    assert response.status_code == 422
    packed = http.post(f"{channel}/messages", content=b"x", headers={"content-encoding": "gzip"})
    assert packed.status_code == 422


def test_a_method_that_a_path_has_not_names_those_that_it_has(http, channel):
    for path, methods in (
        (channel, "DELETE, GET, HEAD, PUT"),
        (f"{channel}/messages", "GET, HEAD, POST"),
        (f"{channel}/subscriptions/x", "DELETE, GET, HEAD, PUT"),
        (f"{channel}/subscriptions/x/pause", "POST"),
        ("/health", "GET, HEAD"),
    ):
        refused = http.request("PATCH", path)
        assert (refused.status_code, refused.headers["allow"]) == (405, methods)
        assert methods in refused.json()["error"]
    nowhere = http.get("/api/nowhere")
    assert (nowhere.status_code, "/api/nowhere" in nowhere.json()["error"]) == (404, True)


def test_the_head_of_a_stream_ends(http, channel):
    for path in (f"{channel}/live", f"{channel}/messages", "/api/events"):
        assert (http.head(path).status_code, http.head(path).content) == (200, b"")
    assert http.head(f"{channel}x/live").status_code == 404


def test_all_that_is_refused_is_counted(server, http, channel):
    def refused():
        return int(re.search(r"tamis_refused_messages_total (\d+)", http.get("/metrics").text)[1])

    before, path = refused(), f"{channel}/messages"
    assert http.post(path, content=b"{").status_code == 422
    assert http.post(path, json=[message(), message(price="x"), message()]).status_code == 422
    assert http.post(path, json=message(subject="a..b")).status_code == 422
    assert http.post(path, json=message()).status_code == 200
    assert refused() == before + 5


def test_a_channel_that_is_closed_while_a_message_arrives(server, http, channel):
    body = json.dumps(message()).encode()
    head = f"POST {channel}/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", server.found.http), 10) as peer:
        peer.sendall(head.encode() + b"\r\n\r\n" + body[:5])
        time.sleep(0.2)
        assert http.delete(channel).status_code == 204
        peer.sendall(body[5:])
        assert peer.recv(4096).startswith(b"HTTP/1.1 404 ")


def test_nested_bombs_are_refused(http, channel):
    deep = b'{"attributes": {"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    assert http.post(f"{channel}/messages", content=deep).status_code == 422


def test_nothing_is_published_under_the_subjects_of_control(http, channel):
    message = {"subject": "#.SUBSCRIPTION", "attributes": {}}
    found = http.post(f"{channel}/messages", json=message)
    assert found.status_code == 422
    assert "# is for control" in found.json()["error"]

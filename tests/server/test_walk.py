"""Every route and every protocol, for everybody who has no right to it.

Without credentials: 401. Without a right: 403, whether the thing exists or not. With all rights in
another tenant: exactly what is answered of things that exist nowhere.
"""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path

import pytest
import websockets.sync.client as ws
from websockets.exceptions import InvalidStatus

from server.servers import QUOTES, served
from tamis.registry import VERBS, Principal, Right, SqliteRegistry
from tamis.server.access import new_token
from tamis.server.tcp.packet_commands import COMMANDS

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "packets"))
from client import Client
from client import RefusedError as Refused

STRANGERS = ["", "Bearer wrong", "Basic d3Jvbmc6d3Jvbmc=", "Basic ?", "Digest x"]
FLOW = {"text": "space quotes(symbol: string, price: double)\nquotes -> Low : select price < 9"}
HERE = {"c": "quotes", "s": "mine", "p": "boss", "a": "price", "t": "0" * 16, "f": "flow",
        "x": "Low", "r": "router"}  # fmt: skip
NOWHERE = {name: name.upper() * len(value) for name, value in HERE.items()}
BODIES = ({}, {"attributes": {}}, {"message": {}}, {"verb": "manage"}, {"text": ""}, FLOW, 7)
_C, _S, _X = "/api/channels/{c}", "/api/channels/{c}/subscriptions/{s}", "/api/flows/{f}/spaces/{x}"
_P, _L = "/api/principals/{p}", "/api/links/{r}/{c}"
NEEDS = {  # any of these verbs; one who has all others is refused
    "subscribe": [f"GET {_C}/messages", f"GET {_C}/live", f"POST {_C}/check",
                  f"GET {_C}/values/{{a}}", f"PUT {_S}", f"GET {_X}/live",
                  f"PUT {_X}/subscriptions/{{s}}"],
    "publish": [f"POST {_C}/messages", f"POST {_C}/spelling"],
    "manage": [f"PUT {_C}", f"DELETE {_C}", "PUT /api/flows/{f}", "DELETE /api/flows/{f}",
               "GET /api/principals", f"PUT {_P}", f"DELETE {_P}", f"POST {_P}/rights",
               f"DELETE {_P}/rights", f"POST {_P}/tokens", f"GET {_P}/tokens",
               f"DELETE {_P}/tokens/{{t}}", "GET /api/audit", "GET /api/links",
               "POST /api/links/drain", f"POST {_L}/pause", f"POST {_L}/resume",
               f"GET {_L}/why", f"GET {_L}/wants"],
    "subscribe manage": [f"POST {_C}/explain", f"POST {_C}/near", f"GET {_C}/subscriptions",
                         f"GET {_S}", f"DELETE {_S}", f"GET {_S}/dead", f"GET {_S}/versions",
                         f"POST {_S}/dead/retry", f"POST {_S}/pause", f"POST {_S}/resume",
                         f"POST {_S}/drop", f"POST {_S}/disconnect", f"PUT {_S}/cursor",
                         f"GET {_X}/subscriptions/{{s}}", f"DELETE {_X}/subscriptions/{{s}}"],
    "publish subscribe manage": ["GET /api/channels", f"GET {_C}", "GET /api/subscriptions",
                                 "GET /api/subscriptions/count", "GET /api/subscribers",
                                 "GET /api/overview", "GET /api/events", "GET /api/flows",
                                 "GET /api/flows/{f}", "POST /api/flows/{f}/check",
                                 "POST /api/flows/{f}/rewrite", "POST /api/flows/{f}/try"],
}  # fmt: skip


@pytest.fixture(scope="module")
def tokens():
    return {}


@pytest.fixture(scope="module")
def server(tmp_path_factory, tokens):
    """`no-VERB` has all rights but that; nobody has none; eve has all, in another tenant."""
    directory = tmp_path_factory.mktemp("broker")
    registry = SqliteRegistry(directory / "registry.db")
    lacking = {"boss": set(), "eve": set(), "nobody": set(VERBS)}
    lacking |= {needs: set(needs.split()) for needs in NEEDS}
    for name, missing in lacking.items():
        made = Principal(name.replace(" ", "-"), "other" if name == "eve" else "acme")
        registry.put_principal(made)
        tokens[name] = new_token(registry, made.login)
        for verb in set(VERBS) - missing:
            registry.put_right(Right(made.login, verb))
    registry.put_principal(Principal("elsewhere", "acme"))
    for verb in VERBS:
        registry.put_right(Right("acme/elsewhere", verb, "another"))
    tokens["elsewhere"] = new_token(registry, "acme/elsewhere")
    registry.close()
    with served(directory) as found, found.http(headers=bearer(tokens["boss"])) as http:
        assert http.put("/api/channels/quotes", json=QUOTES).status_code == 201
        assert http.put("/api/channels/quotes/subscriptions/mine", json={}).status_code == 200
        assert http.put("/api/flows/flow", json=FLOW).status_code == 200
        yield found


def bearer(token):
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def routes(server):
    with server.http() as http:
        paths = http.get("/openapi.json").json()["paths"]
    return [f"{method.upper()} {path}" for path, known in paths.items() for method in known]


def asked(http, route, names, body, **more):
    method, path = route.split()
    return http.request(method, path.format(**names), json=body, **more)


def test_the_table_has_every_route(routes):
    assert sorted(routes) == sorted(route for known in NEEDS.values() for route in known)


def test_every_route_refuses_strangers(server, routes):
    with server.http() as http:
        for route in routes:
            for who in STRANGERS:
                headers = {"authorization": who} if who else {}
                found = asked(http, route, HERE, {}, headers=headers)
                assert found.status_code == 401, (route, who)


def test_every_route_refuses_principals_without_rights(server, routes, tokens):
    with server.http(headers=bearer(tokens["nobody"])) as http:
        for route in routes:
            for body in BODIES:
                found = [asked(http, route, names, body) for names in (HERE, NOWHERE)]
                assert [r.status_code for r in found] == [403, 403], (route, found[0].text)
                assert same(found[0].text, found[1].text), route


@pytest.mark.parametrize("needs", NEEDS)
def test_every_route_needs_its_verb(server, tokens, needs):
    """Of things that exist, and of others: so nobody can learn which there are."""
    with server.http(headers=bearer(tokens[needs])) as http:
        for route in NEEDS[needs]:
            for body in BODIES:
                response = asked(http, route, HERE, body)
                assert response.status_code == 403, (route, response.text)


def test_rights_on_another_channel_are_none_on_this(server, routes, tokens):
    with server.http(headers=bearer(tokens["elsewhere"])) as http:
        for route in routes:
            if "{" in route:
                here, nowhere = (asked(http, route, names, {}) for names in (HERE, NOWHERE))
                wanted = {"PUT /api/flows/{f}": 422}.get(route, 404 if "/flows/" in route else 403)
                assert here.status_code == wanted, (route, here.text)
                assert same(here.text, nowhere.text), (route, here.text, nowhere.text)
        taken = asked(http, "PUT /api/flows/{f}", HERE, FLOW)
        assert (taken.status_code, "quotes" in taken.text) == (409, False)
        for path in ("/api/channels", "/api/flows", "/api/subscriptions", "/api/overview"):
            text = http.get(path).text
            assert "quotes" not in text
            assert "mine" not in text


def same(here: str, nowhere: str) -> bool:
    """Whether two texts differ in names alone."""
    for name in HERE:
        nowhere = nowhere.replace(NOWHERE[name], HERE[name])
    return here == nowhere


def test_what_another_tenant_has_looks_as_what_nobody_has(server, routes, tokens):
    with server.http(headers=bearer(tokens["eve"])) as http:
        for route in routes:
            if "{" not in route:
                continue
            for body in BODIES:
                here, nowhere = (asked(http, route, names, body) for names in (HERE, NOWHERE))
                assert here.status_code == nowhere.status_code, (route, body)
                assert same(here.text, nowhere.text), (route, here.text, nowhere.text)
                for names in (HERE, NOWHERE):  # what eve just made
                    http.delete(f"/api/channels/{names['c']}")
                    http.delete(f"/api/principals/{names['p']}")
        for path in ("/api/channels", "/api/flows", "/api/subscriptions", "/api/principals",
                     "/api/overview", "/api/subscribers", "/api/audit"):  # fmt: skip
            text = http.get(path).text
            assert "mine" not in text
            assert "acme" not in text
            assert "boss" not in text.replace("other/boss", "")  # eve made one of her own
    with server.http(headers=bearer(tokens["boss"])) as http:
        assert http.get("/api/channels/quotes/subscriptions/mine").status_code == 200
        assert '"quotes"' in http.get("/api/audit").text


# --- WebSocket ----------------------------------------------------------------------

FRAMES = [
    {"type": "publish", "channel": "{c}", "messages": [{"attributes": {"price": 1.0}}]},
    {"type": "publish", "channel": "{c}", "messages": [{"attributes": {}, "subject": "?!"}]},
    {"type": "subscribe", "channel": "{c}", "name": "a"},
    {"type": "subscribe", "channel": "{c}", "name": "a", "selector": "price <"},
    {"type": "subscribe", "channel": "{c}", "name": "{s}", "durable": True},
    {"type": "subscribe", "channel": "{f}/{x}", "name": "a"},
    {"type": "subscribe", "channel": "{f}/{x}", "name": "{s}", "durable": True},
    {"type": "unsubscribe", "name": "{s}", "end": True},
    {"type": "ack", "name": "{s}", "sequence": 1},
]


def framed(frame, names):
    text = json.dumps(frame)
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def answers(server, token, names):
    address = server.url.replace("http", "ws") + "/ws"
    with ws.connect(address, additional_headers=bearer(token)) as peer:
        for frame in FRAMES:
            peer.send(framed(frame, names))
            yield json.loads(peer.recv(20))


def test_every_frame_of_a_websocket(server, tokens):
    address = server.url.replace("http", "ws") + "/ws"
    for headers in ({}, bearer("wrong")):
        with pytest.raises(InvalidStatus, match="401"):
            ws.connect(address, additional_headers=headers)
    for who in ("nobody", "elsewhere"):
        here, nowhere = (list(answers(server, tokens[who], names)) for names in (HERE, NOWHERE))
        assert {answer["type"] for answer in here} == {"error"}
        for frame, one in zip(FRAMES[:7], here, strict=False):
            hidden = "there is no flow" if "{f}" in frame["channel"] else "no right"
            wanted = "no right" if who == "nobody" else hidden
            assert wanted in one["error"], (frame, one)
        for one, other in list(zip(here, nowhere, strict=True))[:7]:
            assert same(one["error"], other["error"])
    here, nowhere = (list(answers(server, tokens["eve"], names)) for names in (HERE, NOWHERE))
    assert all(same(json.dumps(a), json.dumps(b)) for a, b in zip(here, nowhere, strict=True))
    assert {answer["type"] for answer in here} == {"error"}


# --- STOMP --------------------------------------------------------------------------

STOMP = [
    "SEND\ndestination:/{c}\n\n{{}}",
    "SEND\ndestination:/{c}/?!\n\n{{}}",
    "SUBSCRIBE\nid:1\ndestination:/{c}\n\n",
    "SUBSCRIBE\nid:1\ndestination:/{c}\nselector:price <\n\n",
    "SUBSCRIBE\nid:1\ndestination:/{c}\ntamis-durable:{s}\n\n",
    "SUBSCRIBE\nid:1\ndestination:/{f}\ntamis-space:{x}\n\n",
    "SUBSCRIBE\nid:1\ndestination:/{f}\ntamis-space:{x}\ntamis-durable:{s}\n\n",
    "UNSUBSCRIBE\nid:{s}\n\n",
    "ACK\nid:{s}:1\n\n",
]


def stomped(server, login, frame):
    """The answer to a frame, all of it; an error closes the connection."""
    with socket.create_connection(("127.0.0.1", server.stomp), 20) as peer:
        peer.sendall(f"CONNECT\naccept-version:1.2\nhost:x\n{login}\n\n\0".encode())
        peer.sendall(frame.encode() + b"\0")
        found = b""
        while data := peer.recv(10_000):
            found += data
    return found.decode().split("\0")


def test_every_frame_of_stomp(server, tokens):
    for frame in STOMP:
        for login in ("passcode:wrong", "login:boss\npasscode:no", "tamis:0"):
            (first, *_) = stomped(server, login, frame.format(**HERE))
            assert first.startswith("ERROR")
            assert "say who you are" in first
        for who in ("nobody", "elsewhere", "eve"):
            login = f"passcode:{tokens[who]}"
            here, nowhere = (stomped(server, login, frame.format(**names))[1]
                             for names in (HERE, NOWHERE))  # fmt: skip
            assert here.lstrip().startswith("ERROR"), (frame, here)
            if who != "eve":
                hidden = "no flow" if "{f}" in frame and who == "elsewhere" else "no right"
                assert hidden in here or "no subscription" in here, (frame, here)
            lengths = re.compile(r"content-length:\d+")
            here, nowhere = (lengths.sub("", text) for text in (here, nowhere))
            assert same(here, nowhere), (frame, here, nowhere)


# --- packets ------------------------------------------------------------------------

SAID = {"Channel": "{c}", "Form": "", "Sentence": "s", "After": "", "ChannelId": 1,
        "Durable": "{s}"}  # fmt: skip


def commanded(client, command, names):
    wanted = COMMANDS[command][1]
    said = {k: v.format(**names) if isinstance(v, str) else v for k, v in SAID.items()}
    try:
        found = client.command(command, **{k: v for k, v in said.items() if k in wanted})
        return str({k: v for k, v in found.items() if k != "Sequence"})
    except Refused as error:
        return str(error)


def test_every_command_in_packets(server, tokens):
    for command in set(COMMANDS) - {"pc.login"}:
        with Client("127.0.0.1", server.packets) as stranger:
            assert "say who you are" in commanded(stranger, command, HERE)
        with (
            Client("127.0.0.1", server.packets) as stranger,
            pytest.raises(Refused, match="say who you are"),
        ):
            stranger.command("pc.login", Token="wrong")
        for who in ("nobody", "eve"):
            with Client("127.0.0.1", server.packets) as client:
                client.command("pc.login", Token=tokens[who])
                here, nowhere = (commanded(client, command, names) for names in (HERE, NOWHERE))
            assert same(here, nowhere) or command == "pc.chn.create", (command, here, nowhere)
            if who == "nobody" and not command.startswith("pc.sub."):
                assert "no right" in here, (command, here)
            if command.startswith("pc.sub."):
                assert "not open here" in here


@pytest.mark.parametrize("subject", ["#.SUBSCRIPTION", "#.UNSUBSCRIPTION", "#.getCache",
                                     "#.ADD_SUBJECT", "#.ACKNOWLEDGEMENT"])  # fmt: skip
def test_every_control_packet(server, tokens, subject):
    """Nothing can be asked of a channel that was not opened, and nobody opens it without rights."""
    for who in ("nobody", "eve"):
        with Client("127.0.0.1", server.packets) as client:
            client.command("pc.login", Token=tokens[who])
            with pytest.raises(Refused, match=r"no right|no channel"):
                client.open("quotes")
            with pytest.raises(Refused):
                client.acknowledged(client.notify(0, subject, {"ChannelId": 1, "Subject": "a"}))

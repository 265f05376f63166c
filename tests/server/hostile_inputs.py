"""`python tests/server/hostile_inputs.py [COUNT [SEED [ONLY]]]`: hostile values in every input.

Every parameter, header and field of every route, every field of every WebSocket and STOMP frame and
every attribute of every packet gets each hostile value in turn. COUNT picks some of these cases;
without it, or with 0, all are sent. ONLY is part of a label, such as STOMP.

Whatever comes, the broker answers with an error of its own in time: no 500, no traceback, no hang.
Between cases others publish and receive as before, and after a restart all subscriptions are there.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import random
import re
import socket
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "packets"))

import websockets.sync.client as ws
from websockets.exceptions import ConnectionClosed

from client import Client
from server.fuzz_sockets import Alarm, check_packets
from server.hostile_values import FRAGMENTS, NUMBERS, TEXTS
from server.servers import QUOTES, served
from tamis.client import Agent
from tamis.registry import VERBS, Principal, Right, SqliteRegistry
from tamis.server.access import new_token
from tamis.server.tcp.packet_commands import COMMANDS

DEADLINE = 60.0  # seconds for an answer, on a machine that does much else
MOST_SHOWN = 30  # failures
CHECKED = 200  # cases between two looks at the others
FLOW = {"text": "space quotes(symbol: string, price: double)\nquotes -> Low : select price < 9"}
HERE = {"c": "victim", "s": "mine", "p": "victim", "a": "price", "t": "0" * 16, "f": "flow",
        "x": "Low", "r": "router"}  # fmt: skip
MESSAGE = {"attributes": {"price": 1.5, "symbol": "IBM", "volume": 3}, "subject": "a.b"}
BODIES = {
    "ChannelForm": QUOTES, "Message": MESSAGE, "Wish": {"selector": "price > 1"}, "FlowForm": FLOW,
    "Question": {"message": MESSAGE["attributes"], "selector": "price > 1"}, "TokenForm": {},
    "RightForm": {"verb": "subscribe"}, "PrincipalForm": {"password": "p"},
}  # fmt: skip
HEADERS = ["authorization", "content-type", "content-encoding", "content-length", "host", "origin",
           "transfer-encoding", "last-event-id", "if-match", "accept", "connection", "expect",
           "upgrade", "cookie", "range"]  # fmt: skip
HALF = {"content-length", "transfer-encoding", "expect", "upgrade"}  # more may have to follow
CODES = {1000, 1002, 1003, 1007, 1008, 1009}  # with which a WebSocket may be closed


class Case(NamedTuple):
    label: str
    send: Callable[[], str]  # what came of it


class Broker:
    """A server, and who talks to it."""

    def __init__(self, server, token: str) -> None:
        self.server, self.token = server, token
        self.http = server.http(headers={"authorization": f"Bearer {token}"})

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def restore(self) -> None:
        """The things that cases are about, as they were."""
        for path, body in (("channels/victim", QUOTES), ("channels/quotes", QUOTES),
                           ("channels/victim/subscriptions/mine", {}), ("flows/flow", FLOW),
                           ("flows/flow/spaces/Low/subscriptions/mine", {}),
                           ("principals/victim", {})):  # fmt: skip
            found = self.http.put(f"/api/{path}", json=body)
            assert found.status_code in (200, 201), (path, found.text[:300])


# --- HTTP -----------------------------------------------------------------------------


def over_http(broker: Broker) -> Iterator[Case]:
    document = broker.http.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield from _route(broker, method.upper(), path, operation, schemas)


def _route(broker: Broker, method: str, path: str, operation, schemas) -> Iterator[Case]:
    label = f"{method} {path}"
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    form = BODIES.get(name, {})
    here = path.format(**HERE)

    def case(what: str, target=lambda: here, body=lambda: json.dumps(form), head=()) -> Case:
        data = body if name else str
        return Case(f"{label} {what}", lambda: _asked(broker, method, target(), data(), head))

    for parameter in operation["parameters"]:
        key = parameter["name"]
        for text in QUOTED:
            if parameter["in"] == "path":
                yield case(f"path {key}", partial(path.format, **HERE | {key: text}))
            else:
                yield case(f"query {key}", partial("{}?{}={}".format, here, key, text))
    for header in HEADERS:
        for text in TEXTS[:60]:
            clean = re.sub(r"[\r\n]", "", text).encode("utf-8").decode("latin-1")
            yield case(f"header {header}", head=[(header, clean)])
    if not name:
        return
    for body in FRAGMENTS:
        yield case("body", body=partial(str, body))
    for field in (*schemas.get(name, {}).get("properties", {}), "unknown"):
        for fragment in FRAGMENTS:
            for wrap in WRAPS:
                yield case(f"field {field}", body=partial(_with, form, field, fragment, wrap))


def quote_all(text: str) -> str:
    return quote(text, safe="")


QUOTED = [*map(quote_all, TEXTS), "%00", "%FF%FE", "%ED%A0%80", "%", "x" * 9000]
WRAPS = "%s", "[%s]", '{"price":%s}', '{"quotes":%s}'  # where an object or a list belongs


def _with(body: dict, field: str, fragment: str, wrap: str = "%s") -> str:
    """The body as JSON, with another value in a field: also one that is not JSON."""
    others = {key: value for key, value in body.items() if key != field}
    return f'{{"{field}":{wrap % fragment}{"," if others else ""}{json.dumps(others)[1:]}'


def _asked(broker: Broker, method: str, target: str, body: str, head) -> str:
    headers = {"host": f"127.0.0.1:{broker.server.found.http}", "connection": "close",
               "authorization": f"Bearer {broker.token}"}  # fmt: skip
    data = body.encode(errors="surrogatepass")
    if data:
        headers |= {"content-length": str(len(data))}
    lines = [f"{key}: {value}" for key, value in (headers | dict(head)).items()]
    request = "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""])
    half = any(key in HALF for key, _ in head)
    found = _answer(broker.server.found.http, request.encode("latin-1") + data, half)
    status = int(found.split(None, 2)[1]) if found else 0
    assert status < 500, found[:600]
    if status < 300 and method != "GET":  # without an answer it may have been done, too
        broker.restore()
    return str(status) if found else "closed"


def _answer(port: int, request: bytes, half: bool) -> bytes:
    """What comes until the connection is closed; of a stream its beginning. `half`: say that
    nothing more will follow, for the broker may wait for it."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as peer:
        with contextlib.suppress(ConnectionError):  # it need not read all before it refuses
            peer.sendall(request)
            if half:
                _finish(peer)
        with contextlib.suppress(ConnectionError):
            while data := peer.recv(1 << 16):
                found += data
                if _whole(found):
                    break
    return found


def _finish(peer: socket.socket) -> None:
    """Nothing more follows; the broker may have closed the connection already."""
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_WR)


def _whole(found: bytes) -> bool:
    """Whether all of an HTTP answer is there, or it is a stream."""
    head, _, body = found.partition(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", head.lower())
    return b"event-stream" in head or (size is not None and len(body) >= int(size[1]))


# --- WebSocket ------------------------------------------------------------------------

FRAMES = [
    {"type": "publish", "channel": "quotes", "messages": [MESSAGE], "publisher": "p", "request": 1},
    {"type": "subscribe", "channel": "quotes", "name": "{n}", "selector": "price > 1",
     "subjects": ">", "start": "now", "window": 5, "request": 2},
    {"type": "subscribe", "channel": "quotes", "name": "{n}", "durable": True, "catch_up": "all",
     "summary": "state S from quotes ordered by sequence (m: double := 0)\n rule => m := price"},
    {"type": "subscribe", "channel": "flow/Low", "name": "{n}", "starts": {"quotes": 1}},
    {"type": "unsubscribe", "name": "held", "end": False, "request": 3},
    {"type": "ack", "name": "held", "sequence": 1, "source": ""},
]  # fmt: skip


def over_websocket(broker: Broker) -> Iterator[Case]:
    numbers = itertools.count()

    def case(what: str, *make) -> Case:
        return Case(f"WebSocket {what}", lambda: _sent(broker, partial(*make)(), next(numbers)))

    for frame in FRAMES:
        for field in (*frame, "unknown"):
            for fragment in FRAGMENTS:
                for wrap in WRAPS:
                    yield case(f"{frame['type']} {field}", _with, frame, field, fragment, wrap)
    for field in (*MESSAGE, "sequence", "id", "unknown"):
        for fragment in FRAGMENTS:
            for wrap in WRAPS:
                yield case(f"publish message {field}", _publishing, field, fragment, wrap)
    for fragment in FRAGMENTS:
        yield case("frame", str, fragment)


def _publishing(field: str, fragment: str, wrap: str) -> str:
    return _with(FRAMES[0], "messages", f"[{_with(MESSAGE, field, fragment, wrap)}]")


def _sent(broker: Broker, text: str, number: int) -> str:
    """The frame, and behind it a request that must be answered, unless the connection ends."""
    address = broker.server.url.replace("http", "ws") + "/ws"
    head = {"authorization": f"Bearer {broker.token}"}
    with ws.connect(address, additional_headers=head, max_size=None, open_timeout=DEADLINE) as peer:
        peer.send('{"type":"subscribe","channel":"quotes","name":"held","request":4001}')
        peer.send(text.replace("{n}", f"n{number}"))
        peer.send('{"type":"unsubscribe","name":"no such","request":4002}')
        outcome = "ignored"
        try:
            while True:
                answer = json.loads(peer.recv(DEADLINE))
                assert answer.get("status", 0) < 500, answer
                if answer.get("request") == 4002:
                    return outcome
                if answer["type"] != "messages" and answer.get("request") != 4001:
                    outcome = answer["type"]
        except ConnectionClosed as error:
            closing = error.rcvd
    assert closing is not None, text[:300]
    assert closing.code in CODES, (closing, text[:300])
    return f"closed {closing.code}"


# --- STOMP ----------------------------------------------------------------------------

CONNECT = {"accept-version": "1.2", "host": "x", "heart-beat": "0,0", "passcode": "{token}"}
STOMP: list[tuple[str, dict[str, str], str]] = [
    ("CONNECT", CONNECT | {"login": ""}, ""),
    ("SEND", {"destination": "/quotes/a.b", "content-type": "application/json", "receipt": "1",
              "content-length": "13", "tamis-sequence": "0", "tamis-id": "", "tamis-publisher": "p",
              "transaction": "", "price": "1"}, '{"price":1.5}'),
    ("SUBSCRIBE", {"id": "1", "destination": "/quotes", "selector": "price > 1", "ack": "client",
                   "tamis-start": "now", "receipt": "1"}, ""),
    ("SUBSCRIBE", {"id": "2", "destination": "/quotes", "tamis-durable": "kept",
                   "activemq.subscriptionName": "kept"}, ""),
    ("SUBSCRIBE", {"id": "3", "destination": "/flow", "tamis-space": "Low"}, ""),
    ("UNSUBSCRIBE", {"id": "held"}, ""), ("BEGIN", {"transaction": "1"}, ""),
    ("ACK", {"id": "held:1", "message-id": "held:1"}, ""), ("NACK", {"id": "held:1"}, ""),
    ("DISCONNECT", {"receipt": "9"}, ""),
]  # fmt: skip


def over_stomp(broker: Broker) -> Iterator[Case]:
    def case(what: str, command: str, headers: dict[str, str], body: str) -> Case:
        return Case(f"STOMP {what}", lambda: _stomped(broker, _stomp(command, headers, body)))

    for command, headers, body in STOMP:
        for text in TEXTS:
            for key in (*headers, "unknown"):
                yield case(f"{command} {key}", command, headers | {key: text}, body)
            yield case(f"{command} body", command, headers | {"content-length": ""}, text)
    for text in TEXTS:
        yield case("command", re.sub(r"[\r\n]", "", text), {}, "")


def _stomp(command: str, headers: dict[str, str], body: str) -> bytes:
    escapes = str.maketrans({"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"})
    plain = command == "CONNECT"
    lines = [f"{k}:{v if plain else v.translate(escapes)}\n" for k, v in headers.items() if v or k]
    return f"{command}\n{''.join(lines)}\n{body}".encode() + b"\0"


def _stomped(broker: Broker, frame: bytes) -> str:
    hello = _stomp("CONNECT", CONNECT, "").replace(b"{token}", broker.token.encode())
    held = _stomp("SUBSCRIBE", {"id": "held", "destination": "/quotes", "ack": "client"}, "")
    first = b"" if frame.startswith(b"CONNECT") else hello + held
    frame = frame.replace(b"{token}", broker.token.encode())
    last = _stomp("DISCONNECT", {"receipt": "99"}, "")
    found = _answer(broker.server.stomp, first + frame + last, half=True)
    assert b"the broker failed" not in found, found[-300:]
    ended = [one for one in (b"receipt-id:99", b"ERROR\n") if one in found]
    return ended[0].decode().strip() if ended else "closed"


# --- packets --------------------------------------------------------------------------

SAID = {"Token": "{token}", "Name": "boss", "Password": "x", "Channel": "quotes", "Form": "",
        "Sentence": "s", "Semantics": "sql", "Dialect": "tamis", "RetentionBytes": 0, "After": "",
        "ChannelId": 0, "Port": 1, "Subscription": 2, "Subject": ">", "Selector": "price > 1",
        "Durable": "kept", "Start": "now", "Sequence": 1, "Mapping": "900"}  # fmt: skip
CONTROLS = {
    "#.ADD_SUBJECT": ("ChannelId", "Subject", "Mapping"), "#.getCache": ("Subject", "Selector"),
    "#.ACKNOWLEDGEMENT": ("Sequence", "Subscription"), "#.SUBSCRIPTION": (),
    "#.UNSUBSCRIPTION": (), "#.RESUBSCRIPTION": (), "#.ANSWER": (), "#.ERROR": ("Reason",),
}  # fmt: skip
WIDE = [n for n in NUMBERS if -(2**63) <= n < 2**63]
TYPED = [*WIDE, *TEXTS, 1.5, float("nan"), float("inf"), -1e308, True]


def over_packets(broker: Broker) -> Iterator[Case]:
    for command, (_, wanted) in COMMANDS.items():
        for key in (*wanted, "Unknown"):
            for value in TYPED:
                yield _packet(broker, f"{command} {key}", 0, "#.COMMAND", ("Command", *wanted),
                              {"Command": command, key: value})  # fmt: skip
    for subject, keys in CONTROLS.items():
        for channel in (0, None):
            for key in (*keys, "Unknown"):
                for value in TYPED:
                    yield _packet(broker, f"{subject} {key}", channel, subject, keys, {key: value})
    for key in ("price", "symbol", "volume", "other", "Command"):
        for value in TYPED:
            yield _packet(broker, f"notification {key}", None, "a", (), {key: value})


def _packet(broker, label, channel, subject, keys, said) -> Case:
    return Case(f"packet {label}",
                lambda: _packed(broker, channel, subject, keys, said))  # fmt: skip


def _packed(broker: Broker, channel, subject: str, keys, said) -> str:
    """`channel` None: an open one."""
    with Client("127.0.0.1", broker.server.packets) as client:
        client.socket.settimeout(DEADLINE)
        if said.get("Command") != "pc.login":
            client.command("pc.login", Token=broker.token)
            opened = client.open("quotes")
            client.add_subject(opened, "a")
            channel = opened if channel is None else channel
            others = SAID | {"ChannelId": opened}
            said = {key: others[key] for key in keys if key in others} | said
        try:
            client.notify(channel or 0, subject, said)
        except (struct.error, AttributeError, OverflowError, KeyError):
            return "cannot be written"
        except ConnectionError:  # refused before all of it was read
            return "closed"
        _finish(client.socket)
        found = b""
        with contextlib.suppress(ConnectionError):
            while data := client.socket.recv(1 << 16):
                found += data
    assert b"the broker failed" not in found
    check_packets(found, Counter())
    return "refused" if b"Reason" in found else "taken" if found else "closed"


# --- the walk -------------------------------------------------------------------------


class Others:
    """Who has nothing to do with it: publishes and receives, on a channel that is attacked and on
    another."""

    def __init__(self, broker: Broker) -> None:
        self.agent = Agent(broker.server.url, token=broker.token)
        self.round = itertools.count(1)
        self.readers = {name: self.agent.subscribe(name, "canary > 0", durable=f"canary-{name}")
                        for name in ("canary", "quotes")}  # fmt: skip

    def check(self, broker: Broker) -> None:
        number = next(self.round)
        for name, reader in self.readers.items():
            self.agent.publish(name, {"canary": number})
            found = reader.get(DEADLINE)
            assert found is not None, f"nothing came on {name}"
            assert found.attributes == {"canary": number}
            reader.acknowledge(found)
        health = broker.http.get("/health").json()
        assert health["status"] == "ok", health
        assert "faults" not in health, health


def cases(broker: Broker) -> list[Case]:
    walks = (over_http, over_websocket, over_stomp, over_packets)
    return list(itertools.chain.from_iterable(walk(broker) for walk in walks))


def prepared(directory: Path) -> str:
    registry = SqliteRegistry(directory / "registry.db")
    registry.put_principal(Principal("boss", "main"))
    for verb in VERBS:
        registry.put_right(Right("boss", verb))
    token = new_token(registry, "boss")
    registry.close()
    return token


def state(broker: Broker) -> list[str]:
    """What must be the same after a restart."""
    found = []
    for name in [one["name"] for one in pages(broker, "/api/channels", "channels")]:
        rows = pages(broker, f"/api/channels/{quote_all(name)}/subscriptions", "subscriptions")
        found += [f"{name} {row['name']} {row['selector']}" for row in rows if row["durable"]]
    return found


def pages(broker: Broker, path: str, key: str) -> list[dict]:
    found, more = [], True
    while more:
        after = found[-1]["name"] if found else ""
        page = broker.http.get(path, params={"limit": 1000, "after": after}).json()
        found, more = found + page[key], page["more"]
    return found


def walk(count: int = 0, seed: int = 0, only: str = "") -> Counter:
    """0: all cases; `only`: those whose label contains it."""
    tally, alarm, failures = Counter(), Alarm(), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        token = prepared(directory)
        logging.getLogger().addHandler(alarm)
        try:
            with served(directory) as server, Broker(server, token) as broker:
                broker.http.put("/api/channels/canary", json={})
                broker.restore()
                others = Others(broker)
                chosen = [case for case in cases(broker) if only in case.label]
                if count:
                    chosen = random.Random(seed).sample(chosen, min(count, len(chosen)))
                for number, case in enumerate(chosen, 1):
                    if wrong := _one(case, tally, alarm):
                        failures.append(_short(wrong))
                    if number % CHECKED == 0 or number == len(chosen):
                        others.check(broker)
                others.agent.close()
                broker.restore()
                before = state(broker)
            with served(directory) as server, Broker(server, token) as broker:
                assert state(broker) == before
                others = Others(broker)
                others.check(broker)
                others.agent.close()
        finally:
            logging.getLogger().removeHandler(alarm)
    assert not failures, f"{len(failures)} failed:\n" + "\n".join(failures[:MOST_SHOWN])
    return tally


def _short(text: str) -> str:
    """Of a traceback the end says most."""
    return text if len(text) < 900 else f"{text[:200]} ... {text[-700:]}"


def _one(case: Case, tally: Counter, alarm: Alarm) -> str:
    """What is wrong with it; empty: nothing."""
    try:
        outcome, wrong = case.send(), ""
    except Exception as error:
        outcome, wrong = "FAILED", f"{case.label}: {error!r}"
    logged = [text for text in alarm.found if "the event loop was held" not in text]
    alarm.found.clear()
    tally[f"{case.label.split()[0]} {outcome}"] += 1
    tally["cases"] += 1
    return wrong or (f"{case.label} logged {logged[0]}" if logged else "")


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:3]]
    for outcome, times in sorted(walk(*numbers, *sys.argv[3:]).items()):
        print(f"{times:8,}  {outcome}")

"""`python tests/server/fuzz_sockets.py [COUNT] [SEED]`: damaged packets and frames, sent to a real
broker through its sockets.

Whatever comes, the broker answers with errors of its own or closes the connection; it logs nothing,
its memory stays bounded, and it works on. COUNT is 1,000,000 unless told; nine in ten are
packets, the others are WebSocket and STOMP frames.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import random
import resource
import socket
import struct
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "packets"))

from client import DOUBLE, STRING, Client
from pubsub.packets import damaged
from server.servers import QUOTES, served
from tamis.registry import Principal, Right, SqliteRegistry
from tamis.server.access import new_token
from tamis.server.tcp.packet_commands import COMMANDS

TOGETHER = 200  # packets of one connection, unless it is closed sooner
MEMORY = 150 << 20  # bytes by which the broker and this program may grow after the first tenth
SINCE = datetime.datetime(2200, 1, 1, tzinfo=datetime.UTC)
JSON = [
    {"type": "publish", "channel": "quotes", "request": 1, "publisher": "p",
     "messages": [{"attributes": {"price": 1.5, "symbol": "IBM"}, "subject": "a.b"}]},
    {"type": "subscribe", "channel": "quotes", "name": "a", "request": 2, "start": 10**9,
     "selector": "price > 1 AND symbol LIKE 'I%'", "subjects": "a.*"},
    {"type": "subscribe", "channel": "quotes", "name": "b", "durable": True, "window": 5,
     "summary": "state S from quotes ordered by sequence (m: double := 0)\n rule => m := price"},
    {"type": "unsubscribe", "name": "a", "end": False}, {"type": "ack", "name": "a", "sequence": 1},
]  # fmt: skip
STOMP = [
    b"SEND\ndestination:/quotes/a.b\ncontent-type:application/json\n\n{\"price\": 1.5}\0",
    b"SUBSCRIBE\nid:1\ndestination:/quotes\nselector:price > 1\nack:client\n\n\0",
    b"ACK\nid:1:5\n\n\0", b"UNSUBSCRIBE\nid:1\n\n\0", b"BEGIN\ntransaction:1\n\n\0",
]  # fmt: skip


class Recorder:
    """A socket that keeps what is sent."""

    def __init__(self):
        self.sent = []

    def sendall(self, data):
        self.sent.append(data)


class Recording(Client):
    """A client that waits for no answers."""

    def acknowledged(self, sequence):
        pass

    def answer(self, sequence):
        return {}


def packets_of(server, token) -> tuple[bytes, list[bytes]]:
    """What opens a connection, and what is damaged behind it: one packet of each kind."""
    with Client("127.0.0.1", server.packets) as real:
        real.command("pc.login", Token=token)
        channel = real.open("quotes")
        known = real.channels
    client = Recording.__new__(Recording)
    client.publisher = client.session = client.sequence = 0
    client.socket, client.channels = Recorder(), known
    client.command("pc.login", Token=token)
    client.command("pc.chn.open", Channel="quotes")
    client.notify(0, "#.ADD_SUBJECT", {"ChannelId": channel, "Subject": "a", "Mapping": "900"})
    front, client.socket = b"".join(client.socket.sent), Recorder()
    known[channel].numbers["a"] = 900
    client.notify(channel, "a", {"symbol": "IBM", "price": 5.0, "volume": 1, "note": "größer"})
    tests = [[(1, DOUBLE, ">=", 10.0), (0, STRING, "in", "LU", "T")], [("note", STRING, "there")]]
    for subject in ("#.SUBSCRIPTION", "#.RESUBSCRIPTION"):
        client.subscribe(channel, 1, 2, "a", tests, subject)
    client.unsubscribe(channel, 1, 2)
    client.notify(channel, "#.ACKNOWLEDGEMENT", {"Sequence": 1, "Subscription": 1 << 16 | 2})
    cache = {"Subject": ">", "Since": SINCE, "Until": SINCE, "Selector": "price > 1"}
    client.notify(channel, "#.getCache", cache)
    values = {str: "quotes", int: channel}
    for name, (_, wanted) in COMMANDS.items():
        if name != "pc.chn.close":  # behind it there would be nothing to talk about
            client.command(name, **{key: values[kind] for key, kind in wanted.items()})
    return front, client.socket.sent


def broken(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """A damaged packet with its true length, so that the next one can be read."""
    found = damaged(rng, data, others)
    found += bytes(max(-len(found) % 4, 28 - len(found)))
    return struct.pack(">I", len(found)) + found[4:]


def framed(rng: random.Random) -> bytes:
    """A frame of a WebSocket: mostly the JSON in it is damaged, at times the frame itself."""
    others = [json.dumps(one).encode() for one in JSON]
    text = damaged(rng, rng.choice(others), others)[:60_000]
    mask = rng.randbytes(4)
    body = bytes(b ^ mask[i % 4] for i, b in enumerate(text))
    opcode = 0x81 if rng.random() < 0.9 else rng.randrange(256)
    size = bytes((0x80 | len(body),)) if len(body) < 126 else struct.pack(">BH", 0xFE, len(body))
    found = bytes((opcode,)) + size + mask + body
    return damaged(rng, found, [found]) if rng.random() < 0.02 else found


def talk(port: int, data: bytes, hello: bytes = b"") -> bytes:
    """Everything that the broker answers until it closes the connection; `hello` is answered
    before anything else is sent."""
    found = bytearray()
    with socket.create_connection(("127.0.0.1", port), 60) as peer:
        if hello:
            peer.sendall(hello)
            found += peer.recv(1 << 16)

        def read():
            with contextlib.suppress(ConnectionError):
                while more := peer.recv(1 << 16):
                    found.extend(more)

        reader = threading.Thread(target=read)
        reader.start()
        with contextlib.suppress(ConnectionError):
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
        reader.join(60)
        assert not reader.is_alive(), "the broker does not close the connection"
    return bytes(found)


def check_packets(found: bytes, tally: Counter) -> None:
    """Whole packets, of the lengths that they say."""
    at = 0
    while at < len(found):
        (length,) = struct.unpack_from(">I", found, at)
        assert length >= 24, found[at : at + 24]
        tally["errors"] += b"Reason" in found[at : at + length]
        at += length
    tally["cut"] += at != len(found)


class Alarm(logging.Handler):
    """Keeps what is logged: nothing may be, but for pauses of a machine that is busy."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.found = []

    def emit(self, record):
        if record.name != "tamis.server.pauses":
            self.found.append(self.format(record))


def fuzz(count: int, seed: int = 0) -> Counter:
    rng, tally, alarm, grown = random.Random(seed), Counter(), Alarm(), 0
    logging.getLogger().addHandler(alarm)
    try:
        with registered() as (directory, boss, token), served(directory) as server:
            with server.http(headers={"authorization": f"Bearer {boss}"}) as http:
                assert http.put("/api/channels/quotes", json=QUOTES).status_code == 201
            front, originals = packets_of(server, token)
            while tally["sent"] < count:
                one_round(rng, server, token, front, originals, tally)
                tally["rounds"] += 1
                if not grown and tally["sent"] >= count // 10:
                    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            with server.http(headers={"authorization": f"Bearer {token}"}) as http:
                assert http.get("/health").json()["status"] == "ok"
                assert http.get("/api/channels/quotes").status_code == 200
            tally["sessions left"] = len(server.parts.hub.broker.sessions)
            tally["tasks left"] = sum("talk" in repr(t) for t in server.parts.hub._tasks)
    finally:
        logging.getLogger().removeHandler(alarm)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - grown
    assert not alarm.found, alarm.found[:3]
    assert grown < MEMORY, f"{grown >> 20} MB more"
    assert not tally["sessions left"]
    tally["MB grown"] = grown >> 20
    return tally


@contextlib.contextmanager
def registered():
    """A directory with a token of a manager, and one of a principal that may publish and subscribe,
    and have a few subscriptions."""
    with tempfile.TemporaryDirectory() as name:
        with SqliteRegistry(Path(name) / "registry.db") as registry:
            registry.put_principal(Principal("boss", "main"))
            registry.put_right(Right("boss", "manage"))
            registry.put_principal(Principal("fuzz", "main", subscriptions=50))
            for verb in ("publish", "subscribe"):
                registry.put_right(Right("fuzz", verb))
            tokens = new_token(registry, "boss"), new_token(registry, "fuzz")
        yield Path(name), *tokens


def one_round(rng, server, token, front, originals, tally) -> None:
    """One connection with packets; now and then one of each other kind."""
    pieces = [broken(rng, rng.choice(originals), originals) for _ in range(TOGETHER - 1)]
    pieces.append(damaged(rng, rng.choice(originals), originals))  # what follows cannot be read
    check_packets(talk(server.packets, front + b"".join(pieces)), tally)
    tally["packets"] += len(pieces)
    tally["sent"] += len(pieces)
    hello = (f"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OTAxMjM0NQ==\r\n"
             f"Authorization: Bearer {token}\r\n\r\n").encode()  # fmt: skip
    frames = [framed(rng) for _ in range(TOGETHER // 10)]
    found = talk(server.found.http, b"".join(frames), hello)
    assert found.startswith(b"HTTP/1.1 101"), found[:100]
    tally["errors"] += found.count(b'"type":"error"')
    tally["frames"] += len(frames)
    connect = f"CONNECT\naccept-version:1.2\nhost:x\npasscode:{token}\n\n\0".encode()
    texts = [damaged(rng, rng.choice(STOMP), STOMP) for _ in range(2)]
    found = talk(server.stomp, connect + b"".join(texts))
    tally["errors"] += found.count(b"ERROR\n")
    tally["frames"] += len(texts)
    tally["sent"] += len(frames) + len(texts)


if __name__ == "__main__":
    told = [int(text) for text in sys.argv[1:]]
    print(dict(fuzz(*(told or [1_000_000]))))

"""Connections that do not finish, do not read, or are too many, over every protocol."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import struct
import time
import weakref
from contextlib import contextmanager, suppress
from functools import partial

import pytest

from server.servers import QUOTES, served
from tamis.errors import InputError
from tamis.server.process.serve import Address
from tamis.server.sockets.accepting import _Accepted, listen
from tamis.server.sockets.gate import (
    MOST_READ,
    Gate,
    most_read,
    network_of,
    set_most_read,
)
from tamis.server.sockets.limits import SocketLimits
from tamis.server.sockets.rounds import Rounds
from tamis.server.sockets.seldom import Seldom
from tamis.server.sockets.unread import Unread
from tamis.server.tcp.listening import Outbox
from tamis.server.web.raw_socket import RawSocket

QUICK = SocketLimits(greeting=0.4, arrival=0.4, unread=0.4)
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LONG = GET.replace(b"\r\n\r\n", b"\r\nContent-Length: 999\r\n\r\n")
POST = (
    b"POST /api/channels/quotes/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
)
CONNECT = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"
PACKET = struct.pack(">6IHHHH", 32, 0, 0, 0, 1, 2, 0, 12, 0, 0)  # which is answered by an error


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("sockets"), sockets=QUICK) as found:
        with found.http() as http:
            http.put("/api/channels/quotes", json=QUOTES)
        yield found


@contextmanager
def connected(server, protocol="http", window=0):
    port = server.found.http if protocol == "http" else getattr(server, protocol)
    with socket.socket() as peer:
        if window:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        peer.settimeout(20)
        peer.connect(("127.0.0.1", port))
        yield peer


def metric(server, name):
    with server.http() as http:
        text = http.get("/metrics").text
    return int(text.rpartition(f"\n{name} ")[2].split()[0])


def frame(data, opcode=1, last=True):
    """Of a client, masked with zeros."""
    return bytes((128 * last | opcode, 128 | len(data))) + bytes(4) + data


# --- not finished -------------------------------------------------------------------

HALVES = {
    "nothing over HTTP": ("http", [], b""),
    "half a head": ("http", [b"GET /api/channels HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "], b"x"),
    "half a second head": ("http", [GET, b"GET /health HTTP/1.1\r\nX: "], b"x"),
    "half a body": ("http", [POST % 1000 + b'{"attributes": '], b" "),
    "a body that the answer did not wait for": ("http", [LONG], b"x"),
    "half a handshake of a WebSocket": ("http", [UPGRADE[:-2]], b""),
    "half a frame": ("http", [UPGRADE, b"\x81\xfe\x03\xe8" + bytes(4)], b" "),
    "fragments without end": ("http", [UPGRADE, frame(b"{", 1, False)], frame(b"", 0, False)),
    "nothing over STOMP": ("stomp", [], b""),
    "line feeds instead of CONNECT": ("stomp", [], b"\n"),
    "half a CONNECT": ("stomp", [CONNECT[:20]], b"x"),
    "half a SEND": ("stomp", [CONNECT, b"SEND\ndestination:/quotes\n\n"], b" "),
    "nothing in packets": ("packets", [], b""),
    "half a first packet": ("packets", [struct.pack(">I", 4000)], b"\0"),
    "half a second packet": ("packets", [PACKET, struct.pack(">I", 4000)], b"\0"),
}  # fmt: skip


@pytest.mark.parametrize(("protocol", "pieces", "drip"), HALVES.values(), ids=HALVES)
def test_what_is_not_finished_in_time_is_disconnected(server, protocol, pieces, drip):
    before = server.parts.gate.open
    with connected(server, protocol) as peer:
        for piece in pieces:
            peer.sendall(piece)
            time.sleep(0.05)
        assert ended(peer, drip)
    wait_until(lambda: server.parts.gate.open <= before)


def ended(peer, drip):
    """Whether the server ends the connection, though a byte comes now and then."""
    peer.settimeout(0.05)
    end = time.monotonic() + 15
    while time.monotonic() < end:
        try:
            peer.sendall(drip)
            if not peer.recv(65536):
                return True
        except TimeoutError:
            pass
        except OSError:
            return True
    return False


def wait_until(true):
    end = time.monotonic() + 15
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_late_head_is_answered_and_counted(server):
    late = metric(server, "tamis_late_connections_total")
    with connected(server) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n")
        assert peer.recv(65536).startswith(b"HTTP/1.1 408 ")
    assert metric(server, "tamis_late_connections_total") == late + 1


def test_subscribers_that_say_nothing_stay(server):
    """Deadlines are for what has begun; a connection that is known may be silent."""
    stomp = CONNECT + b"SUBSCRIBE\nid:1\ndestination:/quotes\nreceipt:r\n\n\0"
    with (
        connected(server) as web,
        connected(server, "stomp") as frames,
        connected(server, "packets") as packets,
    ):
        web.sendall(UPGRADE)
        frames.sendall(stomp)
        packets.sendall(PACKET)
        time.sleep(1.2)
        web.sendall(frame(b"{}"))
        packets.sendall(PACKET)
        with server.http() as http:
            http.post("/api/channels/quotes/messages", json={"attributes": {"price": 1.0}})
        assert received(web, b'"error"')
        assert received(frames, b"MESSAGE")
        assert len(packets.recv(65536)) > 0


def received(peer, text):
    found = b""
    while text not in found:
        data = peer.recv(65536)
        assert data, found
        found += data
    return True


# --- not read -----------------------------------------------------------------------

SEND = b"SEND\ndestination:/quotes\nreceipt:%b\n\n{}\0" % (b"x" * 200)
GREEDY = {
    "pings": ("http", UPGRADE, frame(b"x" * 125, 9)),
    "bad requests": ("http", UPGRADE, frame(b"{}")),
    "receipts": ("stomp", CONNECT, SEND),
    "packets": ("packets", b"", PACKET),
    "requests in a row": ("http", b"", GET.replace(b"health", b"openapi.json")),
}  # fmt: skip


@pytest.mark.parametrize(("protocol", "hello", "data"), GREEDY.values(), ids=GREEDY)
def test_who_does_not_read_is_not_listened_to_and_then_disconnected(server, protocol, hello, data):
    many = data * (200_000 // len(data))
    unread = server.parts.gate.unread
    with connected(server, protocol, window=4096) as peer:
        peer.sendall(hello)
        time.sleep(0.1)
        peer.settimeout(15)
        assert not all(sent(peer, many) for _ in range(500))  # 100 MB
    wait_until(lambda: server.parts.gate.unread > unread)
    with server.http() as http:
        assert http.get("/health").status_code == 200


def sent(peer, data):
    """Whether the server takes it; False: it has disconnected."""
    try:
        peer.sendall(data)
    except ConnectionError:
        return False
    return True


def test_a_peer_that_reads_late_gets_everything(server, monkeypatch):
    monkeypatch.setattr(server.parts.gate, "limits", SocketLimits())
    count = 20_000
    rest, found = frame(b"{}") * count, b""
    with connected(server, window=4096) as peer:
        peer.sendall(UPGRADE)
        assert received(peer, b"\r\n\r\n")
        peer.setblocking(False)
        end = time.monotonic() + 60
        while (left := count - found.count(b'"error","request"')) and time.monotonic() < end:
            with suppress(BlockingIOError):
                rest = rest[peer.send(rest[:65536]) :]
            time.sleep(0.02)
            with suppress(BlockingIOError):
                while True:
                    found += peer.recv(1 << 20)
        assert not left


class Pipe:
    def __init__(self, size=0, closing=False):
        self.size, self.closing = size, closing

    def get_write_buffer_size(self):
        return self.size

    def is_closing(self):
        return self.closing


def test_a_peer_that_takes_a_little_is_not_stuck():
    unread, slow, stuck, idle, closing = Unread(60), Pipe(1000), Pipe(1000), Pipe(), Pipe(10, True)
    pipes, gone = [slow, stuck, idle, closing], []
    for now in range(0, 100, 2):
        gone += [(now, one) for one in unread.stuck(pipes, now)]
        pipes = [one for one in pipes if one not in [one for _, one in gone]]
        slow.size -= 1
    assert gone == [(6, closing), (60, stuck)]


# --- too many -----------------------------------------------------------------------


def test_connections_beyond_the_limit_are_refused_with_a_reason(tmp_path, caplog):
    limits = SocketLimits(connections=20, per_address=5, greeting=60)
    with served(tmp_path, sockets=limits) as server:
        peers = [socket.create_connection(("127.0.0.1", server.stomp), 10) for _ in range(5)]
        wait_until(lambda: server.parts.gate.open == 5)
        for _ in range(30):
            for protocol, text in (("http", b" 503 "), ("stomp", b"ERROR"), ("packets", b"many")):
                with connected(server, protocol) as peer:
                    assert text in peer.recv(4096)
        elsewhere = socket.socket()
        elsewhere.bind(("127.0.0.2", 0))
        elsewhere.connect(("127.0.0.1", server.found.http))
        with elsewhere:  # another address is served
            elsewhere.sendall(GET)
            assert elsewhere.recv(4096).startswith(b"HTTP/1.1 200 ")
        for peer in peers:
            peer.close()
        wait_until(lambda: server.parts.gate.open <= 1)
        assert metric(server, "tamis_refused_connections_total") == 90
    assert caplog.text.count("connections are refused") == 1


def test_all_connections_are_bounded_by_descriptors(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (300, 300))
    gate = Gate(SocketLimits(connections=10_000))
    assert (gate.most, gate.most_per_address) == (172, 86)
    assert Gate(SocketLimits(connections=50, per_address=70)).most_per_address == 50


def test_places_are_given_back():
    gate = Gate(SocketLimits(connections=3, per_address=2))
    assert [gate.enter(a) for a in ("x", "x", "x", "y", "z")] == [True, True, False, True, False]
    gate.leave("x")
    assert gate.enter("z")
    assert (gate.open, gate.refused) == (3, 2)


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_the_address_that_is_counted(host, counted):
    assert network_of(host) == counted


def test_warnings_are_seldom_and_counted():
    logger, lines = logging.Logger("strangers"), []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger.addHandler(handler)
    seldom = Seldom(pause=0.2)
    logger.addFilter(seldom)
    for _ in range(1000):
        logger.warning("refused: %s", "x")
    logger.error("a bug")
    time.sleep(0.25)
    logger.warning("refused: %s", "x")
    assert lines == ["refused: x", "a bug", "refused: x (999 more since the last such line)"]


@pytest.mark.parametrize(
    "text", ["127.0.0.1:", ":65536", ":-1", ":²", ":" + "9" * 5000, "127.0.0.1:http", ": 80"]
)
def test_ports_that_are_none(text):
    with pytest.raises(InputError, match="is not an address: write HOST:PORT"):
        Address.parse(text)


@pytest.mark.parametrize("host", ["256.1.1.1", "nowhere.invalid", "ä" * 300, "x\0y"])
def test_hosts_that_are_none(host):
    with pytest.raises(InputError):
        listen(host, 0)


def test_who_sends_little_does_not_wait_for_those_who_send_much():
    done = []

    async def run():
        rounds = Rounds()
        for place in range(3):
            rounds.add(partial(work, rounds, place, 50))
        while len(done) < 150:
            done.append("another")  # sockets that the event loop looks at between two rounds
            await asyncio.sleep(0)

    def work(rounds, place, left):
        time.sleep(0.0005)
        done.append(place)
        if left > 1:
            rounds.add(partial(work, rounds, place, left - 1))

    asyncio.run(run())
    assert done.count("another") > 10
    places = [place for place in done if place != "another"]
    assert places[:9] == [0, 1, 2] * 3


def test_one_turn_of_the_event_loop_serves_few_of_many_tasks():
    served = []

    async def peer(rounds, place):
        await rounds.turn()
        served.append(place)

    async def run():
        rounds = Rounds()
        tasks = [asyncio.ensure_future(peer(rounds, place)) for place in range(100)]
        most = 0
        while len(served) < 100:
            before = len(served)
            await asyncio.sleep(0)
            most = max(most, len(served) - before)
        await asyncio.gather(*tasks)
        assert served == list(range(100))
        assert most < 20

    asyncio.run(run())


def test_a_turn_ends_when_its_time_is_used_up():
    async def run():
        rounds = Rounds()
        assert rounds.open()
        time.sleep(0.01)
        assert not rounds.open()
        await asyncio.sleep(0)
        assert rounds.open()

    asyncio.run(run())


def test_what_came_alone_goes_first():
    done = []

    async def run():
        rounds = Rounds()
        for place in range(3):
            rounds.add(partial(done.append, place))
        rounds.add(partial(done.append, "alone"), first=True)
        while len(done) < 4:
            await asyncio.sleep(0)

    asyncio.run(run())
    assert done == ["alone", 0, 1, 2]


def test_many_connections_share_what_is_buffered():
    gate = Gate(SocketLimits(buffers=1 << 20))
    assert gate.share(1 << 16) == 1 << 16
    for _ in range(64):
        gate.enter("x")
    assert gate.share(1 << 16) == 1 << 14
    for _ in range(1000):
        gate.enter("x")
    assert gate.share(1 << 16) == 1 << 12  # the least that is useful


class Reading(asyncio.selector_events._SelectorTransport):
    """As much of asyncio's transport as decides how many bytes it reads at once: it has no public
    name for it, and a later version might call it otherwise."""

    def __init__(self):
        self.before = self.max_size


def test_some_connections_that_send_much_may_read_more_at_once():
    gate, many = Gate(SocketLimits(buffers=3 * MOST_READ)), [Reading() for _ in range(5)]
    assert many[0].before == MOST_READ
    for one in many:
        set_most_read(one, 1 << 12)
        gate.lend(one)
    assert [most_read(one) for one in many] == [MOST_READ] * 3 + [1 << 12] * 2
    gate.lent.discard(many[0])
    gate.lend(many[4])
    assert most_read(many[4]) == MOST_READ


def test_the_ebb_of_connections_is_noticed_once():
    gate = Gate(SocketLimits(connections=1000, per_address=1000))
    for _ in range(200):
        gate.enter("x")
    for _ in range(99):
        gate.leave("x")
    assert not gate.ebbed()
    gate.leave("x")
    assert gate.ebbed()
    assert not gate.ebbed()


def test_a_task_that_is_cancelled_misses_its_turn():
    async def run():
        rounds = Rounds()
        first, second = (asyncio.ensure_future(rounds.turn()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await second

    asyncio.run(asyncio.wait_for(run(), 10))


def test_an_outbox_that_has_ended_lets_its_connection_go():
    """Without the garbage collector."""

    class Connection:
        def __init__(self):
            self.out = Outbox(None, self.written)

        def written(self, count):
            pass

    connection = Connection()
    connection.out.put(b"x")
    seen = weakref.ref(connection)
    connection.out.end()
    gc.disable()
    try:
        del connection
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("pieces", [[GET], [UPGRADE], [UPGRADE, frame(b"?")]])
def test_connections_that_end_leave_no_work_for_the_garbage_collector(server, pieces):
    gc.collect()
    gc.disable()
    try:
        before = held()
        for _ in range(3):
            with connected(server) as peer:
                for piece in pieces:
                    peer.sendall(piece)
                    assert peer.recv(4096)
        wait_until(lambda: held() <= before)
    finally:
        gc.enable()


def held():
    """Sockets of connections, and what speaks over them, that take memory."""
    kinds = (_Accepted, RawSocket, asyncio.Transport)
    # by type: asking a weak proxy for its class fails once its object is gone
    return sum(issubclass(type(one), kinds) for one in gc.get_objects())

"""Packets over TCP, by a client that was written from the documentation alone."""

from __future__ import annotations

import contextlib
import datetime
import json
import random
import socket
import struct
import sys
from pathlib import Path

import pytest

from server.servers import QUOTES, served
from tamis.errors import TamisError
from tamis.pubsub import packet_protocol as packets
from tamis.pubsub.packet_protocol import Answers, Peer, body_of, packable
from tamis.pubsub.subjects.channel import Channel
from tamis.registry import Principal, Right, SqliteRegistry
from tamis.server.access import hashed, new_token
from tamis.server.sockets.limits import SocketLimits
from tamis.server.tcp.packet_commands import COMMANDS

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "packets"))
from client import DOUBLE, LONG, STRING, Client
from client import RefusedError as Refused

PAGE = (Path(__file__).parents[2] / "docs" / "packets.md").read_text(encoding="utf-8")
TABLE_13 = """
[ChannelSubjects 5]
NumberOfSubjects=2
subject1=#.SUBSCRIPTION
mapping1=0.100
subject2=Quotes.Nyse
mapping2=102.101
[ChannelAttributes 5]
NumberOfAttributes=4
name1=StockId
type1=PC_UINT_TYPE
name2=Company
type2=PC_CHARARRAY_TYPE
name3=Price
type3=PC_FLOAT_TYPE
name4=Volume
type4=PC_UINT_TYPE
"""
ALWAYS = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
NEVER = datetime.datetime(2200, 1, 1, tzinfo=datetime.UTC)
IBM = {"symbol": "IBM", "price": 95.0, "volume": 100}
LU = {"symbol": "LU", "price": 12.5, "volume": 5000, "note": "größer"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def quotes(server):
    """A channel of its own, and a client that has opened it."""
    name = f"quotes{random.randrange(10**9)}"
    with server.http() as http, Client("127.0.0.1", server.packets, 3001, 1) as client:
        assert http.put(f"/api/channels/{name}", json=QUOTES).status_code == 201
        yield name, client, client.open(name), http


def test_published_and_delivered(quotes):
    """Figure 18's filter: price >= 10 and (symbol == "LU" or (volume >= 1000 and <= 10000))."""
    name, client, channel, http = quotes
    assert client.add_subject(channel, "nyse.LU").count(".") == 1
    tests = [[(1, DOUBLE, ">=", 10.0), (0, STRING, "=", "LU")],
             [(1, DOUBLE, ">=", 10.0), (2, LONG, "between", 1000, 10000)]]  # fmt: skip
    client.subscribe(channel, 2688, 50, "nyse.>", tests)
    client.publish(channel, "nyse.LU", IBM)
    client.publish(channel, "nyse.LU", LU)
    got = client.message()
    assert (got.subject, got.attributes) == ("nyse.LU", LU)
    assert (got.publisher, got.session, got.sequence) == (2688 << 16 | 50, 0, 2)
    said = {"subject": "nyse.T", "attributes": {**LU, "symbol": "T", "deep": {"a": [1, None]}}}
    http.post(f"/api/channels/{name}/messages", json=said)  # a field without a number
    got = client.message()
    assert got.subject == "nyse.T"
    assert got.attributes == {**LU, "symbol": "T", "deep": '{"a":[1,null]}'}
    client.unsubscribe(channel, 2688, 50)
    client.publish(channel, "nyse.LU", LU)
    stored = http.get(f"/api/channels/{name}/messages").text.splitlines()
    assert len(stored) == 4
    assert not client.came


def test_another_filter_for_a_subscription(quotes):
    _, client, channel, _ = quotes
    client.add_subject(channel, "a")
    client.subscribe(channel, 1, 1, ">", [[(0, STRING, "in", "IBM", "LU")]])
    with pytest.raises(Refused, match="RESUBSCRIPTION"):
        client.subscribe(channel, 1, 1, ">", [])
    client.publish(channel, "a", IBM)
    client.subscribe(channel, 1, 1, ">", [[("note", STRING, "there")]], "#.RESUBSCRIPTION")
    client.publish(channel, "a", IBM)
    client.publish(channel, "a", LU)
    assert [client.message().sequence for _ in range(2)] == [1, 3]
    with pytest.raises(Refused, match="no subscription 1/2"):
        client.unsubscribe(channel, 1, 2)


def test_each_message_is_stored_once(quotes, server):
    name, client, channel, http = quotes
    client.add_subject(channel, "a")
    for number in (10, 11, 11, 10, 12):
        client.publish(channel, "a", IBM, number)
    with Client("127.0.0.1", server.packets, 3001, 1) as again:  # the same publisher and session
        assert again.open(name) == channel
        again.add_subject(channel, "a")
        again.publish(channel, "a", IBM, 12)
    with Client("127.0.0.1", server.packets) as nobody:  # publisher 0: nothing is remembered
        nobody.open(name)
        nobody.add_subject(channel, "a")
        nobody.publish(channel, "a", IBM, 12)
        nobody.publish(channel, "a", IBM, 12)
    assert http.get(f"/api/channels/{name}").json()["next"] == 6


def test_many_are_acknowledged_together(quotes):
    _, client, channel, _ = quotes
    client.add_subject(channel, "a")
    last = [client.notify(channel, "a", IBM) for _ in range(500)][-1]
    client.acknowledged(last)
    bad = client.notify(channel, "a", {**IBM, "price": float("inf")})
    good = client.notify(channel, "a", IBM)
    with pytest.raises(Refused, match="finite"):
        client.answer(bad)
    client.acknowledged(good)


def test_durable_subscriptions_go_on_where_they_were_acknowledged(quotes, server):
    name, client, channel, _ = quotes
    client.add_subject(channel, "a")
    wish = {"ChannelId": channel, "Port": 7, "Subscription": 8, "Selector": "symbol LIKE 'I%'",
            "Durable": "mine"}  # fmt: skip
    with Client("127.0.0.1", server.packets) as first:
        first.open(name)
        first.command("pc.sub.open", **wish)
        for _ in range(3):
            client.publish(channel, "a", IBM)
        got = [first.message() for _ in range(3)]
        said = {"Sequence": got[1].sequence, "Subscription": got[1].publisher}
        first.acknowledged(first.notify(channel, "#.ACKNOWLEDGEMENT", said))
    client.publish(channel, "a", LU)
    client.publish(channel, "a", IBM)
    with Client("127.0.0.1", server.packets) as second:
        second.open(name)
        second.command("pc.sub.open", **wish)
        assert [second.message().sequence for _ in range(2)] == [3, 5]
        second.command("pc.sub.end", ChannelId=channel, Durable="mine")
        with pytest.raises(Refused, match="no subscription mine"):
            second.command("pc.sub.end", ChannelId=channel, Durable="mine")
        notes = second.command("pc.sub.open", ChannelId=channel, Selector="price > 5 AND price < 4")
        assert notes["Notes"] == "unsatisfiable"


def test_us6910033_figure_14_and_15_get_cache(quotes):
    name, client, channel, http = quotes
    for subject in ("nyse.LU", "nyse.IBM"):
        client.add_subject(channel, subject)
    for _ in range(3):
        client.publish(channel, "nyse.LU", LU)
        client.publish(channel, "nyse.IBM", IBM)
    lines = http.get(f"/api/channels/{name}/messages").iter_lines()
    times = [json.loads(line)["time"] for line in lines]
    third = datetime.datetime.fromtimestamp(times[2] / 1e6, datetime.UTC)

    def cached(subject, since, until, **more):
        said = {"Subject": subject, "Since": since, "Until": until, **more}
        client.acknowledged(client.notify(channel, "#.getCache", said))
        found = [(p.publisher, p.sequence) for p in client.came]
        client.came.clear()
        return found

    assert cached(">", ALWAYS, NEVER) == [(0, n) for n in range(1, 7)]
    assert cached("*.IBM", ALWAYS, NEVER, Subscription=9) == [(9, n) for n in (2, 4, 6)]
    assert cached(">", ALWAYS, NEVER, Selector="volume > 1000") == [(0, n) for n in (1, 3, 5)]
    assert cached(">", third, NEVER)[0] == (0, 3)
    assert cached(">", ALWAYS, third)[-1] == (0, 2)
    assert cached("london.>", ALWAYS, NEVER) == []
    with pytest.raises(Refused, match="ends too early"):
        cached(">", ALWAYS, NEVER, Selector="price >")


def test_us6910033_tables_3_12_and_13_the_channel_manager(server):
    name = "table13"
    with Client("127.0.0.1", server.packets) as client:
        made = client.command("pc.chn.create", Channel=name, Form=TABLE_13, Sentence="Quotes")
        with pytest.raises(Refused, match="already"):
            client.command("pc.chn.create", Channel=name, Form=TABLE_13)
        channel = client.open(name)
        assert made == {"Sequence": 1, "ChannelId": channel}
        assert client.channels[channel].numbers["Nyse"] == 101
        told = client.command("pc.chn.getAttributeInfo", Channel=name)
        assert (told["NumberOfAttributes"], told["name3"], told["type3"]) == (
            4, "Price", "PC_FLOAT_TYPE")  # fmt: skip
        about = client.command("pc.chn.getProperties", Channel=name)
        assert (about["Semantics"], about["Sentence"], about["Next"]) == ("sql", "Quotes", 1)
        router = client.command("pc.chn.getRouterInfo", Channel=name)
        assert router["RouterPort1"] == server.packets
        assert name in client.command("pc.chn.list").values()
        grown = TABLE_13.replace("=4", "=5") + "name5=Note\ntype5=PC_STRING_TYPE\n"
        client.command("pc.chn.change", Channel=name, Form=grown)
        with pytest.raises(Refused, match="can be added, not changed"):
            client.command("pc.chn.change", Channel=name, Form=TABLE_13)
        assert client.command("pc.chn.getProperties", Channel=name)["Sentence"] == "Quotes"
        assert client.add_subject(channel, "Quotes.cboe").startswith("102.")  # table 9
        client.subscribe(channel, 1, 1, "Quotes.*", [])
        said = {"StockId": 7, "Company": "Lucent", "Price": 12.5, "Volume": 100}
        client.publish(channel, "Quotes.cboe", {**said, "Note": "known to this connection as more"})
        assert client.message().attributes["Note"].startswith("known")
        client.command("pc.chn.close", Channel=name)
        with pytest.raises(Refused, match="not open here"):
            client.publish(channel, "Quotes.Nyse", said)
        client.open(name)
        assert client.channels[channel].numbers["cboe"] > 102
        client.command("pc.chn.delete", Channel=name)
        with pytest.raises(Refused, match="there is no channel"):
            client.publish(channel, "Quotes.Nyse", said)


def test_what_is_wrong_is_told(quotes):
    _, client, channel, _ = quotes
    client.add_subject(channel, "a")
    for name, said, what in (
        ("pc.chn.fly", {}, "no command"),
        ("pc.chn.open", {}, "Channel is missing"),
        ("pc.chn.open", {"Channel": "nowhere"}, "no channel nowhere"),
        ("pc.chn.open", {"Channel": 5}, "of type str"),
        ("pc.chn.open", {"Chanel": "x"}, "no attribute"),
        ("pc.chn.create", {"Channel": "x", "Form": "[["}, "not TOML"),
        ("pc.chn.create", {"Channel": "x", "Form": TABLE_13, "Semantics": "?"}, "Invalid enum"),
        ("pc.sub.open", {"ChannelId": channel, "Port": 70000}, "16 bits"),
        ("pc.sub.open", {"ChannelId": channel, "Selector": "price ="}, "ends too early"),
        ("pc.sub.open", {"ChannelId": channel, "Start": "soon"}, "no start"),
        ("pc.sub.open", {"ChannelId": 999}, "not open here"),
    ):
        with pytest.raises(Refused, match=what):
            client.command(name, **said)
    client.channels[channel].learn("b", "777")
    with pytest.raises(Refused, match="no field has number"):
        client.publish(channel, "b", IBM)
    with pytest.raises(Refused, match="# is for control"):
        client.publish(channel, "#.a", {})
    client.publish(channel, "a", IBM)  # the connection has lost nothing


def test_attributes_that_fit_into_no_packet_are_told(server):
    form = {"attributes": {"small": "uint16"}}
    with server.http() as http, Client("127.0.0.1", server.packets) as client:
        http.put("/api/channels/small", json=form)
        channel = client.open("small")
        client.command("pc.sub.open", ChannelId=channel)
        for value in (70_000, 7):
            http.post("/api/channels/small/messages", json={"attributes": {"small": value}})
        told = client.message()
        assert told.subject == "#.ERROR"
        assert "message 1 of channel" in told.attributes["Reason"]
        assert client.message().attributes == {"small": 7}


# --- rights -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    directory, tokens = tmp_path_factory.mktemp("guarded"), {}
    registry = SqliteRegistry(directory / "registry.db")
    for name, tenant in (("boss", "acme"), ("alice", "acme"), ("eve", "other"), ("nobody", "acme")):
        registry.put_principal(Principal(name, tenant, hashed("pass") if name == "boss" else "",
                                         "symbol = 'IBM'" if name == "alice" else "",
                                         3 if name == "boss" else 0))  # fmt: skip
        tokens[name] = new_token(registry, f"{tenant}/{name}")
    for verb in ("publish", "subscribe", "manage"):
        registry.put_right(Right("acme/boss", verb))
        registry.put_right(Right("other/eve", verb))
    registry.put_right(Right("acme/alice", "subscribe", "quotes", "nyse.>"))
    registry.close()
    with served(directory) as found:
        headers = {"authorization": f"Bearer {tokens['boss']}"}
        with found.http(headers=headers) as http:
            http.put("/api/channels/quotes", json=QUOTES)
        yield found, tokens


def test_strangers_are_refused_by_every_command(guarded):
    server, _ = guarded
    for name in COMMANDS:
        with Client("127.0.0.1", server.packets) as client:
            with pytest.raises(Refused, match="say who you are"):
                client.command(name)
            with pytest.raises(ConnectionError):
                client.command(name)
    for said in ({"Token": "wrong"}, {"Name": "acme/boss", "Password": "wrong"},
                 {"Name": "boss", "Password": "pass"}, {"Name": "acme/alice"}):  # fmt: skip
        with (
            Client("127.0.0.1", server.packets) as client,
            pytest.raises(Refused, match="say who you are"),
        ):
            client.command("pc.login", **said)
    with Client("127.0.0.1", server.packets) as client:  # large packets are for friends
        client.notify(0, "#.COMMAND", {"Command": "pc.login", "Token": "x" * 5000})
        assert "5,0" in client.message().attributes["Reason"]


def test_rights_tenants_and_the_mandatory_selector(guarded):
    server, tokens = guarded
    with Client("127.0.0.1", server.packets) as boss, Client("127.0.0.1", server.packets) as alice:
        assert boss.command("pc.login", Name="acme/boss", Password="pass")["Tenant"] == "acme"
        channel = boss.open("quotes")
        boss.add_subject(channel, "nyse.x")
        alice.command("pc.login", Token=tokens["alice"])
        alice.open("quotes")
        for name, more in (("delete", {}), ("change", {"Form": TABLE_13})):
            with pytest.raises(Refused, match="no right to manage"):
                alice.command(f"pc.chn.{name}", Channel="quotes", **more)
        with pytest.raises(Refused, match="no right to manage"):
            alice.command("pc.chn.create", Channel="mine", Form=TABLE_13)
        with pytest.raises(Refused, match="has said who it is"):
            alice.command("pc.login", Token=tokens["boss"])
        alice.add_subject(channel, "nyse.x")
        with pytest.raises(Refused, match="no right to publish"):
            alice.publish(channel, "nyse.x", IBM)
        with pytest.raises(Refused, match="no right to subscribe"):
            alice.subscribe(channel, 1, 1, ">", [])
        times = {"Since": ALWAYS, "Until": NEVER}
        with pytest.raises(Refused, match="no right to subscribe"):
            alice.answer(alice.notify(channel, "#.getCache", {"Subject": ">", **times}))
        alice.subscribe(channel, 1, 1, "nyse.*", [])
        boss.publish(channel, "nyse.x", LU)
        boss.publish(channel, "nyse.x", IBM)
        assert alice.message().attributes == IBM
        alice.acknowledged(alice.notify(channel, "#.getCache", {"Subject": "nyse.x", **times}))
        assert [p.attributes["symbol"] for p in alice.came] == ["IBM"]
        numbers = [boss.notify(channel, "nyse.x", IBM) for _ in range(5)]
        with pytest.raises(Refused, match="messages a second"):
            [boss.answer(number) for number in numbers[-1:]]
    with Client("127.0.0.1", server.packets) as eve:
        eve.command("pc.login", Token=tokens["eve"])
        with pytest.raises(Refused, match="there is no channel quotes"):
            eve.open("quotes")
        assert eve.command("pc.chn.list")["NumberOfChannels"] == 0


# --- hostile bytes ----------------------------------------------------------------


def test_hostile_bytes_end_a_connection_and_nothing_else(server, quotes):
    _, client, channel, _ = quotes
    client.add_subject(channel, "a")
    dice = random.Random(7)
    for _ in range(60):
        with socket.create_connection(("127.0.0.1", server.packets), 10) as peer:
            peer.sendall(dice.randbytes(dice.randrange(1, 300)))
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass
    client.publish(channel, "a", IBM)


def test_damaged_packets_are_answered_and_passed_over(server, quotes):
    name, client, channel, http = quotes
    client.add_subject(channel, "a")
    body = struct.pack(">HHI", 3, 0, 7) + struct.pack(">Idq", 3, 1.0, 5) + b"IBM\0"
    fields = struct.pack(">HH", client.channels[channel].numbers["a"], 0)
    head = struct.pack(">4I", channel, 1, 1, 1)
    whole = head + struct.pack(">I", 1) + fields + body
    dice = random.Random(1)
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(dice.randrange(3)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        client.socket.sendall(struct.pack(">I", len(data) + 4) + data)
    client.publish(channel, "a", IBM, 2**32 - 1)  # answers came for all, and it is still there
    assert http.get(f"/api/channels/{name}").json()["next"] > 1


def test_a_peer_that_does_not_read_is_not_listened_to(server):
    with socket.create_connection(("127.0.0.1", server.packets), 10) as peer:
        peer.settimeout(1)
        packet = struct.pack(">6IHHHH", 32, 0, 0, 0, 1, 2, 0, 12, 0, 0)
        try:
            for _ in range(400):
                peer.sendall(packet * 2000)
        except TimeoutError:
            pass  # the server stopped reading
        else:
            pytest.fail("25 MB of requests were read while no answer was")


def test_a_stranger_that_dribbles_is_sent_away(guarded, monkeypatch):
    server, _ = guarded
    monkeypatch.setattr(server.parts.gate, "limits", SocketLimits(greeting=0.5))
    with socket.create_connection(("127.0.0.1", server.packets), 10) as peer:
        peer.settimeout(0.05)
        got = b""
        for byte in struct.pack(">I", 4000) + bytes(400):
            with contextlib.suppress(TimeoutError):
                peer.sendall(bytes([byte]))
                if not (more := peer.recv(1000)):
                    break
                got += more
        assert b"say who you are" in got


def test_a_subscription_that_was_ended_elsewhere(quotes):
    name, client, channel, http = quotes
    client.command("pc.sub.open", ChannelId=channel, Durable="mine")
    assert http.delete(f"/api/channels/{name}/subscriptions/mine").status_code == 204
    assert "0/0 has ended: the subscription was removed" in str(client.message().attributes)
    with pytest.raises(Refused, match="has no subscription 0/0"):
        client.subscribe(channel, 0, 0, ">", [], "#.RESUBSCRIPTION")
    client.command("pc.sub.open", ChannelId=channel, Durable="mine")


# --- without sockets --------------------------------------------------------------


def test_answers_come_in_the_order_of_the_packets():
    peer = Peer()
    answers = Answers(peer)
    slots = [answers.expect(n) for n in range(1, 6)]
    slots[1].answer = b""
    assert answers.ready() == b""
    slots[0].answer = b""
    assert answers.ready() == peer.acknowledgement(2)
    for slot, said in zip(slots[2:], (b"", b"error", b""), strict=True):
        slot.answer = said
    assert answers.ready() == peer.acknowledgement(3) + b"error" + peer.acknowledgement(5)
    assert len(answers) == 0


def test_numbers_of_a_connection_keep_apart_from_those_of_the_channel():
    channel = Channel(5).with_subject("quotes.nyse")
    peer = Peer()
    peer.open(channel)
    (told,) = Peer().feed(peer.numbered(5, "quotes.lse"))
    assert told.message.mapping == "101.65535"
    assert peer.codecs[5].channel.numbers["lse"] == 65535
    assert "lse" not in channel.numbers
    for bad in ("101.101", "1.2.3", "x.y", "101.0", "101.70000"):
        with pytest.raises(TamisError):
            peer.numbered(5, "quotes.cboe", bad)
    told = peer.delivery(5, 1, 2**40 + 7, "quotes." + "x." * 61 + "x", {"a": "\n" * 2**20})
    announced, error = Peer().feed(told)
    assert announced.message.subject.startswith("quotes.x")
    assert "message 1099511627783" in error.message.reason
    assert body_of({"a": 1.5, "t": ALWAYS}) == b'{"a":1.5,"t":"2000-01-01T00:00:00Z"}'
    assert packable({"a": None, "b": [1], "c": "x"}) == {"b": "[1]", "c": "x"}


def test_a_connection_has_so_many_fields_of_its_own(monkeypatch):
    monkeypatch.setattr(packets, "MAX_OWN_FIELDS", 3)
    peer = Peer()
    peer.open(Channel(5))
    peer.numbered(5, "a.b.c.a")
    peer.numbered(5, "c.b")
    with pytest.raises(TamisError, match="up to 3"):
        peer.numbered(5, "a.d")
    assert b"up to 3" in peer.delivery(5, 1, 1, "d", {})


def test_the_page_names_every_command_and_attribute():
    for name, (_, attributes) in COMMANDS.items():
        (line,) = [x for x in PAGE.splitlines() if x.startswith("|") and f"`{name}`" in x]
        for attribute in attributes:
            assert f"`{attribute}`" in line, (name, attribute)

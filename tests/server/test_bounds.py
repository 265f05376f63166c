"""Numbers beyond their bounds and names of the broker's own, over STOMP and packets: each is
refused, and others go on."""

from __future__ import annotations

import datetime
import socket
import sys
from pathlib import Path

import pytest

from server.servers import served
from server.test_stomp import CONNECT, answers, frame
from tamis.client import Agent

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "packets"))
from client import STRING, Client
from client import RefusedError as Refused

LARGEST = 2**63 - 1
BEYOND = [2**63, 2**70, -1, "1.5", "²", "9" * 5_000]
RESERVED = ["$tamis$0 = 'q'", "`$tamis$length` > 0", "n = 1 OR x.`$tamis$1` IS NULL"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        with found.http() as http:
            http.put("/api/channels/q", json={"attributes": {"n": "int"}})
        yield found


@pytest.fixture
def unharmed(server):
    """Another subscriber, which gets the next message afterwards, and that one alone."""
    with Agent(server.url) as agent:
        messages = agent.subscribe("q")
        yield
        sent = agent.publish("q", {"n": 1})
        assert messages.get(20).sequence == sent


def send(publisher, sequence):
    return frame("SEND", '{"n":1}', destination="/q", content_type="application/json",
                 tamis_publisher=publisher, tamis_sequence=sequence, receipt="r")  # fmt: skip


def subscribe(**more):
    return frame("SUBSCRIBE", id=1, destination="/q", **more)


def refused(server, *frames):
    """The reason; nothing but CONNECTED came before it."""
    first, *rest = answers(server, CONNECT, *frames)
    assert first[0] == "CONNECTED"
    assert [one[0] for one in rest] == ["ERROR"]
    return "\n".join(rest[0])


@pytest.mark.usefixtures("unharmed")
class TestStomp:
    @pytest.mark.parametrize("start", BEYOND)
    def test_starts(self, server, start):
        assert "start" in refused(server, subscribe(tamis_start=start))
        assert "start" in refused(server, subscribe(tamis_start=start, tamis_durable="d"))
        assert "d" not in server.parts.channels.by_name["main", "q"].live.subscriptions

    def test_the_largest_start_is_the_end(self, server):
        wish = subscribe(tamis_start=LARGEST, receipt="r")
        assert [one[0] for one in answers(server, CONNECT, wish)] == ["CONNECTED", "RECEIPT"]

    @pytest.mark.parametrize("number", BEYOND)
    def test_sequences_of_publishers(self, server, number):
        stored = server.parts.channels.by_name["main", "q"].live.published
        assert "tamis-sequence" in refused(server, send("p", number))
        assert server.parts.channels.by_name["main", "q"].live.published == stored

    @pytest.mark.parametrize("number", BEYOND)
    def test_sequences_that_are_acknowledged(self, server, number):
        wish = subscribe(ack="client")
        assert "id of a message" in refused(server, wish, frame("ACK", id=f"1:{number}"))

    def test_an_acknowledgement_of_what_is_to_come_acknowledges_what_came(self, server):
        wish = subscribe(ack="client", tamis_durable="ahead")
        said = answers(server, CONNECT, wish, frame("ACK", id=f"1:{LARGEST}", receipt="r"))
        assert [one[0] for one in said] == ["CONNECTED", "RECEIPT"]
        live = server.parts.channels.by_name["main", "q"].live
        assert live.subscriptions["ahead"].cursor == live.next - 1

    @pytest.mark.parametrize("selector", RESERVED)
    def test_names_of_the_brokers_own(self, server, selector):
        assert "reserved" in refused(server, subscribe(selector=selector))


@pytest.fixture
def client(server):
    with Client("127.0.0.1", server.packets, 7, 1) as made:
        made.id = made.open("q")
        yield made


def open_subscription(client, **more):
    return client.command("pc.sub.open", **{
        "ChannelId": client.id, "Port": 1, "Subscription": 1, **more
    })  # fmt: skip


@pytest.mark.usefixtures("unharmed")
class TestPackets:
    """A refused packet does not end the connection: it goes on, too."""

    @pytest.mark.parametrize("start", BEYOND)
    def test_starts(self, client, start):
        for more in ({}, {"Durable": "d"}):
            with pytest.raises(Refused, match="start"):
                open_subscription(client, Start=str(start), **more)
        open_subscription(client, Start=str(LARGEST))

    @pytest.mark.parametrize("field", ["Port", "Subscription", "ChannelId"])
    @pytest.mark.parametrize("number", [2**16, 2**32, LARGEST, -1, -(2**63)])
    def test_numbers_of_subscriptions_and_channels(self, client, field, number):
        with pytest.raises(Refused):
            open_subscription(client, **{field: number})
        open_subscription(client)

    @pytest.mark.parametrize("selector", RESERVED)
    def test_names_of_the_brokers_own(self, client, selector):
        with pytest.raises(Refused, match="reserved"):
            open_subscription(client, Selector=selector)
        since, until = (datetime.datetime(y, 1, 1, tzinfo=datetime.UTC) for y in (2000, 2200))
        said = {"Subject": ">", "Since": since, "Until": until, "Selector": selector}
        with pytest.raises(Refused, match="reserved"):
            client.acknowledged(client.notify(client.id, "#.getCache", said))
        open_subscription(client)

    def test_names_of_the_brokers_own_in_tests_and_channels(self, client):
        with pytest.raises(Refused, match="reserved"):
            client.subscribe(client.id, 1, 1, ">", [[("$tamis$0", STRING, "=", "q")]])
        form = '[[channel]]\nid = 9\nattributes = [{name = "$tamis$0", type = "int"}]\n'
        with pytest.raises(Refused, match="reserved"):
            client.command("pc.chn.create", Channel="z", Form=form)
        open_subscription(client)

    @pytest.mark.parametrize("size", [-1, -(2**63)])
    def test_sizes_of_retention(self, client, size):
        form = '[[channel]]\nid = 9\nattributes = [{name = "n", type = "int"}]\n'
        with pytest.raises(Refused, match="retention"):
            client.command("pc.chn.create", Channel="z", Form=form, RetentionBytes=size)


def test_the_largest_sequence_over_stomp_is_stored_once(server):
    live = server.parts.channels.by_name["main", "q"].live
    stored = live.published
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", server.stomp), 20) as peer:
            peer.sendall(CONNECT + send("largest", LARGEST))
            said = b""
            while b"RECEIPT" not in said:
                more = peer.recv(65536)
                assert more, said
                said += more
    assert live.published == stored + 1


def test_the_largest_sequence_of_a_packet_is_stored_once(server, client):
    client.add_subject(client.id, "q")
    live = server.parts.channels.by_name["main", "q"].live
    stored = live.published
    for number in (2**32 - 1, 2**32 - 1, 1):
        client.publish(client.id, "q", {"n": 1}, number)
    assert live.published == stored + 2

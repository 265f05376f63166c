"""E-mail: to an SMTP server that nobody here wrote, which refuses at times."""

from __future__ import annotations

import email
import email.policy
import re
import socket

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from server.servers import QUOTES, served
from server.test_webhooks import until
from tamis.errors import InputError
from tamis.server.deliveries import MailServer
from tamis.server.deliveries.mail import Mail, check_mail_address

ONE = "/api/channels/quotes/subscriptions/mine"
MESSAGES = "/api/channels/quotes/messages"


class Postbox:
    def __init__(self) -> None:
        self.mails, self.answers, self.logins = [], [], []

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer.startswith("250"):
            policy = email.policy.default
            self.mails.append((envelope, email.message_from_bytes(envelope.content, policy=policy)))
        return answer

    def authenticate(self, server, session, envelope, mechanism, data):
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"pass")


@pytest.fixture
def post():
    box = Postbox()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        box.port = free.getsockname()[1]
    controller = Controller(box, "127.0.0.1", box.port, authenticator=box.authenticate,
                            auth_require_tls=False)  # fmt: skip
    controller.start()
    yield box
    controller.stop()


def sequences(mail):
    return [int(n) for n in re.findall(r"^(\d+)  ", mail.get_content(), re.MULTILINE)]


def test_a_digest_in_one_mail_tried_again(tmp_path, post, monkeypatch):
    monkeypatch.setattr(Mail, "first_pause", 0.01)
    post.answers += ["451 try again later", "250 OK"]
    server = MailServer("127.0.0.1", post.port, "broker@tamis.example", "me", "pass")
    with served(tmp_path, mail=server) as found, found.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        asked = {"selector": "price > 0", "email": "alice@example.com", "digest": 1}
        made = http.put(ONE, json=asked).json()
        assert made["delivery"] == {"email": "alice@example.com", "digest": 1}
        for symbol in ("IBM", "größer", "LU"):
            http.post(MESSAGES, json={"attributes": {"symbol": symbol, "price": 1.0}})
        until(lambda: post.mails)
        (envelope, mail), *more = post.mails
        assert (envelope.rcpt_tos, more) == (["alice@example.com"], [])
        assert sequences(mail) == [1, 2, 3]
        assert '"symbol":"größer"' in mail.get_content()
        assert mail["Subject"] == "quotes: 3 messages for mine"
        assert mail["Message-ID"] == "<quotes.mine.1-3@tamis.example>"
        assert post.logins[0] == (b"me", b"pass")
        until(lambda: http.get(ONE).json()["cursor"] == 3)
        assert http.get(f"{ONE}/dead").json()["failures"] == 1


def test_a_mail_says_what_is_lost(tmp_path, post):
    server = MailServer("127.0.0.1", post.port, "broker@tamis.example")
    with served(tmp_path, mail=server) as found, found.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        for _ in range(3):
            http.post(MESSAGES, json={"attributes": {"price": 1.0}})
        found.parts.hub.log._writer.execute("UPDATE block SET crc = crc + 1 WHERE first = 2")
        http.put(ONE, json={"email": "alice@example.com", "digest": 1, "start": "all"})
        until(lambda: http.get(ONE).json()["cursor"] == 3)
        texts = "".join(mail.get_content() for _, mail in post.mails)
        assert "2 to 2 are lost: the block is damaged" in texts
        assert [n for _, mail in post.mails for n in sequences(mail)] == [1, 3]


FLOW = """
space T(symbol: string, price: double)
T -> Dear : [symbol, price] => [symbol, twice := price * 2.0]; select twice > 10
T -> Dear : [symbol, price] => [symbol, twice := price * 4.0]; select twice > 10
"""


def test_messages_of_a_derived_space_come_as_they_were_made(tmp_path, post):
    """Also after a new start, when the flow became another one: a subscription keeps its own."""
    server = MailServer("127.0.0.1", post.port, "broker@tamis.example", "me", "pass")
    path = "/api/flows/f/spaces/Dear/subscriptions/mine"
    for round in range(2):
        with served(tmp_path, mail=server) as found, found.http() as http:
            if not round:
                http.put("/api/channels/T", json=QUOTES)
                assert http.put("/api/flows/f", json={"text": FLOW}).status_code == 200
                asked = {"selector": "twice < 100", "email": "alice@example.com", "digest": 1}
                made = http.put(path, json=asked)
                assert made.status_code == 200, made.text
                changed = {"text": FLOW.replace("4.0", "5.0")}
                assert http.put("/api/flows/f", json=changed).status_code == 200
            rows = [{"attributes": {"symbol": "IBM", "price": p}} for p in (1.0, 3.0, 10.0, 60.0)]
            assert http.post("/api/channels/T/messages", json=rows).status_code == 200
            last = 3 + 4 * round
            until(lambda last=last: last in [n for _, mail in post.mails for n in sequences(mail)])
            until(lambda last=last: http.get(path).json()["channels"]["T"]["cursor"] >= last)
    (first, mail), (_, second) = post.mails
    assert first.rcpt_tos == ["alice@example.com"]
    assert [sequences(one) for one in (mail, second)] == [[2, 3, 3], [6, 7, 7]]
    values = [float(n) for n in re.findall(r'"twice":([0-9.]+)', mail.get_content())]
    assert values == [12.0, 20.0, 40.0]  # of 60.0 both are too much, of 1.0 too little
    assert "price" not in mail.get_content()
    assert mail["Subject"] == "f/Dear: 3 messages for mine"
    assert mail["Message-ID"] != second["Message-ID"]
    assert re.fullmatch(r"<[!-;=?-~]+@tamis\.example>", mail["Message-ID"])


def test_what_is_refused_for_good_becomes_a_dead_letter(tmp_path, post):
    server = MailServer("127.0.0.1", post.port, "broker@tamis.example")
    post.answers += ["550 no such mailbox"]
    with served(tmp_path, mail=server) as found, found.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        http.put(ONE, json={"email": "nobody@example.com"})
        http.post(MESSAGES, json={"attributes": {"symbol": "x" * 5000}})
        until(lambda: http.get(f"{ONE}/dead").json()["dead"])
        dead = http.get(f"{ONE}/dead").json()["dead"]
        assert dead == [{"sequence": 1, "problem": "550 no such mailbox"}]
        http.post(MESSAGES, json={"attributes": {"symbol": "y" * 5000}})
        until(lambda: post.mails)
        assert sequences(post.mails[0][1]) == [2]
        assert "... (5,013 characters)" in post.mails[0][1].get_content()


def test_what_is_wrong_is_told(tmp_path, post):
    with served(tmp_path) as found, found.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        answer = http.put(ONE, json={"email": "alice@example.com"})
        assert (answer.status_code, "--smtp" in answer.text) == (422, True)
    server = MailServer("127.0.0.1", post.port, "broker@tamis.example")
    with served(tmp_path, mail=server) as found, found.http() as http:
        for asked in (
            {"email": "alice@example.com\r\nBcc: eve@example.com"},
            {"email": "alice@example.com", "webhook": "https://example.com"},
            {"email": "alice@example.com", "digest": -1},
        ):
            assert http.put(ONE, json=asked).status_code == 422
    assert "pass" not in repr(MailServer("h", 25, "a@b", "me", "pass"))
    for bad in ("", "a", "a@", "@b", "a b@c", "a@b,c@d", "a@b\n", "ä@b"):
        with pytest.raises(InputError):
            check_mail_address(bad)

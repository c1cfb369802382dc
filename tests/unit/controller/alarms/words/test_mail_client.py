# Tests: kvedge/controller/alarms/words/deadline_stream.py
"""A mail goes to the relay encrypted and whole, and a relay that refuses or hangs is told of in its own words."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvedge.controller.alarms.words.alarm_words import mail_message
from kvedge.controller.alarms.words.deadline_stream import WordsFailed
from kvedge.controller.alarms.words.mail_client import send_mail
from kvedge.controller.alarms.words.receiver_settings import Mail
from tests.support.certificate_files import FileAuthority
from tests.support.smtp_sink import SmtpSink
from tests.unit.controller.alarms.words.played_alarms import NOON, an_alarm

MESSAGE = mail_message([an_alarm()], "box@site.example", ["ann@site.example"], "edge", NOON)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> FileAuthority:
    return FileAuthority(tmp_path_factory.mktemp("pki"), "site")


def a_sink(authority: FileAuthority, **options: Any) -> SmtpSink:
    return SmtpSink(pair=authority.issue("relay", hosts=["127.0.0.1"]), **options)


def a_mail(sink: SmtpSink, authority: FileAuthority, **options: Any) -> Mail:
    given = {
        "name": "admins",
        "relay": f"127.0.0.1:{sink.port}",
        "from": "box@site.example",
        "to": ["ann@site.example", "bob@site.example"],
        "ca": authority.ca.read_text(),
        **options,
    }
    return msgspec.convert(given, Mail)


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_mail_is_taken_encrypted_after_logging_in(authority: FileAuthority, security: str) -> None:
    with a_sink(authority, tls_at_once=security == "tls", password="a b,ü") as sink:
        send_mail(a_mail(sink, authority, security=security, user="box", password="a b,ü"), MESSAGE)
    [found] = sink.deliveries
    assert (found.sender, found.recipients) == ("box@site.example", ["ann@site.example", "bob@site.example"])
    assert (found.encrypted, found.user) == (True, "box")
    assert found.mail["Subject"] == "[kvedge edge] critical: NodeLost: Node edge-1"
    assert "no word" in str(found.mail.get_payload(decode=True), "utf-8")


def test_a_line_with_a_dot_ends_no_mail(authority: FileAuthority) -> None:
    message = b"Subject: x\r\n\r\n.\r\n.hidden\r\nQUIT\r\nend"
    with a_sink(authority) as sink:
        send_mail(a_mail(sink, authority), message)
    assert sink.deliveries[0].raw == message + b"\r\n"


def test_one_recipient_that_is_refused_keeps_no_other_from_getting_it(authority: FileAuthority) -> None:
    with a_sink(authority, refused={"ann@site.example"}) as sink:
        send_mail(a_mail(sink, authority), MESSAGE)
    assert sink.deliveries[0].recipients == ["bob@site.example"]
    everybody = {"ann@site.example", "bob@site.example"}
    with a_sink(authority, refused=everybody) as sink, pytest.raises(WordsFailed, match="550 nobody"):
        send_mail(a_mail(sink, authority), MESSAGE)
    assert sink.deliveries == []


@pytest.mark.parametrize(
    ("options", "words", "is_final"),
    [
        ({"password": "wrong", "refuse": {"MAIL": "451 later"}}, "451 later", False),
        ({"password": "wrong", "refuse": {"DATA": "554 spam"}}, "554 spam", True),
        ({"refuse": {"EHLO": "hello"}}, "does not speak SMTP", False),
        ({"refuse": {"EHLO": "250-x\r\n" * 200}}, "without end", False),
        ({"refuse": {"EHLO": "2" * 10000}}, "too long", False),
        ({"password": "right"}, "535 no", False),
        ({"pair": None}, "offers no STARTTLS", False),
    ],
    ids=["busy", "spam", "no SMTP", "endless", "a long line", "a wrong password", "no encryption"],
)
def test_a_relay_that_does_not_take_it_is_told_of(
    authority: FileAuthority, options: dict[str, Any], words: str, is_final: bool
) -> None:
    given = {"pair": authority.issue("relay", hosts=["127.0.0.1"]), **options}
    with SmtpSink(**given) as sink, pytest.raises(WordsFailed, match=words) as caught:
        send_mail(a_mail(sink, authority, user="box", password="wrong"), MESSAGE)
    assert caught.value.is_final == is_final
    assert sink.deliveries == []


def test_no_password_is_told_to_a_relay_that_is_not_believed(authority: FileAuthority, tmp_path: Path) -> None:
    stranger = FileAuthority(tmp_path, "stranger")
    with a_sink(authority, password="right") as sink, pytest.raises(WordsFailed, match="not believed"):
        send_mail(a_mail(sink, stranger, user="box", password="right"), MESSAGE)
    assert not any(line.startswith("AUTH") for line in sink.said)


def test_what_somebody_in_between_says_before_tls_is_no_answer(authority: FileAuthority) -> None:
    injected = {"STARTTLS": "220 go on\r\n250 injected"}
    with a_sink(authority, refuse=injected) as sink, pytest.raises(WordsFailed, match="in between"):
        send_mail(a_mail(sink, authority), MESSAGE)


@pytest.mark.parametrize("trickle", [lambda connection: time.sleep(5), lambda connection: _drip(connection.sendall)])
def test_a_relay_that_hangs_or_drips_is_left_when_the_time_is_over(
    authority: FileAuthority, trickle: Callable[[Any], None]
) -> None:
    with a_sink(authority, first=trickle) as sink:
        begun = time.monotonic()
        with pytest.raises(WordsFailed):
            send_mail(a_mail(sink, authority), MESSAGE, seconds=0.5)
        assert time.monotonic() - begun < 3


def _drip(send: Callable[[bytes], None]) -> None:
    for _ in range(100):
        send(b"2")
        time.sleep(0.05)


def test_a_relay_on_this_host_may_take_it_in_the_clear() -> None:
    with SmtpSink() as sink:
        mail = Mail("admins", f"127.0.0.1:{sink.port}", "box@site", ["root@localhost"], security="none")
        send_mail(mail, MESSAGE)
    assert [each.encrypted for each in sink.deliveries] == [False]

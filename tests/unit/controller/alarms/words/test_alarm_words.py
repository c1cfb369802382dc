"""What receivers read: Alertmanager's document, a program's, and a mail that nobody else's words can break."""

from __future__ import annotations

from email import message_from_bytes
from email.policy import default

from kvedge.controller.alarms.words.alarm_words import hook_document, mail_message, webhook_document
from kvedge.resources.alarms.alarm_state import State
from tests.unit.controller.alarms.words.played_alarms import NOON, an_alarm


def test_a_webhook_gets_what_alertmanager_would_send() -> None:
    lost, over = an_alarm(), an_alarm("KvmLost", state=State.RESOLVED)
    found = webhook_document([lost, over], "noc", "edge")
    assert {key: found[key] for key in ("version", "status", "receiver", "groupLabels", "truncatedAlerts")} == {
        "version": "4",
        "status": "firing",
        "receiver": "noc",
        "groupLabels": {"box": "edge"},
        "truncatedAlerts": 0,
    }
    assert found["commonLabels"] == {"severity": "critical", "box": "edge", "kind": "Node", "name": "edge-1"}
    first, second = found["alerts"]
    assert first["labels"]["alertname"] == "NodeLost"
    assert (first["status"], first["startsAt"], first["endsAt"]) == (
        "firing",
        "2026-05-01T12:00:00Z",
        "0001-01-01T00:00:00Z",
    )
    assert (second["status"], second["endsAt"]) == ("resolved", "2026-05-01T12:05:00Z")
    assert first["annotations"]["description"] == "no word"
    assert first["annotations"]["runbook"] == "kvedge alarms show NodeLost"
    assert len({first["fingerprint"], second["fingerprint"]}) == 2
    assert webhook_document([over], "noc", "edge")["status"] == "resolved"


def test_one_alarm_has_the_same_fingerprint_when_it_is_raised_and_when_it_is_over() -> None:
    raised, over = (
        webhook_document([an_alarm(state=state)], "noc", "edge") for state in (State.FIRING, State.RESOLVED)
    )
    assert raised["alerts"][0]["fingerprint"] == over["alerts"][0]["fingerprint"]


def test_the_sites_program_reads_what_it_always_read() -> None:
    found = hook_document(an_alarm(message="gone"), "edge", NOON)
    assert {key: found[key] for key in ("version", "state", "box", "time", "kind", "name", "reason", "message")} == {
        "version": 1,
        "state": "firing",
        "box": "edge",
        "time": "2026-05-01T12:00:00Z",
        "kind": "Node",
        "name": "edge-1",
        "reason": "NodeLost",
        "message": "gone",
    }


def test_a_storm_is_one_mail_that_says_what_to_do() -> None:
    alarms = [an_alarm(name=f"edge-{number}") for number in range(50)] + [an_alarm("KvmLost", state=State.RESOLVED)]
    mail = message_from_bytes(mail_message(alarms, "box@site.example", ["a@b", "c@d"], "edge", NOON), policy=default)
    assert mail["Subject"] == "[kvedge edge] critical: NodeLost: Node edge-0 and 50 more"
    assert (mail["To"], mail["Auto-Submitted"]) == ("a@b, c@d", "auto-generated")
    assert str(mail["Message-ID"]).endswith("@site.example>")
    text = mail.get_content()
    assert text.count("NodeLost  Node edge-") == 50
    assert "kvedge alarms show NodeLost" in text
    assert "Over on edge:" in text


def test_what_a_guest_or_a_server_says_is_one_line_of_the_body_and_no_header() -> None:
    evil = "x\r\nBcc: spy@evil.example\r\n\r\n.\r\nQUIT \x1b[2J"
    raw = mail_message([an_alarm(message=evil)], "box@site.example", ["a@b"], "edge\r\nBcc: spy@evil.example", NOON)
    mail = message_from_bytes(raw, policy=default)
    assert mail["Bcc"] is None
    assert b"\x1b" not in raw
    assert "x  Bcc: spy@evil.example" in mail.get_content()

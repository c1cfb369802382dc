"""The document that says who is told: what is wrong with it is told by the field, and never with a secret."""

from __future__ import annotations

import pytest

from kvedge.controller.alarms.words.receiver_settings import (
    LONGEST_DOCUMENT,
    Mail,
    ReceiverError,
    Receivers,
    Webhook,
    read_receivers,
)
from kvedge.resources.alarms.alarm_rules import Severity

WHOLE = b"""
webhooks:
- name: noc
  url: https://noc.example:8443/alerts?team=edge
  token: s3cret
  severity: critical
mail:
- name: admins
  relay: mail.example
  from: box@site.example
  to: [ann@site.example]
  user: box
  password: s3cret
"""


def test_a_document_is_read() -> None:
    assert read_receivers(WHOLE) == Receivers(
        [Webhook("noc", "https://noc.example:8443/alerts?team=edge", "s3cret", severity=Severity.CRITICAL)],
        [Mail("admins", "mail.example", "box@site.example", ["ann@site.example"], user="box", password="s3cret")],
    )


def test_nobody_is_told_where_there_is_nothing() -> None:
    assert read_receivers(b"") == Receivers()


@pytest.mark.parametrize(
    ("relay", "security", "host", "port"),
    [
        ("mail.example", "starttls", "mail.example", 587),
        ("mail.example", "tls", "mail.example", 465),
        ("mail.example:2525", "starttls", "mail.example", 2525),
        ("[::1]:25", "none", "::1", 25),
        ("localhost", "none", "localhost", 25),
    ],
)
def test_a_relay_has_the_usual_port(relay: str, security: str, host: str, port: int) -> None:
    text = f"mail: [{{name: a, relay: '{relay}', security: {security}, from: a@b, to: [c@d]}}]"
    [found] = read_receivers(text.encode()).mail
    assert (found.host, found.port) == (host, port)


def hook(**fields: str) -> str:
    given = {"name": "noc", "url": "https://noc.example/", **fields}
    return f"webhooks: [{{{', '.join(f'{key}: {value!r}' for key, value in given.items())}}}]"


def mail(**fields: str) -> str:
    given = {"name": "a", "relay": "mail.example", "from": "a@b", "to": "[c@d]", **fields}
    return f"mail: [{{{', '.join(f'{key}: {value}' for key, value in given.items())}}}]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a", "Expected `object`"),
        ("webhook: []", "unknown field `webhook`"),
        ("webhooks: [{name: noc}]", "`url`"),
        ("a: [\n  b", r"no YAML \(line"),
        (hook(url="http://noc.example/"), "url: must be https"),
        (hook(url="https:///x"), "url: must be https"),
        (hook(url="https://me:s3cret@noc.example/"), "use token"),
        (hook(url="https://noc.example/ x"), "blanks"),
        (hook(url="https://noc.example:70000/"), "no URL"),
        (hook(token="a b"), "token: must be one word"),
        ('webhooks: [{name: noc, url: "https://noc.example/", token: "a\\r\\nb"}]', "token: must be one word"),
        (hook(name="hook"), "name: 'hook'"),
        (hook(name="NOC 1"), "name: 'NOC 1'"),
        (hook() + "\n" + mail(name="noc"), "name: 'noc'"),
        (hook(severity="loud"), "severity"),
        (mail(relay="mail.example/x"), "relay: must be"),
        (mail(relay="'mail.example:0x'"), "relay: must be"),
        (mail(to="[]"), "to: must name"),
        (mail(to="['c@d>\\r\\nRCPT TO:<e@f']"), "no mail address"),
        (mail(**{"from": "nobody"}), "no mail address"),
        (mail(user="me"), "one needs the other"),
        (mail(security="none"), "on this host"),
        (mail(relay="127.0.0.1", security="none", user="me", password="s3cret"), "on this host"),
        ("x" * (LONGEST_DOCUMENT + 1), "longer than"),
        ("webhooks: [" + ",".join(f"{{name: n{i}, url: 'https://a/'}}" for i in range(9)) + "]", "more than 8"),
    ],
)
def test_what_is_wrong_is_told(text: str, words: str) -> None:
    with pytest.raises(ReceiverError, match=words) as caught:
        read_receivers(text.encode())
    assert "s3cret" not in str(caught.value)

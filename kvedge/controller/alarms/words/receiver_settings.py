"""Who is told of alarms, as an operator writes it: webhooks and mail relays, in one YAML document.

It lies in a file beside the kubeconfig of a host, or in a Secret of a cluster. Read by the desk of tellers and by
`kvedge alarms test`. Pure.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from kvedge.resources.alarms.alarm_rules import Severity

LONGEST_DOCUMENT: Final = 65536
_MOST: Final = 8
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
# As strict as is needed to keep an address one word of SMTP and of a header.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_MOST_RECIPIENTS: Final = 20
# The site's program has this one.
HOOK: Final = "hook"


class ReceiverError(Exception):
    """The document cannot be used; says which field, and what may stand there."""


class Webhook(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """An HTTPS server that takes what Alertmanager sends."""

    name: str
    url: str
    # Sent as `Authorization: Bearer`.
    token: str = ""
    # The certificates of authorities to believe, as PEM; those of the host without any.
    ca: str = ""
    # The least bad alarm that it is told of.
    severity: Severity = Severity.WARNING


class Mail(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """A mail relay, and whom it shall bring mail to."""

    name: str
    relay: str
    from_: str = msgspec.field(name="from")
    to: list[str]
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str = ""
    password: str = ""
    ca: str = ""
    severity: Severity = Severity.WARNING

    @property
    def host(self) -> str:
        """The relay's name or address."""
        return _split(self.relay)[0]

    @property
    def port(self) -> int:
        """Its port; what is usual for the kind of encryption where none is named."""
        return _split(self.relay)[1] or {"starttls": 587, "tls": 465, "none": 25}[self.security]


class Receivers(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """The document."""

    webhooks: list[Webhook] = []
    mail: list[Mail] = []

    @property
    def all(self) -> list[Webhook | Mail]:
        """Each of them."""
        return [*self.webhooks, *self.mail]


def read_receivers(text: bytes) -> Receivers:
    """The receivers of a document.

    Raises:
        ReceiverError: when it is wrong; names the first field that is.
    """
    import yaml  # where nobody is told, it is not needed

    if len(text) > LONGEST_DOCUMENT:
        raise ReceiverError(f"it is longer than {LONGEST_DOCUMENT} bytes")
    try:
        found = msgspec.convert(yaml.safe_load(text) or {}, Receivers)
    except yaml.YAMLError as error:
        # The error quotes the line, which may be a password.
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise ReceiverError(f"it is no YAML{where}") from None
    except msgspec.ValidationError as error:
        raise ReceiverError(str(error)) from error
    for complaint in _find_wrong(found):
        raise ReceiverError(complaint)
    return found


def _find_wrong(found: Receivers) -> Iterator[str]:
    names = [each.name for each in found.all]
    if len(names) > _MOST:
        yield f"there are more than {_MOST} receivers"
    for each in found.all:
        if not _NAME.fullmatch(each.name) or each.name == HOOK or names.count(each.name) > 1:
            yield f"name: {each.name!r} must be a word of its own such as noc, of a-z, 0-9 and -, and not hook"
    for webhook in found.webhooks:
        yield from (f"webhook {webhook.name}: {wrong}" for wrong in _wrong_in_webhook(webhook))
    for mail in found.mail:
        yield from (f"mail {mail.name}: {wrong}" for wrong in _wrong_in_mail(mail))


def _wrong_in_webhook(webhook: Webhook) -> Iterator[str]:
    try:
        url = urlsplit(webhook.url)
        port = url.port
    except ValueError:
        yield "url: is no URL"
        return
    if url.scheme != "https" or not url.hostname or port == 0 or not webhook.url.isascii():
        yield "url: must be https://HOST[:PORT]/PATH"
    if url.username is not None or url.password is not None:
        yield "url: must have no user in it; use token"
    if any(each <= " " or each == "\x7f" for each in webhook.url):
        yield "url: must have no blanks"
    if not all("!" <= each <= "~" for each in webhook.token):
        yield "token: must be one word of ASCII"


def _wrong_in_mail(mail: Mail) -> Iterator[str]:
    if not mail.host or not 0 < mail.port < 65536:
        yield "relay: must be HOST or HOST:PORT"
    if not mail.to or len(mail.to) > _MOST_RECIPIENTS:
        yield f"to: must name between 1 and {_MOST_RECIPIENTS} addresses"
    for address in (mail.from_, *mail.to):
        if not _ADDRESS.fullmatch(address):
            yield f"{address!r} is no mail address"
    if bool(mail.user) != bool(mail.password):
        yield "user and password: one needs the other"
    if mail.security == "none" and (mail.user or not _is_here(mail.host)):
        yield "security: none is for a relay on this host (127.0.0.1), without a password"


def _split(relay: str) -> tuple[str, int]:
    """Host and port; no host where it makes no sense, port 0 where none is named."""
    try:
        url = urlsplit(f"//{relay}")
        port = url.port or 0
    except ValueError:
        return "", 0
    is_plain = not (url.path or url.query or url.fragment or url.username) and not any(each <= " " for each in relay)
    return (url.hostname or "", port) if is_plain else ("", 0)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

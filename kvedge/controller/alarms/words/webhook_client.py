"""Posts alarms to a webhook. Called by its teller, in a thread of its own."""

from __future__ import annotations

import ssl
from typing import Final
from urllib.parse import urlsplit

import msgspec

from kvedge.controller.alarms.words.deadline_stream import DeadlineStream, WordsFailed
from kvedge.controller.alarms.words.receiver_settings import Webhook
from kvedge.resources.codec import JsonObject

_SECONDS: Final = 20.0
_HTTPS: Final = 443


def make_context(ca: str) -> ssl.SSLContext:
    """TLS that believes these authorities, or the host's.

    Raises:
        WordsFailed: when they are no certificates.
    """
    try:
        return ssl.create_default_context(cadata=ca or None)
    except (ssl.SSLError, ValueError) as error:
        raise WordsFailed(f"ca: is no PEM certificate: {error}") from error


def post(webhook: Webhook, document: JsonObject, seconds: float = _SECONDS) -> None:
    """Have a webhook take a document. Redirections are not followed: a token would go with them.

    Raises:
        WordsFailed: when it does not.
    """
    url = urlsplit(webhook.url)
    assert url.hostname is not None
    body = msgspec.json.encode(document)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    lines = [f"POST {path} HTTP/1.1", f"Host: {url.netloc}", "Content-Type: application/json", "User-Agent: kvedge"]
    lines += [f"Content-Length: {len(body)}", "Connection: close"]
    if webhook.token:
        lines.append(f"Authorization: Bearer {webhook.token}")
    head = "".join(f"{line}\r\n" for line in lines)
    context = make_context(webhook.ca)
    with DeadlineStream(url.hostname, url.port or _HTTPS, seconds) as stream:
        stream.start_tls(context)
        stream.send(head.encode() + b"\r\n" + body)
        status = _read_status(stream.read_line(), url.hostname)
    if not 200 <= status < 300:
        # A client's fault stays one (RFC 9110); too many requests and a slow server do not.
        is_final = 400 <= status < 500 and status not in (401, 403, 404, 408, 421, 425, 429)
        raise WordsFailed(f"{url.hostname} answers with status {status}", is_final=is_final)


def _read_status(line: str, host: str) -> int:
    words = line.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not (words[1].isascii() and words[1].isdigit()):
        raise WordsFailed(f"{host} does not speak HTTP")
    return int(words[1][:4])

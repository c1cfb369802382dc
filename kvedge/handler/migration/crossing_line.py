"""The line of a guest that leaves for another box: this box's words go to the target's relay, and its answers come.

Used by the source's crossing steps; sends in the event loop of the leaving guests (`outgoing_service`). Reads the
credential that the user's command has left for this migration. Nothing is kept: what was answered is written into the
VMI by the steps.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import ssl
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec
from msgspec import Struct

from kvedge.handler.launchers.launcher_connections import Key
from kvedge.handler.pod_errors import PodNotReady
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import DecodeError, decode, encode_json
from kvedge.resources.moves.crossing import (
    CREDENTIAL_CA,
    CREDENTIAL_CERTIFICATE,
    CREDENTIAL_KEY,
    CREDENTIAL_NODE,
    CREDENTIALS_NAMESPACE,
    LONGEST_WORDS,
    SourceWords,
    TargetWords,
)
from kvedge.resources.relay_protocol import crossing_path
from kvedge.resources.types.core import Secret
from kvedge.runtime.clock import Clock
from kvedge.runtime.tls.certificates import CertificateError, TlsMaterial, handler_server_name
from kvedge.runtime.tls.tls_contexts import client_context

log = logging.getLogger(__name__)

# How soon words that are not new are said again: the answer may be.
REPEAT_SECONDS: Final = 1.0
_CALL_SECONDS: Final = 10.0
# A credential that the command renews is read again after so long.
_READ_SECONDS: Final = 30.0
_KEYS: Final = (CREDENTIAL_CERTIFICATE, CREDENTIAL_KEY, CREDENTIAL_CA, CREDENTIAL_NODE)


class Credential(NamedTuple):
    """By what the target's relay is called: a context with the certificate of this migration, and its node's name."""

    tls: ssl.SSLContext
    node: str


class _Call(Struct):
    """What is known of one migration's conversation; `asked_at` and `read_at` are on the monotonic clock."""

    credential: Credential | None = None
    version: str = ""
    read_at: float | None = None
    asked_at: float | None = None
    said: SourceWords | None = None
    answer: TargetWords | None = None
    is_unknown: bool = False
    is_under_way: bool = False
    trouble: str = ""


class CrossingLine:
    """All lines of one node; used by worker threads."""

    def __init__(
        self,
        client: KubeClient,
        begin: Callable[[Coroutine[Any, Any, None]], object],
        wake: Callable[[Key], None],
        clock: Clock,
    ) -> None:
        """`begin` starts work in the event loop, or drops it where there is none; `wake` has a VMI looked at."""
        self._client = client
        self._begin = begin
        self._wake = wake
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: dict[str, _Call] = {}

    def credential(self, uid: str) -> Credential:
        """By what the target is called.

        Raises:
            PodNotReady: when there is none, with the reason.
        """
        with self._lock:
            call = self._calls.setdefault(uid, _Call())
        now = self._clock.monotonic()
        if call.read_at is None or now - call.read_at >= _READ_SECONDS or call.credential is None:
            call.read_at = now
            self._read(uid, call)
        assert call.credential is not None
        return call.credential

    def converse(self, uid: str, key: Key, address: str, words: SourceWords) -> TargetWords | None:
        """Say this, now and again; the newest answer, which may be one to earlier words, None while there is none.

        Raises:
            PodNotReady: when the target cannot be called, with the reason.
        """
        credential = self.credential(uid)
        call = self._calls[uid]
        now = self._clock.monotonic()
        with self._lock:
            waits = call.asked_at is not None and call.said == words and now - call.asked_at < REPEAT_SECONDS
            if call.is_under_way or waits:
                return call.answer
            call.is_under_way, call.asked_at = True, now
        work = self._ask(uid, key, address, words, credential, call)
        if self._begin(work) is None:
            call.is_under_way = False
        return call.answer

    def trouble(self, uid: str) -> str:
        """Why the target does not answer; empty when it does."""
        call = self._calls.get(uid)
        return "" if call is None else call.trouble

    def has_said(self, uid: str, words: SourceWords) -> bool:
        """Whether the target has answered to these very words."""
        call = self._calls.get(uid)
        return call is not None and call.said == words

    def is_unknown(self, uid: str) -> bool:
        """Whether the target has answered that it knows of no such migration (any more)."""
        call = self._calls.get(uid)
        return call is not None and call.is_unknown

    def forget(self, uid: str) -> None:
        """Nothing is to be said any more."""
        with self._lock:
            self._calls.pop(uid, None)

    def _read(self, uid: str, call: _Call) -> None:
        where = f"Secret {CREDENTIALS_NAMESPACE}/{uid}"
        try:
            secret = self._client.get(Secret, CREDENTIALS_NAMESPACE, uid)
            found = [base64.b64decode(secret.data.get(name, ""), validate=True) for name in _KEYS]
            if secret.metadata.resource_version != call.version or call.credential is None:
                certificate, key, ca, node = found
                context = client_context(TlsMaterial(ca, certificate, key))
                call.credential = Credential(context, node.decode())
                call.version = secret.metadata.resource_version
        except (KubeError, CertificateError, binascii.Error, UnicodeDecodeError) as error:
            if call.credential is None:
                text = f"the credential for the other box, {where}, cannot be used: {error}; give the command again"
                raise PodNotReady(text) from error

    async def _ask(
        self, uid: str, key: Key, address: str, words: SourceWords, credential: Credential, call: _Call
    ) -> None:
        url, trouble, answer, is_unknown = f"https://{address}{crossing_path(*key, uid)}", "", call.answer, False
        try:
            timeout = aiohttp.ClientTimeout(total=_CALL_SECONDS)
            async with (
                aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, timeout=timeout) as session,
                session.post(
                    url,
                    data=encode_json(words),
                    ssl=credential.tls,
                    server_hostname=handler_server_name(credential.node),
                    allow_redirects=False,
                ) as response,
            ):
                body = await response.content.read(LONGEST_WORDS)
                if response.status == 200:
                    answer = decode(TargetWords, msgspec.json.decode(body, type=dict))
                else:
                    is_unknown = response.status == 404
                    trouble = f"the other box answers {response.status}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            trouble = f"the other box is not reached at {address}: {error or type(error).__name__}"
        except (msgspec.DecodeError, DecodeError) as error:
            trouble = f"the other box answers without sense: {error}"
        except asyncio.CancelledError:
            call.is_under_way = False
            raise
        if trouble and trouble != call.trouble:
            log.warning("the box that a guest moves to", extra={"facts": {"vmi": "/".join(key), "why": trouble}})
        with self._lock:
            is_news = answer != call.answer or call.said != words or is_unknown != call.is_unknown
            call.trouble, call.answer, call.is_unknown, call.is_under_way = trouble, answer, is_unknown, False
            if not trouble:
                call.said = words
        if is_news:
            self._wake(key)

"""Asks a webhook over HTTPS.

Used by `admission_webhooks`. One connection pool for all; each webhook's certificate is checked against its own
caBundle.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.aggregation.service_resolver import NoBackend, resolve
from kvedge.standalone.apiserver.store.object_cache import ObjectCache

# A webhook that answers with more than this is broken or hostile.
_MOST_BYTES: Final = 4 * 1024 * 1024


class WebhookFailed(Exception):
    """The webhook could not be asked or made no sense; the message says how."""


class WebhookClient:
    """Sends AdmissionReviews."""

    def __init__(self, cache: ObjectCache) -> None:
        self._cache = cache
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(self, config: JsonObject, review: JsonObject, seconds: float) -> JsonObject:
        """Send a review and return the `response` of the answer.

        Raises:
            WebhookFailed: no usable answer came within so many seconds.
        """
        try:
            async with asyncio.timeout(seconds):
                answer = await self._post(config, msgspec.json.encode(review))
        except TimeoutError as error:
            raise WebhookFailed(f"context deadline exceeded: no answer within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError, NoBackend, ssl.SSLError) as error:
            raise WebhookFailed(str(error)) from error
        return _response_of(answer, review["request"]["uid"])

    async def _post(self, config: JsonObject, body: bytes) -> bytes:
        url, server_name = self._target(config)
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True)
        async with self._session.post(
            url,
            data=body,
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            ssl=_tls(config.get("caBundle") or ""),
            server_hostname=server_name,
            allow_redirects=False,
        ) as response:
            content = bytearray()
            # In as many pieces as it comes.
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > _MOST_BYTES:
                    raise WebhookFailed(f"the answer is longer than {_MOST_BYTES} bytes")
            if response.status != 200:
                text = content[:256].decode(errors="replace")
                raise WebhookFailed(f"the server answered {response.status}: {text}")
        return bytes(content)

    def _target(self, config: JsonObject) -> tuple[str, str | None]:
        service = config.get("service")
        if service is None:
            url = str(config.get("url") or "")
            return url, urlsplit(url).hostname
        backend = resolve(self._cache, service["namespace"], service["name"], int(service.get("port") or 443))
        path = "/" + str(service.get("path") or "").lstrip("/")
        return f"https://{backend.authority}{path}", backend.server_name


def _response_of(answer: bytes, uid: str) -> JsonObject:
    try:
        document = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WebhookFailed(f"the answer is not JSON: {error}") from error
    response = document.get("response") if isinstance(document, dict) else None
    if not isinstance(response, dict):
        raise WebhookFailed("the answer has no response")
    if response.get("uid") != uid:
        raise WebhookFailed(f'expected response.uid="{uid}", got "{response.get("uid")}"')
    return response


@lru_cache(maxsize=64)
def _tls(ca_bundle: str) -> ssl.SSLContext:
    """Trusts the bundle alone, or without one what the system trusts."""
    if not ca_bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode())
    except (ValueError, ssl.SSLError) as error:
        raise WebhookFailed(f"its caBundle is not a PEM certificate in base64: {error}") from error

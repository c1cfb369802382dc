"""An ID token that a kubeconfig holds (`auth-provider: oidc`), exchanged for a new one when it ends.

Called by `identity`, and by `renewed_token` when a token ends. Asks the issuer by HTTPS. The kubeconfig stays as it is:
what was exchanged lives as long as this process.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.request import getproxies

import urllib3

from kvedge.kube.credentials.pem_files import PemFiles
from kvedge.kube.credentials.proxy_rules import proxy_for, proxy_headers
from kvedge.kube.credentials.renewed_token import Token, utc_now
from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault, text_of

_DISCOVERY: Final = "/.well-known/openid-configuration"
_SECONDS: Final = 10.0
_LARGEST: Final = 1 << 20


class OidcProvider:
    """The issuer of one user's tokens."""

    def __init__(self, config: Mapping[str, Any], base: Path) -> None:
        """`config` is the provider's; relative file names in it count from `base`.

        Raises:
            KubeconfigFault: when it does not hold together.
        """
        self._issuer = text_of(config, "idp-issuer-url").rstrip("/")
        self._client = text_of(config, "client-id")
        self._secret = text_of(config, "client-secret")
        self._token = text_of(config, "id-token")
        self._refresh_token = text_of(config, "refresh-token")
        with contextlib.ExitStack() as stack:
            pems = PemFiles(stack, base)
            pems.take({key.removeprefix("idp-"): value for key, value in config.items()}, "certificate-authority")
            self._tls = pems.context(verify=True)

    def first(self) -> Token:
        """The kubeconfig's own token, or another one when that has ended.

        Raises:
            KubeconfigFault: when there is none.
        """
        ends = end_of(self._token)
        if self._token and (ends is None or ends > utc_now()):
            return Token(self._token, ends)
        return self.renew()

    def renew(self) -> Token:
        """Exchange the refresh token.

        Raises:
            KubeconfigFault: when the issuer gives no other token.
        """
        if not self._issuer or not self._refresh_token:
            raise KubeconfigFault("oidc: the id-token has ended, and there is no refresh-token or no idp-issuer-url")
        with self._sockets() as sockets:
            endpoint = text_of(_ask(sockets, "GET", self._issuer + _DISCOVERY), "token_endpoint")
            answer = _ask(
                sockets,
                "POST",
                endpoint,
                fields={
                    "grant_type": "refresh_token",
                    "refresh_token": self._refresh_token,
                    "client_id": self._client,
                },
                headers=urllib3.make_headers(basic_auth=f"{self._client}:{self._secret}"),
            )
        token = text_of(answer, "id_token")
        if not token:
            raise KubeconfigFault(f"oidc: {endpoint} gives no id_token")
        self._refresh_token = text_of(answer, "refresh_token") or self._refresh_token
        return Token(token, end_of(token))

    def _sockets(self) -> urllib3.PoolManager:
        """Sockets to the issuer, through the environment's proxy: the kubeconfig's own is for the API server."""
        proxy = proxy_for(self._issuer, "", getproxies())
        if not proxy:
            return urllib3.PoolManager(ssl_context=self._tls)
        return urllib3.ProxyManager(proxy, ssl_context=self._tls, proxy_headers=proxy_headers(proxy))


def end_of(token: str) -> datetime | None:
    """When a token ends; None when it does not say."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        ends = claims.get("exp") if isinstance(claims, dict) else None
        return datetime.fromtimestamp(ends, UTC) if isinstance(ends, int | float) else None
    except (ValueError, OverflowError, OSError):
        return None


def _ask(
    sockets: urllib3.PoolManager,
    method: str,
    url: str,
    fields: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    if not url.startswith("https://"):
        raise KubeconfigFault(f"oidc: {url or 'the token endpoint'} is not https")
    options: dict[str, Any] = {} if fields is None else {"fields": fields, "encode_multipart": False}
    try:
        response = sockets.request(
            method, url, headers=headers, timeout=_SECONDS, retries=False, preload_content=False, **options
        )
        body = response.read(_LARGEST)
        response.close()
        answer = json.loads(body) if response.status == 200 else None
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise KubeconfigFault(f"oidc: {url}: {error}") from error
    if not isinstance(answer, dict):
        raise KubeconfigFault(f"oidc: {url}: HTTP {response.status}")
    return answer

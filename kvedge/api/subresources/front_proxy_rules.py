"""The user for whom an aggregated request speaks.

The API server authenticates users and forwards their requests with the name in headers. They are believed only from a
peer whose certificate is of the front proxy's authority AND whose common name is on the list: any client certificate
of that authority would otherwise do (CVE-2025-64432). Called by the subresource server. Touches nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

from msgspec import Struct

from kvedge.resources.role_users import UserInfo


class FrontProxyError(ValueError):
    """The ConfigMap kube-system/extension-apiserver-authentication does not say what it should."""


class FrontProxy(Struct, frozen=True):
    """The front proxy's names and its headers; `allowed_names` empty: every name of the authority."""

    ca: bytes
    allowed_names: frozenset[str]
    user_headers: Sequence[str]
    group_headers: Sequence[str]
    extra_prefixes: Sequence[str]


def front_proxy_of(data: Mapping[str, str]) -> FrontProxy:
    """The front proxy that the ConfigMap's data describes.

    Raises:
        FrontProxyError: when something is missing or cannot be read.
    """
    ca = data.get("requestheader-client-ca-file", "")
    if not ca:
        raise FrontProxyError(
            "requestheader-client-ca-file is missing: start the API server with --requestheader-client-ca-file"
        )
    return FrontProxy(
        ca=ca.encode(),
        allowed_names=frozenset(_names(data, "requestheader-allowed-names", ())),
        user_headers=_names(data, "requestheader-username-headers", ("X-Remote-User",)),
        group_headers=_names(data, "requestheader-group-headers", ("X-Remote-Group",)),
        extra_prefixes=_names(data, "requestheader-extra-headers-prefix", ("X-Remote-Extra-",)),
    )


def caller_of(proxy: FrontProxy, peer_name: str, headers: Iterable[tuple[str, str]]) -> UserInfo | None:
    """The user that the request speaks for, or None when it is not to be believed.

    Args:
        proxy: the front proxy, which may speak for users.
        peer_name: the common name of a certificate that TLS has verified against `proxy.ca`; empty without one.
        headers: all headers, a repeated one several times.
    """
    if not peer_name or (proxy.allowed_names and peer_name not in proxy.allowed_names):
        return None
    pairs = [(name.lower(), value) for name, value in headers]
    users = [value for header in proxy.user_headers for name, value in pairs if name == header.lower()]
    if not users or not users[0]:
        return None
    groups = [value for header in proxy.group_headers for name, value in pairs if name == header.lower()]
    extra: dict[str, list[str]] = {}
    for prefix in proxy.extra_prefixes:
        for name, value in pairs:
            if name.startswith(prefix.lower()):
                extra.setdefault(unquote(name[len(prefix) :]), []).append(value)
    return UserInfo(users[0], tuple(groups), "", extra)


def _names(data: Mapping[str, str], key: str, otherwise: Sequence[str]) -> Sequence[str]:
    if key not in data:
        return otherwise
    try:
        value = json.loads(data[key])
    except ValueError as error:
        raise FrontProxyError(f"{key} is no JSON list: {error}") from error
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise FrontProxyError(f"{key} is no JSON list of texts")
    return tuple(value)

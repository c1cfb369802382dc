"""Which proxy an API server is asked through: the kubeconfig's own, or the environment's.

Called by `connection_settings`. Pure.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault

_SCHEMES: Final = ("http", "https")


def proxy_for(server: str, named: str, environment: Mapping[str, str]) -> str:
    """The proxy's address, empty for none; `environment` is as `urllib.request.getproxies` reads it.

    ALL_PROXY does not count, as it does not for kubectl.

    Raises:
        KubeconfigFault: when it is of a kind that kvedge cannot speak to.
    """
    address = urlsplit(server)
    proxy = named or environment.get(address.scheme) or ""
    # The environment's proxy is for the outside: kubectl never asks it for the loopback either.
    if not proxy or (not named and _is_own(address.hostname or "")) or _is_left_out(server, environment.get("no", "")):
        return ""
    if urlsplit(proxy).scheme not in _SCHEMES:
        # Without the user and password that it may have.
        shown = f"{urlsplit(proxy).scheme}://{urlsplit(proxy).hostname}"
        raise KubeconfigFault(f"the proxy {shown} is neither http:// nor https://")
    return proxy


def proxy_headers(proxy: str) -> dict[str, str]:
    """What a proxy is shown whose address has a user and a password; urllib3 leaves that to its caller."""
    address = urlsplit(proxy)
    if not address.username:
        return {}
    shown = base64.b64encode(f"{unquote(address.username)}:{unquote(address.password or '')}".encode()).decode()
    return {"proxy-authorization": f"Basic {shown}"}


def _is_own(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_left_out(server: str, no_proxy: str) -> bool:
    """Whether `no_proxy` names the server: its name or a domain above it, with or without port, or its network."""
    address = urlsplit(server)
    host, with_port = (address.hostname or "").lower(), address.netloc.lower()
    for rule in (item.strip().lower() for item in no_proxy.split(",")):
        if rule == "*" or (rule and _holds(rule, host)):
            return True
        domain = rule.lstrip(".")
        if domain and any(name == domain or name.endswith(f".{domain}") for name in (host, with_port)):
            return True
    return False


def _holds(network: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False

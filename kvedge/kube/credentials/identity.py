"""How a kubeconfig's user proves who it is: a certificate, a token, a program that gives either, or a password.

Called by `connection_settings`. What only some kubeconfigs need is imported for them alone.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kvedge.kube.credentials.client_certificate import end_of
from kvedge.kube.credentials.pem_files import PemFiles, Renewal
from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault, map_of, text_of

# Gives what to send as Authorization, empty for nothing; called before each request, by any thread.
Authorization = Callable[[], str]


def nobody() -> str:
    """The client shows nothing, or its certificate alone."""
    return ""


def identify(user: Mapping[str, Any], cluster: Mapping[str, Any], pems: PemFiles, base: Path) -> Authorization:
    """What the user sends with each request; a certificate that a program gives goes to `pems`.

    Raises:
        KubeconfigFault: when it cannot prove it.
    """
    if provider := map_of(user, "auth-provider"):
        return _of_provider(provider, base)
    if token := text_of(user, "token") or _token_in(user, base):
        return lambda: f"Bearer {token}"
    if plugin := map_of(user, "exec"):
        return _of_plugin(plugin, cluster, pems, base)
    name, password = text_of(user, "username"), text_of(user, "password")
    if name and password:
        basic = base64.b64encode(f"{name}:{password}".encode()).decode()
        return lambda: f"Basic {basic}"
    return nobody


def _token_in(user: Mapping[str, Any], base: Path) -> str:
    name = text_of(user, "tokenFile")
    if not name:
        return ""
    try:
        return (base / name).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise KubeconfigFault(f"tokenFile: {base / name}: {why}") from error


def _of_provider(provider: Mapping[str, Any], base: Path) -> Authorization:
    name = text_of(provider, "name")
    if name != "oidc":
        raise KubeconfigFault(f"auth-provider {name} is no longer a part of Kubernetes: use its exec plugin instead")
    from kvedge.kube.credentials.oidc_token import OidcProvider
    from kvedge.kube.credentials.renewed_token import RenewedToken

    issuer = OidcProvider(map_of(provider, "config"), base)
    return RenewedToken(issuer.first(), issuer.renew).header


def _of_plugin(entry: Mapping[str, Any], cluster: Mapping[str, Any], pems: PemFiles, base: Path) -> Authorization:
    from kvedge.kube.credentials.exec_credentials import ExecPlugin
    from kvedge.kube.credentials.renewed_token import RenewedToken, Token, due_of, utc_now

    authority = base64.b64encode(pems.read("certificate-authority")).decode()
    plugin = ExecPlugin(entry, cluster, authority, base)
    first = plugin.run()
    if first.certificate:
        pems.embed("client-certificate", first.certificate, "clientCertificateData")
        pems.embed("client-key", first.key, "clientKeyData")
        pems.renewal = Renewal(due_of(first.ends or end_of(first.certificate), utc_now()))
    return RenewedToken(Token(first.token, first.ends), plugin.renew).header if first.token else nobody

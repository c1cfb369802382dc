"""Kubeconfigs that hold an address, certificates and a token at most, as kvedge, k3s and kubeadm write them.

Called by `connection_settings`, which leaves all others, and all that are wrong, to the client library: its loader
costs 12 MB and 65 ms of CPU. Looks whether the files that are named are there, and touches nothing.
"""

from __future__ import annotations

import os
from typing import Any, Final

from kubernetes.client.configuration import Configuration

from kvedge.kube.kubeconfigs.kubeconfig_reader import CLUSTERS, CONTEXTS, USERS, values_of

_CLUSTER: Final = frozenset({"server", "certificate-authority", "insecure-skip-tls-verify"})
_USER: Final = frozenset({"client-certificate", "client-key", "token"})
_FILES: Final = ("certificate-authority", "client-certificate", "client-key")


def load_plain(document: dict[str, Any], configuration: Configuration) -> bool:
    """Take the current context over, as the client library would; False when it is not a plain one.

    `document` names files, and embeds none.
    """
    context = values_of(document, CONTEXTS, document.get("current-context"))
    cluster = None if context is None else values_of(document, CLUSTERS, context.get("cluster"))
    user = None if context is None else values_of(document, USERS, context.get("user"))
    if cluster is None or user is None or not cluster.keys() <= _CLUSTER or not user.keys() <= _USER:
        return False
    texts = {key: value for key, value in {**cluster, **user}.items() if key != "insecure-skip-tls-verify"}
    server = texts.get("server")
    if server is None or not all(isinstance(text, str) and text for text in texts.values()):
        return False
    if not all(os.path.isfile(texts[key]) for key in _FILES if key in texts):
        return False
    configuration.host = server.rstrip("/")
    configuration.verify_ssl = not cluster.get("insecure-skip-tls-verify", False)
    if configuration.host.startswith("https"):
        configuration.ssl_ca_cert = cluster.get("certificate-authority")
        configuration.cert_file = user.get("client-certificate")
        configuration.key_file = user.get("client-key")
    if "token" in user:
        configuration.api_key["BearerToken"] = f"Bearer {user['token']}"
    return True

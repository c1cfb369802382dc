"""The objects that are there before anybody creates one.

Written by the server at each start when they are missing. Pure.
"""

from __future__ import annotations

import json
from typing import Final

from kvedge.resources.codec import JsonObject

SYSTEM_NAMESPACE: Final = "kvedge-system"
FRONT_PROXY_USER: Final = "front-proxy-client"
_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease", SYSTEM_NAMESPACE)


def namespaces() -> list[JsonObject]:
    """The namespaces of every cluster, and kvedge's own."""
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in _NAMESPACES]


def priority_classes() -> list[JsonObject]:
    """The two classes that every cluster has."""
    classes = (("system-cluster-critical", 2000000000), ("system-node-critical", 2000001000))
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": "Used for system critical pods.",
        }
        for name, value in classes
    ]


def authentication_config_map(clients_ca: bytes, front_proxy_ca: bytes) -> JsonObject:
    """Where an aggregated API server learns whom to believe when it is told a user's name in headers."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": clients_ca.decode(),
            "requestheader-client-ca-file": front_proxy_ca.decode(),
            "requestheader-allowed-names": json.dumps([FRONT_PROXY_USER]),
            "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
            "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
            "requestheader-username-headers": json.dumps(["X-Remote-User"]),
        },
    }

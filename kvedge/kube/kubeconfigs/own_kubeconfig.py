"""Kubeconfigs as kvedge makes them: one user, with certificate and key inside, of one cluster.

Made by the embedded API and by `kvedge user`; read by installing, by `kvedge user renew`, by `kvedge status`, and by
the embedded API, which keeps certificates that are good. Pure. A kubeconfig of another form is not kvedge's to replace.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec
from msgspec import Struct

from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError, parse_kubeconfig

# The name of its only cluster and its only context.
_NAME: Final = "kvedge"


class NotOursError(Exception):
    """kvedge has not made this kubeconfig; the text says what shows it."""


class OwnKubeconfig(Struct, frozen=True):
    """What is in it: `certificate` and `key` are PEM, and not checked yet.

    `user` is what the file calls the user, `cluster` its entry for the cluster; an empty `namespace` is not written.
    """

    user: str
    certificate: bytes
    key: bytes
    cluster: dict[str, Any]
    namespace: str = ""


def own_kubeconfig_manifest(own: OwnKubeconfig) -> dict[str, Any]:
    """The document."""
    credentials = {"client-certificate-data": _base64(own.certificate), "client-key-data": _base64(own.key)}
    context = {"cluster": _NAME, "user": own.user} | ({"namespace": own.namespace} if own.namespace else {})
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": own.cluster}],
        "users": [{"name": own.user, "user": credentials}],
        "contexts": [{"name": _NAME, "context": context}],
        "current-context": _NAME,
        "preferences": {},
    }


def with_ca(cluster: dict[str, Any], ca: bytes) -> dict[str, Any]:
    """A cluster's entry with its authority inside, so that the file can be carried elsewhere."""
    entry = {key: value for key, value in cluster.items() if key != "certificate-authority"}
    return {**entry, "certificate-authority-data": _base64(ca)}


def read_own_kubeconfig(content: bytes) -> OwnKubeconfig:
    """Take a file's content apart; a key that is not inside is empty.

    Raises:
        NotOursError: when it is not of that kind.
    """
    try:
        document = msgspec.convert(parse_kubeconfig(content), _Kubeconfig)
        (user,), (cluster,) = document.users, document.clusters
        certificate, key = (base64.b64decode(text) for text in (user.user.certificate, user.user.key))
        return OwnKubeconfig(user.name, certificate, key, cluster.cluster)
    except msgspec.ValidationError as error:
        raise NotOursError("has no certificate inside") from error
    except (KubeconfigError, ValueError) as error:
        raise NotOursError("is no kubeconfig of one user with a certificate") from error


def _base64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


class _Credentials(msgspec.Struct):
    certificate: str = msgspec.field(name="client-certificate-data")
    key: str = msgspec.field(name="client-key-data", default="")


class _User(msgspec.Struct):
    name: str
    user: _Credentials


class _Cluster(msgspec.Struct):
    cluster: dict[str, Any]


class _Kubeconfig(msgspec.Struct):
    users: list[_User]
    clusters: list[_Cluster]

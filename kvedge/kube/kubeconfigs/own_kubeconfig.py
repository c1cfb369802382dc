"""What a kubeconfig says that kvedge has made for a role: one user, with a certificate inside, of one cluster.

Read by installing, by `kvedge user renew` and by `kvedge status`. Pure. One that is otherwise is somebody else's.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import msgspec
import yaml

from kvedge.resources.codec import JsonObject


class NotOursError(Exception):
    """It is none that kvedge has made; the text says in which way."""


@dataclass(frozen=True, slots=True)
class RoleKubeconfig:
    """What is in it; `certificate` is PEM, which nobody has looked at yet, and `user` what the file calls the user."""

    user: str
    certificate: bytes
    cluster: JsonObject


def read_role_kubeconfig(text: bytes) -> RoleKubeconfig:
    """Take it apart.

    Raises:
        NotOursError: when it is not of that kind.
    """
    try:
        document = msgspec.convert(yaml.safe_load(text), _Kubeconfig)
        (user,), (cluster,) = document.users, document.clusters
        return RoleKubeconfig(user.name, base64.b64decode(user.user.certificate), cluster.cluster)
    except msgspec.ValidationError as error:
        raise NotOursError("has no certificate inside") from error
    except (yaml.YAMLError, ValueError) as error:
        raise NotOursError("is no kubeconfig of one user with a certificate") from error


class _Credentials(msgspec.Struct):
    certificate: str = msgspec.field(name="client-certificate-data")


class _User(msgspec.Struct):
    name: str
    user: _Credentials


class _Cluster(msgspec.Struct):
    cluster: JsonObject


class _Kubeconfig(msgspec.Struct):
    users: list[_User]
    clusters: list[_Cluster]

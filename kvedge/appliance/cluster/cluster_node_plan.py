"""What an installation on a node of a cluster needs besides program and units: settings of this node, credentials.

Called by `kvedge install --role server|agent`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from msgspec import Struct

from kvedge.kube.kubeconfigs.own_kubeconfig import NotOursError, read_own_kubeconfig
from kvedge.resources.types.core import Node
from kvedge.resources.values.host_ports import join_address
from kvedge.runtime.settings import Settings
from kvedge.runtime.tls.certificates import CertificateError, ends_at, life_of, renewal_due

# Fixed, so that a firewall can let them in: kvedge's own, and the one that KubeVirt's handler has for consoles.
API_PORT: Final = 8443
RELAY_PORT: Final = 8186
_SOON: Final = timedelta(days=60)
_HANDLER: Final = "handler"
_FROM_OUTSIDE: Final = ("InternalIP", "ExternalIP")


class NodePlace(Struct, frozen=True):
    """What is known of this node: where its roles' kubeconfigs and its kubelet are, and its address in the cluster.

    `name` is its name there, where that is not the host's; `own` the kubeconfig as which it speaks for itself, where
    its handler has none of its own.
    """

    roles: Path
    kubelet: Path
    address: str
    name: str = ""
    own: Path | None = None


def node_address(node: Node) -> str:
    """The address by which the rest of the cluster reaches a node; empty when it tells none."""
    found = {address.type: address.address for address in reversed(node.status.addresses)}
    return next((found[kind] for kind in _FROM_OUTSIDE if found.get(kind)), "")


def node_settings(role: Literal["server", "agent"], place: NodePlace, decided: Set[str]) -> bytes:
    """The settings file of this node, without what the operator has decided.

    An administrator's kubeconfig is decided by nobody: roles speak in their own names.
    """
    wanted: dict[str, str] = {"kubeconfig": str(place.roles), "kubelet-dir": str(place.kubelet)}
    if place.own is not None:
        wanted["node-kubeconfig"] = str(place.own)
    if place.name:
        wanted["node-name"] = place.name
    if role == "agent":
        wanted["node-roles"] = "handler"
    else:
        wanted["api-address"] = join_address(place.address, API_PORT)
    wanted["relay-address"] = join_address(place.address, RELAY_PORT)
    kept = {key: value for key, value in wanted.items() if key not in decided}
    head = "# Written by `kvedge install` and replaced by it. What config.yaml says of these it leaves out here.\n"
    return (head + (yaml.safe_dump(kept, sort_keys=False) if kept else "")).encode()


def handler_kubeconfig(settings: Settings, roles: Path) -> Path:
    """The kubeconfig of this node's handler, whether it is there or not; `roles` is where they are by default.

    Its own counts before its node's.
    """
    named = Path(settings.kubeconfig) if settings.kubeconfig else roles
    if named.is_file() or (named / _HANDLER).is_file():
        return named if named.is_file() else named / _HANDLER
    if settings.node_kubeconfig:
        return Path(settings.node_kubeconfig)
    return named / _HANDLER if named.is_dir() or not settings.kubeconfig else named


def serves_still(text: bytes | None, user: str, cluster: Mapping[str, Any], now: datetime) -> bool:
    """Whether a kubeconfig of one of our roles can stay: it is this user's, of this cluster, and good for months."""
    if text is None:
        return False
    try:
        found = read_own_kubeconfig(text)
        return found.user == user and found.cluster == dict(cluster) and not renewal_due(found.certificate, now)
    except (NotOursError, CertificateError):
        # A kubeconfig that is damaged or somebody else's is replaced by one that can be used.
        return False


def ends_soon(text: bytes, now: datetime) -> datetime | None:
    """When a kubeconfig's certificate ends, if that is within two months: nobody has renewed it in time."""
    try:
        certificate = read_own_kubeconfig(text).certificate
        end = ends_at(certificate)
    except (NotOursError, CertificateError):
        # With a token, or with files of its own, it is somebody else's to look after.
        return None
    # Half of the time in which it is renewed: a cluster may sign for less than a year.
    return end if end - now < min(_SOON, life_of(certificate) / 6) else None

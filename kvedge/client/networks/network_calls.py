"""Networks besides the Pod network on an API server: made of options, found, deleted.

Called by the verbs. Raises UsageError for what no server need be asked.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from kvedge.client.errors import NotFoundError, UsageError
from kvedge.client.networks.network_rows import users_of
from kvedge.client.session import Session, check_name
from kvedge.kube.errors import AlreadyExists, Forbidden, NotFound
from kvedge.network.dhcp.dhcp_plan import parse_mac
from kvedge.network.lan.lan_config import FIELD, LanConfig, LanConfigError, lan_config_text, parse_lan_config
from kvedge.network.lan.macvtap_config import MacvtapConfig, macvtap_config_text, parse_macvtap_config
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.lan_bridges import ONLY_WITH_BRIDGE
from kvedge.resources.lan_reservations import (
    RESERVATIONS,
    Reservation,
    ReservationsError,
    encode_reservations,
    reservations_of,
)
from kvedge.resources.manifests.attachment_crd import attachment_crd
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

# Bridges that kvedge makes are called after their network, in as many letters as a link's name has room for.
_MADE_PREFIX: Final = "kvn-"
_HASH_LETTERS: Final = 10
_KINDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# A new kind is served once its names are accepted.
_KIND_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1


class NoNetworks(NotFoundError):
    """The server does not know the kind of which networks are."""


def make_bridge_name(namespace: str, name: str) -> str:
    """The bridge of an isolated network: a network that is made anew has the one that it had."""
    return _MADE_PREFIX + hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:_HASH_LETTERS]


def network_document(name: str, namespace: str, config: LanConfig | MacvtapConfig) -> JsonObject:
    """The manifest of a network.

    Raises:
        UsageError: for a configuration that no box could use.
    """
    try:
        text = _make_checked_text(config)
    except LanConfigError as error:
        raise UsageError(str(error).removeprefix(f"{FIELD}.")) from error
    kind = NetworkAttachmentDefinition.KIND
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": check_name(name), "namespace": namespace},
        "spec": {"config": text},
    }


def _make_checked_text(config: LanConfig | MacvtapConfig) -> str:
    if isinstance(config, MacvtapConfig):
        text = macvtap_config_text(config)
        parse_macvtap_config(text)
    else:
        text = lan_config_text(config)
        parse_lan_config(text)
    return text


def create_network(session: Session, document: JsonObject) -> None:
    """Make it.

    A cluster without Multus has no such kind yet: it gets the kind, and its handlers join guests to the network.

    Raises:
        NoNetworks: when the server does not serve the kind that it was given.
        KubeError: as the server answers.
    """
    if not _has_networks(session):
        _make_kind(session)
    with _explain_no_networks(session):
        session.client.request("POST", NetworkAttachmentDefinition.KIND.path(session.namespace), document)


def bind_to_nodes(session: Session, document: JsonObject) -> None:
    """Have a cluster bring the network's guests to nodes that have its bridge; one box is one node.

    Raises:
        KubeError: as the server answers.
    """
    if "kvedgeVersion" not in session.client.request("GET", "/version"):
        _annotate(document, ONLY_WITH_BRIDGE, "true")


def note_reservations(document: JsonObject, config: LanConfig, reserved: Iterable[str]) -> None:
    """Write into a network's manifest which MAC has which address, each as `MAC=ADDRESS`.

    Raises:
        UsageError: for what is no such pair, or no address of a guest there.
    """
    assert config.addresses is not None
    found: dict[str, Reservation] = {}
    for pair in reserved:
        mac, equals, address = pair.partition("=")
        mac = mac.lower().replace("-", ":")
        try:
            parse_mac(mac)
            config.addresses.with_prefix(address)
        except ValueError as error:
            why = str(error) if equals else "it is no MAC=ADDRESS"
            raise UsageError(f"--reserve {pair[:60]!r}: {why}") from error
        if mac in found:
            raise UsageError(f"--reserve {mac}: it has an address already: name each MAC once")
        found[mac] = Reservation(address)
    _annotate(document, RESERVATIONS, encode_reservations(found))
    try:
        reservations_of(decode(NetworkAttachmentDefinition, document))
    except ReservationsError as error:
        raise UsageError(f"--reserve: {error}") from error


def _annotate(document: JsonObject, name: str, value: str) -> None:
    document["metadata"].setdefault("annotations", {})[name] = value


def _make_kind(session: Session) -> None:
    document = attachment_crd()
    try:
        session.client.request("POST", _KINDS, document)
    except AlreadyExists:
        pass
    except Forbidden as error:
        why = f"this cluster has no networks besides the Pod network yet, and you may not add their kind ({error})"
        raise NoNetworks(f"{why}: have an administrator make the first network, or install Multus") from error
    deadline = time.monotonic() + _KIND_SECONDS
    while not _has_networks(session):
        if time.monotonic() > deadline:
            raise NoNetworks(f"the server does not serve {document['metadata']['name']} yet: try again")
        time.sleep(_POLL_SECONDS)


def refuse_known(session: Session, name: str) -> None:
    """Refuse a name that is taken, before anything else is done for the network.

    Raises:
        UsageError: when there is such a network.
        NoNetworks: when the server has no such kind.
        KubeError: as the server answers.
    """
    if any(each.metadata.name == name for each in list_networks(session, session.namespace)):
        raise UsageError(f"there is a network {name} already: choose another name, or delete it first")


def nic_bridge_of(session: Session, name: str) -> str | None:
    """The bridge of a NIC that nobody needs once this network is gone; None for any other network.

    Raises:
        UsageError: when others are on its bridge.
        NoNetworks: when the server has no such kind.
        KubeError: as the server answers.
    """
    here = list_networks(session, session.namespace)
    mine = next((_bridge_of_nic(each) for each in here if each.metadata.name == name), "")
    if not mine:
        # Its users may have rights in its namespace alone: the other namespaces are not read for it.
        return None
    key = (session.namespace, name)
    others = [each for each in list_networks(session, None) if (each.metadata.namespace, each.metadata.name) != key]
    if mine in {_bridge_of_nic(each) for each in others}:
        return None
    beside = [f"{each.metadata.namespace}/{each.metadata.name}" for each in others if _host_bridge_of(each) == mine]
    if beside:
        raise UsageError(
            f"network {name} is kept: bridge {mine}, which kvedge made for it, has {', '.join(beside[:4])} too, such as"
            " for a VLAN of it: delete those first"
        )
    return mine


def _host_bridge_of(found: NetworkAttachmentDefinition) -> str:
    """The bridge of the host that a network is on, whoever made it; empty where each node makes one."""
    try:
        config = parse_lan_config(found.spec.config)
    except LanConfigError:
        return ""
    return "" if config.made else config.bridge


def _bridge_of_nic(found: NetworkAttachmentDefinition) -> str:
    """The bridge of a network that is on a NIC's; empty for any other."""
    try:
        config = parse_lan_config(found.spec.config)
    except LanConfigError:
        return ""
    return config.bridge if config.nic else ""


def list_networks(session: Session, namespace: str | None) -> list[NetworkAttachmentDefinition]:
    """Those of a namespace, or of all for None.

    Raises:
        NoNetworks: when the server has no such kind.
        KubeError: as the server answers.
    """
    with _explain_no_networks(session):
        return session.client.list(NetworkAttachmentDefinition, namespace)


@contextmanager
def _explain_no_networks(session: Session) -> Iterator[None]:
    try:
        yield
    except NotFound:
        # It may be the namespace that is not there.
        if not _has_networks(session):
            text = (
                "this server has no networks besides the Pod network: `kvedge network create` makes the first, or"
                " install Multus in the cluster"
            )
            raise NoNetworks(text) from None
        raise


def _has_networks(session: Session) -> bool:
    try:
        session.client.request("GET", f"/apis/{NetworkAttachmentDefinition.KIND.api_version}")
    except NotFound:
        return False
    return True


def users_of_network(session: Session, name: str) -> list[str]:
    """The VMs, of whatever namespace, that are on this network."""
    vms = session.client.list(VirtualMachine, None)
    vmis = session.client.list(VirtualMachineInstance, None)
    return users_of(vms, vmis).get((session.namespace, name), [])

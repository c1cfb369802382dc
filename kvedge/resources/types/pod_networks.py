"""Which networks a Pod joins besides its own, as Multus has it: names, the two annotations, what stands in them.

Called by the controller, which asks for them on launcher Pods, by the node agent of one box, which answers, and by the
handler, which finds the NICs by their names. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

import msgspec

from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SWITCHED_NETWORKS
from kvedge.resources.types.devices import ABSENT, Interface
from kvedge.resources.types.guest_nics import interface_mac, is_bridged
from kvedge.resources.types.vmi import (
    DOMAIN_SOURCE,
    MULTUS_STATUS,
    VirtualMachineInstance,
    VirtualMachineInstanceStatus,
)

# On a Pod: which networks it wants; and what it was given.
NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
NETWORK_STATUS: Final = "k8s.v1.cni.cncf.io/network-status"
# On a Pod: the network that it has in place of the cluster's.
DEFAULT_NETWORK: Final = "v1.multus-cni.io/default-network"
# Why a container waits, on one box: its Pod cannot be given a network. A kubelet says so by events alone.
NO_NETWORK: Final = "CreatePodSandboxError"
# By which a binding plugin's own CNI plugin learns for which of the VMI's networks it is asked.
LOGIC_NETWORK: Final = "logicNetworkName"
# Networks for all namespaces, as Multus has it where it keeps namespaces apart.
GLOBAL_NAMESPACE: Final = "default"
# As many letters of the hash as fit into a link's name beside KubeVirt's prefixes and suffixes.
_HASH_LETTERS: Final = 11
_GUESTS_NIC: Final = re.compile(f"pod[0-9a-f]{{{_HASH_LETTERS}}}")
# Each is a pair of links of the host; KubeVirt's guests have at most 256 NICs, PCI has room for far fewer.
_MOST: Final = 256


class SelectionError(ValueError):
    """The annotation does not say which networks a Pod wants."""


class Selection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One network that a Pod wants: the NetworkAttachmentDefinition, and how the NIC is called in the Pod."""

    name: str
    namespace: str = ""
    interface: str = ""
    mac: str = ""
    cni_args: dict[str, str] = msgspec.field(default={}, name="cni-args")

    @property
    def reference(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class JoinedNetwork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One network that a Pod was given."""

    name: str
    interface: str = ""
    ips: list[str] = []
    mac: str = ""
    mtu: int = 0
    default: bool = False
    # Of a device that a device plugin has given to the Pod for this network: an object in that plugin's words.
    device_info: Any = msgspec.field(default=None, name="device-info")


# Made at the import: msgspec learns a type in one thread, before others use it.
_SELECTIONS: Final = msgspec.json.Decoder(list[Selection])
_ENTRIES: Final = msgspec.json.Decoder(list[dict[str, Any]])
_SWITCHED: Final = msgspec.json.Decoder(dict[str, str])
_JOINED: Final = msgspec.json.Decoder(list[JoinedNetwork])


def pod_nic(network: str) -> str:
    """The Pod's NIC of a secondary network, by the network's name in the VMI: KubeVirt's rule."""
    return f"pod{hashlib.sha256(network.encode()).hexdigest()[:_HASH_LETTERS]}"


def attachment_of(network_name: str, namespace: str) -> tuple[str, str]:
    """The namespace and name of a NetworkAttachmentDefinition that a VMI of that namespace names."""
    place, slash, name = network_name.partition("/")
    return (place, name) if slash else (namespace, network_name)


def network_fields(vmi: VirtualMachineInstance) -> dict[str, str]:
    """The fields of a VMI that name networks, by what they name as `namespace/name`."""
    return {
        "/".join(attachment_of(each.multus.network_name, vmi.metadata.namespace)): f"spec.networks[{index}]"
        for index, each in enumerate(vmi.spec.networks)
        if each.multus is not None
    }


def lan_interfaces(vmi: VirtualMachineInstance) -> list[tuple[int, Interface, str]]:
    """The interfaces on networks besides the Pod's, with their place in the VMI and the `networkName` they join; those
    that are to be absent are left out."""
    return [each for each in _on_other_networks(vmi) if each[1].state != ABSENT]


def absent_interfaces(vmi: VirtualMachineInstance) -> list[tuple[int, Interface]]:
    """Those of them that are to be absent, which the guest may still have."""
    return [(index, item) for index, item, _ in _on_other_networks(vmi) if item.state == ABSENT]


def is_there(status: VirtualMachineInstanceStatus, name: str) -> bool:
    """Whether the Pod has joined the network of this interface, or the guest has its NIC, as the status says."""
    row = next((row for row in status.interfaces if row.name == name), None)
    return row is not None and (MULTUS_STATUS in row.sources or DOMAIN_SOURCE in row.sources)


def switched_networks(vmi: VirtualMachineInstance) -> dict[str, str]:
    """The networks that its NICs were taken to while it ran, by interface; empty for one that is not there yet."""
    try:
        return _SWITCHED.decode(vmi.metadata.annotations.get(SWITCHED_NETWORKS) or "{}")
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}


def find_elsewhere(vmi: VirtualMachineInstance, joined: Iterable[JoinedNetwork]) -> list[tuple[str, str]]:
    """The interfaces whose Pod is on another network than they are to be, each with `namespace/name` of that one."""
    names = {each.interface: each.name for each in joined}
    found = []
    for _, item, network_name in lan_interfaces(vmi):
        wanted = "/".join(attachment_of(network_name, vmi.metadata.namespace))
        if names.get(pod_nic(item.name), wanted) not in (wanted, network_name):
            found.append((item.name, wanted))
    return found


def sriov_interfaces(vmi: VirtualMachineInstance) -> list[tuple[int, Interface, str]]:
    """The interfaces that are functions of a card, with their place in the VMI and the `networkName` they join. The
    guest has the function itself: nothing is bound in the Pod."""
    return [each for each in _find_joining(vmi) if each[1].sriov is not None]


def _on_other_networks(vmi: VirtualMachineInstance) -> list[tuple[int, Interface, str]]:
    return [each for each in _find_joining(vmi) if is_bridged(each[1])]


def _find_joining(vmi: VirtualMachineInstance) -> list[tuple[int, Interface, str]]:
    joined = {
        network.name: network.multus.network_name
        for network in vmi.spec.networks
        if network.multus is not None and not network.multus.default
    }
    interfaces = enumerate(vmi.spec.domain.devices.interfaces)
    return [(index, item, joined[item.name]) for index, item in interfaces if item.name in joined]


def default_network(vmi: VirtualMachineInstance) -> str:
    """The network in place of the cluster's, in the VMI's words; empty for a VMI on the cluster's own."""
    others = (network.multus for network in vmi.spec.networks if network.multus is not None)
    return next((other.network_name for other in others if other.default), "")


def make_wanted_networks(vmi: VirtualMachineInstance, plugin_networks: Mapping[str, str] | None = None) -> str:
    """The launcher Pod's annotation; empty when the VMI is on no other network than the Pod's.

    `plugin_networks` has the networks that binding plugins have of their own, by the plugin's name: such a one is told
    for which of the VMI's networks it is.
    """
    wanted = [*_guest_networks(vmi), *_function_networks(vmi)]
    for interface in vmi.spec.domain.devices.interfaces:
        own = (plugin_networks or {}).get(interface.binding.name) if interface.binding is not None else None
        if own and interface.state != ABSENT:
            namespace, name = attachment_of(own, vmi.metadata.namespace)
            wanted.append(Selection(name=name, namespace=namespace, cni_args={LOGIC_NETWORK: interface.name}))
    return _encode_wanted(wanted)


def make_changed_wish(vmi: VirtualMachineInstance, present: str, *, switches: bool = False) -> str:
    """The annotation of a launcher Pod that runs, `present` itself where it has the guest's networks.

    `switches`: its NICs are taken to other networks while it runs. Elsewhere they stay where they are: whoever joins
    the Pod would take a NIC away to make another one, and the guest's with it.

    The Pod leaves a network once the guest has released its NIC. What others have there stays: what plugins have of
    their own and the networks of SR-IOV as they were at the Pod's start, and what a mesh or an administrator has added
    to the Pod.
    """
    try:
        entries: list[JsonObject] = _ENTRIES.decode(present) if present else []
    except (msgspec.DecodeError, msgspec.ValidationError):
        # Multus' short form, or no form at all: it is put right for a guest that needs it.
        entries = []
    wanted = msgspec.to_builtins(_guest_networks(vmi))
    if not switches:
        wanted = [_where_it_was(each, entries) for each in wanted]
    fixed = {pod_nic(item.name) for _, item, _ in sriov_interfaces(vmi)}
    if wanted == [each for each in entries if _is_guests(each, fixed)]:
        return present
    kept = [each for each in entries if not _is_guests(each, fixed)]
    return msgspec.json.encode([*wanted, *kept]).decode() if wanted or kept else ""


def _where_it_was(entry: JsonObject, entries: Iterable[JsonObject]) -> JsonObject:
    before = next((each for each in entries if each.get("interface") == entry["interface"]), entry)
    return {**entry, "name": before.get("name", ""), "namespace": before.get("namespace", "")}


def _is_guests(entry: JsonObject, fixed: Container[str]) -> bool:
    nic = str(entry.get("interface"))
    return _GUESTS_NIC.fullmatch(nic) is not None and nic not in fixed


def selection_of(vmi: VirtualMachineInstance, interface: Interface, network_name: str) -> Selection:
    """How the Pod of a VMI joins the network of an interface."""
    namespace, name = attachment_of(network_name, vmi.metadata.namespace)
    mac = interface_mac(vmi, interface)
    return Selection(name=name, namespace=namespace, interface=pod_nic(interface.name), mac=mac)


def _guest_networks(vmi: VirtualMachineInstance) -> list[Selection]:
    held = {row.name for row in vmi.status.interfaces if DOMAIN_SOURCE in row.sources}
    wanted = []
    for _, interface, network_name in _on_other_networks(vmi):
        if interface.state == ABSENT and interface.name not in held:
            continue
        wanted.append(selection_of(vmi, interface, network_name))
    return wanted


def _function_networks(vmi: VirtualMachineInstance) -> list[Selection]:
    return [selection_of(vmi, interface, network_name) for _, interface, network_name in sriov_interfaces(vmi)]


def _encode_wanted(wanted: list[Selection]) -> str:
    return msgspec.json.encode(wanted).decode() if wanted else ""


def parse_wanted(text: str, namespace: str) -> list[Selection]:
    """What a Pod of that namespace wants: the annotation as JSON, or as Multus' short form `[ns/]name[@nic], ...`.

    Raises:
        SelectionError: when it says neither.
    """
    if not text.strip():
        return []
    try:
        is_json = text.lstrip().startswith("[")
        found = _SELECTIONS.decode(text) if is_json else [_short(item) for item in text.split(",")]
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise SelectionError(f"metadata.annotations[{NETWORKS}]: {error}") from error
    if len(found) > _MOST:
        raise SelectionError(f"metadata.annotations[{NETWORKS}]: {len(found)} networks, at most {_MOST} are possible")
    named = [
        msgspec.structs.replace(each, namespace=each.namespace or namespace, interface=each.interface or f"net{number}")
        for number, each in enumerate(found, 1)
    ]
    _check(named)
    return named


def check_namespace(selection: Selection, namespace: str) -> None:
    """Raises SelectionError for a network that no Pod of that namespace may join where kvedge joins it."""
    if selection.namespace not in (namespace, GLOBAL_NAMESPACE):
        raise SelectionError(
            f"network {selection.reference} is another namespace's: use one of {namespace},"
            f" or one of {GLOBAL_NAMESPACE}, which all may use"
        )


def missing_network(selection: Selection) -> str:
    """That there is no such network, and the remedy."""
    return (
        f"there is no network {selection.reference}:"
        f" `kvedge network create {selection.name} -n {selection.namespace}` makes one"
    )


def _short(item: str) -> Selection:
    network, _, interface = item.strip().partition("@")
    namespace, name = attachment_of(network, "")
    return Selection(name=name, namespace=namespace, interface=interface)


def _check(named: Iterable[Selection]) -> None:
    seen = {"eth0", "lo"}
    for each in named:
        if not each.name:
            raise SelectionError(f"metadata.annotations[{NETWORKS}]: a network has no name")
        is_link_name = each.interface.isascii() and each.interface.isalnum() and len(each.interface) < 15
        if not is_link_name or each.interface in seen:
            raise SelectionError(
                f"metadata.annotations[{NETWORKS}]: the interface {each.interface[:40]!r} of {each.name[:80]!r} is no"
                " name for a link, or is given twice"
            )
        seen.add(each.interface)


def network_status(joined: Iterable[JoinedNetwork]) -> str:
    """The annotation that says what a Pod was given."""
    return msgspec.json.encode(list(joined)).decode()


def parse_status(text: str) -> list[JoinedNetwork]:
    """What a Pod was given; nothing when nobody says it in words that can be understood."""
    try:
        return _JOINED.decode(text or "[]")
    except (msgspec.DecodeError, msgspec.ValidationError):
        return []

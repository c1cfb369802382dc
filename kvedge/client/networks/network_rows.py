"""A line for each network besides the Pod network: what `kvedge network list` shows of it, and which VMs are on it.

Called by the verb. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from kvedge.client.vm_rows import age_text
from kvedge.network.lan.lan_config import LanConfig, LanConfigError, parse_lan_config
from kvedge.network.lan.macvtap_config import MacvtapConfig, parse_macvtap_config
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.pod_networks import attachment_of
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Network
from kvedge.runtime.clock import parse_rfc3339

HEADER: Final = ["NAME", "KIND", "BRIDGE/NIC", "VLAN", "USED BY", "AGE"]
# Only guests are on it; a bridge of the host; one that kvedge made of a NIC; a NIC that the host goes on using; what
# one box cannot use.
_ISOLATED, _BRIDGE, _NIC, _MACVTAP, _OTHER = "isolated", "bridge", "nic", "macvtap", "other"

Users = Mapping[tuple[str, str], Sequence[str]]


class NetworkRow(Struct, frozen=True):
    """One network; `nic` where guests are on a NIC of the host without a bridge."""

    namespace: str
    name: str
    kind: str
    bridge: str
    nic: str
    vlan: int
    # All VLANs, as users read them.
    vlans: str
    used_by: tuple[str, ...]
    created: str
    age: str

    def cells(self, *, with_namespace: bool) -> list[str]:
        """The cells below :data:`HEADER`."""
        cells = [self.name, self.kind, self.bridge or self.nic, self.vlans, ",".join(self.used_by), self.age]
        return [cell or "-" for cell in ([self.namespace] if with_namespace else []) + cells]

    def document(self) -> JsonObject:
        """For scripts."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "kind": self.kind,
            "bridge": self.bridge,
            "nic": self.nic or None,
            "vlan": self.vlan or None,
            "vlans": self.vlans or None,
            "usedBy": list(self.used_by),
            "created": self.created,
        }


def users_of(vms: Iterable[VirtualMachine], vmis: Iterable[VirtualMachineInstance]) -> dict[tuple[str, str], list[str]]:
    """The VMs by namespace and network, those of another namespace as `namespace/name`; a run that is on a network
    which its VM has no more counts as well."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for vm in vms:
        networks = vm.spec.template.spec.networks if vm.spec.template is not None else []
        _note(found, vm.metadata.namespace, vm.metadata.name, networks)
    for vmi in vmis:
        _note(found, vmi.metadata.namespace, vmi.metadata.name, vmi.spec.networks)
    return {key: sorted(names) for key, names in found.items()}


def _note(
    found: defaultdict[tuple[str, str], set[str]], namespace: str, name: str, networks: Iterable[Network]
) -> None:
    for network in networks:
        if network.multus is None:
            continue
        key = attachment_of(network.multus.network_name, namespace)
        found[key].add(name if key[0] == namespace else f"{namespace}/{name}")


def network_rows(found: Iterable[NetworkAttachmentDefinition], users: Users, now: datetime) -> list[NetworkRow]:
    """A row for each network, by namespace and name."""
    return sorted((_row(each, users, now) for each in found), key=lambda row: (row.namespace, row.name))


def _row(found: NetworkAttachmentDefinition, users: Users, now: datetime) -> NetworkRow:
    meta, config = found.metadata, _config(found.spec.config)
    created = meta.creation_timestamp
    return NetworkRow(
        namespace=meta.namespace,
        name=meta.name,
        kind=_kind(config),
        bridge=config.bridge if isinstance(config, LanConfig) else "",
        nic=config.nic if isinstance(config, MacvtapConfig) else "",
        vlan=config.vlan if isinstance(config, LanConfig) else 0,
        vlans=config.vlans_text if isinstance(config, LanConfig) else "",
        used_by=tuple(users.get((meta.namespace, meta.name), ())),
        created=created or "",
        age=age_text((now - parse_rfc3339(created)).total_seconds()) if created else "",
    )


def _kind(config: LanConfig | MacvtapConfig | None) -> str:
    if config is None:
        return _OTHER
    if isinstance(config, MacvtapConfig):
        return _MACVTAP
    if config.nic:
        return _NIC
    return _ISOLATED if config.made else _BRIDGE


def _config(text: str) -> LanConfig | MacvtapConfig | None:
    try:
        return parse_macvtap_config(text) or parse_lan_config(text)
    except LanConfigError:
        return None

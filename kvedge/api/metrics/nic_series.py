"""The labels of NICs, as a VM's template or a VMI has them.

Called by vm_series.py and vmi_series.py. Pure. The labels are KubeVirt's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.metrics.series_table import NONE
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import Network

_POD_NETWORK: Final = "pod networking"
# By the field that is set.
_CORE_BINDINGS: Final = ("masquerade", "bridge", "sriov", "passt_binding", "passt", "slirp", "macvtap")
_SPELLED: Final = {"passt_binding": "passt"}


def describe_nics(spec: VirtualMachineInstanceSpec) -> Iterator[dict[str, str]]:
    """The labels of each NIC that has a network."""
    networks = {network.name: network for network in spec.networks}
    for nic in spec.domain.devices.interfaces:
        network = networks.get(nic.name)
        if network is not None:
            kind, name = _binding(nic)
            yield {
                "vnic_name": nic.name,
                "binding_type": kind,
                "network": _network(network),
                "binding_name": name,
            }


def _network(network: Network) -> str:
    if network.resource_claim is not None:
        return f"{network.resource_claim.claim_name}/{network.resource_claim.request_name}"
    return network.multus.network_name if network.multus is not None else _POD_NETWORK


def _binding(nic: Interface) -> tuple[str, str]:
    if nic.binding is not None:
        return "plugin", nic.binding.name
    found = next((field for field in _CORE_BINDINGS if getattr(nic, field) is not None), "")
    return "core", _SPELLED.get(found, found) or NONE

"""Networks of SR-IOV: which of a card's virtual functions an interface gets, as NetworkAttachmentDefinition, device
plugin, Multus and KubeVirt write it down.

Called by the controller, which orders the functions and hands on what Multus tells, by the handler, which opens them to
the launcher's user, and by the launcher, which gives each to its guest. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vmi import VirtualMachineInstance

# On a NetworkAttachmentDefinition: the resource of the device plugin that has its virtual functions.
RESOURCE_NAME: Final = "k8s.v1.cni.cncf.io/resourceName"
# On a launcher Pod: what Multus has told of the devices of the VMI's networks, for the launcher and for sidecars.
NETWORK_INFO: Final = "kubevirt.io/network-info"
# Where that is in the Pod, and the volume that brings it there.
NETWORK_INFO_DIRECTORY: Final = "/etc/podinfo"
NETWORK_INFO_FILE: Final = "network-info"
NETWORK_INFO_VOLUME: Final = "network-info-annotation"
# VFIO maps the guest's memory, and the windows of its devices beside it: KubeVirt's and libvirt's allowance for these.
VFIO_BYTES: Final = 1 << 30
_RESOURCE_VARIABLE: Final = "KUBEVIRT_RESOURCE_NAME_"
_DEVICES_VARIABLE: Final = "PCIDEVICE_"
# A name of the API server's: a domain, then the resource.
_RESOURCE: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class NetworkDevice(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """What is known of the device of one of the VMI's networks; `device_info` is what the device plugin wrote."""

    network: str
    device_info: JsonObject | None = None
    mac: str = ""
    mtu: int = 0

    @property
    def pci_address(self) -> str:
        """Of a device that is a function of a PCI card; empty for any other."""
        pci = (self.device_info or {}).get("pci")
        address = pci.get("pci-address") if isinstance(pci, dict) else None
        return address if isinstance(address, str) else ""


class _NetworkInfo(msgspec.Struct, kw_only=True):
    interfaces: list[NetworkDevice] = []


_INFO: Final = msgspec.json.Decoder(_NetworkInfo)


def passes_functions(vmi: VirtualMachineInstance) -> bool:
    """Whether functions of the node's cards go to this guest."""
    return any(interface.sriov is not None for interface in vmi.spec.domain.devices.interfaces)


def is_resource(name: Any) -> bool:
    """Whether a device plugin can have a resource of this name."""
    return isinstance(name, str) and _RESOURCE.fullmatch(name) is not None


def network_info(devices: Sequence[NetworkDevice]) -> str:
    """The annotation, in the order of the networks' names as KubeVirt writes it."""
    ordered = sorted(devices, key=lambda device: device.network)
    return msgspec.json.encode(_NetworkInfo(interfaces=ordered)).decode()


def parse_network_info(text: str | bytes) -> list[NetworkDevice]:
    """What the annotation says.

    Raises:
        ValueError: when it cannot be read.
    """
    return _INFO.decode(text).interfaces


def resource_variable(interface: str) -> str:
    """The variable that tells a launcher which resource an interface's function is of."""
    return _RESOURCE_VARIABLE + interface


def devices_variables(resource: str) -> tuple[str, str]:
    """The variable in which the device plugin tells a container the PCI addresses of its functions of a resource.

    It leaves the dashes of a name; shells have none in variables, and other plugins replace them.
    """
    name = _DEVICES_VARIABLE + resource.upper().replace(".", "_").replace("/", "_")
    return name, name.replace("-", "_")

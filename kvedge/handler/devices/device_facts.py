"""What a node has of devices that could go to guests, as sysfs shows them.

Read by `sysfs_reading`, judged by `offer_plan`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kvedge.resources.host_devices.passed_devices import DeviceKind


class PciFunction(Struct, frozen=True, kw_only=True):
    """A function of a card; `group` is its IOMMU group, empty without an IOMMU, `has_node` that VFIO offers it."""

    address: str
    vendor: str
    product: str
    # Six hexadecimal digits: what it is.
    device_class: str = ""
    driver: str = ""
    group: str = ""
    has_node: bool = False

    @property
    def is_bridge(self) -> bool:
        """Whether it leads to other devices: it goes to no guest, and keeps no group from being whole."""
        return self.device_class.startswith("06")


class MediatedDevice(Struct, frozen=True, kw_only=True):
    """A part of a card that its driver gives away."""

    uuid: str
    type_name: str
    group: str = ""
    has_node: bool = False


class UsbDevice(Struct, frozen=True, kw_only=True):
    """A device in a port; its number is another one after each time that it is plugged in."""

    port: str
    vendor: str
    product: str
    bus: int
    number: int
    serial: str = ""
    name: str = ""
    has_node: bool = False

    @property
    def node(self) -> str:
        """Its device node."""
        return f"/dev/bus/usb/{self.bus:03}/{self.number:03}"

    @property
    def address(self) -> str:
        """As the launcher is told of it."""
        return f"{self.bus}:{self.number}"


class NodeDevices(Struct, frozen=True):
    """All of a node's, by address, UUID and port."""

    pci: Sequence[PciFunction] = ()
    mdev: Sequence[MediatedDevice] = ()
    usb: Sequence[UsbDevice] = ()


class Offer(Struct, frozen=True, kw_only=True):
    """One device of a resource, as a device plugin offers it; of USB it may be several devices.

    `members` are the devices by address, UUID or port, `addresses` what the launcher is told, `nodes` what its Pod
    gets. `trouble` is why it cannot be given, with what to do; empty when it can.
    """

    resource: str
    kind: DeviceKind
    members: tuple[str, ...]
    addresses: tuple[str, ...]
    nodes: tuple[str, ...]
    trouble: str = ""

    @property
    def id(self) -> str:
        """Its name for the kubelet, which stays the same over the node's boots."""
        return "+".join(self.members)

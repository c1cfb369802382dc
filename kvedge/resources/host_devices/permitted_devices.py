"""The devices of nodes that VMs may be given, as the KubeVirt object permits them.

Read by admission and by the controller, which ask whether a resource is permitted, and by the handler, which finds its
node's devices by them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from kvedge.resources.types.devices import Devices


class PciPermit(Struct, frozen=True):
    """PCI functions of a maker and a model, in four hexadecimal digits each; `external`: another program has them."""

    resource: str
    vendor: str
    product: str
    external: bool = False


class MdevPermit(Struct, frozen=True):
    """Mediated devices of a type, by its name with `_` for spaces."""

    resource: str
    type_name: str
    external: bool = False


class UsbMatch(Struct, frozen=True):
    """One USB device; an empty serial number or port fits any."""

    vendor: str
    product: str
    serial: str = ""
    port: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether it tells apart devices of one model."""
        return bool(self.serial or self.port)


class UsbPermit(Struct, frozen=True):
    """USB devices that go to a guest together, one for each match."""

    resource: str
    matches: tuple[UsbMatch, ...]
    external: bool = False


class PermittedDevices(Struct, frozen=True):
    """All that is permitted; a resource has devices of one kind."""

    pci: tuple[PciPermit, ...] = ()
    mdev: tuple[MdevPermit, ...] = ()
    usb: tuple[UsbPermit, ...] = ()

    @property
    def resources(self) -> frozenset[str]:
        """The resources that VMs may name."""
        found = {permit.resource for permit in self.pci}
        found |= {permit.resource for permit in self.mdev}
        return frozenset(found | {permit.resource for permit in self.usb})

    @property
    def own_resources(self) -> frozenset[str]:
        """Those that kvedge's handlers offer."""
        found = {permit.resource for permit in self.pci if not permit.external}
        found |= {permit.resource for permit in self.mdev if not permit.external}
        return frozenset(found | {permit.resource for permit in self.usb if not permit.external})


def find_not_permitted(devices: Devices, permitted: PermittedDevices | None) -> Iterator[tuple[str, int, str]]:
    """The list, the place in it and what is to be said, of each device of a VMI that is not permitted.

    Where the KubeVirt object permits nothing at all, any device plugin's resource may be named: KubeVirt's rule.
    """
    if permitted is None:
        return
    named = [("gpus", "GPU", [device.device_name for device in devices.gpus])]
    named += [("hostDevices", "HostDevice", [device.device_name for device in devices.host_devices])]
    for field, word, names in named:
        for index, name in enumerate(names):
            if name and name not in permitted.resources:
                yield field, index, f"{word} {name} is not permitted in permittedHostDevices configuration"

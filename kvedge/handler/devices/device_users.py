"""Which VM of this node has which device: as its launcher's Pod was told by the device plugins.

Asked before a guest starts, and for the node's report. Device plugins give each of their devices to one Pod; this finds
what they cannot see: two resources whose devices lie in one IOMMU group, and plugins of others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from msgspec import Struct

from kvedge.handler.devices.device_facts import NodeDevices
from kvedge.resources.host_devices.passed_devices import VARIABLES, DeviceKind, addresses_variable, device_counts
from kvedge.resources.types.vmi import VirtualMachineInstance

# A Pod's variables are the node's word, but its processes may change what /proc shows of them.
_MOST: Final = 256
_LONGEST: Final = 80


class HeldDevices(Struct, frozen=True):
    """What one VMI has: devices by address, UUID or port, and their IOMMU groups."""

    vmi: str
    members: frozenset[str]
    groups: frozenset[str]


class DeviceUsers:
    """The book of them; entries of VMIs that have gone count no more."""

    def __init__(self, living: Callable[[], Collection[VirtualMachineInstance]]) -> None:
        """`living` has the VMIs of this node."""
        self._living = living
        self._lock = threading.Lock()
        # By the VMI's UID.
        self._held: dict[str, HeldDevices] = {}

    def has(self, vmi: VirtualMachineInstance) -> bool:
        """Whether it is written down what a VMI has."""
        with self._lock:
            return vmi.metadata.uid in self._held

    def claim(self, vmi: VirtualMachineInstance, environment: Mapping[str, str], seen: NodeDevices) -> str:
        """Write down what a VMI's Pod has; why its guest cannot start, empty when it can.

        Once for each VMI: what its processes show later may be a guest's word.
        """
        wanted = held_devices(vmi, environment, seen)
        with self._lock:
            self._forget_dead()
            if vmi.metadata.uid in self._held:
                return ""
            for other in self._held.values():
                if trouble := _find_clash(wanted, other):
                    return trouble
            self._held[vmi.metadata.uid] = wanted
        return ""

    def holders(self) -> dict[str, str]:
        """The VMI, as namespace/name, of each device that one has."""
        with self._lock:
            self._forget_dead()
            return {member: held.vmi for held in self._held.values() for member in held.members}

    def _forget_dead(self) -> None:
        living = {vmi.metadata.uid for vmi in self._living() if not vmi.is_final}
        self._held = {uid: held for uid, held in self._held.items() if uid in living}


def held_devices(vmi: VirtualMachineInstance, environment: Mapping[str, str], seen: NodeDevices) -> HeldDevices:
    """What a Pod with these variables has."""
    addresses = set(_addresses(vmi, environment))
    ports = {device.address: device.port for device in seen.usb}
    members = frozenset(ports.get(address, address) if kind == "usb" else address for kind, address in addresses)
    groups = {device.address: device.group for device in seen.pci} | {device.uuid: device.group for device in seen.mdev}
    meta = vmi.metadata
    return HeldDevices(
        f"{meta.namespace}/{meta.name}",
        members,
        frozenset(group for member in members if (group := groups.get(member, ""))),
    )


def _addresses(vmi: VirtualMachineInstance, environment: Mapping[str, str]) -> Iterator[tuple[DeviceKind, str]]:
    for resource in device_counts(vmi):
        for kind in VARIABLES:
            text = environment.get(addresses_variable(kind, resource), "")
            for address in text.split(",", _MOST)[:_MOST]:
                if address.strip():
                    yield kind, address.strip()[:_LONGEST]


def _find_clash(wanted: HeldDevices, other: HeldDevices) -> str:
    if both := sorted(wanted.members & other.members):
        return f"device {both[0]} of this node is that of VMI {other.vmi}: it is free when that one has ended"
    if both := sorted(wanted.groups & other.groups):
        return (
            f"IOMMU group {both[0]} of this node is that of VMI {other.vmi}, which has another device of it: it is free"
            " when that one has ended"
        )
    return ""


def parse_environment(text: str) -> dict[str, str]:
    """/proc/<pid>/environ, as it came."""
    return dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)

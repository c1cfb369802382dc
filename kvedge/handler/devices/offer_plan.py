"""Which of a node's devices its device plugins offer, and why one that is permitted cannot be given.

Called by `node_devices`. Pure. A device is offered once at most: a guest has it for itself. VFIO opens an IOMMU group
for one process only, and not while the host uses any device in it, so that a group is offered once for each resource.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kvedge.handler.devices.device_facts import MediatedDevice, NodeDevices, Offer, PciFunction, UsbDevice
from kvedge.resources.host_devices.permitted_devices import PermittedDevices, UsbMatch, UsbPermit

VFIO_DRIVER: Final = "vfio-pci"
# Drivers that leave a device alone, as VFIO has it.
_HARMLESS: Final = ("", VFIO_DRIVER, "pci-stub")
_MOST_SHOWN: Final = 3

# The bundles of USB devices, by resource, that stay together while a guest has one of them.
Bundles = Mapping[str, Collection[tuple[str, ...]]]


def plan_offers(permitted: PermittedDevices, seen: NodeDevices, kept: Bundles) -> list[Offer]:
    """All that is offered; resources that another program offers are not looked for."""
    return [
        *_pci_offers(permitted, seen.pci),
        *_mdev_offers(permitted, seen.mdev),
        *_usb_offers(permitted, seen.usb, kept),
    ]


def pci_resources(permitted: PermittedDevices, functions: Iterable[PciFunction]) -> Iterator[tuple[PciFunction, str]]:
    """The functions that are permitted, with their resource; kvedge's own plugins alone."""
    wanted = {(permit.vendor, permit.product): permit.resource for permit in permitted.pci if not permit.external}
    for function in functions:
        resource = wanted.get((function.vendor, function.product))
        if resource is not None and not function.is_bridge:
            yield function, resource


def _pci_offers(permitted: PermittedDevices, functions: Sequence[PciFunction]) -> Iterator[Offer]:
    groups: defaultdict[str, list[PciFunction]] = defaultdict(list)
    for function in functions:
        groups[function.group].append(function)
    given: set[tuple[str, str]] = set()
    for function, resource in pci_resources(permitted, functions):
        if function.group and (resource, function.group) in given:
            # Whoever has the first of them has the group.
            continue
        given.add((resource, function.group))
        yield Offer(
            resource=resource,
            kind="pci",
            members=(function.address,),
            addresses=(function.address,),
            nodes=_vfio_nodes(function.group),
            trouble=_pci_trouble(function, groups[function.group]),
        )


def _pci_trouble(function: PciFunction, group: Sequence[PciFunction]) -> str:
    if not function.group:
        return (
            "is in no IOMMU group: turn the IOMMU on, in the firmware, and for Intel with intel_iommu=on on the"
            " kernel's command line"
        )
    if function.driver != VFIO_DRIVER:
        has = f"has the driver {function.driver}" if function.driver else "has no driver"
        return f"{has}: bind it to {VFIO_DRIVER}"
    in_use = [each for each in group if not each.is_bridge and each.driver not in _HARMLESS]
    if in_use:
        shown = ", ".join(f"{each.address} (driver {each.driver})" for each in in_use[:_MOST_SHOWN])
        more = f" and {len(in_use) - _MOST_SHOWN} more" if len(in_use) > _MOST_SHOWN else ""
        return (
            f"shares IOMMU group {function.group} with {shown}{more}, which the host uses: bind all of the group to"
            f" {VFIO_DRIVER}, or put the card into another slot"
        )
    return "" if function.has_node else _no_node(function.group)


def _mdev_offers(permitted: PermittedDevices, devices: Iterable[MediatedDevice]) -> Iterator[Offer]:
    wanted = {permit.type_name: permit.resource for permit in permitted.mdev if not permit.external}
    for device in devices:
        if (resource := wanted.get(device.type_name)) is not None:
            yield Offer(
                resource=resource,
                kind="mdev",
                members=(device.uuid,),
                addresses=(device.uuid,),
                nodes=_vfio_nodes(device.group),
                trouble="" if device.has_node else _no_node(device.group),
            )


def _usb_offers(permitted: PermittedDevices, devices: Sequence[UsbDevice], kept: Bundles) -> Iterator[Offer]:
    by_port = {device.port: device for device in devices}
    own = [permit for permit in permitted.usb if not permit.external]
    held = {permit.resource: sorted(kept.get(permit.resource, ())) for permit in own}
    free = set(by_port) - {port for bundles in held.values() for bundle in bundles for port in bundle}
    # An entry that tells devices of one model apart chooses before one that takes any of them.
    for permit in sorted(own, key=lambda each: not any(match.is_exact for match in each.matches)):
        for bundle in (*held[permit.resource], *_bundles(permit, devices, free)):
            yield _usb_offer(permit.resource, bundle, by_port)


def _bundles(permit: UsbPermit, devices: Sequence[UsbDevice], free: set[str]) -> Iterator[tuple[str, ...]]:
    """Takes the devices of each bundle out of the free ones."""
    while True:
        taken: list[str] = []
        for match in sorted(permit.matches, key=lambda each: not each.is_exact):
            port = next((each.port for each in devices if each.port in free and _fits(match, each)), None)
            if port is None:
                # What this incomplete bundle would have had is free for others.
                free |= set(taken)
                return
            taken.append(port)
            free.remove(port)
        yield tuple(taken)


def _fits(match: UsbMatch, device: UsbDevice) -> bool:
    return (
        (match.vendor, match.product) == (device.vendor, device.product)
        and match.serial in ("", device.serial)
        and match.port in ("", device.port)
    )


def _usb_offer(resource: str, bundle: tuple[str, ...], by_port: Mapping[str, UsbDevice]) -> Offer:
    there = [by_port[port] for port in bundle if port in by_port]
    gone = [port for port in bundle if port not in by_port]
    troubles = [f"the device in port {port} is gone: plug it in again, then restart the VM" for port in gone]
    troubles += [f"the node has no {device.node}: see that udev runs" for device in there if not device.has_node]
    return Offer(
        resource=resource,
        kind="usb",
        members=bundle,
        addresses=tuple(device.address for device in there),
        nodes=tuple(device.node for device in there),
        trouble="; ".join(troubles[:_MOST_SHOWN]),
    )


def _vfio_nodes(group: str) -> tuple[str, ...]:
    return ("/dev/vfio/vfio", f"/dev/vfio/{group}") if group else ()


def _no_node(group: str) -> str:
    if not group:
        return "is in no IOMMU group: turn the IOMMU on"
    return f"the node lacks /dev/vfio/vfio or /dev/vfio/{group}: load the module vfio-pci"

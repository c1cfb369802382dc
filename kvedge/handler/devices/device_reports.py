"""What a node tells of its devices: those that VMs may have, and those that they could have if somebody permitted it.

Called by `node_devices`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec

from kvedge.handler.devices.device_facts import NodeDevices, Offer
from kvedge.handler.devices.offer_plan import pci_resources
from kvedge.resources.host_devices.device_report import DeviceReport
from kvedge.resources.host_devices.passed_devices import DeviceKind
from kvedge.resources.host_devices.permitted_devices import PermittedDevices
from kvedge.resources.values.pci_addresses import is_pci_address

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def device_reports(
    permitted: PermittedDevices, devices: NodeDevices, offers: Collection[Offer], holders: Mapping[str, str]
) -> Iterator[DeviceReport]:
    """One for each device, bridges left out; `holders` are the VMs that have some."""
    found = {member: offer for offer in offers for member in offer.members}
    yield from _pci(permitted, devices, offers, holders)
    for part in devices.mdev:
        yield _tell(DeviceReport(kind="mdev", device=part.uuid, model=part.type_name, group=part.group), found, holders)
    for stick in devices.usb:
        model = f"{stick.vendor}:{stick.product}"
        report = DeviceReport(kind="usb", device=stick.port, model=model, name=stick.name, serial=stick.serial)
        yield _tell(report, found, holders)
    yield from _find_gone(devices, found, holders)


def _tell(report: DeviceReport, found: Mapping[str, Offer], holders: Mapping[str, str]) -> DeviceReport:
    offer = found.get(report.device)
    used_by = holders.get(report.device, "")
    if offer is None:
        return msgspec.structs.replace(report, used_by=used_by)
    return msgspec.structs.replace(report, used_by=used_by, resource=offer.resource, trouble=offer.trouble)


def _pci(
    permitted: PermittedDevices, devices: NodeDevices, offers: Collection[Offer], holders: Mapping[str, str]
) -> Iterator[DeviceReport]:
    found = {member: offer for offer in offers for member in offer.members}
    groups = {each.address: each.group for each in devices.pci}
    firsts = {
        (offer.resource, groups.get(offer.members[0], "")): offer.members[0] for offer in offers if offer.kind == "pci"
    }
    resources = {each.address: resource for each, resource in pci_resources(permitted, devices.pci)}
    for each in devices.pci:
        if each.is_bridge:
            continue
        model = f"{each.vendor}:{each.product}"
        report = DeviceReport(kind="pci", device=each.address, model=model, driver=each.driver, group=each.group)
        resource = resources.get(each.address, "")
        if resource and each.address not in found:
            trouble = f"goes with {firsts[resource, each.group]}, which is in the same IOMMU group"
            report = msgspec.structs.replace(report, resource=resource, trouble=trouble)
        yield _tell(report, found, holders)


def _find_gone(devices: NodeDevices, found: Mapping[str, Offer], holders: Mapping[str, str]) -> Iterator[DeviceReport]:
    there = {each.address for each in devices.pci} | {each.uuid for each in devices.mdev}
    there |= {each.port for each in devices.usb}
    for member, vmi in holders.items():
        if member not in there:
            offer = found.get(member)
            yield DeviceReport(
                kind=kind_of(member),
                device=member,
                resource=offer.resource if offer is not None else "",
                used_by=vmi,
                trouble="is no longer on this node: restart the VM once it is back",
            )


def kind_of(member: str) -> DeviceKind:
    """What an address, a UUID or a port is of."""
    if is_pci_address(member):
        return "pci"
    return "mdev" if _UUID.fullmatch(member) else "usb"

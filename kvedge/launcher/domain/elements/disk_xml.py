"""`<disk>`: one per disk of the VMI.

Backing chains are written out and closed with an empty `<backingStore>`: libvirt and QEMU then follow nothing that an
image's own header names, so a container disk cannot reach another file of the node. Touches nothing.
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DiskSource, DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.disk_driver_plan import plan_driver
from kvedge.launcher.domain.disk_rules import DiskFacts, check_disk, device_of
from kvedge.launcher.domain.disk_targets import VIRTIO, assign_targets, bus_of, target_index
from kvedge.launcher.domain.elements.alias_xml import add_alias
from kvedge.launcher.domain.elements.block_size_xml import add_block_size
from kvedge.launcher.domain.elements.iothread_plan import IoThreadPlan
from kvedge.launcher.domain.elements.pci_address_xml import add_pci_address
from kvedge.launcher.domain.elements.vcpu_xml import domain_topology
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add, new
from kvedge.resources.disks.claim_places import LIVE_EXPORT
from kvedge.resources.names import PR_HELPER_DIRECTORY, PR_HELPER_SOCKET
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.vmi import VirtualMachineInstance

# The characters that libvirt takes in a serial number.
_SERIAL: Final = re.compile(r"[A-Za-z0-9_.+-]{1,256}")


def add_disks(
    devices: Element, vmi: VirtualMachineInstance, platform: Platform, context: DomainContext, threads: IoThreadPlan
) -> None:
    """The disks, in the VMI's order.

    Raises:
        ConversionError: for a disk that cannot be.
    """
    targets = assign_targets(vmi)
    for index, disk in enumerate(vmi.spec.domain.devices.disks):
        devices.append(disk_element(vmi, index, targets[disk.name], platform, context, threads))


def disk_element(
    vmi: VirtualMachineInstance,
    index: int,
    target: str,
    platform: Platform,
    context: DomainContext,
    threads: IoThreadPlan,
) -> Element:
    """One of the VMI's disks, for a domain that is made or for one that runs.

    Raises:
        ConversionError: when it cannot be.
    """
    spec = vmi.spec.domain
    disk = spec.devices.disks[index]
    facts = _facts_of(disk, vmi, context, f"spec.domain.devices.disks[{index}]")
    check_disk(facts)
    virtio = facts.bus == VIRTIO
    element = new(
        "disk",
        type=_type_of(facts.source),
        device=facts.device,
        model=platform.virtio if virtio else None,
    )
    driver = _add_driver(element, facts)
    if virtio:
        if platform.iommu:
            driver.set("iommu", platform.iommu)
        _add_queues(driver, disk, domain_topology(spec).vcpus if spec.devices.block_multi_queue else None, threads)
    _add_source(element, facts, context)
    _add_rest(element, facts, target, context)
    return element


def _type_of(source: DiskSource | None) -> str:
    if source is not None and source.served:
        return "network"
    return "block" if source is not None and source.block else "file"


def _facts_of(disk: Disk, vmi: VirtualMachineInstance, context: DomainContext, field: str) -> DiskFacts:
    device = device_of(disk, field)
    source = context.disk_sources.get(disk.name)
    # Only a CD-ROM drive may be empty, and one that names a volume is not meant to be.
    if source is None and (device != "cdrom" or any(volume.name == disk.name for volume in vmi.spec.volumes)):
        raise ConversionError(
            f"{field}.name",
            f"no volume {disk.name} was prepared for this disk",
            "add a volume of this name to spec.volumes",
        )
    return DiskFacts(disk, device, bus_of(disk, vmi), source, field)


def _add_driver(element: Element, facts: DiskFacts) -> Element:
    plan = plan_driver(facts.disk, facts.source, facts.field)
    return add(
        element,
        "driver",
        name="qemu",
        type=facts.source.format if facts.source is not None else "raw",
        cache=plan.cache,
        error_policy=plan.error_policy,
        io=plan.io,
        discard=plan.discard,
    )


def _add_queues(driver: Element, disk: Disk, queues: int | None, threads: IoThreadPlan) -> None:
    """What only virtio disks have: IO threads and several queues."""
    if disk.name in threads.of_disk:
        driver.set("iothread", str(threads.of_disk[disk.name]))
    if queues is not None:
        driver.set("queues", str(queues))
    if threads.pool:
        pool = add(driver, "iothreads")
        for thread in threads.pool:
            add(pool, "iothread", id=thread)


def _add_source(element: Element, facts: DiskFacts, context: DomainContext) -> None:
    source = facts.source
    if source is None:
        return
    if source.served:
        served = add(element, "source", protocol="nbd", name=LIVE_EXPORT)
        add(served, "host", transport="unix", socket=source.path)
        add(element, "backingStore")
        return
    place = add(element, "source", **{"dev" if source.block else "file": source.path})
    if facts.disk.lun is not None and facts.disk.lun.reservation:
        # The helper is the node's, as a launcher may not reserve anything itself. Such guests do not move.
        helper = add(place, "reservations", managed="no")
        add(
            helper, "source", type="unix", path=f"{context.root}{PR_HELPER_DIRECTORY}/{PR_HELPER_SOCKET}", mode="client"
        )
    store = element
    if source.backing is not None:
        path, image_format = source.backing
        block = source.backing_block
        store = add(element, "backingStore", type="block" if block else "file")
        add(store, "format", type=image_format)
        add(store, "source", **{"dev" if block else "file": path})
    add(store, "backingStore")


def _add_rest(element: Element, facts: DiskFacts, target: str, context: DomainContext) -> None:
    disk = facts.disk
    add(element, "target", dev=target, bus=facts.bus, tray=(disk.cdrom.tray or None) if disk.cdrom else None)
    if disk.block_size is not None:
        add_block_size(element, disk.block_size, facts, context)
    if facts.readonly:
        add(element, "readonly")
    if disk.shareable:
        add(element, "shareable")
    _add_serial(element, facts)
    if disk.boot_order is not None:
        add(element, "boot", order=disk.boot_order)
    add_alias(element, disk.name, f"{facts.field}.name")
    add_pci_address(element, disk.disk.pci_address if disk.disk else "", f"{facts.field}.disk.pciAddress")
    if facts.bus == "scsi":
        # One controller holds them all; left alone, libvirt would add a second one after seven disks.
        add(element, "address", type="drive", controller=0, bus=0, target=0, unit=target_index(target))


def _add_serial(element: Element, facts: DiskFacts) -> None:
    serial = facts.disk.serial
    # A LUN has its own.
    if not serial or facts.device == "lun":
        return
    if _SERIAL.fullmatch(serial) is None:
        raise ConversionError(
            f"{facts.field}.serial", f"{serial!r} is no serial number", "use at most 256 of [A-Za-z0-9_.+-]"
        )
    add(element, "serial", serial)

"""What a running VM's hotpluggable volumes have come to in its template, and what that means for its run.

Called by the VM's plan and for its condition RestartRequired. Pure. Volumes that say `hotpluggable: true` are carried
to the run with their disks; everything else of a template waits for a restart. A changed volume goes first, and comes
back once everything of it is undone. A volume that is no longer hotpluggable stays until the restart.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kvedge.controller.vm.claim_changes import find_exchanges, is_moving_data
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.disks.volume_facts import claim_of, is_hotpluggable, is_memory_dump
from kvedge.resources.types.devices import Disk, DiskTarget
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import Volume


def plan_volumes(vm: VirtualMachine, vmi: VirtualMachineInstance) -> JsonObject:
    """A merge patch of the VMI that brings its hotpluggable volumes nearer to the VM's; empty when nothing is to do."""
    if vmi.status.phase != "Running" or vmi.metadata.deletion_timestamp is not None:
        return {}
    template = _template(vm)
    wanted = {volume.name: volume for volume in template.volumes if _is_carried(volume)}
    # A volume that becomes permanent stays with the guest: to take it away and bring it back serves nobody.
    staying = {volume.name for volume in template.volumes if not is_hotpluggable(volume)}
    # Nor does one whose data is to be taken along become another one.
    staying |= {each.volume_name for each in find_exchanges(vm, vmi)} if is_moving_data(vm) else set()
    going = {
        volume.name
        for volume in vmi.spec.volumes
        if _is_carried(volume) and volume.name not in staying and wanted.get(volume.name) != volume
    }
    volumes = [volume for volume in vmi.spec.volumes if volume.name not in going]
    # A drive stays when its medium goes.
    disks = [disk for disk in vmi.spec.domain.devices.disks if disk.name not in going or disk.cdrom is not None]
    there = {volume.name for volume in vmi.spec.volumes}
    drives = {disk.name for disk in disks}
    for volume in wanted.values():
        disk = _disk(template, volume.name)
        if volume.name in there or _is_being_undone(vmi, volume):
            continue
        if volume.name not in drives:
            if disk.cdrom is not None:
                continue  # A drive is not plugged in: it comes with the next start.
            disks.append(disk)
        volumes.append(volume)
    body: JsonObject = {}
    # Whole lists, also empty ones: a member that went with its last item might be one that must be there.
    if volumes != vmi.spec.volumes:
        body["volumes"] = [encode(volume) for volume in volumes]
    if disks != vmi.spec.domain.devices.disks:
        body["domain"] = {"devices": {"disks": [encode(disk) for disk in disks]}}
    return {"spec": body} if body else {}


def permanent_spec(spec: VirtualMachineInstanceSpec) -> VirtualMachineInstanceSpec:
    """The spec without what may come and go: hotpluggable volumes and their disks. Drives are there for good."""
    coming = {volume.name for volume in spec.volumes if is_hotpluggable(volume)}
    if not coming:
        return spec
    volumes = [volume for volume in spec.volumes if volume.name not in coming]
    disks = [disk for disk in spec.domain.devices.disks if disk.name not in coming or disk.cdrom is not None]
    devices = msgspec.structs.replace(spec.domain.devices, disks=disks)
    return msgspec.structs.replace(spec, volumes=volumes, domain=msgspec.structs.replace(spec.domain, devices=devices))


def disks_have_changed(vm: VirtualMachine, vmi: VirtualMachineInstance) -> bool:
    """Whether the template says something else of the disk of a hotplugged volume that the guest has already."""
    template = _template(vm)
    there = {volume.name: volume for volume in vmi.spec.volumes if is_hotpluggable(volume)}
    ours = {disk.name: encode(disk) for disk in vmi.spec.domain.devices.disks}
    return any(
        disk.name in ours and not _says(ours[disk.name], encode(disk))
        for disk in template.domain.devices.disks
        if disk.name in there and there[disk.name] in template.volumes
    )


def _is_carried(volume: Volume) -> bool:
    """Whether the run gets it whenever the VM has it; a dump's comes for one dump alone, by `memory_dump_plan`."""
    return is_hotpluggable(volume) and not is_memory_dump(volume)


def _template(vm: VirtualMachine) -> VirtualMachineInstanceSpec:
    return (vm.spec.template or VirtualMachineInstanceTemplate()).spec


def _disk(template: VirtualMachineInstanceSpec, name: str) -> Disk:
    found = next((disk for disk in template.domain.devices.disks if disk.name == name), None)
    if found is None or (found.disk is None and found.cdrom is None and found.lun is None):
        return msgspec.structs.replace(found or Disk(name=name), disk=DiskTarget(bus="scsi"))
    target = found.disk or found.lun
    if target is None or target.bus:
        return found
    given = msgspec.structs.replace(target, bus="scsi")
    return msgspec.structs.replace(found, **{"disk" if found.disk else "lun": given})


def _is_being_undone(vmi: VirtualMachineInstance, volume: Volume) -> bool:
    """Whether something of another claim under this name is still there."""
    entry = next((entry for entry in vmi.status.volume_status if entry.name == volume.name), None)
    if entry is None or entry.hotplug_volume is None:
        return False
    info = entry.persistent_volume_claim_info
    return info is None or info.claim_name != claim_of(volume)


def _says(document: Any, asked: Any) -> bool:
    """Whether a document has everything that was asked for; defaults may have been added to it."""
    if isinstance(asked, dict):
        return isinstance(document, dict) and all(_says(document.get(key), value) for key, value in asked.items())
    return bool(document == asked)

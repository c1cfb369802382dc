"""Which changes of a VMI's volumes and disks a guest that runs can take, worded as KubeVirt words them.

Called by vmi_update_rules.py for what roles write; users change no VMI's spec at all. Works on documents as they came;
touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.api.admission.rules.storage.disk_rules import hotplugged_disks_are_on_a_bus_that_lets_go
from kvedge.api.admission.rules.subject import Subject
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.disks.volume_facts import is_hotpluggable, is_memory_dump
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import Volume

_VOLUMES: Final = "spec.volumes"
_DISKS: Final = "spec.domain.devices.disks"


def volumes_may_change(old: JsonObject, new: JsonObject) -> Iterator[Cause]:
    """A cause for each volume or disk that came, went or changed although it stays for the whole run."""
    try:
        before, after = _spec(old), _spec(new)
    except DecodeError as error:
        yield Cause(f"spec.{error.path}", str(error), "FieldValueTypeInvalid")
        return
    # A fault that was there before is not this update's: a VMI that entered under older rules still gets its volumes.
    known = {cause.message for cause in _buses(before)}
    yield from (cause for cause in _buses(after) if cause.message not in known)
    declared, required = _counts(after)
    if declared != required and len(set(_counts(before))) == 1:
        yield Cause(_DISKS, f"mismatch between volumes declared ({declared}) and required ({required})")
    yield from _check_permanent(before, after)
    yield from _check_hotplugged(before, after)


def _buses(spec: VirtualMachineInstanceSpec) -> Iterator[Cause]:
    subject = Subject(spec, ObjectMeta(), Field("spec"), Field("metadata"))
    return hotplugged_disks_are_on_a_bus_that_lets_go(subject)


def _counts(spec: VirtualMachineInstanceSpec) -> tuple[int, int]:
    """How many volumes there are, and how many the disks need; a drive may stand empty."""
    names = {volume.name for volume in spec.volumes if not is_memory_dump(volume)}
    return len(names), sum(disk.name in names or disk.cdrom is None for disk in spec.domain.devices.disks)


def _check_permanent(before: VirtualMachineInstanceSpec, after: VirtualMachineInstanceSpec) -> Iterator[Cause]:
    old = {volume.name: volume for volume in before.volumes if not is_hotpluggable(volume)}
    new = {volume.name: volume for volume in after.volumes if not is_hotpluggable(volume)}
    if len(old) != len(new):
        yield Cause(_VOLUMES, "Number of permanent volumes has changed")
        return
    old_disks, new_disks = _disks(before), _disks(after)
    for name, volume in new.items():
        if name not in old:
            yield Cause(_VOLUMES, f"permanent volume {name}, not found")
        elif volume != old[name]:
            yield Cause(_VOLUMES, f"permanent volume {name}, changed")
        elif new_disks.get(name) != old_disks.get(name):
            yield Cause(_DISKS, f"permanent disk {name}, changed")


def _check_hotplugged(before: VirtualMachineInstanceSpec, after: VirtualMachineInstanceSpec) -> Iterator[Cause]:
    there = {volume.name: volume for volume in before.volumes}
    old_disks, new_disks = _disks(before), _disks(after)
    for volume in after.volumes:
        name, old = volume.name, there.get(volume.name)
        if not is_hotpluggable(volume):
            if old is None and not _is_a_claim(volume):
                yield Cause(_VOLUMES, f"volume {name} is not a PVC or DataVolume")
            continue
        if is_memory_dump(volume):
            if name in new_disks:
                yield Cause(_DISKS, f"memory dump volume {name} has a disk")
            elif old not in (None, volume):
                yield Cause(_VOLUMES, f"hotplug volume {name}, changed")
        elif old is None:
            if name not in new_disks:
                yield Cause(_DISKS, f"disk {name} does not exist")
        elif volume != old:
            yield Cause(_VOLUMES, f"hotplug volume {name}, changed")
        elif name not in new_disks:
            yield Cause(_DISKS, f"volume {name} doesn't have a matching disk")
        elif new_disks[name] != old_disks.get(name):
            yield Cause(_DISKS, f"hotplug disk {name}, changed")


def _is_a_claim(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.data_volume is not None


def _disks(spec: VirtualMachineInstanceSpec) -> Mapping[str, Disk]:
    return {disk.name: disk for disk in spec.domain.devices.disks}


def _spec(document: JsonObject) -> VirtualMachineInstanceSpec:
    return decode(VirtualMachineInstanceSpec, document.get("spec") or {})

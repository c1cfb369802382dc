"""What is done with the hotplugged volumes of a VMI on this node, what is told of them, and whether a guest waits.

Called by `hotplug_volumes`, `vmi_status` and the sync loop with what they saw. Pure. The controller writes a volume's
entry up to AttachedToNode and all of its end; the handler writes MountedToPod, Ready and UnMountedFromPod, and what is
in the way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct, field

from kvedge.handler.volumes.memory_dump_plan import DUMP_PHASES, DumpOutcome, dump_entry, find_written
from kvedge.handler.volumes.move_words import describe_move
from kvedge.resources.disks.hotplug_places import ATTACHED_TO_NODE, HANDED_OVER, MOUNTED, READY, UNMOUNTED, is_block
from kvedge.resources.disks.memory_dumps import dump_bytes
from kvedge.resources.disks.moved_places import is_moved_place
from kvedge.resources.disks.moved_volumes import attached_volumes
from kvedge.resources.disks.vm_backups import is_directory_place
from kvedge.resources.disks.volume_facts import hotplugged_disks, is_memory_dump
from kvedge.resources.names import START_WITHOUT_VOLUMES
from kvedge.resources.types.vmi import ClaimInfo, HotplugVolumeStatus, VirtualMachineInstance, VolumeStatus
from kvedge.rpc.launcher_pb2 import (
    DISK_ACTION_DETACH,
    DISK_ACTION_EJECT,
    DISK_COPY_ACTIVE,
    DISK_COPY_PREPARING,
    DISK_MOVE_COPYING,
    DISK_MOVE_READY,
    DISK_MOVE_SETTLED,
    DiskTrouble,
    DomainStatus,
)

# Volumes come within seconds: a guest that waits for longer is told of.
TOLD_SECONDS: Final = 15.0
# A guest that may start without them gives them so long.
START_WITHOUT_SECONDS: Final = 60.0

MOUNT_FAILED: Final = "VolumeMountFailed"
ATTACH_FAILED: Final = "VolumeAttachFailed"
DETACH_WAITS: Final = "VolumeDetachPending"
_LONGEST: Final = 512
# Phases in which the controller has an attachment Pod.
_COMES: Final = frozenset({ATTACHED_TO_NODE, *HANDED_OVER})
_DUMP_COMES: Final = frozenset({ATTACHED_TO_NODE, MOUNTED})
_BEFORE_MOUNT: Final = frozenset({"Pending", "Bound", ATTACHED_TO_NODE})


class HotplugSeen(Struct, frozen=True):
    """What there is of hotplugged volumes in the launcher's Pod: the present ones, and what is in the way, by name."""

    present: frozenset[str] = frozenset()
    troubles: Mapping[str, str] = field(default_factory=dict)
    # The launcher has been told of the VMI as it is now: what its domain lacks it will not take any more.
    is_followed: bool = False
    # Dumps of the guest's memory that are over, by volume.
    dumps: Mapping[str, DumpOutcome] = field(default_factory=dict)


class HandOver(Struct, frozen=True):
    """One volume to hand over, from the attachment Pod of this UID; `dump_bytes` of a dump, 0 for a disk."""

    name: str
    pod_uid: str
    info: ClaimInfo
    # A copy goes into it: the UID of the VMI and the copy's name, with a space between. "" for a disk.
    copy: str = ""
    dump_bytes: int = 0

    @property
    def block(self) -> bool:
        """Whether it is a device."""
        return is_block(self.info.volume_mode)

    @property
    def is_directory(self) -> bool:
        """Whether the launcher is to have all of the claim: it writes a word beside the image of a disk that moves, and
        makes the images of a backup.
        """
        return is_directory_place(self.name) and not self.block


def plan_hand_over(vmi: VirtualMachineInstance, present: Collection[str]) -> list[HandOver]:
    """The volumes that are wanted, have an attachment Pod, and are not in the launcher's Pod."""
    wanted = {volume.name: volume for volume in attached_volumes(vmi) if volume.name not in present}
    copies = find_copies(vmi)
    return [
        HandOver(
            entry.name,
            entry.hotplug_volume.attach_pod_uid,
            entry.persistent_volume_claim_info or ClaimInfo(),
            copies.get(entry.name, ""),
            dump_bytes(vmi) if is_memory_dump(wanted[entry.name]) else 0,
        )
        for entry in vmi.status.volume_status
        if entry.name in wanted
        # A dump that has begun has its file: another one would be a second dump.
        and entry.phase in (_DUMP_COMES if is_memory_dump(wanted[entry.name]) else _COMES)
        and entry.hotplug_volume is not None
        and entry.hotplug_volume.attach_pod_uid
    ]


def find_copies(vmi: VirtualMachineInstance) -> dict[str, str]:
    """The volumes that copies and the guest's memory go into, and what is written beside the images in them until
    they are whole.
    """
    request = vmi.status.disk_copy
    if request is None or request.backup is not None:
        return {}
    names = [volume.copy_name for volume in request.volumes] + ([request.memory] if request.memory else [])
    return dict.fromkeys(names, f"{vmi.metadata.uid} {request.name}")


def as_coming(vmi: VirtualMachineInstance) -> VirtualMachineInstance:
    """The VMI of a guest that is to come, with the attachment Pods of its target alone."""
    state = vmi.status.migration_state
    uids = {} if state is None else state.target_attachment_pods
    entries = [
        msgspec.structs.replace(
            entry, hotplug_volume=HotplugVolumeStatus(attach_pod_uid=uids[entry.name]) if entry.name in uids else None
        )
        for entry in vmi.status.volume_status
    ]
    return msgspec.structs.replace(vmi, status=msgspec.structs.replace(vmi.status, volume_status=entries))


def find_absent(vmi: VirtualMachineInstance, seen: HotplugSeen) -> str:
    """What a guest that is to come lacks here, in words; empty when all that it has is here."""
    state = vmi.status.migration_state
    absent = [] if state is None else sorted(state.target_attachment_pods.keys() - seen.present)
    return "; ".join(seen.troubles.get(name, f"Volume {name} is not there yet") for name in absent[:8])[:_LONGEST]


def plan_take_back(vmi: VirtualMachineInstance, status: DomainStatus, there: Collection[str]) -> list[str]:
    """What of `there` neither the VMI wants nor the domain has; a dump that is being written has its file.

    Nothing while a copy goes on that nobody wants any more: it still writes what it goes into, and ends in a moment. A
    device would be another claim's before that.
    """
    job = status.disk_copy
    request = vmi.status.disk_copy
    if job.state in (DISK_COPY_PREPARING, DISK_COPY_ACTIVE) and (request is None or request.name != job.id):
        return []
    kept = {volume.name for volume in attached_volumes(vmi)} | find_attached(status).keys() | _find_places(status)
    return sorted(set(there) - kept - find_written(vmi, status))


def _find_places(status: DomainStatus) -> set[str]:
    """The places of claims that disks have moved to, or are being copied to."""
    moving = status.disk_move.state in (DISK_MOVE_COPYING, DISK_MOVE_READY, DISK_MOVE_SETTLED)
    copies = {disk.copy.place for disk in status.disk_move.disks} if moving else set()
    return copies | {disk.place for disk in status.disks if disk.place}


def find_attached(status: DomainStatus) -> dict[str, str]:
    """The disks of a domain, by name, with their targets; a drive without a medium has none."""
    return {disk.name: disk.target for disk in status.disks if disk.name and not disk.empty}


def wishes_of(vmi: VirtualMachineInstance) -> frozenset[tuple[str, ...]]:
    """What the launcher must be told anew when it changes: volumes, and whether they are handed over."""
    phases = {entry.name: entry.phase for entry in vmi.status.volume_status}
    drives = {(disk.name,) for disk in vmi.spec.domain.devices.disks if disk.cdrom is not None}
    disks = (item for item in attached_volumes(vmi) if not is_memory_dump(item))
    volumes = {(item.name, str(phases.get(item.name, "") in HANDED_OVER)) for item in disks}
    return frozenset(volumes | drives)


def volume_entries(
    vmi: VirtualMachineInstance,
    status: DomainStatus,
    seen: HotplugSeen | None,
    entries: list[VolumeStatus],
    now: datetime,
) -> list[VolumeStatus]:
    """The entries, those of hotplugged volumes with what the handler says of them; None: nothing was looked at."""
    if seen is None:
        return entries
    dumps = {volume.name for volume in attached_volumes(vmi) if is_memory_dump(volume)}
    entries = [
        dump_entry(
            vmi.metadata.name,
            entry,
            seen.dumps.get(entry.name),
            now,
            is_there=entry.name in seen.present,
            last=status.memory_dump.id,
        )
        if entry.name in dumps
        else entry
        for entry in entries
    ]
    wanted = {volume.name for volume in attached_volumes(vmi)}
    disks = find_attached(status)
    troubles = {trouble.name: trouble for trouble in status.disk_troubles}
    made = [
        _entry(entry, seen, wanted=entry.name in wanted, target=disks.get(entry.name), trouble=troubles.get(entry.name))
        if (entry.name in wanted or entry.hotplug_volume is not None or entry.phase)
        and not (entry.name in dumps and entry.phase in DUMP_PHASES)
        else entry
        for entry in entries
    ]
    return [_with_move(entry, status) if is_moved_place(entry.name) else entry for entry in made]


def _with_move(entry: VolumeStatus, status: DomainStatus) -> VolumeStatus:
    words = describe_move(status, entry.name) if entry.phase == MOUNTED else None
    return entry if words is None else msgspec.structs.replace(entry, reason=words[0], message=words[1])


def _entry(
    entry: VolumeStatus, seen: HotplugSeen, *, wanted: bool, target: str | None, trouble: DiskTrouble | None
) -> VolumeStatus:
    name = entry.name
    if wanted and target is not None and entry.phase in {MOUNTED, READY} and trouble is None:
        text = f"Successfully attach hotplugged volume {name} to VM"
        return msgspec.structs.replace(entry, phase=READY, reason="VolumeReady", message=text, target=target)
    if wanted and name in seen.present and entry.phase in {*_BEFORE_MOUNT, MOUNTED}:
        text = f"Volume {name} has been mounted in virt-launcher pod"
        entry = msgspec.structs.replace(entry, phase=MOUNTED, reason="VolumeMountedToPod", message=text)
    is_gone = target is None and name not in seen.present and seen.is_followed
    if not wanted and is_gone and entry.phase in {ATTACHED_TO_NODE, *HANDED_OVER}:
        text = f"Volume {name} has been unmounted from virt-launcher pod"
        return msgspec.structs.replace(entry, phase=UNMOUNTED, reason="VolumeUnMountedFromPod", message=text, target="")
    told = _word_on(name, seen, trouble)
    return entry if told is None else msgspec.structs.replace(entry, reason=told[0], message=told[1])


def _word_on(name: str, seen: HotplugSeen, trouble: DiskTrouble | None) -> tuple[str, str] | None:
    if name in seen.troubles:
        return MOUNT_FAILED, seen.troubles[name][:_LONGEST]
    if trouble is None:
        return None
    if trouble.action in (DISK_ACTION_DETACH, DISK_ACTION_EJECT):
        return DETACH_WAITS, detach_words(trouble)
    return ATTACH_FAILED, f"Volume {name} cannot be attached: {trouble.message}"[:_LONGEST]


def detach_words(trouble: DiskTrouble) -> str:
    """What a user hears of a guest that does not let go of a disk, with the remedy."""
    since = datetime.fromtimestamp(trouble.since_unix_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    what = "medium" if trouble.action == DISK_ACTION_EJECT else "disk"
    detail = f" ({trouble.message})" if trouble.message else ""
    return (
        f"The guest has not released {what} {trouble.name} since {since}{detail}; unmount it in the guest and close"
        " what uses it, or restart the VM"
    )[:_LONGEST]


def hotplug_troubles(status: DomainStatus | None, seen: HotplugSeen | None) -> dict[str, str]:
    """All that is in the way, by volume, in words for the user."""
    found = dict(seen.troubles) if seen is not None else {}
    for trouble in status.disk_troubles if status is not None else ():
        told = _word_on(trouble.name, HotplugSeen(), trouble)
        if told is not None:
            found.setdefault(trouble.name, told[1])
    return found


class StartGate(Struct, frozen=True):
    """Whether a guest may start; `message` says what it waits for, once that is worth telling."""

    is_open: bool
    message: str = ""


def start_gate(vmi: VirtualMachineInstance, waited_seconds: float) -> StartGate:
    """A guest starts with its hotplugged volumes, so that it can boot from them and mount them by name."""
    missing = list(_find_missing(vmi))
    if not missing:
        return StartGate(is_open=True)
    if vmi.metadata.annotations.get(START_WITHOUT_VOLUMES) == "true" and waited_seconds >= START_WITHOUT_SECONDS:
        return StartGate(is_open=True)
    if waited_seconds < TOLD_SECONDS:
        return StartGate(is_open=False)
    remedy = f"mend it, remove the volume, or set the annotation {START_WITHOUT_VOLUMES} to true on the VM's template"
    return StartGate(is_open=False, message=f"the guest waits for {'; '.join(missing[:8])}; {remedy}")


def _find_missing(vmi: VirtualMachineInstance) -> Iterator[str]:
    entries = {entry.name: entry for entry in vmi.status.volume_status}
    for volume in hotplugged_disks(vmi):
        entry = entries.get(volume.name)
        if is_memory_dump(volume):
            continue
        if entry is None or entry.phase not in HANDED_OVER:
            said = entry.message or entry.phase if entry is not None else "not looked at yet"
            yield f"hotplugged volume {volume.name} ({said or 'not looked at yet'})"

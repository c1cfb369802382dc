"""How far a dump of a guest's memory is, and what is told of it in the volume's entry of the VMI.

Called by `hotplug_plan` and by the pass over a VMI, with what they saw. Pure. The file's name is written into the VMI
before the launcher is asked: by it a handler that was started again knows the dump, and asks for no second one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from kvedge.resources.disks.hotplug_places import (
    ATTACHED_TO_NODE,
    BOUND,
    DUMP_COMPLETED,
    DUMP_FAILED,
    DUMP_IN_PROGRESS,
    MOUNTED,
    PENDING,
)
from kvedge.resources.disks.memory_dumps import dump_file_name
from kvedge.resources.disks.volume_facts import hotplugged_volumes, is_memory_dump
from kvedge.resources.types.vmi import ClaimInfo, MemoryDumpVolumeStatus, VirtualMachineInstance, VolumeStatus
from kvedge.rpc.launcher_pb2 import (
    MEMORY_DUMP_STATE_ACTIVE,
    MEMORY_DUMP_STATE_COMPLETE,
    DomainStatus,
)
from kvedge.runtime.clock import rfc3339

DUMP_PHASES: Final = frozenset({DUMP_IN_PROGRESS, DUMP_COMPLETED, DUMP_FAILED})
_BEFORE: Final = frozenset({PENDING, BOUND, ATTACHED_TO_NODE, MOUNTED})
_LONGEST: Final = 512


class DumpOutcome(NamedTuple):
    """How a dump ended; `failure` is empty for one that is whole."""

    failure: str = ""


class DumpStep(Enum):
    """What is done about a dump that has been handed its file."""

    BEGIN = "ask the launcher to write it"
    WAIT = "it is being written"
    FINISH = "give the file its name"
    DISCARD = "it has failed: delete what there is"


class Dump(NamedTuple):
    """One dump: its volume, the file that it is to become, the attachment Pod with its claim, the step, and why it
    failed."""

    volume: str
    file: str
    pod_uid: str
    step: DumpStep
    failure: str = ""


def plan_dumps(vmi: VirtualMachineInstance, status: DomainStatus) -> Iterator[Dump]:
    """What to do about each dump that has begun, and whose end has not been told."""
    wanted = {volume.name for volume in hotplugged_volumes(vmi) if is_memory_dump(volume)}
    for entry in vmi.status.volume_status:
        told = entry.memory_dump_volume
        if entry.name not in wanted or entry.phase != DUMP_IN_PROGRESS or told is None:
            continue
        pod_uid = entry.hotplug_volume.attach_pod_uid if entry.hotplug_volume is not None else ""
        dump = Dump(entry.name, told.target_file_name, pod_uid, DumpStep.BEGIN)
        if status.memory_dump.id != told.target_file_name:
            yield dump
        elif status.memory_dump.state == MEMORY_DUMP_STATE_ACTIVE:
            yield dump._replace(step=DumpStep.WAIT)
        elif status.memory_dump.state == MEMORY_DUMP_STATE_COMPLETE:
            yield dump._replace(step=DumpStep.FINISH)
        else:
            yield dump._replace(
                step=DumpStep.DISCARD, failure=status.memory_dump.message or "the launcher says no more"
            )


def _name_anew(vmi: str, volume: str, now: datetime, last: str) -> str:
    """Names tell seconds, and a dump may take less: by its name a dump is told from the one before."""
    name = dump_file_name(vmi, volume, now)
    return dump_file_name(vmi, volume, now + timedelta(seconds=1)) if name == last else name


def find_written(vmi: VirtualMachineInstance, status: DomainStatus) -> set[str]:
    """The volumes into which the launcher writes a dump, whether the VMI wants them or not."""
    if status.memory_dump.state != MEMORY_DUMP_STATE_ACTIVE:
        return set()
    return {
        entry.name
        for entry in vmi.status.volume_status
        if entry.memory_dump_volume is not None and entry.memory_dump_volume.target_file_name == status.memory_dump.id
    }


def dump_entry(
    vmi: str, entry: VolumeStatus, outcome: DumpOutcome | None, now: datetime, *, is_there: bool, last: str
) -> VolumeStatus:
    """The entry of a dump's volume; `is_there` says that its file is in the launcher's Pod, `last` is the file of the
    launcher's last dump.
    """
    name = entry.name
    if entry.phase in _BEFORE and is_there:
        info = entry.persistent_volume_claim_info or ClaimInfo()
        return msgspec.structs.replace(
            entry,
            phase=DUMP_IN_PROGRESS,
            reason="VolumeMountedToPod",
            message=f"Memory dump Volume {name} is attached, getting memory dump",
            memory_dump_volume=MemoryDumpVolumeStatus(
                claim_name=info.claim_name,
                start_timestamp=rfc3339(now),
                target_file_name=_name_anew(vmi, name, now, last),
            ),
        )
    if entry.phase != DUMP_IN_PROGRESS or outcome is None:
        return entry
    told = entry.memory_dump_volume or MemoryDumpVolumeStatus()
    ended = msgspec.structs.replace(told, end_timestamp=rfc3339(now))
    if outcome.failure:
        text = f"Memory dump to pvc {name} failed: {outcome.failure}"[:_LONGEST]
        return msgspec.structs.replace(
            entry, phase=DUMP_FAILED, reason="MemoryDumpFailed", message=text, memory_dump_volume=ended
        )
    text = f"Memory dump to Volume {name} has completed successfully"
    return msgspec.structs.replace(
        entry, phase=DUMP_COMPLETED, reason="VolumeReady", message=text, memory_dump_volume=ended
    )

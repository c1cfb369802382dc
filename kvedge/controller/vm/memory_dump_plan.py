"""What becomes of a VM's request for a dump of its guest's memory, and what the VM, its run and the claim get of it.

Called by the VM's plan. Pure. The claim is a volume of the VM's template for as long as it belongs to the VM, and one
of the run only while a dump is made: the handler of the run's node then has the memory written, and reports it in the
volume's status. A dump waits for a snapshot, a restore or a migration that is under way; those wait for a dump that
has begun.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct, field

from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.disks.hotplug_places import DUMP_COMPLETED, DUMP_FAILED, DUMP_IN_PROGRESS
from kvedge.resources.disks.memory_dumps import (
    ASSOCIATING,
    COMPLETED,
    DISSOCIATING,
    DUMP_ANNOTATION,
    DUMP_FAILED_MARK,
    FAILED,
    IN_PROGRESS,
    UNDER_WAY,
    UNMOUNTING,
    dump_volume,
)
from kvedge.resources.disks.volume_facts import is_memory_dump
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import MemoryDumpRequest, VirtualMachine
from kvedge.resources.types.vmi import MemoryDumpVolumeStatus, VirtualMachineInstance, VolumeStatus
from kvedge.resources.types.volumes import Volume

_ENDED_EARLY: Final = "the guest ended before its memory was written; start the VM, and ask for the dump again"
# Of a volume that is on its way these phases tell nothing that a user must know.
_QUIET_REASONS: Final = frozenset({"", "SuccessfulCreate", "PVCNotReady", "VolumeMountedToPod"})


class DumpPlan(Struct, frozen=True):
    """The request as it is to be, merge patches of the VM and of its run, and the annotation that the claim is to get.

    Empty patches and a None for the annotation change nothing.
    """

    request: MemoryDumpRequest | None = None
    template: JsonObject = field(default_factory=dict)
    run: JsonObject = field(default_factory=dict)
    annotation: str | None = None


def plan_memory_dump(
    vm: VirtualMachine, own: VirtualMachineInstance | None, claim: PersistentVolumeClaim | None
) -> DumpPlan:
    """What to do next; `own` is the VM's run, `claim` the one of its request, None when there is none."""
    request = vm.status.memory_dump_request
    if request is None:
        return DumpPlan()
    if request.remove and request.phase != DISSOCIATING:
        return DumpPlan(msgspec.structs.replace(request, phase=DISSOCIATING))
    wants = request.phase in UNDER_WAY
    if wants and not _runs(own):
        return DumpPlan(msgspec.structs.replace(request, phase=FAILED, message=_ENDED_EARLY))
    waits = _find_wait(vm, own) if request.phase == ASSOCIATING else ""
    if waits:
        return DumpPlan(msgspec.structs.replace(request, message=waits))
    return DumpPlan(
        _next_request(request, vm, own, claim),
        _plan_template(vm, request),
        _plan_run(own, request),
        _find_annotation(request, claim),
    )


def _runs(own: VirtualMachineInstance | None) -> bool:
    return own is not None and own.status.phase == "Running" and own.metadata.deletion_timestamp is None


def _find_wait(vm: VirtualMachine, own: VirtualMachineInstance | None) -> str:
    status = vm.status
    if status.snapshot_in_progress:
        return f'the dump begins once snapshot "{status.snapshot_in_progress}" is complete'
    if status.restore_in_progress:
        return f'the dump begins once restore "{status.restore_in_progress}" is complete'
    state = None if own is None else own.status.migration_state
    if state is not None and state.is_open:
        return "the dump begins once the guest has moved to its other node"
    return ""


def _next_request(
    request: MemoryDumpRequest,
    vm: VirtualMachine,
    own: VirtualMachineInstance | None,
    claim: PersistentVolumeClaim | None,
) -> MemoryDumpRequest | None:
    name = request.claim_name
    in_run = own is not None and any(volume.name == name for volume in own.spec.volumes)
    entry = None if own is None else next((each for each in own.status.volume_status if each.name == name), None)
    if request.phase == ASSOCIATING:
        if not in_run or _is_of_before(entry) or _find(vm, name) is None:
            return msgspec.structs.replace(request, message="")
        return msgspec.structs.replace(request, phase=IN_PROGRESS, message="")
    if request.phase == IN_PROGRESS:
        if not in_run:
            # This is another run than the one that was to be dumped.
            return msgspec.structs.replace(request, phase=FAILED, message=_ENDED_EARLY)
        return _follow(request, entry)
    is_left = not in_run and entry is None
    if request.phase == UNMOUNTING and is_left and _find_annotation(request, claim) is None:
        return msgspec.structs.replace(request, phase=COMPLETED)
    if request.phase == DISSOCIATING and is_left and _find(vm, name) is None:
        return None
    return request


def _follow(request: MemoryDumpRequest, entry: VolumeStatus | None) -> MemoryDumpRequest:
    """The request after what the handler says of the volume."""
    if entry is None:
        return request
    dump = entry.memory_dump_volume or MemoryDumpVolumeStatus()
    if entry.phase in (DUMP_IN_PROGRESS, DUMP_COMPLETED, DUMP_FAILED):
        request = msgspec.structs.replace(request, start_timestamp=dump.start_timestamp, message="")
    elif entry.reason not in _QUIET_REASONS:
        return msgspec.structs.replace(request, message=entry.message)
    if entry.phase == DUMP_COMPLETED:
        return msgspec.structs.replace(
            request, phase=UNMOUNTING, end_timestamp=dump.end_timestamp, file_name=dump.target_file_name
        )
    if entry.phase == DUMP_FAILED:
        return msgspec.structs.replace(request, phase=FAILED, end_timestamp=dump.end_timestamp, message=entry.message)
    return request


def _plan_template(vm: VirtualMachine, request: MemoryDumpRequest) -> JsonObject:
    there = _find(vm, request.claim_name)
    volumes = [] if vm.spec.template is None else vm.spec.template.spec.volumes
    if request.phase == ASSOCIATING and there is None:
        after = [*volumes, dump_volume(request.claim_name)]
    elif request.phase == DISSOCIATING and there is not None:
        after = [volume for volume in volumes if volume is not there]
    else:
        return {}
    return {"spec": {"template": {"spec": {"volumes": [encode(volume) for volume in after]}}}}


def _plan_run(own: VirtualMachineInstance | None, request: MemoryDumpRequest) -> JsonObject:
    if own is None or own.is_final or (own.status.migration_state is not None and own.status.migration_state.is_open):
        return {}
    name = request.claim_name
    entry = next((each for each in own.status.volume_status if each.name == name), None)
    there = next((volume for volume in own.spec.volumes if volume.name == name), None)
    # What is left of the dump before goes first.
    is_wanted = request.phase == IN_PROGRESS or (request.phase == ASSOCIATING and not _is_of_before(entry))
    if is_wanted and there is None and entry is None and request.phase == ASSOCIATING:
        after = [*own.spec.volumes, dump_volume(name)]
    elif not is_wanted and there is not None and is_memory_dump(there):
        after = [volume for volume in own.spec.volumes if volume is not there]
    else:
        return {}
    return {"spec": {"volumes": [encode(volume) for volume in after]}}


def _is_of_before(entry: VolumeStatus | None) -> bool:
    """Whether what the run has of the volume is an earlier dump's."""
    return entry is not None and entry.phase in (DUMP_COMPLETED, DUMP_FAILED)


def _find_annotation(request: MemoryDumpRequest, claim: PersistentVolumeClaim | None) -> str | None:
    if claim is None:
        return None
    wanted = {FAILED: DUMP_FAILED_MARK, UNMOUNTING: request.file_name}.get(request.phase)
    return wanted if wanted and claim.metadata.annotations.get(DUMP_ANNOTATION) != wanted else None


def _find(vm: VirtualMachine, name: str) -> Volume | None:
    volumes = [] if vm.spec.template is None else vm.spec.template.spec.volumes
    return next((volume for volume in volumes if volume.name == name and is_memory_dump(volume)), None)

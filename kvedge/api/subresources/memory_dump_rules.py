"""What memorydump and removememorydump make of a VM's request for a dump of its guest's memory, or a refusal.

Called by memory_dump_calls.py with what it has read. Pure. Words, their order and their codes are KubeVirt's.
"""

from __future__ import annotations

from typing import Final

from kvedge.api.subresources.guest_rules import check_vmi_running
from kvedge.api.subresources.status_message import VM, bad_request, conflict
from kvedge.resources.disks.memory_dumps import (
    ASSOCIATING,
    COMPLETED,
    DISSOCIATING,
    FAILED,
    claim_bytes,
)
from kvedge.resources.disks.volume_facts import is_memory_dump
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import MemoryDumpRequest, VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.name_grammar import is_label
from kvedge.resources.values.quantities import QuantityError, parse_bytes

CLAIM: Final = "persistentvolumeclaim.kubevirt.io"
_ENDED: Final = frozenset({COMPLETED, FAILED})


def choose_claim(vm: VirtualMachine, asked: str) -> str:
    """The claim that the dump is to go into; that of the dump before unless one is named. Raises Refusal."""
    known = vm.status.memory_dump_request
    if not asked and known is None:
        raise bad_request("Memory dump requires claim name to be set")
    if known is not None and asked and known.claim_name != asked:
        text = (
            f"can't request memory dump for pvc [{asked}] while pvc [{known.claim_name}] is still associated as the"
            " memory dump pvc"
        )
        raise conflict(VM, vm.metadata.name, text)
    claim = asked or (known.claim_name if known is not None else "")
    if not is_label(claim):
        # The volume has the claim's name.
        raise bad_request(f"claimName: {claim[:80]!r} must consist of lower case letters, digits and '-', at most 63")
    return claim


def check_dump(vmi: VirtualMachineInstance, claim: PersistentVolumeClaim, cdi: CdiConfig | None) -> None:
    """Whether there is a memory to dump, and room for it. Raises Refusal."""
    check_vmi_running(vmi)
    name = claim.metadata.name
    if claim.is_block:
        raise conflict(CLAIM, name, "pvc should be filesystem pvc")
    if claim.spec.access_modes == ["ReadOnlyMany"]:
        raise conflict(CLAIM, name, "pvc access mode can't be read only")
    try:
        size = parse_bytes(claim.spec.resources.requests.get("storage", 0))
    except QuantityError as error:
        raise conflict(CLAIM, name, f"its size: {error}") from error
    needed = claim_bytes(vmi, claim, cdi)
    if size < needed:
        raise conflict(CLAIM, name, f"pvc size [{_thousands(size)}] should be bigger then [{needed}]")


def dump_request(vm: VirtualMachine, vmi: VirtualMachineInstance, claim: str) -> MemoryDumpRequest:
    """The request of a dump. Raises Refusal while another one is under way, or a disk has the volume's name."""
    known = vm.status.memory_dump_request
    if known is not None and known.phase == DISSOCIATING:
        text = f"can't dump memory for pvc [{claim}] a remove memory dump request is in progress"
        raise conflict(VM, vm.metadata.name, text)
    if known is not None and known.phase not in _ENDED:
        raise conflict(VM, vm.metadata.name, f"memory dump request for pvc [{claim}] already in progress")
    template = [] if vm.spec.template is None else vm.spec.template.spec.volumes
    if any(volume.name == claim and not is_memory_dump(volume) for volume in (*template, *vmi.spec.volumes)):
        text = f"Unable to add volume [{claim}] because volume with that name already exists"
        raise conflict(VM, vm.metadata.name, f"{text}; use a claim of another name")
    return MemoryDumpRequest(claim_name=claim, phase=ASSOCIATING)


def removal_request(vm: VirtualMachine) -> MemoryDumpRequest:
    """The request to let the claim go. Raises Refusal when there is none, or it is on its way."""
    known, name = vm.status.memory_dump_request, vm.metadata.name
    if known is None:
        text = f"can't remove memory dump association for vm {name}, no association found"
        raise conflict(VM, name, text)
    if known.remove:
        raise conflict(VM, name, f"memory dump remove request for pvc [{known.claim_name}] already exists")
    return MemoryDumpRequest(claim_name=known.claim_name, phase=DISSOCIATING, remove=True)


def _thousands(size: int) -> str:
    return f"{-(-size // 1000)}k"

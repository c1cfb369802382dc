"""The ControllerRevision with the VM's spec that a run was started from.

Called by the VM's plan, which has it kept once per start, and by the making of the VMI, whose status names it. Pure.
The names are KubeVirt's: tools that compare a running VM with what it was started from find it by them.
"""

from __future__ import annotations

from kvedge.resources.codec import encode
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.names import VM_GENERATION
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


def revision_name(vm_uid: str, generation: int) -> str:
    """The name of what was started from that generation of the VM's spec."""
    return f"revision-start-vm-{vm_uid}-{generation}"


def start_revision(vm: VirtualMachine, owner: OwnerReference) -> ControllerRevision:
    """The VM's spec as it is now; it goes with the VM, by its owner reference."""
    generation = vm.metadata.generation
    return ControllerRevision(
        metadata=ObjectMeta(
            name=revision_name(vm.metadata.uid, generation),
            namespace=vm.metadata.namespace,
            owner_references=[owner],
        ),
        data={"spec": encode(vm.spec)},
        revision=generation,
    )


def find_superseded_revision(vm: VirtualMachine) -> str:
    """The name of the revision of the run before, if it was started from another spec; else an empty text."""
    before = vm.status.observed_generation
    return revision_name(vm.metadata.uid, before) if before and before != vm.metadata.generation else ""


def lacks_revision(vm: VirtualMachine, vmi: VirtualMachineInstance) -> bool:
    """Whether the start of this run has not been recorded yet, as the controller before us ended in the middle of it.

    The VM's status is the last thing that a start writes. Once the spec has changed, nobody knows what it was.
    """
    generation = vm.metadata.generation
    return (
        vm.status.observed_generation != generation
        and vmi.metadata.annotations.get(VM_GENERATION) == str(generation)
        and vmi.status.virtual_machine_revision_name == revision_name(vm.metadata.uid, generation)
    )

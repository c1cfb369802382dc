"""What a running VM's sockets, memory and placement have come to in its template, and what that means for its run.

Called by the VM's plan and for its condition RestartRequired. Pure. With `vmRolloutStrategy: LiveUpdate` sockets are
plugged in, memory follows (`memory_changes`), and selectors, affinity and tolerations count from the next migration on;
otherwise all of it waits for the next start, as does what a running guest cannot take.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import msgspec

from kvedge.controller.vm.memory_changes import memory_differs, refuse_memory, without_guest_memory
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.moves.pod_room import find_room, lacks_vcpus
from kvedge.resources.names import GROWTH_ROOM, MARKED_ALONE, PCI_TOPOLOGY, SKIP_BACKUP_HOOKS, VM_GENERATION
from kvedge.resources.types.domain import Cpu, DomainSpec
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import CpuTopology, VirtualMachineInstance, VirtualMachineInstanceSpec
from kvedge.resources.values.quantities import format_milli, parse_quantity
from kvedge.resources.vmi_facts import PLUGS_CPUS, Topology, UnreadableCpus, topology_of

# VMIs have an annotation for each preset that they were made with.
_PRESET: Final = "virtualmachinepreset.kubevirt.io/"
_CHANGED: Final = "a non-live-updatable field was changed in the template spec"


def without_live_parts(spec: VirtualMachineInstanceSpec) -> VirtualMachineInstanceSpec:
    """The spec without its sockets, its guest's memory and its placement."""
    cpu = None if spec.domain.cpu is None else msgspec.structs.replace(spec.domain.cpu, sockets=0)
    domain = without_guest_memory(msgspec.structs.replace(spec.domain, cpu=None if cpu == Cpu() else cpu))
    return msgspec.structs.replace(spec, domain=domain, node_selector={}, affinity=None, tolerations=[])


def why_restart(template: VirtualMachineInstanceSpec, vmi: VirtualMachineInstance, *, live: bool) -> str:
    """Why the run cannot have the template's sockets, memory or placement before it is started again; empty when it
    can.
    """
    sockets, memory = _sockets_differ(template, vmi), memory_differs(template, vmi)
    if not live:
        return _CHANGED if sockets or memory or plan_placement(template, vmi) else ""
    refused = _refuse_sockets(template, vmi) if sockets else ""
    return refused or (refuse_memory(template, vmi) if memory else "")


def plan_placement(template: VirtualMachineInstanceSpec, vmi: VirtualMachineInstance) -> JsonObject:
    """A merge patch that gives the VMI the template's selectors, affinity and tolerations; empty when it has them."""
    body = merge_difference(_placement(vmi.spec), _placement(template))
    return {"spec": body} if body else {}


def plan_backup_word(vm: VirtualMachine, vmi: VirtualMachineInstance) -> JsonObject:
    """A merge patch that has the VMI say what the VM, or else its template, says of backups; empty when it does."""
    template = vm.spec.template
    in_template = template.metadata.annotations.get(SKIP_BACKUP_HOOKS) if template is not None else None
    wanted = vm.metadata.annotations.get(SKIP_BACKUP_HOOKS, in_template)
    if wanted == vmi.metadata.annotations.get(SKIP_BACKUP_HOOKS):
        return {}
    return {"metadata": {"annotations": {SKIP_BACKUP_HOOKS: wanted}}}


def plan_machine_marks(vm: VirtualMachine, vmi: VirtualMachineInstance | None, *, is_room_said: bool) -> JsonObject:
    """A merge patch that has the VM's template keep what machine its guest runs with: the layout of its PCI slots, as
    KubeVirt does, and the room to grow where the KubeVirt object says so (`is_room_said`). Empty when it keeps them.

    A VM of before there were such marks would lose that room with its next start, once that object says nothing more.
    The marks are ours: a run of an earlier release, which may have told templates apart in another way, is not compared
    because of them.
    """
    template = vm.spec.template
    if vmi is None or vmi.status.phase != "Running" or template is None:
        return {}
    marks: dict[str, str] = {}
    if PCI_TOPOLOGY in vmi.metadata.annotations:
        marks[PCI_TOPOLOGY] = vmi.metadata.annotations[PCI_TOPOLOGY]
    if is_room_said and _has_room(vmi):
        marks[GROWTH_ROOM] = "v1"
    missing = {name: value for name, value in marks.items() if name not in template.metadata.annotations}
    if not missing:
        return {}
    body: JsonObject = {"spec": {"template": {"metadata": {"annotations": missing}}}}
    if is_made_from(vm, vmi):
        body["metadata"] = {"annotations": {MARKED_ALONE: _sameness(vmi, vm.metadata.generation + 1)}}
    return body


def is_made_from(vm: VirtualMachine, vmi: VirtualMachineInstance) -> bool:
    """Whether the run was made from the VM's present spec, apart from marks of its machine that came later."""
    generation = vm.metadata.generation
    made_of = vmi.metadata.annotations.get(VM_GENERATION)
    return made_of == str(generation) or vm.metadata.annotations.get(MARKED_ALONE) == _sameness(vmi, generation)


def _sameness(vmi: VirtualMachineInstance, generation: int) -> str:
    """By the run, as copies of a VM have its annotations."""
    return f"{vmi.metadata.uid} {generation}"


def _has_room(vmi: VirtualMachineInstance) -> bool:
    cpu, memory = vmi.spec.domain.cpu, vmi.spec.domain.memory
    return (cpu is not None and cpu.max_sockets > max(1, cpu.sockets)) or (
        memory is not None and memory.max_guest is not None
    )


def plan_sockets(template: VirtualMachineInstanceSpec, vmi: VirtualMachineInstance, cpu_ratio: int) -> JsonObject:
    """A merge patch that gives the VMI the template's sockets; empty when it has them, cannot have them, or is still
    getting the ones before. `cpu_ratio` is by how much CPUs are allocated more than once.
    """
    if vmi.status.phase != "Running" or vmi.metadata.deletion_timestamp is not None:
        return {}
    if not _sockets_differ(template, vmi) or _refuse_sockets(template, vmi):
        return {}
    if _is_growing(vmi) and not _takes_back(template, vmi):
        return {}
    had, wanted = _topology(vmi.spec.domain), _topology(template.domain)
    domain: JsonObject = {"cpu": {"sockets": wanted.sockets}}
    more = Fraction((wanted.sockets - had.sockets) * had.cores * had.threads, cpu_ratio)
    said = vmi.spec.domain.resources
    resources: JsonObject = {}
    for kind, amounts in (("requests", said.requests), ("limits", said.limits)):
        if "cpu" in amounts:
            resources[kind] = {"cpu": format_milli(parse_quantity(amounts["cpu"]) + more)}
    if resources:
        domain["resources"] = resources
    return {"spec": {"domain": domain}}


def _refuse_sockets(template: VirtualMachineInstanceSpec, vmi: VirtualMachineInstance) -> str:
    """Why a running guest cannot get them, in KubeVirt's order and words where it has some."""
    wanted, domain = _topology(template.domain).sockets, vmi.spec.domain
    had, most = _topology(domain).sockets, 0 if domain.cpu is None else domain.cpu.max_sockets
    if wanted < had and not _takes_back(template, vmi):
        return "Reduction of CPU socket count requires a restart"
    if vmi.spec.architecture not in PLUGS_CPUS:
        return "ARM doesn't support CPU hotplug"
    if domain.cpu is not None and domain.cpu.dedicated_cpu_placement:
        return "CPU sockets updated in template spec. A VM with dedicated CPUs keeps those of its start"
    if wanted > most:
        return "CPU sockets updated in template spec to a value higher than what's available"
    if domain.devices.network_interface_multiqueue:
        return "CPU sockets updated in template spec. NICs with networkInterfaceMultiqueue get queues at a start only"
    return ""


def _takes_back(template: VirtualMachineInstanceSpec, vmi: VirtualMachineInstance) -> bool:
    """Whether the template takes back sockets of which the guest has got none, as its Pod has no room for them yet.

    What the controller says of the Pod's room is in the version that is changed: nobody can have given them meanwhile.
    """
    has, room, wanted = vmi.status.current_cpu_topology, find_room(vmi), _topology(template.domain)
    if has is None or room is None or not lacks_vcpus(vmi):
        return False
    return _topology(vmi.spec.domain).vcpus > wanted.vcpus >= max(room.vcpus, has.sockets * has.cores * has.threads)


def _sockets_differ(template: VirtualMachineInstanceSpec, vmi: VirtualMachineInstance) -> bool:
    cpu = template.domain.cpu or Cpu()
    if not cpu.sockets and any(key.startswith(_PRESET) for key in vmi.metadata.annotations):
        # The preset's sockets, of which the template says nothing.
        return False
    return _topology(template.domain).sockets != _topology(vmi.spec.domain).sockets


def _placement(spec: VirtualMachineInstanceSpec) -> JsonObject:
    alone = VirtualMachineInstanceSpec(
        node_selector=spec.node_selector, affinity=spec.affinity, tolerations=spec.tolerations
    )
    document: JsonObject = encode(alone)
    return document


def _is_growing(vmi: VirtualMachineInstance) -> bool:
    has, wants = vmi.status.current_cpu_topology or CpuTopology(), _topology(vmi.spec.domain)
    return Topology(max(1, has.sockets), max(1, has.cores), max(1, has.threads)).vcpus != wants.vcpus


def _topology(domain: DomainSpec) -> Topology:
    try:
        return topology_of(domain)
    except UnreadableCpus:
        # Admission refuses such a VMI.
        return Topology(1, 1, 1)

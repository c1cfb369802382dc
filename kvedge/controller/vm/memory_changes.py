"""What a running VM's memory has come to in its template, and what that means for its run.

Called by `template_changes` and the VM's plan. Pure. With `vmRolloutStrategy: LiveUpdate` the memory of a guest that
was started with room grows, and shrinks back to what the guest started with.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.types.domain import DomainSpec, Memory
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec
from kvedge.resources.values.quantities import format_bytes, parse_bytes
from kvedge.resources.vmi_facts import HOT_MEMORY_CHANGE, guest_memory_bytes, most_memory_bytes, why_memory_stays

_UPDATED: Final = "memory updated in template spec"


def without_guest_memory(domain: DomainSpec) -> DomainSpec:
    """The domain without the memory of its guest."""
    memory = None if domain.memory is None else msgspec.structs.replace(domain.memory, guest=None)
    return msgspec.structs.replace(domain, memory=None if memory == Memory() else memory)


def memory_differs(template: VirtualMachineInstanceSpec, vmi: VirtualMachineInstance) -> bool:
    """Whether the template says another memory than the run has; a template that says nothing leaves it to a preset."""
    wanted = guest_memory_bytes(template.domain)
    return wanted not in (0, guest_memory_bytes(vmi.spec.domain))


def refuse_memory(template: VirtualMachineInstanceSpec, vmi: VirtualMachineInstance) -> str:
    """Why a running guest cannot have the template's memory, in KubeVirt's order and words where it has some."""
    domain, wanted = vmi.spec.domain, guest_memory_bytes(template.domain)
    if domain.memory is None or domain.memory.max_guest is None:
        return f"{_UPDATED}. Memory-hotplug is not available for this VM configuration"
    at_boot = _bytes_at_boot(vmi)
    # What the run was started with decides whether it has room.
    fault = why_memory_stays(_with_guest(domain, at_boot), vmi.spec.architecture)
    most = most_memory_bytes(_with_guest(domain, at_boot), vmi.spec.architecture)
    if not fault and wanted > max(most, at_boot):
        return f"{_UPDATED} to a value higher than what's available"
    # Then what is wanted: it has to be whole blocks.
    fault = fault or why_memory_stays(_with_guest(domain, max(wanted, at_boot)), vmi.spec.architecture)
    if fault:
        return f"memory hotplug not supported, {fault}"
    if wanted < at_boot:
        return f"{_UPDATED} to a value lower than what the VM started with"
    return ""


def plan_memory(template: VirtualMachineInstanceSpec, vmi: VirtualMachineInstance) -> JsonObject:
    """A merge patch that gives the VMI the template's memory; empty when it has it, cannot have it, or is still getting
    the one before. A change that something is in the way of makes way for the next.
    """
    if vmi.status.phase != "Running" or vmi.metadata.deletion_timestamp is not None:
        return {}
    changing = condition(vmi.status.conditions, HOT_MEMORY_CHANGE)
    if changing is not None and changing.status == "True" and not changing.message:
        return {}
    if not memory_differs(template, vmi) or refuse_memory(template, vmi):
        return {}
    had, wanted = guest_memory_bytes(vmi.spec.domain), guest_memory_bytes(template.domain)
    domain: JsonObject = {"memory": {"guest": format_bytes(wanted)}}
    said = vmi.spec.domain.resources
    resources: JsonObject = {}
    for kind, amounts in (("requests", said.requests), ("limits", said.limits)):
        if "memory" in amounts:
            grown = max(wanted, parse_bytes(amounts["memory"]) + wanted - had)
            resources[kind] = {"memory": format_bytes(grown)}
    if resources:
        domain["resources"] = resources
    return {"spec": {"domain": domain}}


def _bytes_at_boot(vmi: VirtualMachineInstance) -> int:
    told = vmi.status.memory.guest_at_boot if vmi.status.memory is not None else None
    return guest_memory_bytes(vmi.spec.domain) if told is None else parse_bytes(told)


def _with_guest(domain: DomainSpec, size: int) -> DomainSpec:
    memory = msgspec.structs.replace(domain.memory or Memory(), guest=str(size))
    return msgspec.structs.replace(domain, memory=memory)

"""What several roles must know of a VMI in the same way: its state, vCPUs, memory, grace, pulls and text.

Called by the roles, by the client and by the embedded API, never by a launcher's process that stays. Pure. Each fact
has its one function here; a second place that computes one of them will differ sooner or later.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kvedge.resources.meta import condition
from kvedge.resources.names import GRAPHICS, GRAPHICS_SPICE
from kvedge.resources.types.devices import Devices
from kvedge.resources.types.domain import Cpu, DomainSpec
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec
from kvedge.resources.values.durations import bound_grace
from kvedge.resources.values.memory_blocks import MEMORY_BLOCK
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_bytes, parse_quantity

# KubeVirt's, for a VMI that says nothing.
DEFAULT_GRACE_SECONDS: Final = 30
# What a VMI may say of whether its QEMU has to lock memory.
MEMORY_LOCKED: Final = "Required"
MEMORY_NOT_LOCKED: Final = "NotRequired"
# What QEMU's q35 machine takes.
MOST_VCPUS: Final = 512
# The condition of a VMI whose guest is to have other memory than it is asked to have.
HOT_MEMORY_CHANGE: Final = "HotMemoryChange"
# Where CPUs can be plugged into a running guest: in the words of the API, and in those of QEMU.
PLUGS_CPUS: Final = frozenset({"amd64", "x86_64"})
# Where memory can be, likewise; with fewer bytes at its start a guest gets none, as in KubeVirt. Memory comes and goes
# in blocks.
PLUGS_MEMORY: Final = frozenset({"amd64", "x86_64"})
LEAST_MEMORY_AT_START: Final = 1 << 30
_HOST_MODEL: Final = frozenset({"", "host-model"})
_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Topology(NamedTuple):
    """How the virtual CPUs are arranged."""

    sockets: int
    cores: int
    threads: int

    @property
    def vcpus(self) -> int:
        """How many there are."""
        return self.sockets * self.cores * self.threads


class UnreadableCpus(QuantityError):
    """The amount of CPUs in `field` of a domain's resources is no quantity."""

    def __init__(self, field: str, value: Quantity) -> None:
        super().__init__(value)
        self.field = field


def is_paused(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest's CPUs stand still."""
    found = condition(vmi.status.conditions, "Paused")
    return found is not None and found.status == "True"


def reserved_disks(spec: VirtualMachineInstanceSpec) -> list[str]:
    """The names of the LUNs that the guest may reserve for itself (SCSI persistent reservations)."""
    return [disk.name for disk in spec.domain.devices.disks if disk.lun is not None and disk.lun.reservation]


def has_agent(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest's agent answers."""
    found = condition(vmi.status.conditions, "AgentConnected")
    return found is not None and found.status == "True"


def has_screen(devices: Devices) -> bool:
    """Whether the guest has a screen: unless it is refused."""
    return devices.autoattach_graphics_device is not False


def wants_spice(vmi: VirtualMachineInstance) -> bool:
    """Whether SPICE clients are to reach the guest's screen."""
    return has_screen(vmi.spec.domain.devices) and vmi.metadata.annotations.get(GRAPHICS) == GRAPHICS_SPICE


def has_host_model(domain: DomainSpec) -> bool:
    """Whether the guest's CPU is libvirt's description of its node's, as without a word."""
    return domain.cpu is None or domain.cpu.model in _HOST_MODEL


def topology_of(domain: DomainSpec) -> Topology:
    """The topology: zeros count as one; when none of the three is set, one socket for each CPU of limit or request.

    Raises:
        UnreadableCpus: when that amount is no quantity.
    """
    cpu = domain.cpu or Cpu()
    if cpu.sockets or cpu.cores or cpu.threads:
        return Topology(max(1, cpu.sockets), max(1, cpu.cores), max(1, cpu.threads))
    return Topology(cpus_of_resources(domain.resources.limits, domain.resources.requests), 1, 1)


def locks_memory(domain: DomainSpec) -> bool:
    """Whether QEMU locks memory: of a guest in real time, one that AMD SEV encrypts, or where the VMI's owner says so.

    Some devices of network binding plugins make it.
    """
    if domain.launch_security is not None and domain.launch_security.uses_sev:
        return True
    if domain.cpu is not None and domain.cpu.realtime is not None:
        return True
    reserved = domain.memory.reserved_overhead if domain.memory is not None else None
    return reserved is not None and reserved.mem_lock == MEMORY_LOCKED


def vcpu_count(domain: DomainSpec) -> int:
    """How many vCPUs the guest has. An amount that is no quantity counts as one: admission refuses such a VMI."""
    try:
        return topology_of(domain).vcpus
    except UnreadableCpus:
        return 1


def most_sockets(domain: DomainSpec, architecture: str) -> int:
    """How many sockets the guest may get while it runs; those that it has where none can be plugged in.

    Raises:
        UnreadableCpus: when the amount of CPUs in the resources is no quantity.
    """
    present = topology_of(domain).sockets
    if architecture not in PLUGS_CPUS or domain.cpu is None or domain.cpu.dedicated_cpu_placement:
        return present
    return max(present, domain.cpu.max_sockets)


def cpus_of_resources(limits: Mapping[str, Quantity], requests: Mapping[str, Quantity]) -> int:
    """The CPUs of a domain without topology: the limit, else the request, rounded up; one without either.

    Raises:
        UnreadableCpus: when that amount is no quantity.
    """
    for kind, amounts in (("limits", limits), ("requests", requests)):
        amount = amounts.get("cpu")
        if amount is not None:
            return whole_cpus(f"spec.domain.resources.{kind}.cpu", amount)
    return 1


def whole_cpus(field: str, amount: Quantity) -> int:
    """An amount of CPUs, rounded up, at least one. Raises UnreadableCpus, which names the field."""
    try:
        return max(1, math.ceil(parse_quantity(amount)))
    except QuantityError as error:
        raise UnreadableCpus(field, amount) from error


def guest_memory_field(domain: DomainSpec) -> tuple[str, Quantity] | None:
    """The field that says how much memory the guest sees, and its amount: memory.guest, request, limit, in this order.

    None where none of them is set; huge pages alone may still ask for one page.
    """
    memory = domain.memory
    if memory is not None and memory.guest is not None:
        return "spec.domain.memory.guest", memory.guest
    for kind, amounts in (("requests", domain.resources.requests), ("limits", domain.resources.limits)):
        if "memory" in amounts:
            return f"spec.domain.resources.{kind}.memory", amounts["memory"]
    return None


def guest_memory_bytes(domain: DomainSpec) -> int:
    """How much memory the guest is to have; 0 when nothing readable says so."""
    asked = guest_memory_field(domain)
    return (_readable_bytes(asked[1]) or 0) if asked is not None else 0


def most_memory_bytes(domain: DomainSpec, architecture: str) -> int:
    """How much memory the guest may get while it runs; 0 when it keeps what it starts with."""
    most = None if domain.memory is None else _readable_bytes(domain.memory.max_guest)
    if most is None or most == guest_memory_bytes(domain):
        return 0
    return 0 if why_memory_stays(domain, architecture) else most


def why_memory_stays(domain: DomainSpec, architecture: str) -> str:
    """Why a guest's memory cannot change while it runs, in KubeVirt's order and words where it has some; else empty.

    `memory.guest` is what the guest is to have now, `memory.maxGuest` what it may get.
    """
    memory = domain.memory
    guest = None if memory is None else _readable_bytes(memory.guest)
    most = None if memory is None else _readable_bytes(memory.max_guest)
    if why := _why_placed_memory_stays(domain):
        return why
    if memory is not None and memory.hugepages is not None:
        return "Memory hotplug is not available for VMs with huge pages"
    if _has_devices_of_the_node(domain):
        return "Memory hotplug is not available for VMs with devices of their node"
    if locks_memory(domain):
        return "Memory hotplug is not available for VMs whose memory is locked"
    if guest is None:
        return "Guest memory must be configured when memory hotplug is enabled"
    if most is None:
        return "Max guest memory must be configured when memory hotplug is enabled"
    if guest > most:
        return "Guest memory is greater than the configured maxGuest memory"
    if guest % MEMORY_BLOCK:
        return "Guest memory must be 2Mi aligned"
    if most % MEMORY_BLOCK:
        return "MaxGuest must be 2Mi aligned"
    if architecture not in PLUGS_MEMORY:
        return "Memory hotplug is only available for x86_64 VMs"
    if guest < LEAST_MEMORY_AT_START:
        return "Memory hotplug is only available for VMs with at least 1Gi of guest memory"
    return ""


def _why_placed_memory_stays(domain: DomainSpec) -> str:
    if domain.launch_security is not None:
        return "Memory hotplug is not compatible with encrypted VMs"
    cpu = domain.cpu
    if cpu is None:
        return ""
    if cpu.realtime is not None:
        return "Memory hotplug is not compatible with realtime VMs"
    if cpu.numa is not None and cpu.numa.guest_mapping_passthrough is not None:
        return "Memory hotplug is not compatible with guest mapping passthrough"
    if cpu.dedicated_cpu_placement:
        # Its Pod may not have more than it asks for.
        return "Memory hotplug is not available for VMs with dedicated CPUs"
    return ""


def _has_devices_of_the_node(domain: DomainSpec) -> bool:
    devices = domain.devices
    return bool(devices.gpus or devices.host_devices) or any(nic.sriov is not None for nic in devices.interfaces)


def _readable_bytes(amount: Quantity | None) -> int | None:
    try:
        return None if amount is None else parse_bytes(amount)
    except QuantityError:
        # Admission refuses such a VMI.
        return None


def page_bytes(domain: DomainSpec) -> int:
    """The size of the guest's huge pages; 0 when it has none.

    Raises:
        QuantityError: when the size is no quantity.
    """
    asked = domain.memory.hugepages if domain.memory is not None else None
    return parse_bytes(asked.page_size) if asked is not None else 0


def grace_seconds(vmi: VirtualMachineInstance) -> int:
    """How long the guest may take to shut down."""
    wanted = vmi.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_SECONDS if wanted is None else bound_grace(wanted)


def default_pull_policy(image: str) -> str:
    """Kubernetes' rule for an image without a policy: a name that may move (tag latest or none) is always asked for."""
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if "@" not in image and tag in ("", "latest") else "IfNotPresent"


def character_not_in_xml(text: str) -> str | None:
    """The first character that XML 1.0 does not have, as U+0000; None when all fit. libvirt's documents are XML."""
    found = _NOT_IN_XML.search(text)
    return None if found is None else f"U+{ord(found[0]):04X}"

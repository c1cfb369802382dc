"""What a VMI asks of the CPUs under its guest: CPUs of the node for itself alone, and what goes with them.

Called by admission, the controller, the handler and launchers, which must all count the same CPUs. Pure.
"""

from __future__ import annotations

from kvedge.resources.names import EVEN_PARITY
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import topology_of
from kvedge.runtime.linux.cpu_lists import parse_cpu_list


def has_dedicated_cpus(domain: DomainSpec) -> bool:
    """Whether each vCPU has a CPU of the node for itself."""
    return domain.cpu is not None and domain.cpu.dedicated_cpu_placement


def isolates_emulator(domain: DomainSpec) -> bool:
    """Whether all of QEMU's other threads, and the launcher, have CPUs of their own."""
    return has_dedicated_cpus(domain) and domain.cpu is not None and domain.cpu.isolate_emulator_thread


def mirrors_numa(domain: DomainSpec) -> bool:
    """Whether the guest has the NUMA cells that its CPUs are in."""
    numa = domain.cpu.numa if domain.cpu is not None else None
    return numa is not None and numa.guest_mapping_passthrough is not None


def is_realtime(domain: DomainSpec) -> bool:
    """Whether the kernel runs vCPUs before all ordinary work."""
    return domain.cpu is not None and domain.cpu.realtime is not None


def realtime_vcpus(domain: DomainSpec, vcpus: int) -> frozenset[int]:
    """Which vCPUs those are, of so many: those of the mask, else all.

    Raises:
        CpuListError: when the mask is none, or names others.
    """
    mask = domain.cpu.realtime.mask if domain.cpu is not None and domain.cpu.realtime is not None else ""
    return parse_cpu_list(mask, may_exclude=True) if mask else frozenset(range(vcpus))


def pool_threads(domain: DomainSpec) -> int:
    """How many IO threads have CPUs of their own: those of the policy supplementalPool."""
    if domain.io_threads_policy != "supplementalPool" or domain.io_threads is None:
        return 0
    return max(0, domain.io_threads.supplemental_pool_thread_count or 0)


def emulator_cpus(vmi: VirtualMachineInstance) -> int:
    """How many CPUs QEMU's other threads have for themselves. Raises UnreadableCpus."""
    domain = vmi.spec.domain
    if not isolates_emulator(domain):
        return 0
    others = topology_of(domain).vcpus + pool_threads(domain)
    return 2 if EVEN_PARITY in vmi.metadata.annotations and others % 2 == 0 else 1


def dedicated_cpu_count(vmi: VirtualMachineInstance) -> int:
    """How many CPUs of the node a VMI has for itself; 0 for one that shares them. Raises UnreadableCpus."""
    domain = vmi.spec.domain
    if not has_dedicated_cpus(domain):
        return 0
    return topology_of(domain).vcpus + pool_threads(domain) + emulator_cpus(vmi)

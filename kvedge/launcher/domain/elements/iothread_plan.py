"""Which disk is served by which IO thread.

Used by the converter for `<iothreads>` and for each disk's driver. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from msgspec import Struct, field

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.disk_targets import VIRTIO, bus_of
from kvedge.launcher.domain.elements.vcpu_xml import domain_topology, unreadable_cpus
from kvedge.launcher.domain.libvirt_versions import SEVERAL_IO_THREADS, require_libvirt
from kvedge.resources.host_devices.cpu_placement import isolates_emulator
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import UnreadableCpus, whole_cpus


class IoThreadPlan(Struct, frozen=True):
    """`count` threads, numbered from 1; `of_disk` has one for a virtio disk's name, `pool` those that all share."""

    count: int = 0
    of_disk: Mapping[str, int] = field(default_factory=dict)
    pool: tuple[int, ...] = ()


def plan_io_threads(vmi: VirtualMachineInstance, context: DomainContext) -> IoThreadPlan:
    """shared: one for all; auto: at most two per CPU, in turn; a dedicated disk has its own above them.

    Only disks on the virtio bus have IO threads.

    Raises:
        ConversionError: for a policy that this node's libvirt cannot do.
    """
    spec = vmi.spec.domain
    disks = [disk for disk in spec.devices.disks if bus_of(disk, vmi) == VIRTIO]
    if spec.io_threads_policy == "supplementalPool":
        return _pool(spec, context)
    dedicated = [disk for disk in disks if disk.dedicated_io_thread]
    others = [disk for disk in disks if not disk.dedicated_io_thread]
    shared = _count_shared(spec, len(others), len(dedicated))
    of_disk = {} if not shared else dict(zip(_names(others), cycle(range(1, shared + 1)), strict=False))
    of_disk |= {name: shared + index for index, name in enumerate(_names(dedicated), start=1)}
    return IoThreadPlan(shared + len(dedicated), of_disk)


def _count_shared(spec: DomainSpec, others: int, dedicated: int) -> int:
    if not others:
        return 0
    if spec.io_threads_policy == "shared":
        return 1
    if spec.io_threads_policy == "auto" and isolates_emulator(spec):
        # It runs where the emulator does: more of them would only share that CPU.
        return 1
    if spec.io_threads_policy == "auto":
        # At least one is left for those that have none of their own.
        return max(1, min(others, 2 * _cpus(spec) - dedicated))
    return 0


def _pool(spec: DomainSpec, context: DomainContext) -> IoThreadPlan:
    count = spec.io_threads.supplemental_pool_thread_count if spec.io_threads is not None else None
    if not count or count < 0:
        raise ConversionError(
            "spec.domain.ioThreads.supplementalPoolThreadCount",
            "the policy supplementalPool needs a number of threads",
            "set it to 1 or more",
        )
    require_libvirt(context, SEVERAL_IO_THREADS, "spec.domain.ioThreadsPolicy", "use shared or auto")
    return IoThreadPlan(count, pool=tuple(range(1, count + 1)))


def _cpus(spec: DomainSpec) -> int:
    """The host's CPUs that the IO threads can count on: those that the VMI requests, else one for each vCPU."""
    amount = spec.resources.requests.get("cpu")
    if amount is None:
        return domain_topology(spec).vcpus
    try:
        return whole_cpus("spec.domain.resources.requests.cpu", amount)
    except UnreadableCpus as error:
        raise unreadable_cpus(error) from error


def _names(disks: list[Disk]) -> list[str]:
    return [disk.name for disk in disks]

"""`<cputune>`: each thread on its CPUs, and vCPUs that the kernel runs in real time.

Called by the converter. Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.placement.pin_plan import PinPlan
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.host_devices.cpu_placement import is_realtime, realtime_vcpus
from kvedge.resources.types.domain import DomainSpec
from kvedge.runtime.linux.cpu_lists import CpuListError, cpu_list_text

# KubeVirt's: before all ordinary work, and after all other work in real time.
REALTIME_PRIORITY: Final = 1


def add_cputune(domain: Element, spec: DomainSpec, pins: PinPlan) -> None:
    """Nothing for a guest that shares CPUs.

    Raises:
        ConversionError: for a mask that is none.
    """
    if not pins.vcpus:
        return
    element = add(domain, "cputune")
    for number, cpu in enumerate(pins.vcpus):
        add(element, "vcpupin", vcpu=number, cpuset=cpu)
    if pins.emulator:
        add(element, "emulatorpin", cpuset=cpu_list_text(pins.emulator))
    for number, cpus in sorted(pins.io_threads.items()):
        add(element, "iothreadpin", iothread=number, cpuset=cpu_list_text(cpus))
    if is_realtime(spec):
        chosen = cpu_list_text(_realtime_vcpus(spec, len(pins.vcpus)))
        add(element, "vcpusched", vcpus=chosen, scheduler="fifo", priority=REALTIME_PRIORITY)


def _realtime_vcpus(spec: DomainSpec, vcpus: int) -> frozenset[int]:
    field = "spec.domain.cpu.realtime.mask"
    try:
        chosen = realtime_vcpus(spec, vcpus)
    except CpuListError as error:
        raise ConversionError(field, str(error), "write it like 0-3,^1") from error
    if not chosen or max(chosen) >= vcpus:
        raise ConversionError(field, f"names no vCPU, or others than the guest's {vcpus}", "write it like 0-3,^1")
    return chosen

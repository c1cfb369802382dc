"""From what is known of a guest and its host to the metrics that the guest reads; names and units are KubeVirt's.

Called by `metrics_keeper`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kvedge.launcher.metrics.metric_xml import Metric, make_seconds, make_size, render_metrics

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.stats_figures import DomainFigures
    from kvedge.launcher.metrics.host_facts import HostFacts

# Programs in guests look for it.
_VENDOR: Final = "kubevirt.io"
_NANOSECONDS: Final = 10**9
_MEMORY: Final = ("MemTotal", "MemFree", "Buffers", "Cached", "SwapTotal", "SwapFree", "SwapCached")


def render_report(node: str, qemu: int, guest: DomainFigures, host: HostFacts, now: float) -> str:
    """The document; `qemu` is the version as libvirt writes it, 0 when it is not known, `now` in seconds since 1970."""
    return render_metrics(
        (*_statics(node, qemu), *_of_guest(guest), *_of_host(host), Metric("host", "Time", "int64", str(int(now)), "s"))
    )


def _statics(node: str, qemu: int) -> Iterator[Metric]:
    yield Metric("host", "HostName", "string", node)
    yield Metric("host", "HostSystemInfo", "string", "linux")
    yield Metric("host", "VirtualizationVendor", "string", _VENDOR)
    yield Metric("host", "VirtProductInfo", "string", _describe_qemu(qemu))


def _describe_qemu(version: int) -> str:
    if not version:
        return "qemu-unknown"
    return f"QEMU {version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}"


def _of_guest(guest: DomainFigures) -> Iterator[Metric]:
    spent = sum(vcpu.figures.get("time", 0) for vcpu in guest.vcpus)
    yield make_seconds("vm", "TotalCPUTime", spent / _NANOSECONDS)
    online = sum(vcpu.state != "offline" for vcpu in guest.vcpus)
    yield Metric("vm", "ResourceProcessorLimit", "uint64", str(online))
    memory = guest.figures.get("balloon.current")
    if memory is not None:
        yield make_size("vm", "PhysicalMemoryAllocatedToVirtualSystem", memory)
        # No balloon takes a part of it away.
        yield make_size("vm", "ResourceMemoryLimit", memory)


def _of_host(host: HostFacts) -> Iterator[Metric]:
    if host.sockets:
        yield Metric("host", "NumberOfPhysicalCPUs", "int64", str(host.sockets))
    if host.cpu_seconds >= 0:
        yield make_seconds("host", "TotalCPUTime", host.cpu_seconds)
    if host.memory:
        total, free, buffers, cached, swap, swap_free, swap_cached = (host.memory.get(name, 0) for name in _MEMORY)
        yield make_size("host", "FreePhysicalMemory", free)
        yield make_size("host", "FreeVirtualMemory", free + swap_free)
        yield make_size("host", "MemoryAllocatedToVirtualServers", max(0, total - free - buffers - cached))
        used = total + swap - free - cached - buffers - swap_cached
        yield make_size("host", "UsedVirtualMemory", max(0, used))
    for name, word in (("PagedInMemory", "pswpin"), ("PagedOutMemory", "pswpout")):
        if word in host.swapped:
            yield make_size("host", name, host.swapped[word])

"""The metrics of a guest and its host, by KubeVirt's names and units."""

from __future__ import annotations

from xml.etree import ElementTree

from kvedge.launcher.libvirt.stats_figures import DomainFigures, PartFigures
from kvedge.launcher.metrics.host_facts import HostFacts
from kvedge.launcher.metrics.metrics_report import render_report

GUEST = DomainFigures(
    complete=False,
    figures={"balloon.current": 65536},
    vcpus=(
        PartFigures("0", {"time": 1_500_000_000}, "running"),
        PartFigures("1", {"time": 500_000}, "blocked"),
        PartFigures("2", {}, "offline"),
    ),
)
MEMORY = {
    "MemTotal": 1000,
    "MemFree": 100,
    "Buffers": 10,
    "Cached": 20,
    "SwapTotal": 500,
    "SwapFree": 400,
    "SwapCached": 5,
}
HOST = HostFacts(sockets=2, cpu_seconds=12.25, memory=MEMORY, swapped={"pswpin": 12, "pswpout": 4})


def read(text: str) -> dict[tuple[str, str], tuple[str, str, str]]:
    """Type, value and unit of each metric, by its context and name."""
    return {
        (each.get("context", ""), each.findtext("name", "")): (
            each.get("type", ""),
            each.findtext("value", ""),
            each.get("unit", ""),
        )
        for each in ElementTree.fromstring(text)
    }


def test_all_that_kubevirt_tells_is_told() -> None:
    assert read(render_report("box-1", 7_002_022, GUEST, HOST, 1234.9)) == {
        ("host", "HostName"): ("string", "box-1", ""),
        ("host", "HostSystemInfo"): ("string", "linux", ""),
        ("host", "VirtualizationVendor"): ("string", "kubevirt.io", ""),
        ("host", "VirtProductInfo"): ("string", "QEMU 7.2.22", ""),
        ("vm", "TotalCPUTime"): ("real64", "1.500500", "s"),
        ("vm", "ResourceProcessorLimit"): ("uint64", "2", ""),
        ("vm", "PhysicalMemoryAllocatedToVirtualSystem"): ("uint64", "65536", "KiB"),
        ("vm", "ResourceMemoryLimit"): ("uint64", "65536", "KiB"),
        ("host", "NumberOfPhysicalCPUs"): ("int64", "2", ""),
        ("host", "TotalCPUTime"): ("real64", "12.250000", "s"),
        ("host", "FreePhysicalMemory"): ("uint64", "100", "KiB"),
        ("host", "FreeVirtualMemory"): ("uint64", "500", "KiB"),
        ("host", "MemoryAllocatedToVirtualServers"): ("uint64", "870", "KiB"),
        ("host", "UsedVirtualMemory"): ("uint64", "1365", "KiB"),
        ("host", "PagedInMemory"): ("uint64", "12", "KiB"),
        ("host", "PagedOutMemory"): ("uint64", "4", "KiB"),
        ("host", "Time"): ("int64", "1234", "s"),
    }


def test_what_is_not_known_is_left_out() -> None:
    found = read(render_report("", 0, DomainFigures(complete=False, figures={}), HostFacts(), 0))
    assert found.pop(("host", "VirtProductInfo")) == ("string", "qemu-unknown", "")
    assert {name for _, name in found} == {
        "HostName",
        "HostSystemInfo",
        "VirtualizationVendor",
        "TotalCPUTime",
        "ResourceProcessorLimit",
        "Time",
    }

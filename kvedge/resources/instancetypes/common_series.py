"""The ready-made instance types: series that people know from clouds, in their usual sizes.

Read by the controller, which writes them where they are wanted, and by the command line. Pure: a table of sizes, and
what all sizes of a series have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vm_types.instancetypes import INSTANCETYPE_GROUP, VirtualMachineClusterInstancetype

VENDOR_LABEL: Final = f"{INSTANCETYPE_GROUP}/vendor"
VENDOR: Final = "kvedge.io"
# The vCPUs of each size, and of memory as many GiB for one vCPU as the series says.
_SIZES: Final[Mapping[str, int]] = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32}
_U1: Final[Sequence[tuple[str, int, str]]] = (
    ("nano", 1, "512Mi"),
    ("micro", 1, "1Gi"),
    ("small", 1, "2Gi"),
    ("medium", 1, "4Gi"),
    ("2xmedium", 2, "4Gi"),
    *((size, vcpus, f"{4 * vcpus}Gi") for size, vcpus in _SIZES.items()),
)
_ALONE: Final[JsonObject] = {"dedicatedCPUPlacement": True, "isolateEmulatorThread": True}
_NUMA: Final[JsonObject] = {"numa": {"guestMappingPassthrough": {}}}
# CRI-O leaves CPUs of such Pods alone.
_LEFT_ALONE: Final = {
    f"{name}.crio.io": "disable" for name in ("cpu-load-balancing", "cpu-quota", "irq-load-balancing")
}


class Series(Struct, frozen=True):
    """The sizes of one series, and the CPUs, memory and whatever else all of them have."""

    name: str
    title: str
    text: str
    sizes: Sequence[tuple[str, int, str]]
    cpu: JsonObject = field(default_factory=dict)
    memory: JsonObject = field(default_factory=dict)
    spec: JsonObject = field(default_factory=dict)
    # A guest may get as many sockets as it has vCPUs.
    ends_at_its_sockets: bool = False


def _sizes(gib_per_vcpu: int, *, medium: bool = False) -> Sequence[tuple[str, int, str]]:
    first = (("medium", 1, f"{gib_per_vcpu}Gi"),) if medium else ()
    return (*first, *((size, vcpus, f"{gib_per_vcpu * vcpus}Gi") for size, vcpus in _SIZES.items()))


def _with_gib_pages(sizes: Sequence[tuple[str, int, str]]) -> Sequence[tuple[str, int, str]]:
    return tuple((f"{size}1gi", vcpus, memory) for size, vcpus, memory in sizes)


_COMPUTE: Final = _sizes(2, medium=True)
_MEMORY: Final = _sizes(8)
_N1: Final = tuple(
    (size, vcpus, f"{gib}Gi")
    for size, vcpus, gib in (
        ("medium", 4, 4),
        ("large", 4, 8),
        ("xlarge", 8, 16),
        ("2xlarge", 16, 32),
        ("4xlarge", 32, 64),
        ("8xlarge", 64, 128),
    )
)
_CX1: Final = {
    "title": "Compute Exclusive",
    "text": "CPUs and NUMA cells of the node for the VM alone, for computing.",
    "cpu": {**_ALONE, **_NUMA},
    "spec": {"ioThreadsPolicy": "auto"},
    "ends_at_its_sockets": True,
}
_M1: Final = {"title": "Memory Intensive", "text": "Eight GiB of memory for each vCPU, in huge pages."}

COMMON_SERIES: Final[Sequence[Series]] = (
    Series("u1", "Universal", "CPUs and memory shared with others: right for most VMs.", _U1),
    Series(
        "o1",
        "Overcommitted",
        "Half of the memory is not reserved: for many VMs of which few use theirs.",
        [each for each in _U1 if each[0] != "2xmedium"],
        memory={"overcommitPercent": 50},
    ),
    Series(
        "d1",
        "Dedicated",
        "CPUs of the node for the VM alone.",
        _U1,
        cpu=_ALONE,
        spec={"ioThreadsPolicy": "auto"},
    ),
    Series("cx1", sizes=_COMPUTE, memory={"hugepages": {"pageSize": "2Mi"}}, **_CX1),  # type: ignore[arg-type]
    Series(
        "cx1",
        sizes=_with_gib_pages(_COMPUTE),
        memory={"hugepages": {"pageSize": "1Gi"}},
        **_CX1,  # type: ignore[arg-type]
    ),
    Series("m1", sizes=_MEMORY, memory={"hugepages": {"pageSize": "2Mi"}}, **_M1),  # type: ignore[arg-type]
    Series(
        "m1",
        sizes=_with_gib_pages(_MEMORY),
        memory={"hugepages": {"pageSize": "1Gi"}},
        **_M1,  # type: ignore[arg-type]
    ),
    Series(
        "n1",
        "Network",
        "CPUs of the node for the VM alone, and memory in huge pages: for network functions.",
        _N1,
        cpu=_ALONE,
        memory={"hugepages": {"pageSize": "1Gi"}},
        spec={"annotations": _LEFT_ALONE},
    ),
    Series(
        "rt1",
        "Realtime",
        "CPUs and NUMA cells of the node for the VM alone, scheduled in real time.",
        [each for each in _U1 if each[0] not in ("nano", "2xmedium")],
        cpu={**_ALONE, **_NUMA, "realtime": {}},
        memory={"hugepages": {"pageSize": "1Gi"}},
        spec={"annotations": _LEFT_ALONE},
    ),
)


def common_types() -> Iterator[JsonObject]:
    """All ready-made instance types, as objects of the cluster."""
    for series in COMMON_SERIES:
        for size, vcpus, memory in series.sizes:
            yield _document(series, size, vcpus, memory)


def _document(series: Series, size: str, vcpus: int, memory: str) -> JsonObject:
    kind = VirtualMachineClusterInstancetype.KIND
    cpu = {"guest": vcpus, **series.cpu, **({"maxSockets": vcpus} if series.ends_at_its_sockets else {})}
    labels: dict[str, str] = {
        "class": series.title.lower().replace(" ", "."),
        "cpu": str(vcpus),
        "memory": memory,
        "size": size,
        "version": "1",
        **{name: "true" for name in ("dedicatedCPUPlacement", "isolateEmulatorThread") if name in series.cpu},
        **{name: "true" for name in ("numa", "realtime") if name in series.cpu},
    }
    if "hugepages" in series.memory:
        labels["hugepages"] = str(series.memory["hugepages"]["pageSize"])
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": f"{series.name}.{size}",
            "labels": {VENDOR_LABEL: VENDOR, **{f"{INSTANCETYPE_GROUP}/{name}": labels[name] for name in labels}},
            "annotations": {
                f"{INSTANCETYPE_GROUP}/class": series.title,
                f"{INSTANCETYPE_GROUP}/description": series.text,
            },
        },
        "spec": {"cpu": cpu, "memory": {"guest": memory, **series.memory}, **series.spec},
    }

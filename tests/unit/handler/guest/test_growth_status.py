"""The CPUs and the memory in a VMI's status, and the conditions of those that are still to come."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.handler.guest.growth_status import current_memory, current_topology, memory_condition, vcpu_condition
from kvedge.handler.guest.vmi_status import Observation, status_patch
from kvedge.resources.types.vmi import CpuTopology, MemoryStatus, VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import DOMAIN_STATE_RUNNING, DomainStatus
from tests.support.builders import NOW, vmi_with


def vmi(sockets: int = 2, **cpu: Any) -> VirtualMachineInstance:
    spec = {"domain": {"cpu": {"sockets": sockets, "cores": 2, "threads": 1, **cpu}}}
    status = {"phase": "Running", "currentCPUTopology": {"sockets": 1, "cores": 2, "threads": 1}}
    return vmi_with(spec, status, uid="u1", resourceVersion="7")


def running(vcpus: int, trouble: str = "") -> DomainStatus:
    return DomainStatus(state=DOMAIN_STATE_RUNNING, vcpus=vcpus, cpu_trouble=trouble)


@pytest.mark.parametrize(("vcpus", "sockets"), [(4, 2), (2, 1), (0, 1), (3, 1)])
def test_whole_sockets_are_told_and_else_what_was_told_before(vcpus: int, sockets: int) -> None:
    assert current_topology(vmi(), running(vcpus)) == CpuTopology(sockets=sockets, cores=2, threads=1)


def test_the_condition_is_there_until_the_guest_has_all_of_its_sockets() -> None:
    growing = vcpu_condition(vmi(), running(2))
    assert growing is not None
    assert (growing.type, growing.status, growing.message) == ("HotVCPUChange", "True", "")
    assert vcpu_condition(vmi(), running(4)) is None
    assert vcpu_condition(vmi(), running(0)) is None, "a launcher that plugs none in"


def test_an_amount_that_nobody_can_read_stops_nothing() -> None:
    unreadable = vmi_with({"domain": {"resources": {"requests": {"cpu": "x"}}}}, {"phase": "Running"})
    assert current_topology(unreadable, running(2)) is None
    assert vcpu_condition(unreadable, running(2)) is None


def test_what_is_in_the_way_is_told() -> None:
    failed = vcpu_condition(vmi(), running(2, "no thread is left"))
    assert failed is not None
    assert (failed.status, failed.reason, failed.message) == ("True", "HotplugCPUsNotSynchronized", "no thread is left")


def test_both_are_in_the_one_patch_of_the_pass() -> None:
    patch = status_patch(vmi(), Observation("Running", status=running(2)), NOW)
    assert patch is not None
    assert "HotVCPUChange" in {item["type"] for item in patch["status"]["conditions"]}
    patch = status_patch(vmi(), Observation("Running", status=running(4)), NOW)
    assert patch is not None
    assert patch["status"]["currentCPUTopology"] == {"cores": 2, "sockets": 2, "threads": 1}
    assert "HotVCPUChange" not in {item["type"] for item in patch["status"]["conditions"]}


GIB = 1 << 30


def growing(guest: str, most: str | None = "4Gi") -> VirtualMachineInstance:
    spec = {"domain": {"memory": {"guest": guest, "maxGuest": most}}}
    status = {"phase": "Running", "memory": {"guestAtBoot": "1Gi", "memoryOverhead": "200Mi"}}
    return vmi_with(spec, status, uid="u1", resourceVersion="7")


def having(requested: int, current: int, trouble: str = "") -> DomainStatus:
    return DomainStatus(
        state=DOMAIN_STATE_RUNNING,
        memory_boot_bytes=GIB,
        memory_requested_bytes=requested,
        memory_bytes=current,
        memory_trouble=trouble,
    )


def test_a_guests_memory_is_told_as_it_is() -> None:
    assert current_memory(growing("3Gi"), having(3 * GIB, 2 * GIB)) == MemoryStatus(
        guest_at_boot="1Gi", guest_current="2Gi", guest_requested="3Gi", memory_overhead="200Mi"
    )


def test_a_guest_without_room_has_what_its_vmi_says() -> None:
    said = MemoryStatus(guest_at_boot="3Gi", guest_current="3Gi", guest_requested="3Gi", memory_overhead="200Mi")
    assert current_memory(growing("3Gi", None), having(GIB, GIB)) == said
    assert current_memory(growing("3Gi"), DomainStatus(state=DOMAIN_STATE_RUNNING)) == said, "an older launcher"


@pytest.mark.parametrize(
    ("guest", "requested", "current", "is_there"),
    [
        ("3Gi", GIB, GIB, True),
        ("3Gi", 3 * GIB, GIB, False),
        ("1Gi", 3 * GIB, 3 * GIB, True),
        ("1Gi", GIB, 3 * GIB, False),
        ("512Mi", GIB, GIB, False),
    ],
    ids=["to be asked", "asked and slow", "to be asked back", "asked back and kept", "less than at start"],
)
def test_the_condition_is_there_until_the_guest_is_asked(
    guest: str, requested: int, current: int, is_there: bool
) -> None:
    found = memory_condition(growing(guest), having(requested, current))
    assert (found is not None) is is_there
    assert found is None or (found.type, found.status, found.message) == ("HotMemoryChange", "True", "")


def test_a_launcher_that_changes_no_memory_has_no_such_condition() -> None:
    assert memory_condition(growing("3Gi"), DomainStatus(state=DOMAIN_STATE_RUNNING)) is None


def test_what_is_in_the_way_of_memory_is_told() -> None:
    found = memory_condition(growing("3Gi"), having(GIB, GIB, "the node has none"))
    assert found is not None
    assert (found.status, found.reason, found.message) == ("True", "HotplugMemoryNotSynchronized", "the node has none")
    patch = status_patch(growing("3Gi"), Observation("Running", status=having(GIB, GIB, "the node has none")), NOW)
    assert patch is not None
    assert "HotMemoryChange" in {item["type"] for item in patch["status"]["conditions"]}

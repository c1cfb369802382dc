"""The CPUs in a VMI's status, and the condition of those that are still to come."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.handler.guest.cpu_status import current_topology, vcpu_condition
from kvedge.handler.guest.vmi_status import Observation, status_patch
from kvedge.resources.types.vmi import CpuTopology, VirtualMachineInstance
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

"""CPUs that a guest has for itself: what is wrong, where, and in KubeVirt's words."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from tests.support.builders import put, small_vmi
from tests.support.reviews import request

CPU, RESOURCES = "spec.domain.cpu", "spec.domain.resources"
ALONE = {"dedicatedCpuPlacement": True}
NUMA = {"numa": {"guestMappingPassthrough": {}}}
REALTIME = {"cores": 2, **ALONE, **NUMA}
PAGES = {"domain.memory": {"guest": "64Mi", "hugepages": {"pageSize": "2Mi"}}}


def causes(changes: dict[str, Any]) -> list[tuple[str, str]]:
    vmi = small_vmi()
    for path, value in changes.items():
        put(vmi["spec"], path, value)
    return [(cause.field, cause.message) for cause in plan_verdict(request(vmi), Cluster("amd64")).causes]


def asking(cpu: dict[str, Any], requests: dict[str, Any], limits: dict[str, Any]) -> dict[str, Any]:
    return {"domain.cpu": cpu, "domain.resources": {"requests": requests, "limits": limits}}


@pytest.mark.parametrize(
    "changes",
    [
        {"domain.cpu": {"cores": 2, "threads": 2, "isolateEmulatorThread": True, **ALONE}},
        asking(ALONE, {"cpu": "2"}, {}),
        asking(ALONE, {"cpu": 2, "memory": "64Mi"}, {"cpu": "2000m", "memory": "64Mi"}),
        {"domain.cpu": {"sockets": 2, "maxSockets": 2, **ALONE}},
        {"domain.cpu": {"cores": 2, "numa": {}}},
        {"domain.cpu": {**REALTIME, "realtime": {}}, **PAGES},
        {"domain.cpu": {**REALTIME, "realtime": {"mask": "0-1,^0"}}, **PAGES},
    ],
    ids=[
        "a topology",
        "a request",
        "equal amounts",
        "no more sockets than there are",
        "numa without a policy",
        "real time",
        "real time of some",
    ],
)
def test_what_is_right_enters(changes: dict[str, Any]) -> None:
    assert causes(changes) == []


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        (
            asking(ALONE, {"cpu": "1500m"}, {}),
            f"{RESOURCES}.requests.cpu",
            "provided resources CPU requests must be an interger",
        ),
        (
            asking(ALONE, {}, {"cpu": "2500m"}),
            f"{RESOURCES}.limits.cpu",
            "provided resources CPU limits must be an interger",
        ),
        (
            {"domain.cpu": ALONE},
            f"{RESOURCES}.requests.cpu",
            f"either {RESOURCES}.requests.cpu or {RESOURCES}.limits.cpu must be provided when DedicatedCPUPlacement is"
            " true ",
        ),
        (
            asking(ALONE, {"cpu": "1"}, {"cpu": "2"}),
            f"{RESOURCES}.requests.cpu",
            f"{RESOURCES}.requests.cpu or {RESOURCES}.limits.cpu must be equal when DedicatedCPUPlacement is true ",
        ),
        (
            asking({"cores": 1, **ALONE}, {"memory": "64Mi"}, {"memory": "128Mi"}),
            f"{RESOURCES}.requests.memory",
            f"{RESOURCES}.requests.memory or {RESOURCES}.limits.memory must be equal when DedicatedCPUPlacement is"
            " true ",
        ),
        (
            {"domain.cpu": {"cores": 1, **ALONE}, "domain.resources": {"overcommitGuestOverhead": True}},
            f"{RESOURCES}.overcommitGuestOverhead",
            f"{RESOURCES}.overcommitGuestOverhead must be false when DedicatedCPUPlacement is true ",
        ),
        (
            {"domain.cpu": {"threads": 4, **ALONE}},
            f"{CPU}.threads",
            f"Not more than two threads must be provided at {CPU}.threads when DedicatedCPUPlacement is true",
        ),
        (
            {"domain.cpu": {"cores": 1, "isolateEmulatorThread": True}},
            f"{CPU}.isolateEmulatorThread",
            "IsolateEmulatorThread should be only set in combination with DedicatedCPUPlacement",
        ),
        (
            {"domain.cpu": {"cores": 1, **NUMA}, **PAGES},
            f"{CPU}.dedicatedCpuPlacement",
            f"{CPU}.dedicatedCpuPlacement must be set to true when NUMA topology strategy is set in"
            f" {CPU}.numa.guestMappingPassthrough",
        ),
        (
            {"domain.cpu": {"cores": 1, **ALONE, **NUMA}},
            "spec.domain.memory.hugepages",
            "spec.domain.memory.hugepages must be requested when NUMA topology strategy is set in"
            f" {CPU}.numa.guestMappingPassthrough",
        ),
        (
            {"domain.cpu": {"cores": 1, "realtime": {}, **ALONE}},
            f"{CPU}.numa.guestMappingPassthrough",
            f"{CPU}.numa.guestMappingPassthrough must be defined when {CPU}.realtime is used",
        ),
        (
            {"domain.cpu": {**REALTIME, "realtime": {"mask": "0-2"}}, **PAGES},
            f"{CPU}.realtime.mask",
            f"{CPU}.realtime.mask names vCPU 2, and the guest has 2, from 0 on",
        ),
        (
            {"domain.cpu": {**REALTIME, "realtime": {"mask": "0,^0"}}, **PAGES},
            f"{CPU}.realtime.mask",
            f"{CPU}.realtime.mask leaves no vCPU; remove it, and all are meant",
        ),
        (
            {"domain.cpu": {**REALTIME, "realtime": {"mask": "all"}}, **PAGES},
            f"{CPU}.realtime.mask",
            f"{CPU}.realtime.mask: 'all' is neither a CPU nor a range of them, such as 0-3",
        ),
        (
            {"domain.cpu": {"sockets": 1, "maxSockets": 2, **ALONE}},
            f"{CPU}.maxSockets",
            f"{CPU}.maxSockets: a guest with dedicatedCpuPlacement keeps the CPUs of its start; remove it, or set it to"
            " the sockets",
        ),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], field: str, words: str) -> None:
    assert causes(changes) == [(field, words)]


def test_real_time_without_anything_of_it_has_a_cause_for_each_field() -> None:
    fields = [field for field, _ in causes({"domain.cpu": {"cores": 1, "realtime": {}}})]
    assert fields == [f"{CPU}.dedicatedCpuPlacement", f"{CPU}.numa.guestMappingPassthrough"]

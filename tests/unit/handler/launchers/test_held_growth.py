# Tests: kvedge/handler/launchers/held_growth.py, kvedge/resources/moves/pod_room.py
"""A guest grows as far as its Pod has room, and never gives anything back for want of it."""

from __future__ import annotations

import pytest

from kvedge.handler.guest.growth_status import memory_condition, vcpu_condition
from kvedge.handler.launchers.held_growth import hold_memory, hold_vcpus
from kvedge.resources.moves.pod_room import outgrows_pod
from kvedge.resources.types.vmi import PodRoom, VirtualMachineInstance
from kvedge.resources.vmi_facts import vcpu_count
from kvedge.rpc.launcher_pb2 import DOMAIN_STATE_ABSENT, DOMAIN_STATE_RUNNING, DomainStatus
from tests.support.builders import vmi_with

GIB = 1 << 30


def a_guest(room: PodRoom | None, sockets: int = 4, memory: str = "4Gi") -> VirtualMachineInstance:
    spec = {
        "domain": {
            "cpu": {"sockets": sockets, "cores": 2, "threads": 1},
            "memory": {"guest": memory, "maxGuest": "8Gi"},
        }
    }
    vmi = vmi_with(spec, {"phase": "Running", "nodeName": "n1"})
    vmi.status.pod_room = room
    return vmi


def running(vcpus: int = 2, gib: int = 1) -> DomainStatus:
    return DomainStatus(
        state=DOMAIN_STATE_RUNNING, vcpus=vcpus, memory_boot_bytes=GIB, memory_requested_bytes=gib * GIB
    )


def told(vmi: VirtualMachineInstance, status: DomainStatus | None) -> tuple[int, int]:
    return vcpu_count(hold_vcpus(vmi, status).spec.domain), hold_memory(vmi, status) // GIB


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (None, (2, 1)),
        (PodRoom(node="n1", vcpus=2, memory="1Gi"), (2, 1)),
        (PodRoom(node="n1", vcpus=5, memory="3Gi"), (4, 3)),
        (PodRoom(node="n1", vcpus=8, memory="4Gi"), (8, 4)),
        (PodRoom(node="n2", vcpus=8, memory="4Gi"), (2, 1)),
    ],
    ids=["nobody has said", "none yet", "some, in whole sockets", "all", "where it was before"],
)
def test_the_launcher_is_told_what_the_pod_has_room_for(room: PodRoom | None, expected: tuple[int, int]) -> None:
    assert told(a_guest(room), running()) == expected


def test_what_a_guest_has_it_keeps_and_what_it_is_to_give_back_it_is_asked_for() -> None:
    room = PodRoom(node="n1", vcpus=2, memory="1Gi")
    assert told(a_guest(room), running(8, 4)) == (8, 4)
    assert told(a_guest(PodRoom(node="n1", vcpus=8, memory="4Gi"), memory="2Gi"), running(8, 4)) == (8, 2)


def test_a_guest_that_starts_has_the_pod_that_was_made_for_it() -> None:
    for status in (None, DomainStatus(state=DOMAIN_STATE_ABSENT)):
        assert told(a_guest(None), status) == (8, 4)


def test_what_is_in_the_pods_way_is_in_both_conditions() -> None:
    room = PodRoom(node="n1", vcpus=2, memory="1Gi", reason="Deferred", message="no room")
    found = (vcpu_condition(a_guest(room), running()), memory_condition(a_guest(room), running()))
    assert [(each.type, each.status, each.reason, each.message) for each in found if each is not None] == [
        ("HotVCPUChange", "True", "Deferred", "no room"),
        ("HotMemoryChange", "True", "Deferred", "no room"),
    ]


@pytest.mark.parametrize(
    "reason", ["Infeasible", "NodeTooSmall", "ResizeKeepsFailing", "ResizeRefused", "ResizeNotServed"]
)
def test_only_a_pod_that_can_never_grow_has_its_guest_move(reason: str) -> None:
    room = PodRoom(node="n1", vcpus=2, memory="1Gi", reason=reason)
    assert outgrows_pod(a_guest(room))
    assert not outgrows_pod(a_guest(room, sockets=1, memory="1Gi"))
    for other in ("Deferred", "QuotaExceeded", "ResizeFailed", ""):
        assert not outgrows_pod(a_guest(PodRoom(node="n1", vcpus=2, memory="1Gi", reason=other)))

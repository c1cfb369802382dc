"""When waiting is over."""

from __future__ import annotations

import pytest

from kvedge.client.vm_wait import Seen, is_over, is_running, is_stopped, runs_when_applied, summary
from kvedge.resources.codec import decode
from kvedge.resources.kinds import Kind
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


def seen(vm: str | None = "Running", vmi: str | None = "Running", uid: str = "new", strategy: str = "Always") -> Seen:
    machine = {"metadata": {"name": "web"}, "spec": {"runStrategy": strategy}, "status": {"printableStatus": vm}}
    run = {"metadata": {"name": "web", "uid": uid}, "spec": {}, "status": {"phase": vmi}}
    return Seen(
        None if vm is None else decode(VirtualMachine, machine),
        None if vmi is None else decode(VirtualMachineInstance, run),
    )


def test_a_vm_runs_when_its_run_does_and_it_says_so_itself() -> None:
    assert is_running(seen())
    assert not is_running(seen(vm="Starting"))
    assert not is_running(seen(vmi="Scheduled"))
    assert not is_running(seen(vmi=None))
    assert is_running(seen(vm=None)), "a VMI without a VM"


def test_the_run_of_before_is_not_the_one_that_is_waited_for() -> None:
    assert not is_running(seen(uid="old"), before="old")
    assert is_running(seen(uid="new"), before="old")


def test_a_vm_that_was_started_paused_is_up_when_it_is_paused() -> None:
    assert is_running(seen(vm="Paused"), paused=True)
    assert not is_running(seen(vm="Paused"))


def test_a_vm_is_stopped_when_the_run_of_before_is_gone() -> None:
    assert not is_stopped(seen(uid="old"), "old")
    assert is_stopped(seen(vm="Stopped", vmi=None), "old")
    assert is_stopped(seen(uid="new"), "old"), "it is over, and somebody else has started it again"
    assert not is_stopped(seen(vmi="Pending"), "")


@pytest.mark.parametrize(
    ("strategy", "over"),
    [("Once", True), ("Manual", True), ("Halted", True), ("Always", False), ("RerunOnFailure", False)],
)
def test_a_guest_that_has_ended_is_waited_for_only_if_somebody_starts_it_again(strategy: str, over: bool) -> None:
    assert is_over(seen(vm="Stopped", vmi="Succeeded", strategy=strategy)) is over
    assert not is_over(seen(vm="Stopped", vmi="Succeeded", uid="old", strategy=strategy), "old")
    assert not is_over(seen(strategy=strategy))


def test_the_reason_is_part_of_what_is_told() -> None:
    found = seen(vm="ErrImagePull", vmi="Scheduling")
    assert found.vmi is not None
    condition = {"type": "Synchronized", "status": "False", "message": "no such image"}
    run = {"metadata": {"uid": "u"}, "status": {"phase": "Scheduling", "conditions": [condition]}}
    assert summary(Seen(found.vm, decode(VirtualMachineInstance, run))) == "ErrImagePull: no such image"
    assert summary(Seen(None, None)) == "is not there"


@pytest.mark.parametrize(
    ("kind", "spec", "starts"),
    [
        ("VirtualMachine", {"runStrategy": "Always"}, True),
        ("VirtualMachine", {"runStrategy": "Manual"}, False),
        ("VirtualMachine", {"running": True}, True),
        ("VirtualMachine", {"running": False}, False),
        ("VirtualMachineInstance", {}, True),
        ("KubeVirt", {}, False),
    ],
)
def test_only_guests_that_start_by_themselves_are_waited_for(kind: str, spec: dict[str, object], starts: bool) -> None:
    assert runs_when_applied(Kind("kubevirt.io", "v1", kind, kind.lower() + "s"), {"spec": spec}) is starts

"""When waiting is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from kvedge.client.errors import RefusedError, TimedOutError
from kvedge.client.kubeconfigs import load_kubeconfigs
from kvedge.client.session import connect
from kvedge.client.vm_wait import Seen, VmWait, is_over, is_running, is_stopped, starts_by_itself, summary
from kvedge.resources.codec import decode
from kvedge.resources.kinds import Kind
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.scripted_api import Exchange, scripted_api


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
    assert is_running(seen(vm="Migrating"))


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
    assert starts_by_itself(Kind("kubevirt.io", "v1", kind, kind.lower() + "s"), {"spec": spec}) is starts


class Lines:
    """Progress that a test reads."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.is_open = False

    def __enter__(self) -> Self:
        self.is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_open = False

    def show(self, text: str) -> None:
        assert self.is_open
        self.shown.append(text)


@contextmanager
def waiting_for(phases: list[str], lines: Lines, folder: Path, timeout: float = 30.0) -> Iterator[VmWait]:
    """A VMI without a VM, which is in one phase after the other as it is looked at; the last one stays."""

    def script(exchange: Exchange) -> None:
        if not exchange.request.path.endswith("/virtualmachineinstances/web"):
            exchange.answer(404, {"kind": "Status", "reason": "NotFound", "message": "not found"})
            return
        phase = phases.pop(0) if len(phases) > 1 else phases[0]
        run = {"metadata": {"name": "web", "uid": "u1"}, "spec": {}, "status": {"phase": phase}}
        exchange.answer(200, run)

    with scripted_api(script) as api:
        session = connect(load_kubeconfigs((api.write_kubeconfig(folder / "kubeconfig"),), None))
        yield VmWait(session, "web", timeout, lambda: lines)
        session.client.close()


def test_progress_is_handed_out_until_it_is_so(tmp_path: Path) -> None:
    lines = Lines()
    with waiting_for(["Pending", "Scheduled", "Running"], lines, tmp_path) as wait:
        assert wait.wait_until_running() == "VM web is running"
    assert lines.shown == ["web: Scheduled"]
    assert not lines.is_open


def test_a_guest_that_ends_and_one_that_never_runs_are_errors_of_different_kinds(tmp_path: Path) -> None:
    with (
        waiting_for(["Pending", "Failed"], Lines(), tmp_path) as wait,
        pytest.raises(RefusedError, match="the guest of VM web ended: Failed"),
    ):
        wait.wait_until_running()
    with (
        waiting_for(["Pending"], Lines(), tmp_path, timeout=0.0) as wait,
        pytest.raises(TimedOutError, match="timed out after 0 s waiting for VM web to run: Pending"),
    ):
        wait.wait_until_running()

# Tests: kvedge/handler/guest/sync_loop.py, kvedge/handler/guest/pass_events.py, kvedge/handler/guest/pass_memory.py
"""What the sync loop makes of a VMI that goes while it works on it."""

from __future__ import annotations

from types import SimpleNamespace

import grpc
import pytest

from kvedge.handler.launchers.launcher_connections import LauncherCallError
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.kube.errors import NotFound
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import DOMAIN_STATE_ABSENT, DomainStatus
from tests.support.builders import vmi_with
from tests.unit.handler.guest.sync_loops import NODE, a_sync_loop

KEY = ("shop", "web")
ABSENT = DomainStatus(state=DOMAIN_STATE_ABSENT)


def a_vmi(uid: str, phase: str = "Scheduled") -> VirtualMachineInstance:
    status = {"phase": phase, "nodeName": NODE, "activePods": {"pod-uid": NODE}}
    return vmi_with(status=status, namespace="shop", uid=uid)


def pass_over_one_that_becomes(then: VirtualMachineInstance | None) -> list[tuple[str, str]]:
    """What is said in a pass in which the launcher's connection ends and the VMI is `then`."""
    said: list[tuple[str, str]] = []
    current = [a_vmi("uid-web")]

    def launcher(_key: object) -> None:
        current[:] = [] if then is None else [then]
        raise LauncherCallError(grpc.StatusCode.UNAVAILABLE, "the launcher is not connected")

    def patch(*_: object) -> None:
        raise NotFound(404, "NotFound", "no such VMI")

    loop = a_sync_loop(
        vmis=SimpleNamespace(get=lambda *_: next(iter(current), None), observe=lambda _: None),
        connections=SimpleNamespace(
            note=lambda *_: None,
            ensure=lambda *_: None,
            drop=lambda _: None,
            view=lambda _: LauncherView(connected=True, status=ABSENT),
            launcher=launcher,
        ),
        network=SimpleNamespace(forget=lambda _: None, plugins={}),
        patch=patch,
        said=said,
    )
    loop.reconcile(KEY)
    return said


@pytest.mark.parametrize(
    "then", [None, a_vmi("another"), a_vmi("uid-web", "Failed")], ids=["gone", "another of the name", "ended"]
)
def test_nothing_is_said_of_a_vmi_that_has_gone(then: VirtualMachineInstance | None) -> None:
    assert pass_over_one_that_becomes(then) == []


def test_a_vmi_that_is_there_is_told_that_its_launcher_has_gone() -> None:
    said = pass_over_one_that_becomes(a_vmi("uid-web"))
    assert said == [("SyncFailed", "the launcher is not connected")]

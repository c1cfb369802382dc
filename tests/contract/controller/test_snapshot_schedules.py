"""Snapshot schedules on both servers, by the controller's own rights; the test plays volumes and workers."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import decode
from kvedge.resources.disks.schedule_names import SCHEDULE, SEQUENCE
from kvedge.resources.meta import condition
from kvedge.resources.types.protection.schedules import VirtualMachineSnapshotSchedule
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from tests.contract.controller.test_snapshots import controller, fill, make_vm, vm_of_test
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
__all__ = ["controller"]
KIND = VirtualMachineSnapshotSchedule


def schedule_of_test(server: EitherServer, namespace: str) -> VirtualMachineSnapshotSchedule:
    return server.admin.get(KIND, namespace, "hourly")


def ask_schedule(server: EitherServer, namespace: str, **spec: Any) -> None:
    source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
    body = {"source": source, "every": "1h", "keep": 1, **spec}
    server.admin.create(decode(KIND, {"metadata": {"name": "hourly", "namespace": namespace}, "spec": body}))


def ready(server: EitherServer, namespace: str) -> str:
    found = condition(schedule_of_test(server, namespace).status.conditions, "Ready")
    return "" if found is None else f"{found.status} {found.reason}"


def wait_for_success(server: EitherServer, namespace: str, name: str) -> None:
    def is_done() -> bool:
        return schedule_of_test(server, namespace).status.last_success_snapshot == name

    wait_until(is_done, f"{name} is complete", 30)


def make_due(server: EitherServer, namespace: str) -> None:
    """The next one is due: the last one was long ago."""
    last = MergePatch({"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}})
    server.admin.patch(KIND, namespace, "hourly", last, "status")


def fill_copies(server: EitherServer, namespace: str, name: str) -> VirtualMachineSnapshot:
    def is_there() -> VirtualMachineSnapshot | None:
        found = [each for each in server.admin.list(VirtualMachineSnapshot, namespace) if each.metadata.name == name]
        return found[0] if found else None

    snapshot = wait_until(is_there, f"{name} is made", 30)
    for volume in ("root", "data"):
        fill(server, namespace, f"vmsnapshot-{snapshot.metadata.uid}-volume-{volume}")
    return snapshot


def test_snapshots_are_taken_again_and_old_ones_go(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    ask_schedule(server, namespace)
    wait_until(lambda: ready(server, namespace) == "False SourceDoesNotExist", "there is no VM yet", 30)
    make_vm(server, namespace)
    first = fill_copies(server, namespace, "web-hourly-000001")
    assert (first.metadata.labels[SCHEDULE], first.metadata.labels[SEQUENCE]) == ("hourly", "1")
    wait_for_success(server, namespace, "web-hourly-000001")
    assert ready(server, namespace) == "True Scheduled"
    # Years have been missed: one is taken.
    make_due(server, namespace)
    fill_copies(server, namespace, "web-hourly-000002")
    wait_for_success(server, namespace, "web-hourly-000002")

    def names() -> list[str]:
        return [each.metadata.name for each in server.admin.list(VirtualMachineSnapshot, namespace)]

    wait_until(lambda: names() == ["web-hourly-000002"], "the old one goes", 30)
    # One that is deleted on its way has failed.
    make_due(server, namespace)
    wait_until(lambda: "web-hourly-000003" in names(), "the third is made", 30)
    server.admin.delete(VirtualMachineSnapshot, namespace, "web-hourly-000003")
    wait_until(lambda: ready(server, namespace) == "False SnapshotFailed", "that it failed is told", 30)
    assert schedule_of_test(server, namespace).status.failures == 1
    server.admin.delete(KIND, namespace, "hourly")
    assert "web-hourly-000002" in names()
    assert not vm_of_test(server, namespace).metadata.deletion_timestamp

# Tests: kvedge/controller/snapshots/snapshot_writes.py
"""Guests are frozen and thawed by the verbs that users have, and nothing is taken of one that is not frozen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvedge.controller.snapshots.snapshot_actions import Freeze, Patch, SnapshotPlan, Thaw
from kvedge.controller.snapshots.snapshot_writes import SnapshotWrites
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from tests.support.builders import a_vmi
from tests.support.scripted_api import Script, ScriptedApi, refusing, scripted_api
from tests.unit.controller.snapshots.snapshot_world import World, the_vm

PATH = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/"


def done() -> Script:
    return lambda exchange: exchange.answer(202, b"")


def carry_out(tmp_path: Path, api: ScriptedApi, plan: SnapshotPlan) -> tuple[str, float | None]:
    world = World()
    assert world.snapshot is not None
    client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
    answer = SnapshotWrites(client, EventRecorder(client, "test"), {}).carry_out(world.snapshot, plan)
    client.close()
    return answer


@pytest.fixture
def plan() -> SnapshotPlan:
    return SnapshotPlan((Freeze(a_vmi("Running"), 60), Patch(the_vm(), {"spec": {"runStrategy": "Halted"}})))


@pytest.mark.parametrize("code", [404, 409, 500, 503])
def test_what_follows_a_freeze_that_failed_is_not_done(tmp_path: Path, plan: SnapshotPlan, code: int) -> None:
    with scripted_api(refusing(code, "Refused", "the guest agent does not answer")) as api:
        refusal, wait = carry_out(tmp_path, api, plan)
        assert "the guest agent does not answer" in refusal
        assert wait is None
        (asked,) = api.requests
    assert (asked.method, asked.path) == ("PUT", f"{PATH}{a_vmi('Running').metadata.name}/freeze")
    assert json.loads(asked.body) == {"unfreezeTimeout": "60s"}


def test_a_thaw_that_fails_is_left_to_the_launcher(tmp_path: Path) -> None:
    with scripted_api(refusing(500, "InternalError", "no answer")) as api:
        assert carry_out(tmp_path, api, SnapshotPlan((Thaw(a_vmi("Running")),))) == ("", None)
        assert [each.path.rpartition("/")[2] for each in api.requests] == ["unfreeze"]


def test_what_follows_a_freeze_is_done_on_a_frozen_guest(tmp_path: Path) -> None:
    vmi = a_vmi("Running")
    with scripted_api(done()) as api:
        assert carry_out(tmp_path, api, SnapshotPlan((Freeze(vmi, 60), Thaw(vmi)))) == ("", None)
        assert [each.path.rpartition("/")[2] for each in api.requests] == ["freeze", "unfreeze"]

# Tests: kvedge/controller/snapshots/snapshot_writes.py
"""A write that the server has not judged is no refusal of what was to be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.controller.snapshots.snapshot_actions import Patch, SnapshotPlan
from kvedge.controller.snapshots.snapshot_writes import PassLimits, SnapshotWrites
from kvedge.kube.errors import Unavailable
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from tests.support.scripted_api import refusing, scripted_api
from tests.unit.controller.snapshots.snapshot_world import World, the_vm

NO_ANSWER = 'Internal error occurred: failed calling webhook "mesh.example.com": connection refused'


def test_a_webhook_that_could_not_be_called_has_refused_nothing(tmp_path: Path) -> None:
    world = World()
    world.ask_restore()
    assert world.restore is not None
    plan = SnapshotPlan((Patch(the_vm(), {"spec": {"runStrategy": "Halted"}}),))
    answers = refusing(500, "InternalError", NO_ANSWER), refusing(403, "Forbidden", "no right to it")
    with scripted_api(*answers) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        writes = SnapshotWrites(client, EventRecorder(client, "test"), {})
        with pytest.raises(Unavailable, match="failed calling webhook"):
            writes.carry_out(world.restore, plan)
        assert writes.carry_out(world.restore, plan) == ("no right to it", None)
        client.close()


def test_a_write_whose_answer_is_lost_has_not_been_refused_any_more(tmp_path: Path) -> None:
    world = World()
    world.ask_restore()
    restore = world.restore
    assert restore is not None
    plan = SnapshotPlan((Patch(the_vm(), {"spec": {"runStrategy": "Halted"}}),))
    refusals: dict[str, str] = {}
    with scripted_api(refusing(403, "Forbidden", "no right to it"), refusing(500, "InternalError", NO_ANSWER)) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        writes = SnapshotWrites(client, EventRecorder(client, "test"), {})
        limits = PassLimits(steps=3, refused=5.0)
        writes.settle(lambda: restore, lambda _: plan, refusals, limits)
        assert refusals == {restore.metadata.uid: "no right to it"}
        with pytest.raises(Unavailable):
            writes.settle(lambda: restore, lambda _: plan, refusals, limits)
        assert refusals == {}
        client.close()

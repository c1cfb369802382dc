# Tests: kvedge/controller/snapshots/snapshot_writes.py
"""A write that the server has not judged is no refusal of what was to be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.controller.snapshots.snapshot_actions import Patch, SnapshotPlan
from kvedge.controller.snapshots.snapshot_writes import SnapshotWrites
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

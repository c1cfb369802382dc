# Tests: kvedge/controller/backups/run_plan.py
"""What a worker is told of a repository that earlier backups have gone into."""

from __future__ import annotations

import pytest

from kvedge.controller.backups.run_plan import RunView, plan_run
from kvedge.controller.snapshots.snapshot_actions import Create
from kvedge.resources.codec import decode_json
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backup_job import BACKUP_VARIABLE, BackupJob
from tests.support.builders import CONFIG
from tests.support.values import replace
from tests.unit.controller.backups.backup_world import World


@pytest.mark.parametrize("is_known", [False, True])
def test_the_worker_makes_no_repository_in_the_place_of_one_that_had_backups(*, is_known: bool) -> None:
    world = World()
    world.ask_backup()
    world.have_snapshot()
    assert world.run is not None
    view = RunView(world.run, world.repository, world.vm, world.snapshot, world.content, world.claims, None, CONFIG)
    plan = plan_run(replace(view, is_known=is_known), world.now)
    (pod,) = [each.item for each in plan.actions if isinstance(each, Create) and isinstance(each.item, Pod)]
    text = next(env.value or "" for env in pod.spec.containers[0].env if env.name == BACKUP_VARIABLE)
    assert decode_json(BackupJob, text).is_known is is_known

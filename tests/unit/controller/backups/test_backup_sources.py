# Tests: kvedge/controller/backups/backup_sources.py
"""A Pod that has the name of a worker and is none is told, for each kind that has workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kvedge.controller.backups.backup_sources import find_stranger, find_worker
from kvedge.controller.backups.worker_pods import worker_pod
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backup_job import BackupJob
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backups import BackupRepository, BackupRepositorySpec, BackupRun
from tests.support.builders import CONFIG

META = ObjectMeta(name="nightly", namespace="default", uid="u-1")


def sources(pod: Pod) -> Any:
    return SimpleNamespace(workers=SimpleNamespace(get=lambda _namespace, name: pod if name == "prune-u-1" else None))


@pytest.mark.parametrize("kind", [BackupTask, BackupRun])
def test_a_pod_of_somebody_s_in_a_worker_s_place_is_no_worker_and_is_told(kind: type[BackupTask | BackupRun]) -> None:
    owner = kind(metadata=META)
    found = sources(Pod(metadata=ObjectMeta(name="prune-u-1", namespace="default")))
    assert find_worker(found, owner, "prune") is None
    assert find_stranger(found, owner, "prune").startswith("Pod prune-u-1 is in the way")


def test_a_worker_is_no_stranger() -> None:
    task = BackupTask(metadata=META)
    repository = BackupRepository(metadata=META, spec=BackupRepositorySpec(url="s3:https://store/b", secret_name="s"))
    pod = worker_pod(task, BackupJob(mode="prune", repository="s3:https://store/b"), repository, {}, CONFIG)
    assert find_worker(sources(pod), task, "prune") is pod
    assert find_stranger(sources(pod), task, "prune") == ""

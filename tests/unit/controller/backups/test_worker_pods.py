"""Which Pods count as a backup's worker: what kvedge makes, and nothing that only looks like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvedge.controller.backups.worker_pods import is_worker
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.backups import BackupRun
from tests.unit.controller.backups.backup_world import UID, World


def a_worker() -> tuple[Pod, BackupRun]:
    world = World()
    world.ask_backup()
    world.have_snapshot()
    world.settle()
    assert world.run is not None
    return world.pods[f"backup-{UID}"], world.run


def test_what_the_plan_makes_is_a_worker_for_its_errand_alone() -> None:
    pod, run = a_worker()
    assert is_worker(pod, run, "backup")
    assert not is_worker(pod, run, "restore")


def change(*path: Any, to: Any) -> Callable[[JsonObject], None]:
    def apply(document: JsonObject) -> None:
        found: Any = document
        for step in path[:-1]:
            found = found[step]
        found[path[-1]] = to

    return apply


CONTAINER = ("spec", "containers", 0)


@pytest.mark.parametrize(
    "changed",
    [
        change("metadata", "labels", to={}),
        change("metadata", "ownerReferences", to=[]),
        change("metadata", "ownerReferences", 0, "kind", to="BackupRestore"),
        change("metadata", "ownerReferences", 0, "uid", to="another"),
        change(*CONTAINER, "command", to=["true"]),
        change(*CONTAINER, "args", to=["--more"]),
        change(*CONTAINER, "image", to="example.com/other"),
        change(*CONTAINER, "env", to=[]),
        change("spec", "serviceAccountName", to="admin"),
        change("spec", "automountServiceAccountToken", to=True),
        change("spec", "containers", to=[]),
    ],
    ids=[
        "no label", "no owner", "another kind", "another owner", "another command", "more words", "another image",
        "no errand", "an account", "a token", "no container",
    ],
)  # fmt: skip
def test_a_pod_that_only_has_its_name_is_none(changed: Callable[[JsonObject], None]) -> None:
    pod, run = a_worker()
    document = encode(pod)
    changed(document)
    assert not is_worker(decode(Pod, document), run, "backup")

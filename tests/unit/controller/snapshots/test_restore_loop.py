"""A restore that is deleted ends, also while a webhook that judges the VM cannot be called."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kvedge.controller.snapshots import restore_loop
from kvedge.controller.snapshots.restore_loop import RestoreLoop
from kvedge.controller.snapshots.snapshot_actions import SnapshotPlan
from kvedge.kube.errors import Unavailable
from kvedge.kube.work_queue import Key
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore
from kvedge.runtime.clock import rfc3339

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Unanswered:
    """Writes that a webhook would have to judge, and cannot."""

    def __init__(self) -> None:
        self.waits = 0

    def settle(self, *_: object) -> None:
        raise Unavailable(500, "InternalError", "failed calling webhook")

    def carry_out(self, *_: object) -> None:
        self.waits += 1


@pytest.mark.parametrize(
    ("deleted", "gives_up"),
    [(None, False), (10, False), (300, True)],
    ids=["it is wanted", "just deleted", "long deleted"],
)
def test_a_deleted_restore_takes_a_webhook_that_is_away_for_a_refusal_in_the_end(
    monkeypatch: pytest.MonkeyPatch, deleted: int | None, gives_up: bool
) -> None:
    when = None if deleted is None else rfc3339(NOW - timedelta(seconds=deleted))
    restore = VirtualMachineRestore(metadata=ObjectMeta(name="r", namespace="n", uid="u", deletion_timestamp=when))
    loop: Any = RestoreLoop.__new__(RestoreLoop)
    loop._restores, loop._writes, loop._refusals = SimpleNamespace(get=lambda *_: restore), Unanswered(), {}
    loop._sources = SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW))
    loop._view = lambda _: None
    monkeypatch.setattr(restore_loop, "wait_for", lambda *_: SnapshotPlan())
    assert loop.reconcile(Key("n", "r")) is not None
    assert loop._writes.waits == 1
    assert ("u" in loop._refusals) == gives_up

"""How a user sees a migration through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvedge.client.errors import NotFoundError, RefusedError, TimedOutError
from kvedge.client.kubeconfigs import load_kubeconfigs
from kvedge.client.migrations import MigrationWait, describe_progress, describe_step, find_active
from kvedge.client.session import Session, connect
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from tests.support.scripted_api import Exchange, scripted_api
from tests.unit.client.test_vm_wait import Lines

STATE = {"migrationUid": "m1", "sourceNode": "node-1", "targetNode": "node-2"}


def migration(phase: str = "", uid: str = "m1", **status: Any) -> JsonObject:
    made = {"name": uid, "namespace": "default", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": made, "spec": {"vmiName": "web"}, "status": {"phase": phase, **status}}


@contextmanager
def looking_at(
    lists: list[list[JsonObject]],
    folder: Path,
    state: JsonObject | None = None,
    warning: str = "",
    progress: JsonObject | None = None,
) -> Iterator[Session]:
    """The migrations of a VM as they are listed, one list after the other; the last one stays."""

    def script(exchange: Exchange) -> None:
        path = exchange.request.path
        if path.endswith("/virtualmachineinstances/web/migration"):
            exchange.answer(200 if progress else 500, progress or {})
        elif path.endswith("/virtualmachineinstances/web"):
            exchange.answer(200, {"metadata": {"name": "web"}, "spec": {}, "status": {"migrationState": state}})
        elif path.endswith("/events"):
            about = {"kind": "VirtualMachineInstanceMigration", "name": "m1", "uid": "m1"}
            event = {"metadata": {"name": "e"}, "involvedObject": about, "type": "Warning", "message": warning}
            exchange.answer(200, {"items": [event] if warning else [], "metadata": {}})
        else:
            exchange.answer(200, {"items": lists.pop(0) if len(lists) > 1 else lists[0], "metadata": {}})

    with scripted_api(script) as api:
        session = connect(load_kubeconfigs((api.write_kubeconfig(folder / "kubeconfig"),), None))
        yield session
        session.client.close()


def wait_for(session: Session, lines: Lines | None = None, timeout: float = 30.0) -> MigrationWait:
    shown = lines or Lines()
    return MigrationWait(session, "web", timeout, lambda: shown)


def test_a_guest_that_moves_is_followed_through_its_phases(tmp_path: Path) -> None:
    lines, old = Lines(), migration("Succeeded", "m0")
    lists = [[old], [old], [old, migration("Scheduling")], [old, migration("Running")], [old, migration("Succeeded")]]
    sent = {"state": "Active", "leftBytes": 3 << 20, "totalBytes": 9 << 20, "memoryRateBytes": 1 << 20}
    with looking_at(lists, tmp_path, {**STATE, "completed": True}, progress=sent) as session:
        assert wait_for(session, lines).wait_until_moved() == "VM web moved from node-1 to node-2"
    assert lines.shown == [
        "web: not seen by the controller yet",
        "web: Scheduling",
        "web: Running: 3.0 MiB left of 9.0 MiB, 1.0 MiB/s, about 4 s",
    ]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"state": "None"}, ""),
        ({"state": "Active"}, ""),
        ({"state": "Kept", "totalBytes": 9}, ""),
        ({"state": "Active", "leftBytes": 4, "totalBytes": 9}, "4 B left of 9 B"),
    ],
    ids=["does not move", "has just begun", "stays", "at no known rate"],
)
def test_what_is_left_is_told_as_far_as_it_is_known(found: JsonObject, text: str) -> None:
    assert describe_progress(found) == text


@pytest.mark.parametrize(
    ("ended", "state", "warning", "reason"),
    [
        pytest.param([migration("Failed")], {**STATE, "failureReason": "no space"}, "", "no space", id="of the VMI"),
        pytest.param(
            [migration("Failed", migrationState={"migrationUid": "m1", "failureReason": "the wire broke"})],
            {**STATE, "migrationUid": "m2"},
            "",
            "the wire broke",
            id="of the migration",
        ),
        pytest.param([migration("Failed")], None, "no node is free", "no node is free", id="of an event"),
        pytest.param([migration("Failed")], None, "", "the migration says no reason", id="none"),
        pytest.param([], STATE, "", "it was cancelled", id="cancelled"),
    ],
)
def test_a_migration_that_fails_is_told_with_its_reason(
    ended: list[JsonObject], state: JsonObject | None, warning: str, reason: str, tmp_path: Path
) -> None:
    with (
        looking_at([[], [migration("Running")], ended], tmp_path, state, warning) as session,
        pytest.raises(RefusedError, match=f"^the migration of VM web failed: {reason}$"),
    ):
        wait_for(session).wait_until_moved()


def test_a_migration_that_is_gone_is_judged_by_what_its_vmi_says(tmp_path: Path) -> None:
    with looking_at([[], [migration("Running")], []], tmp_path, {**STATE, "completed": True}) as session:
        assert wait_for(session).wait_until_moved() == "VM web moved from node-1 to node-2"


@pytest.mark.parametrize(
    ("ended", "took"), [("2026-01-01T00:00:12Z", " in 12 s"), ("2025-12-31T23:59:59Z", " in 0 s"), ("soon", "")]
)
def test_how_long_it_took_is_told_as_far_as_the_clocks_agree(ended: str, took: str, tmp_path: Path) -> None:
    state = {**STATE, "completed": True, "startTimestamp": "2026-01-01T00:00:00Z", "endTimestamp": ended}
    with looking_at([[], [migration("Succeeded")]], tmp_path, state) as session:
        assert wait_for(session).wait_until_moved() == f"VM web moved from node-1 to node-2{took}"


def test_waiting_ends_in_time_and_says_how_to_have_the_guest_stay(tmp_path: Path) -> None:
    with (
        looking_at([[], [migration("Scheduling")]], tmp_path, warning="0/2 nodes are available") as session,
        pytest.raises(TimedOutError) as caught,
    ):
        wait_for(session, timeout=0.0).wait_until_moved()
    assert caught.value.text == (
        "timed out after 0 s waiting for VM web to move: Scheduling: 0/2 nodes are available; "
        "`kvedge migrate-cancel web` has it stay"
    )


@pytest.mark.parametrize(
    ("ended", "state", "said"),
    [
        ([migration("Failed")], STATE, "VM web stays on node-1"),
        ([], None, "VM web stays where it is"),
        ([migration("Succeeded")], {**STATE, "completed": True}, "VM web had moved already from node-1 to node-2"),
    ],
    ids=["kept", "gone", "too late"],
)
def test_a_migration_that_is_cancelled_is_seen_through(
    ended: list[JsonObject], state: JsonObject | None, said: str, tmp_path: Path
) -> None:
    active = migration("Running")
    with looking_at([[active], [active], [active], ended], tmp_path, state) as session:
        wait = wait_for(session)
        assert wait.wait_until_cancelled(find_active(session, "web")) == said


def test_where_nothing_moves_there_is_nothing_to_cancel(tmp_path: Path) -> None:
    with (
        looking_at([[migration("Succeeded")]], tmp_path) as session,
        pytest.raises(NotFoundError, match="Found no migration to cancel for web"),
    ):
        find_active(session, "web")


def test_what_a_migration_waits_for_is_part_of_its_step() -> None:
    condition = {"type": "migrationRejectedByResourceQuota", "status": "True", "message": "the quota is used up"}
    waiting = decode(VirtualMachineInstanceMigration, migration("Pending", conditions=[condition]))
    assert describe_step(waiting) == "Pending: the quota is used up"

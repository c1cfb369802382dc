"""A VM's snapshots and migrations on its page: listed, taken, put back, deleted; begun and ended.

Called by `page_calls` in threads of their own, with the user's own rights. Raises what the client raises.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from kvedge.client.errors import FlagError
from kvedge.client.migrations import cancel, describe_step, find_active, list_migrations
from kvedge.client.session import Session, check_name
from kvedge.client.snapshots import (
    describe_restore,
    describe_snapshot,
    find_snapshot,
    list_snapshots,
    name_snapshot,
    restore_snapshot,
    take_snapshot,
)
from kvedge.client.subresources import VM, put
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import Preconditions
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.memory_saves import find_memory_fault
from kvedge.resources.disks.snapshot_names import SNAPSHOT_MEMORY
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.web.texts.shown_text import showable
from kvedge.web.vms.namespace_session import enter_namespace

_MOST: Final = 200
_LONGEST: Final = 1024


def read_snapshots(session: Session, namespace: str, vm: str) -> JsonObject:
    """The snapshots of a VM, the newest first, and what is being put back into it."""
    here = enter_namespace(session, namespace)
    snapshots = list_snapshots(here, check_name(vm), here.namespace)[::-1]
    restores = [each for each in here.client.list(VirtualMachineRestore, here.namespace) if each.spec.target.name == vm]
    run = _find_run(here, vm)
    return {
        # Of a VM that runs: why its memory cannot be saved, and nothing when it can.
        "runs": run is not None,
        "noMemory": "" if run is None else showable(find_memory_fault(vm, run), _LONGEST),
        "snapshots": [_snapshot(each) for each in snapshots[:_MOST]],
        "restores": [_restore(each) for each in restores if not each.is_final][:_MOST],
        # Whether it is worth looking again.
        "moves": any(not each.is_final for each in snapshots) or any(not each.is_final for each in restores),
    }


def take(session: Session, namespace: str, vm: str, body: JsonObject) -> JsonObject:
    """Ask for a snapshot, with the guest's memory where `memory` is true; without a name it gets one that sorts by
    time.

    Raises:
        FlagError: for a body that makes no sense.
    """
    name, memory = body.get("name", ""), body.get("memory", False)
    if not isinstance(name, str):
        raise FlagError("name", "must be a text", "name: must be a text")
    if not isinstance(memory, bool):
        raise FlagError("memory", "must be true or false", "memory: must be true or false")
    named = name or name_snapshot(vm, datetime.now(UTC))
    take_snapshot(enter_namespace(session, namespace), vm, named, memory=memory)
    return {"name": showable(named)}


def restore(session: Session, namespace: str, vm: str, name: str) -> JsonObject:
    """Ask for a snapshot to be put back into its VM, which must not run."""
    here = enter_namespace(session, namespace)
    restore_snapshot(here, find_snapshot(here, vm, name), vm, datetime.now(UTC))
    return {}


def delete(session: Session, namespace: str, vm: str, name: str) -> JsonObject:
    """Delete a snapshot of that VM, and none that has its name since."""
    here = enter_namespace(session, namespace)
    found = find_snapshot(here, vm, name)
    here.client.delete(
        VirtualMachineSnapshot, here.namespace, name, preconditions=Preconditions(uid=found.metadata.uid)
    )
    return {}


def read_migrations(session: Session, namespace: str, vm: str) -> JsonObject:
    """The migrations of a VM that are still listed, the newest first."""
    found = list_migrations(enter_namespace(session, namespace), vm)
    newest = sorted(found, key=lambda each: each.metadata.creation_timestamp or "", reverse=True)
    return {
        "migrations": [_migration(each) for each in newest[:_MOST]],
        "moves": any(not each.is_final for each in found),
    }


def migrate(session: Session, namespace: str, vm: str) -> JsonObject:
    """Ask for another node."""
    put(enter_namespace(session, namespace), VM, vm, "migrate", {})
    return {}


def cancel_migration(session: Session, namespace: str, vm: str) -> JsonObject:
    """Have it stay."""
    here = enter_namespace(session, namespace)
    cancel(here, find_active(here, vm), dry_run=False)
    return {}


def _find_run(here: Session, vm: str) -> VirtualMachineInstance | None:
    try:
        run = here.client.get(VirtualMachineInstance, here.namespace, vm)
    except NotFound:
        return None
    return None if run.is_final else run


def _snapshot(found: VirtualMachineSnapshot) -> JsonObject:
    volumes = found.status.snapshot_volumes
    return {
        "name": showable(found.metadata.name),
        "phase": showable(found.status.phase or "-"),
        "ready": bool(found.status.ready_to_use),
        "taken": showable(found.status.creation_time or ""),
        "volumes": [showable(name) for name in (volumes.included_volumes if volumes else [])[:_MOST]],
        "memory": found.metadata.annotations.get(SNAPSHOT_MEMORY) == "true",
        "waits": showable(describe_snapshot(found), _LONGEST),
    }


def _restore(found: VirtualMachineRestore) -> JsonObject:
    return {
        "name": showable(found.metadata.name),
        "snapshot": showable(found.spec.virtual_machine_snapshot_name),
        "waits": showable(describe_restore(found), _LONGEST),
    }


def _migration(found: VirtualMachineInstanceMigration) -> JsonObject:
    state = found.status.migration_state
    return {
        "created": showable(found.metadata.creation_timestamp or ""),
        "step": showable(describe_step(found), _LONGEST),
        "from": showable(state.source_node if state else ""),
        "to": showable(state.target_node if state else ""),
        "failure": showable(state.failure_reason if state else "", _LONGEST),
        "active": not found.is_final,
    }

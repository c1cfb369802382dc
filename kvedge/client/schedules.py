"""Snapshot schedules as their users see them: made, listed, and what is wrong with each.

Called by the verbs of `kvedge snapshot`. Reads and writes the API; functions that judge are pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.client.errors import NotFoundError
from kvedge.client.session import Session, check_name
from kvedge.kube.errors import AlreadyExists
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.meta import condition
from kvedge.resources.types.protection.schedules import VirtualMachineSnapshotSchedule
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.nearest_names import or_nearest

HEADER: Final = ["NAME", "VM", "EVERY", "KEEP", "LAST SUCCESS", "NEXT", "WRONG"]


def schedule_snapshots(session: Session, vm: str, name: str, every: str, keep: int) -> VirtualMachineSnapshotSchedule:
    """Have snapshots of a VM taken; a schedule of that name and VM gets the new times.

    Raises:
        KubeError: when the server refuses, or there is no such VM.
    """
    session.client.get(VirtualMachine, session.namespace, check_name(vm))
    kind = VirtualMachine.KIND
    source = {"apiGroup": kind.group, "kind": kind.kind, "name": vm}
    spec: JsonObject = {"source": source, "every": every, "keep": keep}
    metadata = {"name": check_name(name), "namespace": session.namespace}
    try:
        return session.client.create(decode(VirtualMachineSnapshotSchedule, {"metadata": metadata, "spec": spec}))
    except AlreadyExists:
        # Admission refuses it where it is another VM's.
        return session.client.patch(
            VirtualMachineSnapshotSchedule, session.namespace, name, MergePatch({"spec": {**spec, "suspend": None}})
        )


def list_schedules(session: Session, vm: str | None, namespace: str | None) -> list[VirtualMachineSnapshotSchedule]:
    """All schedules of a namespace, or those of one VM."""
    found = session.client.list(VirtualMachineSnapshotSchedule, namespace)
    chosen = [each for each in found if vm is None or each.spec.source.name == vm]
    return sorted(chosen, key=lambda each: (each.metadata.namespace, each.metadata.name))


def delete_schedules(session: Session, vm: str, names: tuple[str, ...]) -> list[str]:
    """Delete schedules of a VM, all unless some are named; their snapshots stay.

    Raises:
        NotFoundError: when there is none of a name.
    """
    known = sorted(each.metadata.name for each in list_schedules(session, check_name(vm), session.namespace))
    for name in names:
        if name not in known:
            raise NotFoundError(f'schedule "{name}" of VM {vm} not found.{or_nearest(name, known)}')
    if not known:
        raise NotFoundError(f"VM {vm} has no snapshot schedule")
    for name in names or known:
        session.client.delete(VirtualMachineSnapshotSchedule, session.namespace, name)
    return list(names or known)


def describe_schedule(schedule: VirtualMachineSnapshotSchedule) -> str:
    """What is wrong with it; empty when nothing is."""
    found = condition(schedule.status.conditions, "Ready")
    if found is None:
        return "not seen by the controller yet"
    return "" if found.status == "True" else f"{found.reason}: {found.message}"


def make_cells(schedule: VirtualMachineSnapshotSchedule, *, with_namespace: bool) -> list[str]:
    """One row of the list."""
    spec, status = schedule.spec, schedule.status
    cells = [
        schedule.metadata.name,
        spec.source.name,
        spec.every,
        str(spec.keep or "-"),
        status.last_success_time or "-",
        "suspended" if spec.suspend else status.next_schedule_time or "-",
        describe_schedule(schedule) or "-",
    ]
    return [schedule.metadata.namespace, *cells] if with_namespace else cells

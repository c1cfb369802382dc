"""Schedules of backups as their users see them: made, listed, and what is wrong with each.

Called by the verbs of `kvedge backup`. Reads and writes the API; functions that judge are pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kvedge.client.backups import find_repository
from kvedge.client.errors import NotFoundError
from kvedge.client.session import Session, check_name
from kvedge.kube.errors import AlreadyExists
from kvedge.kube.patches import JsonPatch
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.meta import condition
from kvedge.resources.types.protection.backup_schedules import BackupSchedule
from kvedge.resources.types.protection.backup_tasks import KeepRules
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.nearest_names import or_nearest

HEADER: Final = ["NAME", "VMS", "TO", "WHEN", "KEEP", "LAST SUCCESS", "NEXT", "WRONG"]
_DAYS: Final = re.compile(r"([0-9]{1,4})([dw])")
_HOURS: Final = {"d": 24, "w": 7 * 24}


def in_hours(text: str) -> str:
    """A duration in the API's words, which know neither days nor weeks.

    >>> in_hours("1d"), in_hours("2w"), in_hours("90m")
    ('24h', '336h', '90m')
    """
    found = _DAYS.fullmatch(text)
    return f"{int(found[1]) * _HOURS[found[2]]}h" if found else text


def schedule_backups(session: Session, name: str, spec: JsonObject) -> tuple[BackupSchedule, bool]:
    """Have backups made; a schedule of that name is written anew. The schedule, and whether it was there.

    Raises:
        KubeError: when the server refuses, or there is no such VM or repository.
    """
    for vm in spec.get("vmNames", []):
        session.client.get(VirtualMachine, session.namespace, check_name(vm))
    find_repository(session, spec["repositoryName"])
    metadata = {"name": check_name(name), "namespace": session.namespace}
    try:
        return session.client.create(decode(BackupSchedule, {"metadata": metadata, "spec": spec})), False
    except AlreadyExists:
        # Nothing of the old one stays: labels of two selectors together would mean fewer VMs than either.
        body = JsonPatch([{"op": "replace", "path": "/spec", "value": spec}])
        return session.client.patch(BackupSchedule, session.namespace, name, body), True


def list_schedules(session: Session, namespace: str | None) -> list[BackupSchedule]:
    """All schedules of a namespace."""
    found = session.client.list(BackupSchedule, namespace)
    return sorted(found, key=lambda each: (each.metadata.namespace, each.metadata.name))


def delete_schedules(session: Session, names: Sequence[str]) -> None:
    """Delete schedules; what they have made stays.

    Raises:
        NotFoundError: when there is none of a name; then none is deleted.
    """
    known = [each.metadata.name for each in list_schedules(session, session.namespace)]
    for name in names:
        if name not in known:
            raise NotFoundError(f'schedule "{name}" not found.{or_nearest(name, known)}')
    for name in names:
        session.client.delete(BackupSchedule, session.namespace, name)


def describe_schedule(schedule: BackupSchedule) -> str:
    """What is wrong with it; empty when nothing is."""
    found = condition(schedule.status.conditions, "Ready")
    if found is None:
        return "not seen by the controller yet"
    return "" if found.status == "True" else f"{found.reason}: {found.message}"


def make_cells(schedule: BackupSchedule, *, with_namespace: bool) -> list[str]:
    """One row of the list."""
    spec, status = schedule.spec, schedule.status
    names = [*spec.vm_names, *(["(selected)"] if spec.selector is not None else [])]
    cells = [
        schedule.metadata.name,
        ",".join(names[:3]) + (f" +{len(names) - 3}" if len(names) > 3 else ""),
        spec.repository_name,
        spec.cron or spec.every,
        describe_keep(spec.keep),
        status.last_success_time or "-",
        "suspended" if spec.suspend else status.next_schedule_time or "-",
        describe_schedule(schedule) or "-",
    ]
    return [schedule.metadata.namespace, *cells] if with_namespace else cells


def describe_keep(keep: KeepRules | None) -> str:
    """The rules in a few letters.

    >>> describe_keep(KeepRules(daily=7, weekly=4)), describe_keep(None)
    ('7 daily, 4 weekly', 'all')
    """
    if keep is None or keep.is_empty:
        return "all"
    return ", ".join(f"{count} {name}" for name in KeepRules.__struct_fields__ if (count := getattr(keep, name)))

"""A DataImportCron's status: what is imported, what is good, and whether that is the newest.

Called by cron_plan.py. Pure. Words are CDI's.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.controller.datavolumes.cdi_conditions import with_condition
from kvedge.resources.types.data_import_cron import DataImportCron, DataImportCronStatus, ImportStatus
from kvedge.resources.types.data_volumes import CdiCondition, DataVolume, ObjectName, data_volume_condition
from kvedge.runtime.clock import rfc3339

PROGRESSING: Final = "Progressing"
UP_TO_DATE: Final = "UpToDate"
_FORMAT: Final = "pvc"


class Outlook(Struct):
    """What is wanted by its digest and name, its import, the newest good one, and what is in the way."""

    digest: str = ""
    name: str = ""
    good: DataVolume | None = None
    trouble: str = ""
    importing: DataVolume | None = None
    executed: str | None = None
    # Something else has the name of what is wanted.
    in_the_way: bool = False


def next_status(cron: DataImportCron, outlook: Outlook, now: datetime) -> DataImportCronStatus:
    """The whole status."""
    old, good = cron.status, outlook.good
    status = msgspec.structs.replace(old, source_format=_FORMAT)
    status.last_execution_timestamp = outlook.executed or old.last_execution_timestamp
    if outlook.name:
        status.current_imports = [ImportStatus(data_volume_name=outlook.name, digest=outlook.digest)]
    if good is not None:
        imported = ObjectName(name=good.metadata.name, namespace=cron.metadata.namespace)
        if imported != old.last_imported_pvc:
            status.last_imported_pvc, status.last_import_timestamp = imported, rfc3339(now)
    for condition in _conditions(outlook):
        status.conditions = with_condition(status.conditions, condition, now)
    return status


def _conditions(outlook: Outlook) -> tuple[CdiCondition, CdiCondition]:
    wanted, good = outlook.importing, outlook.good
    told = f"the source was not reached: {outlook.trouble}" if outlook.name or good is not None else outlook.trouble
    if good is not None and good.metadata.name == outlook.name:
        fresh = ("True", UP_TO_DATE, told if outlook.trouble else "")
    elif not outlook.name:
        fresh = ("False", "NoDigest", told)
    elif outlook.in_the_way:
        text = f"DataVolume {outlook.name} exists and is not this DataImportCron's, which needs the name: delete it"
        fresh = ("False", "Outdated", text)
    elif wanted is not None and wanted.status.phase == "Failed":
        running = data_volume_condition(wanted.status.conditions, "Running")
        why = "" if running is None else f": {running.message}"
        fresh = ("False", "Outdated", f"DataVolume {outlook.name} has failed{why}")
    else:
        fresh = ("False", "ImportProgressing", f"DataVolume {outlook.name} is imported")
    if fresh[0] == "False" and good is not None:
        kept = f"DataSource points at {good.metadata.name} meanwhile"
        fresh = (*fresh[:2], f"{fresh[2]}; {kept}" if fresh[2] else kept)
    is_importing = fresh[1] == "ImportProgressing"
    progress = (
        ("True", "ImportScheduled" if wanted is None else "ImportProgressing")
        if is_importing
        else ("False", "NoImport")
    )
    return (
        CdiCondition(type=PROGRESSING, status=progress[0], reason=progress[1]),
        CdiCondition(type=UP_TO_DATE, status=fresh[0], reason=fresh[1], message=fresh[2]),
    )

"""CDI's conditions with their two times: of the last change of status, and of the last change of anything.

Used for the status of DataVolumes, DataImportCrons, DataSources and StorageProfiles. Pure.
"""

from __future__ import annotations

from datetime import datetime

from kvedge.resources.types.data_volumes import CdiCondition, data_volume_condition
from kvedge.runtime.clock import rfc3339


def date_condition(conditions: list[CdiCondition], made: CdiCondition, now: datetime) -> CdiCondition:
    """The condition with its times: those that it has among `conditions`, as far as it says the same."""
    old, stamp = data_volume_condition(conditions, made.type), rfc3339(now)
    made.last_transition_time = made.last_heartbeat_time = stamp
    if old is not None and old.status == made.status:
        made.last_transition_time = old.last_transition_time
        if (old.reason, old.message) == (made.reason, made.message):
            made.last_heartbeat_time = old.last_heartbeat_time
    return made


def with_condition(conditions: list[CdiCondition], made: CdiCondition, now: datetime) -> list[CdiCondition]:
    """The conditions with this one in its place, or at the end where it is new."""
    made = date_condition(conditions, made, now)
    if all(item.type != made.type for item in conditions):
        return [*conditions, made]
    return [made if item.type == made.type else item for item in conditions]

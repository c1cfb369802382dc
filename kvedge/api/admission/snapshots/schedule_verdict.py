"""Whether a snapshot schedule may enter.

Called by admission_plan.py. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.snapshots.snapshot_verdict import names_a_vm
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.types.protection.schedules import (
    VirtualMachineSnapshotSchedule,
    VirtualMachineSnapshotScheduleSpec,
)
from kvedge.resources.values.durations import DurationError, parse_duration

_SPEC: Final = Field("spec")
# Each takes a copy of all disks.
_SHORTEST_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 366 * 86400.0
_MOST_KEPT: Final = 1000
# The schedule's name becomes a label's value.
_LONGEST_NAME: Final = 63


def judge_schedule(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of a schedule."""
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(VirtualMachineSnapshotSchedule, body_of(document), Field("")))
    try:
        schedule = decode(VirtualMachineSnapshotSchedule, document)
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    if len(schedule.metadata.name) > _LONGEST_NAME:
        at = Field("metadata.name")
        causes.append(invalid_value(at, schedule.metadata.name, f"at most {_LONGEST_NAME} characters"))
    causes += [*names_a_vm(schedule.spec.source, _SPEC.at("source")), *_is_sane(schedule.spec)]
    old = request.old_object
    if old is not None and (old.get("spec") or {}).get("source") != (document.get("spec") or {}).get("source"):
        text = "spec.source: snapshots of another VM would take the place of this one's: make another schedule"
        causes.append(Cause(_SPEC.at("source"), text))
    return Verdict(tuple(distinct(causes)))


def _is_sane(spec: VirtualMachineSnapshotScheduleSpec) -> Iterator[Cause]:
    at = _SPEC.at("every")
    try:
        every = parse_duration(spec.every)
    except DurationError as error:
        yield invalid_value(at, spec.every, f"{error}: write it as 1h or 30m")
    else:
        if not _SHORTEST_SECONDS <= every <= _LONGEST_SECONDS:
            yield invalid_value(at, spec.every, "between a minute and a year")
    if spec.keep is not None and not 1 <= spec.keep <= _MOST_KEPT:
        yield invalid_value(_SPEC.at("keep"), str(spec.keep), f"between 1 and {_MOST_KEPT}: the last one always stays")

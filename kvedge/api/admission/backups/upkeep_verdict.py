"""Whether a schedule of backups, a task in a repository or a test of a backup may enter.

Called by admission_plan.py. Pure. Whether there are such VMs and such a repository is no matter of admission: the
object waits, and says for what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.backups.backup_fields import duration_is_one, is_backup_id, is_name, is_unchanged, is_vm
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.label_selectors import selector_problems
from kvedge.resources.types.protection.backup_schedules import MOST_VMS, BackupSchedule, BackupScheduleSpec
from kvedge.resources.types.protection.backup_tasks import MOST_PARTS, BackupTask, BackupTaskSpec, KeepRules
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.values.cron_schedule import IllegalSchedule, due_after

_SPEC: Final = Field("spec")
# The schedule's name becomes a label's value.
_LONGEST_NAME: Final = 63
# Each takes a snapshot of all disks and reads them whole.
_SHORTEST_SECONDS: Final = 300.0
_LONGEST_SECONDS: Final = 366 * 86400.0
_MOST_KEPT: Final = 10000
_MOST_IDS: Final = 100
_LONGEST_BOOT: Final = 3600
# Any moment serves to see whether an expression is one.
_A_MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)


def judge_backup_schedule(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of a schedule; what it says may change."""
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(BackupSchedule, body_of(document), Field("")))
    try:
        schedule = decode(BackupSchedule, document)
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    name, spec = schedule.metadata.name, schedule.spec
    if len(name) > _LONGEST_NAME:
        causes.append(invalid_value(Field("metadata.name"), name, f"at most {_LONGEST_NAME} characters"))
    causes += [
        *is_name(spec.repository_name, _SPEC.at("repositoryName"), "the BackupRepository"),
        *_means_vms(spec),
        *_has_times(spec),
        *(_keeps_some(spec.keep) if spec.keep is not None else ()),
        *duration_is_one(spec.deadline, _SPEC.at("deadline")),
        *_has_history(spec),
        *_parts_are_sane(spec.verify_parts, _SPEC.at("verifyParts")),
    ]
    return Verdict(tuple(distinct(causes)))


def judge_task(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of a task, which cannot be changed."""
    if request.old_object is not None:
        return Verdict(tuple(is_unchanged(request.old_object, document)))
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(BackupTask, body_of(document), Field("")))
    try:
        spec = decode(BackupTask, document).spec
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    at = _SPEC.at("action")
    if spec.action not in ("Prune", "Verify", "List"):
        causes.append(invalid_value(at, spec.action, "must be Prune, Verify or List"))
    causes += [
        *is_name(spec.repository_name, _SPEC.at("repositoryName"), "the BackupRepository"),
        *duration_is_one(spec.deadline, _SPEC.at("deadline")),
        *_fits_action(spec),
        *(_prunes_clearly(spec) if spec.action == "Prune" else ()),
        *_parts_are_sane(spec.parts, _SPEC.at("parts")),
    ]
    return Verdict(tuple(distinct(causes)))


def judge_test(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of a test of a backup, which cannot be changed."""
    if request.old_object is not None:
        return Verdict(tuple(is_unchanged(request.old_object, document)))
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(BackupTest, body_of(document), Field("")))
    try:
        spec = decode(BackupTest, document).spec
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    causes += [
        *is_vm(spec.vm_name, _SPEC.at("vmName")),
        *is_name(spec.repository_name, _SPEC.at("repositoryName"), "the BackupRepository"),
        *(is_name(spec.vm_namespace, _SPEC.at("vmNamespace"), "the namespace") if spec.vm_namespace else ()),
        *(is_backup_id(spec.backup_id, _SPEC.at("backupID")) if spec.backup_id else ()),
        *duration_is_one(spec.deadline, _SPEC.at("deadline")),
    ]
    if spec.seconds is not None and not 1 <= spec.seconds <= _LONGEST_BOOT:
        causes.append(invalid_value(_SPEC.at("seconds"), str(spec.seconds), f"between 1 and {_LONGEST_BOOT}"))
    return Verdict(tuple(distinct(causes)))


def _means_vms(spec: BackupScheduleSpec) -> Iterator[Cause]:
    if not spec.vm_names and spec.selector is None:
        yield required_cause(_SPEC, "spec: vmNames or selector must say which VMs; an empty selector means all")
    yield from _are_vms(spec.vm_names)
    if spec.selector is not None:
        at = _SPEC.at("selector")
        for path, text in selector_problems(spec.selector):
            yield Cause(at.at(path) if path else at, f"{at}{f'.{path}' if path else ''}: {text}")


def _are_vms(names: Sequence[str]) -> Iterator[Cause]:
    at = _SPEC.at("vmNames")
    if len(names) > MOST_VMS:
        yield Cause(at, f"{at}: at most {MOST_VMS} VMs: make another one for the rest")
        return
    for index, name in enumerate(names):
        yield from is_vm(name, at.item(index))


def _has_times(spec: BackupScheduleSpec) -> Iterator[Cause]:
    if bool(spec.every) == bool(spec.cron):
        yield required_cause(_SPEC, "spec: one of every and cron must be given, and not both")
    if spec.every:
        yield from duration_is_one(spec.every, _SPEC.at("every"), _SHORTEST_SECONDS, _LONGEST_SECONDS)
    if spec.verify_every:
        yield from duration_is_one(spec.verify_every, _SPEC.at("verifyEvery"), _SHORTEST_SECONDS, _LONGEST_SECONDS)
    if spec.test_every:
        yield from duration_is_one(spec.test_every, _SPEC.at("testEvery"), _SHORTEST_SECONDS, _LONGEST_SECONDS)
    if spec.cron:
        try:
            due_after(spec.cron, _A_MOMENT)
        except IllegalSchedule:
            text = "it is no cron expression, or never due: write five fields, such as 30 2 * * *, in UTC"
            yield invalid_value(_SPEC.at("cron"), spec.cron[:200], text)


def _keeps_some(keep: KeepRules) -> Iterator[Cause]:
    at = _SPEC.at("keep")
    for name in KeepRules.__struct_fields__:
        count = getattr(keep, name)
        if count is not None and not 0 <= count <= _MOST_KEPT:
            yield invalid_value(at.at(name), str(count), f"between 0 and {_MOST_KEPT}")
    if keep.is_empty:
        yield required_cause(at, "spec.keep: at least one of last, hourly, daily, weekly and monthly must be given")


def _has_history(spec: BackupScheduleSpec) -> Iterator[Cause]:
    for name, count in (
        ("successfulRunsHistoryLimit", spec.successful_runs_history_limit),
        ("failedRunsHistoryLimit", spec.failed_runs_history_limit),
    ):
        if count is not None and not 1 <= count <= 1000:
            yield invalid_value(_SPEC.at(name), str(count), "between 1 and 1000: the last one tells what is wrong")


def _parts_are_sane(parts: int | None, at: Field) -> Iterator[Cause]:
    if parts is not None and not 1 <= parts <= MOST_PARTS:
        yield invalid_value(at, str(parts), f"between 1 and {MOST_PARTS}")


def _fits_action(spec: BackupTaskSpec) -> Iterator[Cause]:
    """A field of another action would be taken for a limit that it is not."""
    given: dict[str, dict[str, object]] = {
        "Prune": {"vmNames": spec.vm_names, "keep": spec.keep, "backupIDs": spec.backup_ids, "dryRun": spec.dry_run},
        "Verify": {"parts": spec.parts, "full": spec.full},
    }
    for action, fields in given.items():
        for name, value in fields.items():
            if value and spec.action != action:
                yield Cause(_SPEC.at(name), f"spec.{name}: means nothing for action {spec.action[:20]}: leave it out")


def _prunes_clearly(spec: BackupTaskSpec) -> Iterator[Cause]:
    if not spec.vm_names:
        yield required_cause(_SPEC.at("vmNames"), "spec.vmNames: the VMs whose backups may go must be named")
    yield from _are_vms(spec.vm_names)
    if bool(spec.backup_ids) == (spec.keep is not None):
        yield required_cause(_SPEC, "spec: one of keep and backupIDs must be given, and not both")
    if spec.keep is not None:
        yield from _keeps_some(spec.keep)
    at = _SPEC.at("backupIDs")
    if len(spec.backup_ids) > _MOST_IDS:
        yield Cause(at, f"{at}: at most {_MOST_IDS} at once")
        return
    for index, id_ in enumerate(spec.backup_ids):
        yield from is_backup_id(id_, at.item(index))

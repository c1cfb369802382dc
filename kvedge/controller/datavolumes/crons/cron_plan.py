"""What has to be done about one DataImportCron now: look at the source, import what is new, point there, take old away.

Called by cron_loop.py. Pure. The newest image that is complete stays what the DataSource points at, whatever becomes of
the network or of the next import.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kvedge.controller.datavolumes.crons.cron_objects import (
    data_source_of,
    import_name,
    import_of,
    is_import,
    source_of,
)
from kvedge.controller.datavolumes.crons.cron_status import Outlook, next_status
from kvedge.controller.datavolumes.workers.worker_outcome import look_at_worker
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.data_volume_names import (
    CRON_LABEL,
    DESIRED_DIGEST,
    POLL_ANSWERED,
    POLL_FAILED,
    POLL_REQUESTED,
)
from kvedge.resources.disks.data_volume_checks import data_volume_problems
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_import_cron import DataImportCron
from kvedge.resources.types.data_volumes import DataSource, DataVolume
from kvedge.resources.values.cron_schedule import IllegalSchedule, due_after
from kvedge.resources.values.name_grammar import is_label
from kvedge.runtime.clock import parse_rfc3339, rfc3339

OUTDATED: Final = "Outdated"
NEVER: Final = "Never"
_KEPT: Final = 3
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
# After a poll that failed: there may be no network for long.
POLL_AGAIN_SECONDS: Final = 300.0
# While something else has the name of what is to be imported: its end is not told to us.
IN_THE_WAY_SECONDS: Final = 300.0
SUCCEEDED: Final = "Succeeded"
_LONGEST_NAME: Final = 63


class Poll(Struct, frozen=True):
    """Look at the source."""


class EndPoll(Struct, frozen=True):
    """Take a poll's Pod away."""

    pod: Pod


class PatchCron(Struct, frozen=True):
    """Change the DataImportCron; `body` is a merge patch for the version that was read."""

    body: JsonObject


class CreateImport(Struct, frozen=True):
    """Import something new."""

    data_volume: DataVolume


class DeleteImport(Struct, frozen=True):
    """Take an old image away, or one that could not be imported."""

    data_volume: DataVolume


class PointAt(Struct, frozen=True):
    """Have the DataSource, and have it point there; `there` is the present one."""

    wanted: DataSource
    there: DataSource | None


CronAction: TypeAlias = Poll | EndPoll | PatchCron | CreateImport | DeleteImport | PointAt


class CronPlan(Struct, frozen=True):
    """Actions in order, and in how many seconds to look again when nothing changes."""

    actions: tuple[CronAction, ...] = ()
    again_after: float | None = None


class CronView(Struct, frozen=True):
    """A DataImportCron, its poll if there is one, its imports, and the DataSource that it manages.

    `rivals` are the others that manage the same DataSource, `used` the claims of its namespace that VMs have,
    `in_the_way` says that something else has the name of what is to be imported.
    """

    cron: DataImportCron
    poll: Pod | None = None
    imports: Sequence[DataVolume] = ()
    data_source: DataSource | None = None
    rivals: Sequence[DataImportCron] = ()
    used: Collection[str] = ()
    in_the_way: bool = False


def plan_cron(view: CronView, now: datetime) -> CronPlan:
    """What to do."""
    view = replace(view, imports=[dv for dv in view.imports if is_import(view.cron, dv)])
    cron = view.cron
    if cron.metadata.deletion_timestamp is not None:
        return CronPlan()
    wrong = next(_problems(cron, now), None) or _quarrel(view)
    if wrong is not None:
        return CronPlan(_patch(cron, Outlook(trouble=wrong), {}, now))
    annotations: dict[str, str | None] = {}
    actions: list[CronAction] = []
    # Begun before it is written down that it was: a refusal must not put it off to the next time.
    polls: list[CronAction] = []
    trouble, again = cron.metadata.annotations.get(POLL_FAILED, ""), None
    executed = cron.status.last_execution_timestamp
    seen = None if view.poll is None else look_at_worker(view.poll)
    failed = next((dv for dv in view.imports if dv.status.phase == "Failed"), None)
    if view.poll is not None and seen is not None and seen.ended and view.poll.metadata.deletion_timestamp is None:
        digest = "" if seen.outcome is None else seen.outcome.digest
        if seen.succeeded and _DIGEST.fullmatch(digest):
            annotations |= {DESIRED_DIGEST: digest, POLL_FAILED: None}
            trouble = ""
            actions.append(EndPoll(view.poll))
            if failed is not None:
                # An import that failed for good is tried anew as often as the source is looked at.
                actions.append(DeleteImport(failed))
        else:
            trouble = seen.message
            again = POLL_AGAIN_SECONDS - seen.count_ended_seconds(now)
            if again <= 0:
                annotations[POLL_FAILED] = trouble
                actions.append(EndPoll(view.poll))
                again = None
    elif view.poll is None:
        due, again = _judge_due(cron, now)
        if due:
            asked = cron.metadata.annotations.get(POLL_REQUESTED)
            executed = rfc3339(now)
            annotations |= {POLL_ANSWERED: asked} if asked is not None else {}
            polls.append(Poll())
    digest = annotations.get(DESIRED_DIGEST) or cron.metadata.annotations.get(DESIRED_DIGEST, "")
    good = _newest_good(view, digest)
    outlook = Outlook(digest=digest, name=import_name(cron, digest) if digest else "", good=good, trouble=trouble)
    wanted = next((dv for dv in view.imports if dv.metadata.name == outlook.name), None)
    outlook.importing = wanted
    # A DataVolume in the way has the name of the digest that was written down, and not of a newer one.
    outlook.in_the_way = view.in_the_way and wanted is None and DESIRED_DIGEST not in annotations
    if outlook.in_the_way:
        again = min(again or IN_THE_WAY_SECONDS, IN_THE_WAY_SECONDS)
    elif _DIGEST.fullmatch(digest) and wanted is None:
        actions.append(CreateImport(import_of(cron, digest)))
    if good is not None:
        actions += _plan_pointing(view, good)
        actions += (DeleteImport(dv) for dv in _find_outdated_imports(view, good, wanted))
    outlook.executed = executed
    return CronPlan((*polls, *_patch(cron, outlook, annotations, now), *actions), again)


def _problems(cron: DataImportCron, now: datetime) -> Iterator[str]:
    spec = cron.spec
    if source_of(cron) is None:
        yield "spec.template.spec.source: Missing source: it must be registry, http, s3 or gcs"
    for field, text in data_volume_problems(spec.template.spec):
        yield f"spec.template.spec.{field}: {text}"
    if spec.schedule:
        try:
            due_after(spec.schedule, now)
        except IllegalSchedule:
            yield f"spec.schedule: Illegal cron schedule {spec.schedule[:80]!r}: five fields, such as '30 3 * * *'"
    if spec.imports_to_keep is not None and spec.imports_to_keep < 0:
        yield "spec.importsToKeep: Illegal ImportsToKeep value: it must not be below 0"
    if spec.garbage_collect not in (None, OUTDATED, NEVER):
        yield f"spec.garbageCollect: Illegal GarbageCollect value: {OUTDATED} or {NEVER}"
    if spec.retention_policy not in (None, "None", "All"):
        yield "spec.retentionPolicy: Illegal RetentionPolicy value: None or All"
    if len(cron.metadata.name) > _LONGEST_NAME:
        yield f"metadata.name: at most {_LONGEST_NAME} characters, as what it imports is labelled with it"
    if not is_label(spec.managed_data_source):
        yield "spec.managedDataSource: Illegal ManagedDataSource value: a name in lower case, at most 63 characters"


def _quarrel(view: CronView) -> str | None:
    """Why the DataSource is not this one's to lead; two that lead it would never come to an end."""
    there, own = view.data_source, view.cron.metadata.name
    what = f"spec.managedDataSource: DataSource {view.cron.spec.managed_data_source}"
    if there is None:
        # The eldest makes it: each would import once otherwise, and find only then who leads it.
        first = min((view.cron, *view.rivals), key=_sort_by_age).metadata.name
        return None if first == own else _explain_managed(what, first)
    label = there.metadata.labels.get(CRON_LABEL, "")
    if not label:
        return (
            f"{what} is not a DataImportCron's and stays as it is: name another one, delete it, or label it"
            f" {CRON_LABEL}={own}"
        )
    if label != own and any(rival.metadata.name == label for rival in view.rivals):
        return _explain_managed(what, label)
    return None


def _explain_managed(what: str, cron: str) -> str:
    return f"{what} is managed by DataImportCron {cron}: name another one here or there"


def _sort_by_age(cron: DataImportCron) -> tuple[str, str]:
    """Sorts the eldest first; the name decides between those of one second."""
    return cron.metadata.creation_timestamp or "", cron.metadata.name


def _judge_due(cron: DataImportCron, now: datetime) -> tuple[bool, float | None]:
    """Whether the source is to be looked at, else in how many seconds it is; None for on demand alone."""
    annotations = cron.metadata.annotations
    asked = annotations.get(POLL_REQUESTED)
    if POLL_FAILED in annotations or (asked is not None and asked != annotations.get(POLL_ANSWERED)):
        return True, None
    if not cron.spec.schedule:
        return False, None
    last = cron.status.last_execution_timestamp
    if last is None:
        return True, None
    # A clock that was set back must not put the next look off for years.
    left = (due_after(cron.spec.schedule, min(parse_rfc3339(last), now)) - now).total_seconds()
    return left <= 0, max(left, 1.0)


def _newest_good(view: CronView, digest: str) -> DataVolume | None:
    """The one to point at: what is wanted, as soon as it is complete, else the newest that is."""
    good = [dv for dv in view.imports if dv.status.phase == SUCCEEDED and dv.metadata.deletion_timestamp is None]
    wanted = import_name(view.cron, digest) if digest else ""
    return max(
        good,
        key=lambda dv: (dv.metadata.name == wanted, _is_pointed_at(view, dv), dv.metadata.creation_timestamp or ""),
        default=None,
    )


def _is_pointed_at(view: CronView, dv: DataVolume) -> bool:
    pvc = None if view.data_source is None else view.data_source.spec.source.pvc
    return pvc is not None and pvc.name == dv.metadata.name


def _plan_pointing(view: CronView, good: DataVolume) -> Iterator[CronAction]:
    wanted, there = data_source_of(view.cron, good.metadata.name), view.data_source
    label = wanted.metadata.labels[CRON_LABEL]
    if there is None or there.metadata.labels.get(CRON_LABEL) != label or there.spec.source != wanted.spec.source:
        yield PointAt(wanted, there)


def _find_outdated_imports(view: CronView, good: DataVolume, wanted: DataVolume | None) -> Iterator[DataVolume]:
    """What is neither pointed at, nor wanted, nor among the newest that are kept, nor a VM's."""
    if view.cron.spec.garbage_collect == NEVER:
        return
    kept = _KEPT if view.cron.spec.imports_to_keep is None else view.cron.spec.imports_to_keep
    names = {good.metadata.name, wanted.metadata.name if wanted is not None else ""}
    others = sorted(
        (dv for dv in view.imports if dv.metadata.name not in names and dv.metadata.deletion_timestamp is None),
        key=lambda dv: (dv.metadata.creation_timestamp or "", dv.metadata.name),
        reverse=True,
    )
    yield from (dv for dv in others[max(0, kept - 1) :] if dv.metadata.name not in view.used)


def _patch(
    cron: DataImportCron, outlook: Outlook, annotations: dict[str, str | None], now: datetime
) -> tuple[PatchCron, ...]:
    body: JsonObject = {}
    status = merge_difference(encode(cron.status), encode(next_status(cron, outlook, now)))
    if status:
        body["status"] = status
    new = {key: value for key, value in annotations.items() if cron.metadata.annotations.get(key) != value}
    if new:
        body["metadata"] = {"annotations": new}
    return (PatchCron(body),) if body else ()

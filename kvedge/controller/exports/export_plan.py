"""What has to be done about an export: served while its source is at rest, paused while a guest has it, ended in time.

Called by export_loop.py. Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from kvedge.controller.exports.export_links import make_links
from kvedge.controller.exports.export_view import (
    EndExport,
    EndExporter,
    ExportAction,
    ExportPlan,
    ExportView,
    KeepSecret,
    KeepService,
    Report,
    Serve,
    Told,
)
from kvedge.controller.exports.exporter_manifest import FINGERPRINT, fingerprint
from kvedge.controller.kubevirt.condition_rules import with_condition
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import encode
from kvedge.resources.disks.exports import default_token_secret, exporter_name
from kvedge.resources.meta import Condition, condition
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.exports import ExportPhase, VirtualMachineExport, VirtualMachineExportStatus
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.runtime.clock import parse_rfc3339, rfc3339

_DEFAULT_LIFE: Final = timedelta(hours=2)
# Who else has a claim is in Pods of anybody, which are not followed.
_WAITING_SECONDS: Final = 3.0
_SERVING_SECONDS: Final = 5.0
# Between the end of an exporter that failed and the next one's start.
_FAILED_SECONDS: Final = 5.0
_LONGEST_MESSAGE: Final = 1000


def expiry(export: VirtualMachineExport) -> datetime:
    """When an export's time is over."""
    made = parse_rfc3339(export.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
    try:
        given = export.spec.ttl_duration
        return made + (_DEFAULT_LIFE if given is None else timedelta(seconds=parse_duration(given)))
    except (DurationError, OverflowError):
        return made + _DEFAULT_LIFE


def plan_export(view: ExportView, now: datetime) -> ExportPlan:
    """The next step."""
    export = view.export
    if export.metadata.deletion_timestamp is not None:
        # What it has made goes with it.
        return ExportPlan()
    left = (expiry(export) - now).total_seconds()
    if left <= 0:
        return ExportPlan((EndExport(),))
    actions, told, again = _plan_exporter(view, now)
    body = merge_difference(encode(export.status), encode(_status(view, now)))
    if body:
        actions.insert(0, Report({"status": body}))
    return ExportPlan(tuple(actions), tuple(told), min(again, left))


def _plan_exporter(view: ExportView, now: datetime) -> tuple[list[ExportAction], list[Told], float]:
    source, pod = view.source, view.pod
    if pod is None:
        if source.reason or not source.volumes:
            return [], [], _WAITING_SECONDS
        return [Serve()], [], _WAITING_SECONDS
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if pod.metadata.deletion_timestamp is not None:
        return [], [], _WAITING_SECONDS
    if source.reason or not source.volumes:
        return [EndExporter(pod)], [Told("Warning", "ExportPaused", source.detail or source.message)], _WAITING_SECONDS
    if pod.status.phase in FINAL_POD_PHASES:
        wait = _failed_wait(pod, now)
        if wait > 0:
            return [], [], wait
        text = f"Exporter pod {where} is in phase {pod.status.phase}"
        return [EndExporter(pod)], [Told("Warning", "ExporterPodFailedOrCompleted", text)], _WAITING_SECONDS
    if pod.metadata.annotations.get(FINGERPRINT) != fingerprint(source.volumes):
        text = f"Exporter pod {where} serves other volumes than there are now"
        return [EndExporter(pod)], [Told("Normal", "ExporterVolumesChanged", text)], _WAITING_SECONDS
    if not view.has_secret:
        return [KeepSecret(pod)], [], _WAITING_SECONDS
    if not view.has_service:
        return [KeepService()], [], _WAITING_SECONDS
    return [], [], _SERVING_SECONDS


def _failed_wait(pod: Pod, now: datetime) -> float:
    """How long a failed exporter stays, so that one that always fails is not made without a pause."""
    if pod.status.phase != "Failed":
        return 0.0
    for each in pod.status.container_statuses:
        ended = None if each.state is None else each.state.terminated
        if ended is not None and ended.finished_at:
            return _FAILED_SECONDS - max(0.0, (now - parse_rfc3339(ended.finished_at)).total_seconds())
    return 0.0


def _status(view: ExportView, now: datetime) -> VirtualMachineExportStatus:
    export, source = view.export, view.source
    phase, ready = _judge(view)
    conditions = _put(export.status.conditions, ready, now)
    if source.state is not None:
        state = source.state
        conditions = _put(
            conditions, Condition(type=state.type, status=state.status, reason=state.reason, message=state.message), now
        )
    return VirtualMachineExportStatus(
        phase=phase,
        links=make_links(view) if phase == "Ready" else None,
        token_secret_ref=export.spec.token_secret_ref or default_token_secret(export.metadata.name),
        ttl_expiration_time=rfc3339(expiry(export)),
        service_name=exporter_name(export.metadata.name),
        virtual_machine_name=source.vm or export.status.virtual_machine_name,
        conditions=conditions,
    )


def _judge(view: ExportView) -> tuple[ExportPhase, Condition]:
    source, pod = view.source, view.pod
    if source.is_skipped:
        return "Skipped", _not_ready(source.reason, source.message)
    if source.reason:
        return "Pending", _not_ready(source.reason, source.message)
    if pod is None:
        return "Pending", _not_ready("PodPending" if view.refusal else "Initializing", view.refusal)
    if pod.status.phase in FINAL_POD_PHASES:
        return "Terminated", _not_ready("PodCompleted", _last_word(pod))
    if pod.metadata.deletion_timestamp is not None:
        return "Pending", _not_ready("PodPending", "the exporter is ending")
    if _is_ready(pod):
        return "Ready", Condition(type="Ready", status="True", reason="PodReady")
    return "Pending", _not_ready("PodPending", _why_waiting(pod))


def _is_ready(pod: Pod) -> bool:
    found = condition(pod.status.conditions, "Ready")
    return pod.status.phase == "Running" and found is not None and found.status == "True"


def _why_waiting(pod: Pod) -> str:
    scheduled = condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"the exporter pod cannot be scheduled: {scheduled.message}"
    for each in pod.status.container_statuses:
        if each.state is not None and each.state.waiting is not None and each.state.waiting.message:
            return each.state.waiting.message
    return ""


def _last_word(pod: Pod) -> str:
    ended = [each.state.terminated for each in pod.status.container_statuses if each.state is not None]
    return next((f"the exporter ended with {each.exit_code}" for each in ended if each is not None), "")


def _not_ready(reason: str, message: str) -> Condition:
    return Condition(type="Ready", status="False", reason=reason, message=message)


def _put(conditions: list[Condition], wanted: Condition, now: datetime) -> list[Condition]:
    found = condition(conditions, wanted.type)
    said = (wanted.status, wanted.reason, wanted.message[:_LONGEST_MESSAGE])
    if found is not None and (found.status, found.reason, found.message) == said:
        return conditions
    made = Condition(
        type=wanted.type, status=said[0], reason=said[1], message=said[2], last_transition_time=rfc3339(now)
    )
    return with_condition(conditions, made, now)

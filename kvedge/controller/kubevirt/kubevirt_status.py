"""What the KubeVirt object's status says: phase, conditions, versions; and what is told of its configuration.

Called by kubevirt_loop.py. Pure. Reasons and texts of Available, Progressing, Degraded, Created and Synchronized are
KubeVirt's; ConfigurationValid, ConfigurationApplied, AllNodesOfThisVersion, LaunchersUpToDate and NodesFenceThemselves
are kvedge's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct, field

from kvedge.controller.kubevirt.condition_rules import with_condition, without_conditions
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.configuration.configuration import Finding, Issue
from kvedge.resources.configuration.configuration_in_force import InForce
from kvedge.resources.meta import Condition
from kvedge.resources.moves.workload_updates import LAUNCHERS_UP_TO_DATE, UPDATES_FAILED
from kvedge.resources.types.kubevirt import NODES_FENCE, ONE_VERSION, KubeVirt, KubeVirtStatus
from kvedge.resources.version_skew import refusal

VALID: Final = "ConfigurationValid"
APPLIED: Final = "ConfigurationApplied"
# Nothing is pulled: the registry is the name that launchers' images have.
_REGISTRY: Final = "kvedge.local"
_LONGEST_MESSAGE: Final = 6000
# So many nodes of other versions are named.
_MOST_NODES: Final = 20


class Health(Struct, frozen=True):
    """What was seen of the roles: whether the api role answers, and whether some node takes VMs."""

    api_answers: bool = True
    has_node: bool = True
    outdated_vmis: int = 0
    # Nodes whose handlers are of another version than this controller, and those versions; empty where one is not told.
    other_versions: Mapping[str, str] = field(default_factory=dict)
    # What is to be told of launchers of other releases, once that is known.
    launchers: Condition | None = None
    # What is to be said of nodes that fence themselves; None for nothing.
    fencing: Condition | None = None

    @property
    def problems(self) -> str:
        """What is missing, in words; empty when nothing is."""
        missing = [] if self.api_answers else ["the api role does not answer"]
        missing += [] if self.has_node else ["no node's handler is ready to run VMs"]
        return "; ".join(missing)


class Release(Struct, frozen=True):
    """What runs: the version, and the architecture of VMs that name none."""

    version: str
    architecture: str

    @property
    def tag(self) -> str:
        """The version as KubeVirt writes versions."""
        return f"v{self.version}"


class Told(Struct, frozen=True):
    """An event to record."""

    type: str
    reason: str
    message: str


def plan_status(
    kubevirt: KubeVirt, in_force: InForce, health: Health, release: Release, now: datetime
) -> KubeVirtStatus:
    """The status that the object should have; `in_force` may come from another object, which then is the one."""
    status = kubevirt.status
    if in_force.uid != kubevirt.metadata.uid:
        # KubeVirt leaves everything else of such an object alone.
        there_is = Condition(
            type="Synchronized",
            status="False",
            reason="ExistingDeployment",
            message="There is an active KubeVirt deployment",
        )
        return KubeVirtStatus(conditions=with_condition([], there_is, now))
    return KubeVirtStatus(
        phase=_phase(kubevirt, health),
        conditions=_conditions(kubevirt, in_force, health, release, now),
        operator_version=release.tag,
        target_kube_virt_registry=_REGISTRY,
        target_kube_virt_version=release.tag,
        observed_kube_virt_registry=_REGISTRY,
        # As long as nothing is ready, nothing has been observed.
        observed_kube_virt_version=status.observed_kube_virt_version if health.problems else release.tag,
        outdated_virtual_machine_instance_workloads=health.outdated_vmis,
        observed_generation=in_force.generation,
        default_architecture=in_force.configuration.default_architecture or release.architecture,
    )


def status_patch(kubevirt: KubeVirt, wanted: KubeVirtStatus) -> JsonObject | None:
    """A merge patch that brings the status there; None when it is there."""
    there, new = _document(kubevirt.status), _document(wanted)
    if there == new:
        return None
    return {"status": {**dict.fromkeys(there.keys() - new.keys()), **new}}


def events_of(before: KubeVirtStatus, after: KubeVirtStatus) -> list[Told]:
    """What to tell: that the configuration has a problem, or has it no more."""
    told = []
    for type_, bad, good in ((VALID, "ConfigurationInvalid", "ConfigurationValid"), (APPLIED, "KeysWithoutEffect", "")):
        old, new = _of_type(before.conditions, type_), _of_type(after.conditions, type_)
        if new is None or (old is not None and (old.status, old.message) == (new.status, new.message)):
            continue
        if new.status == "False":
            told.append(Told("Warning" if type_ == VALID else "Normal", bad, new.message))
        elif good and old is not None and old.status == "False":
            told.append(Told("Normal", good, new.message))
    return told + _tell_launchers(before, after)


def _tell_launchers(before: KubeVirtStatus, after: KubeVirtStatus) -> list[Told]:
    """That updates have stopped by themselves, and that all are done; how far they are is in the condition."""
    old, new = _of_type(before.conditions, LAUNCHERS_UP_TO_DATE), _of_type(after.conditions, LAUNCHERS_UP_TO_DATE)
    if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
        return []
    if new.reason == UPDATES_FAILED:
        return [Told("Warning", "WorkloadUpdatesPaused", new.message)]
    done = new.status == "True" and old is not None
    return [Told("Normal", "WorkloadsUpdated", new.message)] if done else []


def _phase(kubevirt: KubeVirt, health: Health) -> str:
    if kubevirt.metadata.deletion_timestamp is not None:
        return "Deleting"
    # A KubeVirt that was deployed once stays so; the conditions say whether it works.
    return "Deployed" if kubevirt.status.phase == "Deployed" or not health.problems else "Deploying"


def _conditions(
    kubevirt: KubeVirt, in_force: InForce, health: Health, release: Release, now: datetime
) -> list[Condition]:
    wanted = [_judge_valid(in_force), _judge_applied(in_force), _one_version(health, release)]
    wanted += [] if health.launchers is None else [health.launchers]
    wanted += [] if health.fencing is None else [health.fencing]
    if kubevirt.metadata.deletion_timestamp is not None:
        wanted += _same_reason("DeletionInProgress", "Deletion was triggered", "False", "False", "True")
        dropped = ["Synchronized", "Created", NODES_FENCE]
    else:
        wanted += [_make_created_condition(), *_judge_working(kubevirt, in_force, health, release)]
        dropped = ["Synchronized", *([] if health.fencing is not None else [NODES_FENCE])]
    conditions = without_conditions(kubevirt.status.conditions, dropped)
    for condition in wanted:
        conditions = with_condition(conditions, condition, now)
    return conditions


def _make_created_condition() -> Condition:
    return Condition(type="Created", status="True", reason="AllResourcesCreated", message="All resources were created.")


def _judge_working(kubevirt: KubeVirt, in_force: InForce, health: Health, release: Release) -> list[Condition]:
    if health.problems and kubevirt.status.phase != "Deployed":
        text = f"Deploying version {release.tag} with registry {_REGISTRY}: {health.problems}"
        return _same_reason("DeploymentInProgress", text, "False", "True", "False")
    if health.problems:
        return _same_reason("ComponentsNotReady", health.problems, "False", "False", "True")
    ready = _same_reason("AllComponentsReady", "All components are ready.", "True", "False", "False")
    bad = _messages(in_force.findings, Issue.INVALID)
    if not bad:
        return ready
    return [*ready[:2], Condition(type="Degraded", status="True", reason="ConfigurationInvalid", message=bad)]


def _same_reason(reason: str, message: str, available: str, progressing: str, degraded: str) -> list[Condition]:
    by_type = {"Available": available, "Progressing": progressing, "Degraded": degraded}
    return [Condition(type=type_, status=status, reason=reason, message=message) for type_, status in by_type.items()]


def _judge_valid(in_force: InForce) -> Condition:
    bad, unknown = (_messages(in_force.findings, issue) for issue in (Issue.INVALID, Issue.UNKNOWN))
    if not bad and not unknown:
        return Condition(type=VALID, status="True", reason="AllKeysUnderstood", message="All keys are understood.")
    parts = [part for part in (bad, unknown) if part]
    if bad:
        still = "the configuration before this one stays in force" if in_force.is_earlier else "defaults stand for them"
        parts.insert(1, still)
    reason = "InvalidValues" if bad else "UnknownKeys"
    return Condition(type=VALID, status="False", reason=reason, message="; ".join(parts))


def _judge_applied(in_force: InForce) -> Condition:
    without = _messages(in_force.findings, Issue.NO_EFFECT)
    if not without:
        return Condition(type=APPLIED, status="True", reason="EverythingApplies", message="All keys have an effect.")
    return Condition(type=APPLIED, status="False", reason="KeysWithoutEffect", message=without)


def _one_version(health: Health, release: Release) -> Condition:
    if not health.other_versions:
        return Condition(type=ONE_VERSION, status="True", reason="OneVersion", message=f"All run {release.version}.")
    nodes = [
        f"{node} runs {version or 'a version that it does not tell'}"
        + (", too far from it: it takes no VM" if refusal(release.version, version) else "")
        for node, version in sorted(health.other_versions.items())
    ]
    more = [f"{len(nodes) - _MOST_NODES} more"] if len(nodes) > _MOST_NODES else []
    message = f"The control plane runs {release.version}; {'; '.join([*nodes[:_MOST_NODES], *more])}"
    return Condition(type=ONE_VERSION, status="False", reason="OtherVersions", message=message)


def _messages(findings: Sequence[Finding], issue: Issue) -> str:
    text = "; ".join(finding.message for finding in findings if finding.issue is issue)
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 1]}…"


def _of_type(conditions: Sequence[Condition], type_: str) -> Condition | None:
    return next((item for item in conditions if item.type == type_), None)


def _document(status: KubeVirtStatus) -> JsonObject:
    return encode(status)

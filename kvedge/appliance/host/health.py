"""Whether an installation works: its unit, its API, its node, its VMs.

Called by install and upgrade as a gate, and by `kvedge status`. Asks systemd and the API; changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from kvedge.appliance.host.systemctl_client import SystemdError, systemd_runs, unit_property
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError
from kvedge.resources.alarms.alarm_names import ALARMS_CONFIG
from kvedge.resources.alarms.alarm_record import read_record
from kvedge.resources.alarms.alarm_rules import Severity
from kvedge.resources.disks.protection_problems import PROBLEM_KINDS, find_problems
from kvedge.resources.meta import condition
from kvedge.resources.names import NODE_NAME, REFUSAL, SCHEDULABLE, SYSTEM_NAMESPACE
from kvedge.resources.types.core import ConfigMap, Node
from kvedge.resources.types.kubevirt import ONE_VERSION, KubeVirt
from kvedge.resources.types.vmi import VirtualMachineInstance

_NOT_SERVED: Final = "this node's handler does not offer it for VMs (label kubevirt.io/schedulable)"
# What it is about is looked at here, as it is now.
_LOOKED_AT: Final = "BackupMissed"


class Health(Struct, frozen=True):
    """What is wrong, in words for the operator; and what runs: VMI UIDs by namespace/name.

    Notes are no problems: nodes of other versions are usual while a cluster is upgraded.
    """

    problems: tuple[str, ...] = ()
    running: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 0
    phases: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    # What is wrong, and keeps no upgrade from being kept: an earlier version would not mend it.
    alarms: tuple[str, ...] = ()


def check_health(kubeconfig: Path, unit: str | None, own_node: str = "") -> Health:
    """Look once; `unit` is None where kvedge does not run under systemd.

    `own_node` is the name of this node in a cluster: only this node and its VMs are looked at.
    """
    problems = [*_unit_problems(unit)] if unit else []
    if not kubeconfig.exists():
        return Health((*problems, f"{kubeconfig} does not exist: kvedge has not been ready yet"))
    try:
        client = KubeClient.from_kubeconfig(kubeconfig)
        nodes = [client.get(Node, "", own_node)] if own_node else client.list(Node)
        vmis = client.list(VirtualMachineInstance, label_selector=f"{NODE_NAME}={own_node}" if own_node else "")
        notes = tuple(_other_versions(client)) if own_node else tuple(_describe(nodes))
        alarms = () if own_node else (*_schedule_problems(client), *_alarms(client))
    except KubeconfigError as error:
        return Health((*problems, str(error)))
    except (KubeError, OSError) as error:
        return Health((*problems, f"the API does not answer: {error}"))
    problems += [problem for node in nodes if (problem := _node_problem(node))]
    problems += (
        [_explain_not_served(nodes[0])] if own_node and nodes[0].metadata.labels.get(SCHEDULABLE) != "true" else []
    )
    if not nodes:
        problems.append("no node has been registered")
    phases: dict[str, int] = {}
    for vmi in vmis:
        phases[vmi.status.phase or "Pending"] = phases.get(vmi.status.phase or "Pending", 0) + 1
    running = {
        f"{vmi.metadata.namespace}/{vmi.metadata.name}": vmi.metadata.uid
        for vmi in vmis
        if vmi.status.phase == "Running"
    }
    return Health(tuple(problems), running, len(nodes), phases, notes, alarms)


def _other_versions(client: KubeClient) -> Iterator[str]:
    """What the controller says of nodes that run another version than it does."""
    for item in client.list(KubeVirt):
        found = condition(item.status.conditions, ONE_VERSION)
        if found is not None and found.status == "False":
            yield found.message


def _schedule_problems(client: KubeClient) -> Iterator[str]:
    """Schedules, backups and repositories that fail or are late; an API of an earlier version does not know all."""
    for kind in PROBLEM_KINDS:
        try:
            found: list[Any] = client.list(kind)
        except NotFound:
            continue
        yield from map(str, find_problems(found))


def _alarms(client: KubeClient) -> Iterator[str]:
    """What is raised and matters, besides what was just looked at."""
    try:
        record = read_record(client.get(ConfigMap, SYSTEM_NAMESPACE, ALARMS_CONFIG))
    except NotFound:
        return
    for alarm in record.firing:
        if alarm.severity != Severity.INFO and alarm.rule != _LOOKED_AT:
            yield f"{alarm.target}: {alarm.rule}: {alarm.message}"


def _describe(nodes: Sequence[Node]) -> Iterator[str]:
    """What the agent of one box says of its node although it is ready: what lacks, and which files were damaged."""
    for node in nodes:
        ready = next((item for item in node.status.conditions if item.get("type") == "Ready"), {})
        told = str(ready.get("message", "")).partition("; ")[2]
        if told and ready.get("status") == "True":
            yield told


def _explain_not_served(node: Node) -> str:
    refusal = node.metadata.annotations.get(REFUSAL, "")
    return f"this node takes no VM: {refusal}" if refusal else _NOT_SERVED


def find_lost(before: Health, after: Health) -> list[str]:
    """Problems that VMs have which ran before: gone, or another run than then."""
    lost = []
    for name, uid in before.running.items():
        now = after.running.get(name)
        if now is None:
            lost.append(f"VM {name} no longer runs")
        elif now != uid:
            lost.append(f"VM {name} was started anew")
    return lost


def _unit_problems(unit: str) -> list[str]:
    if not systemd_runs():
        return []
    try:
        state = unit_property(unit, "ActiveState")
    except SystemdError as error:
        return [str(error)]
    return [] if state == "active" else [f"{unit} is {state}: see journalctl -u {unit}"]


def _node_problem(node: Node) -> str:
    ready = next((item for item in node.status.conditions if item.get("type") == "Ready"), {})
    if ready.get("status") == "True":
        return ""
    return f"node {node.metadata.name} is not ready: {ready.get('message') or 'it has not told'}"

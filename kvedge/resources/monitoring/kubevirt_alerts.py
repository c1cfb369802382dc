"""KubeVirt's alerts that make sense here, for those who have the Prometheus Operator: its names, of our series.

Called by packaging/alarms, which writes k3s/monitoring/kubevirt-alerts.yaml. Pure. What kvedge watches by itself, with
Prometheus or without, stands in `resources/alarms`; here is what takes a history, or is about kvedge itself. Left out
are those about numbers of replicas and about Pods: one box has one of each.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SYSTEM_NAMESPACE

_HEADROOM: Final = "vmi:kubevirt_vmi_memory_headroom_ratio:sum"


class Alert(Struct, frozen=True):
    """One alert: what is asked, for how long it must hold, what is wrong, and what to do."""

    name: str
    severity: str
    expression: str
    hold: str
    summary: str
    remedy: str


# 404 and 409 are answers that loops expect.
_FAILED: Final = '{code=~"401|403|5[0-9][0-9]|<error>"}'
_CALLS: Final = "kubevirt_rest_client_requests_total"

# Images that are written once are always full. Agents tell of no file systems that lie on no disk.
_FULL_BY_DESIGN: Final = "CDFS|UDF|iso9660|udf|squashfs|cramfs|romfs|erofs"
_MOUNTS: Final = f'{{file_system_type!~"{_FULL_BY_DESIGN}",mount_point!="System Reserved"}}'
_FULL: Final = f"kubevirt_vmi_filesystem_used_bytes{_MOUNTS} / kubevirt_vmi_filesystem_capacity_bytes{_MOUNTS} * 100"

ALERTS: Final = (
    Alert(
        "VirtualMachineStuckInUnhealthyState",
        "warning",
        'sum by (name, namespace, status) (kubevirt_vm_info{status=~"provisioning|starting|terminating"}'
        ' or kubevirt_vm_info{status_group="error"}) > 0'
        " unless on (name, namespace) kubevirt_vmi_info",
        "10m",
        "a VM has been on its way for ten minutes, and has no instance",
        "kvedge describe vm tells what it waits for; kvedge trace shows how far its start came",
    ),
    Alert(
        "VirtualMachineStuckOnNode",
        "warning",
        'sum by (name, namespace, status, node) (kubevirt_vm_info{status=~"starting|stopping|terminating"}'
        ' * on (name, namespace) group_left (node) kubevirt_vmi_info{node!=""}) > 0',
        "5m",
        "a VM has been starting or stopping on its node for five minutes",
        "kvedge describe vm tells what it waits for; look at the guest's console, and at the log of the node's handler",
    ),
    Alert(
        "KubeVirtVMGuestMemoryPressure",
        "warning",
        f"{_HEADROOM} < 0.05 and on (node, namespace, name) (vmi:kubevirt_vmi_pgmajfaults:rate5m > 5"
        " or vmi:kubevirt_vmi_swap_traffic_bytes:rate5m > 1048576)",
        "5m",
        "a guest is short of memory, and reads pages back from its disk",
        "give the VM more memory, or stop what takes it in the guest",
    ),
    Alert(
        "KubeVirtVMGuestMemoryAvailableLow",
        "info",
        f"{_HEADROOM} < 0.03",
        "30m",
        "a guest has hardly had any memory left for half an hour",
        "give the VM more memory, or stop what takes it in the guest",
    ),
    Alert(
        "VMNonRecoverableOSPanic",
        "critical",
        "sum by (namespace, name) (increase(kubevirt_vmi_guest_os_panic_total[24h])) > 5",
        "1m",
        "a guest's system has panicked more than five times within a day",
        "look at the guest's console log from before its end: kvedge console --log",
    ),
    Alert(
        "GuestFilesystemAlmostOutOfSpace",
        "warning",
        f"{_FULL} >= 85 < 95",
        "10m",
        "a file system of a guest is 85 % full",
        "remove what the guest no longer needs, or make the disk larger",
    ),
    Alert(
        "GuestFilesystemAlmostOutOfSpace",
        "critical",
        f"{_FULL} >= 95",
        "0m",
        "a file system of a guest is 95 % full",
        "remove what the guest no longer needs, or make the disk larger",
    ),
    Alert(
        "VMCannotBeEvicted",
        "warning",
        "kubevirt_vmi_non_evictable > 0",
        "1m",
        "a guest shall move when its node is emptied, and cannot",
        "the condition LiveMigratable of its VMI tells why; without it a drain of the node waits for ever",
    ),
    Alert(
        "KubeVirtVMIExcessiveMigrations",
        "warning",
        "sum by (vmi, namespace) (max_over_time(kubevirt_vmi_migration_succeeded[1d])) >= 12",
        "1m",
        "a guest has moved twelve times in a day",
        "look who asks for it: a descheduler, or nodes that are emptied again and again",
    ),
    Alert(
        "OutdatedVirtualMachineInstanceWorkloads",
        "warning",
        "kubevirt_vmi_number_of_outdated > 0",
        "1440m",
        "guests have run in launchers of an earlier release for a day",
        "restart them, or let workloadUpdateStrategy of the KubeVirt object move them",
    ),
    Alert(
        "NoReadyVirtController",
        "critical",
        "cluster:kubevirt_virt_controller_ready:sum == 0",
        "10m",
        "no controller works: VMs are neither started nor stopped",
        "kvedge status and the log of kvedge tell why",
    ),
    Alert(
        "NoLeadingVirtController",
        "critical",
        "cluster:kubevirt_virt_controller_leading:sum == 0",
        "10m",
        "no controller leads: VMs are neither started nor stopped",
        "kvedge status and the log of kvedge tell why; the lease is in the namespace of kvedge",
    ),
    Alert(
        "NoReadyVirtHandler",
        "critical",
        "cluster:kubevirt_virt_handler_ready:sum == 0",
        "10m",
        "no handler answers: guests run, and nobody can start, stop or look at one",
        "kvedge status and the log of kvedge on a node tell why",
    ),
    Alert(
        "OrphanedVirtualMachineInstances",
        "warning",
        'sum by (node) (kubevirt_vmi_info{phase="running",node!=""}'
        " * on (node) group_left () (kubevirt_virt_handler_ready_status == bool 0)) > 0",
        "10m",
        "the handler of a node with guests does not answer",
        "look whether the node has power and network, and whether kvedge runs there",
    ),
    Alert(
        "NoReadyVirtAPI",
        "critical",
        "absent(kubevirt_virt_api_ready_status)",
        "10m",
        "the api role does not answer: nothing about VMs can be changed",
        "kvedge status and the log of kvedge tell why",
    ),
    Alert(
        "KvedgeRESTErrorsBurst",
        "critical",
        f"sum by (node) (rate({_CALLS}{_FAILED}[5m])) / sum by (node) (rate({_CALLS}[5m])) >= 0.8",
        "5m",
        "four of five calls of a node's roles to the API server have failed for five minutes",
        "look whether the API server is up, and whether k3s/rbac is that of this release",
    ),
)


def kubevirt_alerts() -> JsonObject:
    """The PrometheusRule."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "kvedge-kubevirt-alerts",
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "kvedge"},
        },
        "spec": {"groups": [{"name": "kvedge.kubevirt", "rules": [_rule(alert) for alert in ALERTS]}]},
    }


def _rule(alert: Alert) -> JsonObject:
    impact = {"critical": "critical", "warning": "warning"}.get(alert.severity, "none")
    labels = {"severity": alert.severity, "operator_health_impact": impact, "kubernetes_operator_part_of": "kubevirt"}
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.hold,
        "labels": labels,
        "annotations": {"summary": alert.summary, "description": alert.remedy},
    }

"""KubeVirt's recording rules, for those who have the Prometheus Operator: its names, of our series.

Called by packaging/alarms, which writes k3s/monitoring/recording-rules.yaml. Pure. Where KubeVirt's own expressions
need kube-state-metrics or the kubelet's, there are series of ours that tell the same; those that nothing tells are left
out.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SYSTEM_NAMESPACE

_BY_VMI: Final = "by (node, namespace, name)"
_AVAILABLE: Final = "kubevirt_vmi_memory_available_bytes"
_USABLE: Final = "kubevirt_vmi_memory_usable_bytes"
_SWAP: Final = "kubevirt_vmi_memory_swap_in_traffic_bytes", "kubevirt_vmi_memory_swap_out_traffic_bytes"
_VCPUS: Final = "vmi:kubevirt_vmi_vcpu:count"


def _rates(minutes: int) -> dict[str, str]:
    swapped = " + ".join(f"sum {_BY_VMI} (rate({name}[{minutes}m]))" for name in _SWAP)
    return {
        f"vmi:kubevirt_vmi_pgmajfaults:rate{minutes}m": (
            f"sum {_BY_VMI} (rate(kubevirt_vmi_memory_pgmajfault_total[{minutes}m]))"
        ),
        f"vmi:kubevirt_vmi_swap_traffic_bytes:rate{minutes}m": swapped,
    }


RULES: Final[dict[str, str]] = {
    "vmi:kubevirt_vmi_memory_used_bytes:sum": f"sum {_BY_VMI} ({_AVAILABLE} - {_USABLE})",
    "vmi:kubevirt_vmi_memory_available_bytes:sum": f"sum {_BY_VMI} ({_AVAILABLE})",
    "vmi:kubevirt_vmi_memory_headroom_ratio:sum": f"sum {_BY_VMI} ({_USABLE}) / sum {_BY_VMI} ({_AVAILABLE})",
    **_rates(5),
    **_rates(30),
    # A vCPU's state is a label of its series: a vCPU counts once for each second in which it has one.
    _VCPUS: f"count {_BY_VMI} (count by (node, namespace, name, id) (kubevirt_vmi_vcpu_seconds_total))",
    "namespace:kubevirt_vm:sum": "sum by (namespace) (count by (name, namespace) (kubevirt_vm_info))",
    "node:kubevirt_vmi_phase:sum": (
        "sum by (node, phase, os, workload, flavor, instance_type, preference, guest_os_kernel_release,"
        " guest_os_machine, guest_os_arch, guest_os_name, guest_os_version_id) (kubevirt_vmi_info)"
    ),
    "cluster:kubevirt_virt_api_ready:sum": "sum(kubevirt_virt_api_ready_status)",
    "cluster:kubevirt_virt_controller_ready:sum": "sum(kubevirt_virt_controller_ready_status)",
    "cluster:kubevirt_virt_controller_leading:sum": "sum(kubevirt_virt_controller_leading_status)",
    "cluster:kubevirt_virt_handler_ready:sum": "sum(kubevirt_virt_handler_ready_status)",
}
# What KubeVirt called them before; its dashboards of before ask for these.
DEPRECATED: Final[dict[str, str]] = {
    "kubevirt_number_of_vms": "namespace:kubevirt_vm:sum",
    "kubevirt_vmi_phase_count": "node:kubevirt_vmi_phase:sum",
    "kubevirt_vmi_memory_used_bytes": "vmi:kubevirt_vmi_memory_used_bytes:sum",
    "kubevirt_virt_controller_ready": "cluster:kubevirt_virt_controller_ready:sum",
}


def recording_rule() -> JsonObject:
    """The PrometheusRule."""
    rules = [{"record": name, "expr": expression} for name, expression in (RULES | DEPRECATED).items()]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "kvedge-recording-rules",
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "kvedge"},
        },
        "spec": {"groups": [{"name": "kvedge.recording", "rules": rules}]},
    }

"""Grafana's dashboards: VMs, and kvedge's own processes.

Called by packaging/alarms, which writes k3s/monitoring/dashboard-*.json. Pure. Grafana asks for the data source when it
imports one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from kvedge.resources.codec import JsonObject

_SCHEMA: Final = 39
_WIDTH: Final = 12
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_CHOSEN: Final = '{namespace=~"$namespace",name=~"$name"}'
_OF_NODE: Final = '{node=~"$node"}'
_OF_VMI: Final = "{{namespace}}/{{name}}"
_OF_QUEUE: Final = "{{node}} {{name}}"


class Panel(Struct, frozen=True):
    """One panel; a query is an expression and how its lines are called."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    kind: Literal["timeseries", "stat", "table"] = "timeseries"


class Variable(Struct, frozen=True):
    """Something to choose: the values of a label."""

    name: str
    query: str


class Dashboard(Struct, frozen=True):
    """One dashboard."""

    uid: str
    title: str
    variables: Sequence[Variable]
    panels: Sequence[Panel]


def _rate(metric: str, chosen: str = _CHOSEN) -> str:
    return f"rate({metric}{chosen}[$__rate_interval])"


def _vmi(title: str, unit: str, *queries: tuple[str, str]) -> Panel:
    """Lines of guests; each query has a word that its lines end with."""
    by = "sum by (namespace, name)"
    return Panel(title, unit, [(f"{by} ({query})", f"{_OF_VMI} {word}".rstrip()) for query, word in queries])


def _quantile(metric: str, by: str) -> str:
    return f"histogram_quantile(0.95, sum by ({by}, le) ({_rate(f'{metric}_bucket', _OF_NODE)}))"


VMS: Final = Dashboard(
    "kvedge-vms",
    "kvedge / VMs",
    (
        Variable("namespace", "label_values(kubevirt_vm_info, namespace)"),
        Variable("name", 'label_values(kubevirt_vm_info{namespace=~"$namespace"}, name)'),
    ),
    (
        Panel("VMs by state", "short", [("sum by (status_group) (kubevirt_vm_info)", "{{status_group}}")], "stat"),
        Panel("Guests by node", "short", [('sum by (node) (kubevirt_vmi_info{node!=""})', "{{node}}")], "stat"),
        Panel("VMs", "short", [(f"kubevirt_vm_info{_CHOSEN}", "")], "table"),
        _vmi("CPUs", "short", (_rate("kubevirt_vmi_cpu_usage_seconds_total"), "")),
        _vmi("Waiting for the host's CPUs", "percentunit", (_rate("kubevirt_vmi_vcpu_delay_seconds_total"), "")),
        _vmi(
            "Memory",
            "bytes",
            (f"kubevirt_vmi_memory_available_bytes{_CHOSEN} - kubevirt_vmi_memory_usable_bytes{_CHOSEN}", "used"),
            (f"kubevirt_vmi_memory_available_bytes{_CHOSEN}", "all"),
        ),
        _vmi("Memory of QEMU", "bytes", (f"kubevirt_vmi_memory_resident_bytes{_CHOSEN}", "")),
        _vmi(
            "Swapped",
            "Bps",
            (_rate("kubevirt_vmi_memory_swap_in_traffic_bytes"), "in"),
            (_rate("kubevirt_vmi_memory_swap_out_traffic_bytes"), "out"),
        ),
        _vmi(
            "Disks: bytes",
            "Bps",
            (_rate("kubevirt_vmi_storage_read_traffic_bytes_total"), "read"),
            (_rate("kubevirt_vmi_storage_write_traffic_bytes_total"), "written"),
        ),
        _vmi(
            "Disks: requests",
            "iops",
            (_rate("kubevirt_vmi_storage_iops_read_total"), "read"),
            (_rate("kubevirt_vmi_storage_iops_write_total"), "write"),
        ),
        _vmi(
            "Networks",
            "Bps",
            (_rate("kubevirt_vmi_network_receive_bytes_total"), "in"),
            (_rate("kubevirt_vmi_network_transmit_bytes_total"), "out"),
        ),
        _vmi(
            "Packets dropped",
            "pps",
            (_rate("kubevirt_vmi_network_receive_packets_dropped_total"), "in"),
            (_rate("kubevirt_vmi_network_transmit_packets_dropped_total"), "out"),
        ),
        Panel(
            "Migrations",
            "short",
            [
                ("kubevirt_vmi_migrations_in_pending_phase", "pending"),
                ("kubevirt_vmi_migrations_in_scheduling_phase", "scheduling"),
                ("kubevirt_vmi_migrations_in_running_phase", "running"),
            ],
        ),
        Panel(
            "Guests that do not answer",
            "short",
            [("kvedge_vmi_stats_up == 0", _OF_VMI), ("kvedge_node_stats_up == 0", "{{node}}")],
        ),
    ),
)
CONTROL_PLANE: Final = Dashboard(
    "kvedge-control-plane",
    "kvedge / Control plane",
    (Variable("node", "label_values(process_start_time_seconds, node)"),),
    (
        Panel("Controllers that lead", "short", [("sum(kubevirt_virt_controller_leading_status)", "")], "stat"),
        Panel("Handlers that answer", "short", [("sum(kubevirt_virt_handler_ready_status)", "")], "stat"),
        Panel("Memory", "bytes", [(f"process_resident_memory_bytes{_OF_NODE}", "{{node}}")]),
        Panel("CPUs", "short", [(_rate("process_cpu_seconds_total", _OF_NODE), "{{node}}")]),
        Panel("Open files", "short", [(f"process_open_fds{_OF_NODE}", "{{node}}")]),
        Panel("Since the start", "s", [(f"time() - process_start_time_seconds{_OF_NODE}", "{{node}}")]),
        Panel(
            "Calls to the API server",
            "reqps",
            [(f"sum by (node, verb) ({_rate('kubevirt_rest_client_requests_total', _OF_NODE)})", "{{node}} {{verb}}")],
        ),
        Panel(
            "Calls that failed",
            "reqps",
            [
                (
                    "sum by (node, code) (rate(kubevirt_rest_client_requests_total"
                    '{node=~"$node",code!~"2.."}[$__rate_interval]))',
                    "{{node}} {{code}}",
                )
            ],
        ),
        Panel(
            "How long calls took (95 %)",
            "s",
            [(_quantile("kubevirt_rest_client_request_latency_seconds", "verb"), "{{verb}}")],
        ),
        Panel("Objects that wait", "short", [(f"kubevirt_workqueue_depth{_OF_NODE}", _OF_QUEUE)]),
        Panel("Objects that needed work", "ops", [(_rate("kubevirt_workqueue_adds_total", _OF_NODE), _OF_QUEUE)]),
        Panel("Work tried again", "ops", [(_rate("kubevirt_workqueue_retries_total", _OF_NODE), _OF_QUEUE)]),
        Panel(
            "How long objects waited (95 %)",
            "s",
            [(_quantile("kubevirt_workqueue_queue_duration_seconds", "name"), "{{name}}")],
        ),
        Panel(
            "How long work took (95 %)",
            "s",
            [(_quantile("kubevirt_workqueue_work_duration_seconds", "name"), "{{name}}")],
        ),
        Panel(
            "Oldest work",
            "s",
            [(f"kubevirt_workqueue_longest_running_processor_seconds{_OF_NODE}", _OF_QUEUE)],
        ),
        Panel("Work that goes on", "s", [(f"kubevirt_workqueue_unfinished_work_seconds{_OF_NODE}", _OF_QUEUE)]),
    ),
)
DASHBOARDS: Final = {"vms": VMS, "control-plane": CONTROL_PLANE}


def dashboard_document(dashboard: Dashboard) -> JsonObject:
    """What Grafana imports."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["kvedge", "kubevirt"],
        "schemaVersion": _SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source(), *(_variable(each) for each in dashboard.variables)]},
        "panels": [_panel(panel, number) for number, panel in enumerate(dashboard.panels)],
    }


def _source() -> JsonObject:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(variable: Variable) -> JsonObject:
    return {
        "name": variable.name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": variable.query, "refId": variable.name},
        "definition": variable.query,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
        "sort": 1,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(panel: Panel, number: int) -> JsonObject:
    place = {"x": number % 2 * _WIDTH, "y": number // 2 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
    instant = panel.kind != "timeseries"
    targets = [
        {
            "refId": chr(ord("A") + letter),
            "datasource": _SOURCE,
            "expr": expression,
            "legendFormat": legend or "__auto",
            "instant": instant,
            "range": not instant,
            **({"format": "table"} if panel.kind == "table" else {}),
        }
        for letter, (expression, legend) in enumerate(panel.queries)
    ]
    return {
        "id": number + 1,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }

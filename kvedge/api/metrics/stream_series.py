"""The series of streams: who has how many connections to it, and when the last one ended.

Called by role_collector.py. Pure. Names, types and labels are KubeVirt's, with `node` beside them, as each process
knows its own streams alone. Unlike KubeVirt's they go with the VMI.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kvedge.api.metrics.exposition import Metric
from kvedge.api.metrics.series_table import Table, gauge
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.usage.role_stats import RoleStats, StreamStats

_LAST: Final = "kubevirt_vmi_last_api_connection_timestamp_seconds"
# By what a stream is called in its path.
_ACTIVE: Final = {
    "console": "kubevirt_console_active_connections",
    "vnc": "kubevirt_vnc_active_connections",
    "usbredir": "kubevirt_usbredir_active_connections",
    "portforward": "kubevirt_portforward_active_tunnels",
    "spice": "kvedge_spice_active_connections",
}
TABLE: Final[Table] = {
    **{name: gauge(f"Streams of the kind {kind} that are open, by VMI.") for kind, name in _ACTIVE.items()},
    _LAST: gauge("When the last stream to a VMI ended."),
}


def build_stream_metrics(
    found: Sequence[tuple[str, RoleStats]], vmis: Iterable[VirtualMachineInstance]
) -> list[Metric]:
    """The metrics of streams of all processes, of VMIs that are there; a process is told of once, as first asked."""
    metrics = {name: Metric(name, row.kind, row.help) for name, row in TABLE.items()}
    there = {(vmi.metadata.namespace, vmi.metadata.name, vmi.metadata.uid) for vmi in vmis}
    processes = {stats.process: (node, stats) for node, stats in reversed(found)}
    for node, stats in processes.values():
        for streams in stats.streams:
            if (streams.namespace, streams.name, streams.uid) in there:
                _add(metrics, node, streams)
    return list(metrics.values())


def _add(metrics: dict[str, Metric], node: str, streams: StreamStats) -> None:
    labels = {"node": node, "namespace": streams.namespace, "vmi": streams.name}
    for kind, name in _ACTIVE.items():
        if kind in streams.open:
            metrics[name].add(labels, streams.open[kind])
    if streams.ended:
        metrics[_LAST].add(labels, streams.ended)

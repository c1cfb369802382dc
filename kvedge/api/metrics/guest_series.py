"""ONE table of the series of guests: KubeVirt's name, type and unit for each figure of libvirt's or the agent's.

Called by metrics_server.py. Pure. A series is a row here; what libvirt does not tell of a guest has no sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from kvedge.api.metrics.exposition import Metric, Number
from kvedge.resources.usage.guest_stats import FilesystemStats, GuestStats, StatsPart

_NANOSECOND: Final = 1e-9
_KIB: Final = 1024
_THOUSANDTH: Final = 1e-3
_LOAD: Final = "kubevirt_vmi_guest_load_"
_MOVE: Final = "kubevirt_vmi_migration_"


class Row(Struct, frozen=True):
    """One metric: of which group, by which of libvirt's figures, and what one of it comes to."""

    group: Literal["guest", "vcpu", "disk", "nic", "way", "mount"]
    name: str
    kind: Literal["counter", "gauge"]
    figure: str
    help: str
    unit: Number = 1


_GROUPS: Final = ("guest", "vcpu", "disk", "nic", "way", "mount")
_guest, _vcpu, _disk, _nic, _way, _mount = (partial(Row, group) for group in _GROUPS)

ROWS: Final = (
    _guest(
        "kubevirt_vmi_cpu_usage_seconds_total", "counter", "cpu.time", "CPU time of QEMU and its vCPUs.", _NANOSECOND
    ),
    _guest("kubevirt_vmi_cpu_user_usage_seconds_total", "counter", "cpu.user", "CPU time in user space.", _NANOSECOND),
    _guest(
        "kubevirt_vmi_cpu_system_usage_seconds_total", "counter", "cpu.system", "CPU time in the kernel.", _NANOSECOND
    ),
    _guest("kubevirt_vmi_memory_domain_bytes", "gauge", "balloon.current", "Memory that the guest has now.", _KIB),
    _guest("kubevirt_vmi_memory_actual_balloon_bytes", "gauge", "balloon.current", "Size of the balloon.", _KIB),
    _guest("kubevirt_vmi_memory_resident_bytes", "gauge", "balloon.rss", "Resident memory of QEMU.", _KIB),
    _guest("kubevirt_vmi_memory_available_bytes", "gauge", "balloon.available", "Memory that the guest sees.", _KIB),
    _guest("kubevirt_vmi_memory_unused_bytes", "gauge", "balloon.unused", "Memory that the guest leaves unused.", _KIB),
    _guest("kubevirt_vmi_memory_usable_bytes", "gauge", "balloon.usable", "Memory to be had without swapping.", _KIB),
    _guest("kubevirt_vmi_memory_cached_bytes", "gauge", "balloon.disk_caches", "Caches to be given up.", _KIB),
    _guest("kubevirt_vmi_memory_swap_in_traffic_bytes", "gauge", "balloon.swap_in", "Swapped in by the guest.", _KIB),
    _guest("kubevirt_vmi_memory_swap_out_traffic_bytes", "gauge", "balloon.swap_out", "Swapped out by it.", _KIB),
    _guest("kubevirt_vmi_memory_pgmajfault_total", "counter", "balloon.major_fault", "Page faults with I/O."),
    _guest("kubevirt_vmi_memory_pgminfault_total", "counter", "balloon.minor_fault", "Page faults without."),
    _guest(
        "kubevirt_vmi_dirty_rate_bytes_per_second", "gauge", "dirtyrate.bytes_per_second", "Memory that it changes."
    ),
    _guest("kubevirt_vmi_node_cpu_affinity", "gauge", "cpu.affinity", "CPUs of the node that vCPUs may use, summed."),
    _guest(f"{_LOAD}1m", "gauge", "load.1m", "Load of the guest over a minute, as its agent says.", _THOUSANDTH),
    _guest(f"{_LOAD}5m", "gauge", "load.5m", "Load of the guest over five minutes.", _THOUSANDTH),
    _guest(f"{_LOAD}15m", "gauge", "load.15m", "Load of the guest over fifteen minutes.", _THOUSANDTH),
    _guest(f"{_MOVE}data_bytes_total", "counter", "job.data_total", "What is to be sent of a guest that moves."),
    _guest(f"{_MOVE}data_processed_bytes", "gauge", "job.data_processed", "What has been sent of it."),
    _guest(f"{_MOVE}data_remaining_bytes", "gauge", "job.data_remaining", "What is still to be sent of it."),
    _guest(f"{_MOVE}memory_transfer_rate_bytes", "gauge", "job.memory_bps", "Memory sent of it, a second."),
    _guest(f"{_MOVE}dirty_memory_rate_bytes", "gauge", "job.memory_dirty_bps", "Memory that it changes, a second."),
    _vcpu("kubevirt_vmi_vcpu_seconds_total", "counter", "time", "Time that a vCPU has run.", _NANOSECOND),
    _vcpu("kubevirt_vmi_vcpu_wait_seconds_total", "counter", "wait", "Time that it has waited for I/O.", _NANOSECOND),
    _vcpu("kubevirt_vmi_vcpu_delay_seconds_total", "counter", "delay", "Time queued by the host.", _NANOSECOND),
    _disk("kubevirt_vmi_storage_iops_read_total", "counter", "rd.reqs", "Reads."),
    _disk("kubevirt_vmi_storage_iops_write_total", "counter", "wr.reqs", "Writes."),
    _disk("kubevirt_vmi_storage_read_traffic_bytes_total", "counter", "rd.bytes", "Bytes read."),
    _disk("kubevirt_vmi_storage_write_traffic_bytes_total", "counter", "wr.bytes", "Bytes written."),
    _disk("kubevirt_vmi_storage_read_times_seconds_total", "counter", "rd.times", "Time of reads.", _NANOSECOND),
    _disk("kubevirt_vmi_storage_write_times_seconds_total", "counter", "wr.times", "Time of writes.", _NANOSECOND),
    _disk("kubevirt_vmi_storage_flush_requests_total", "counter", "fl.reqs", "Flushes."),
    _disk("kubevirt_vmi_storage_flush_times_seconds_total", "counter", "fl.times", "Time of flushes.", _NANOSECOND),
    _nic("kubevirt_vmi_network_receive_bytes_total", "counter", "rx.bytes", "Bytes that came to the guest."),
    _nic("kubevirt_vmi_network_transmit_bytes_total", "counter", "tx.bytes", "Bytes that it sent."),
    _nic("kubevirt_vmi_network_receive_packets_total", "counter", "rx.pkts", "Packets that came to it."),
    _nic("kubevirt_vmi_network_transmit_packets_total", "counter", "tx.pkts", "Packets that it sent."),
    _nic("kubevirt_vmi_network_receive_errors_total", "counter", "rx.errs", "Errors on the way to it."),
    _nic("kubevirt_vmi_network_transmit_errors_total", "counter", "tx.errs", "Errors on the way from it."),
    _nic("kubevirt_vmi_network_receive_packets_dropped_total", "counter", "rx.drop", "Packets to it, dropped."),
    _nic("kubevirt_vmi_network_transmit_packets_dropped_total", "counter", "tx.drop", "Packets from it, dropped."),
    _way("kubevirt_vmi_network_traffic_bytes_total", "counter", "bytes", "Deprecated: both ways, by the label type."),
    _mount("kubevirt_vmi_filesystem_capacity_bytes", "gauge", "total", "Size of a file system in the guest."),
    _mount("kubevirt_vmi_filesystem_used_bytes", "gauge", "used", "What is used of it."),
)
_Part = tuple[Mapping[str, str], Mapping[str, int]]


def build_guest_metrics(guests: Iterable[tuple[str, GuestStats]]) -> list[Metric]:
    """The metrics of guests, each with the node that it runs on."""
    metrics = {row: Metric(row.name, row.kind, row.help) for row in ROWS}
    up = Metric("kvedge_vmi_stats_up", "gauge", "Whether launcher and QEMU told what the guest has used.")
    for node, guest in guests:
        base = {"node": node, "namespace": guest.namespace, "name": guest.name}
        up.add(base, int(guest.complete))
        parts = {group: list(_parts(group, base, guest)) for group in _GROUPS}
        for row, metric in metrics.items():
            for labels, figures in parts[row.group]:
                if row.figure in figures:
                    metric.add(labels, figures[row.figure] * row.unit)
    return [*metrics.values(), up]


def _parts(group: str, base: Mapping[str, str], guest: GuestStats) -> Iterator[_Part]:
    if group == "guest":
        yield base, guest.figures
    elif group == "vcpu":
        yield from (({**base, "id": part.name, "state": part.state}, part.figures) for part in guest.vcpus)
    elif group == "disk":
        yield from (({**base, "drive": part.name}, part.figures) for part in guest.disks)
    elif group == "way":
        yield from (_label_way(base, nic, way) for nic in guest.nics for way in ("rx", "tx"))
    elif group == "mount":
        # An agent that is too old to tell sizes says 0 for both.
        yield from (_label_mount(base, mount) for mount in guest.filesystems if mount.total)
    else:
        yield from (({**base, "interface": part.name}, part.figures) for part in guest.nics)


def _label_way(base: Mapping[str, str], nic: StatsPart, way: str) -> _Part:
    total = nic.figures.get(f"{way}.bytes")
    return {**base, "interface": nic.name, "type": way}, {} if total is None else {"bytes": total}


def _label_mount(base: Mapping[str, str], mount: FilesystemStats) -> _Part:
    labels = {"disk_name": mount.disk, "mount_point": mount.mount_point, "file_system_type": mount.type}
    return {**base, **labels}, {"total": mount.total, "used": mount.used}

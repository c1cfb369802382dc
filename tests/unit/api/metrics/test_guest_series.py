"""The series of guests: KubeVirt's names, types, labels and units, and what of its list is not there."""

from __future__ import annotations

from typing import Final

from kvedge.api.metrics.exposition import render
from kvedge.api.metrics.guest_series import ROWS, build_guest_metrics
from kvedge.resources.usage.guest_stats import FilesystemStats, GuestStats, StatsPart
from tests.unit.api.metrics.test_exposition import read_back

# Of docs/observability/metrics.md of KubeVirt 1.9: all of a guest that virt-handler measures, with its type.
_COUNTERS: Final = """
migration_data_bytes_total
cpu_system_usage_seconds_total cpu_usage_seconds_total cpu_user_usage_seconds_total memory_pgmajfault_total
memory_pgminfault_total network_receive_bytes_total network_receive_errors_total network_receive_packets_dropped_total
network_receive_packets_total network_traffic_bytes_total network_transmit_bytes_total network_transmit_errors_total
network_transmit_packets_dropped_total network_transmit_packets_total storage_flush_requests_total
storage_flush_times_seconds_total storage_iops_read_total storage_iops_write_total storage_read_times_seconds_total
storage_read_traffic_bytes_total storage_write_times_seconds_total storage_write_traffic_bytes_total
vcpu_delay_seconds_total vcpu_seconds_total vcpu_wait_seconds_total
"""
_GAUGES: Final = """
migration_data_processed_bytes migration_data_remaining_bytes migration_dirty_memory_rate_bytes
migration_memory_transfer_rate_bytes dirty_rate_bytes_per_second filesystem_capacity_bytes
filesystem_used_bytes guest_load_15m guest_load_1m guest_load_5m
memory_actual_balloon_bytes memory_available_bytes memory_cached_bytes memory_domain_bytes memory_resident_bytes
memory_swap_in_traffic_bytes memory_swap_out_traffic_bytes memory_unused_bytes memory_usable_bytes node_cpu_affinity
"""
KUBEVIRTS: Final = {
    f"kubevirt_vmi_{name}": kind
    for kind, names in (("counter", _COUNTERS), ("gauge", _GAUGES))
    for name in names.split()
}


def test_names_and_types_are_kubevirts() -> None:
    there = {row.name: row.kind for row in ROWS}
    assert there == KUBEVIRTS
    assert len(there) == len(ROWS)


def test_figures_come_in_kubevirts_units_and_with_its_labels() -> None:
    guest = GuestStats(
        namespace="shop",
        name="web",
        answered=True,
        complete=True,
        figures={"cpu.time": 1_500_000_000, "balloon.current": 4, "unknown": 1},
        vcpus=[StatsPart(name="0", state="running", figures={"time": 2_000_000_000})],
        disks=[StatsPart(name="root", figures={"rd.bytes": 512, "fl.times": 500_000_000})],
        nics=[StatsPart(name="default", figures={"rx.bytes": 77})],
    )
    base = {"node": "n1", "namespace": "shop", "name": "web"}
    assert read_back(render(build_guest_metrics([("n1", guest)]))) == {
        "kubevirt_vmi_cpu_usage_seconds_total": [(base, 1.5)],
        "kubevirt_vmi_memory_domain_bytes": [(base, 4096.0)],
        "kubevirt_vmi_memory_actual_balloon_bytes": [(base, 4096.0)],
        "kubevirt_vmi_vcpu_seconds_total": [(base | {"id": "0", "state": "running"}, 2.0)],
        "kubevirt_vmi_storage_read_traffic_bytes_total": [(base | {"drive": "root"}, 512.0)],
        "kubevirt_vmi_storage_flush_times_seconds_total": [(base | {"drive": "root"}, 0.5)],
        "kubevirt_vmi_network_receive_bytes_total": [(base | {"interface": "default"}, 77.0)],
        "kubevirt_vmi_network_traffic_bytes_total": [(base | {"interface": "default", "type": "rx"}, 77.0)],
        "kvedge_vmi_stats_up": [(base, 1.0)],
    }


def test_the_load_is_told_in_processes_and_a_move_in_bytes() -> None:
    figures = {"load.1m": 250, "load.15m": 2000, "cpu.affinity": 8, "dirtyrate.bytes_per_second": 5}
    figures |= {"job.data_total": 10, "job.memory_dirty_bps": 3}
    guest = GuestStats(namespace="shop", name="web", answered=True, complete=True, figures=figures)
    found = read_back(render(build_guest_metrics([("n1", guest)])))
    assert {name: value for name, [(_, value)] in found.items()} == {
        "kubevirt_vmi_guest_load_1m": 0.25,
        "kubevirt_vmi_guest_load_15m": 2.0,
        "kubevirt_vmi_node_cpu_affinity": 8.0,
        "kubevirt_vmi_dirty_rate_bytes_per_second": 5.0,
        "kubevirt_vmi_migration_data_bytes_total": 10.0,
        "kubevirt_vmi_migration_dirty_memory_rate_bytes": 3.0,
        "kvedge_vmi_stats_up": 1.0,
    }


def test_a_guest_whose_launcher_does_not_answer_is_left_apart_and_told_by_a_series() -> None:
    text = render(build_guest_metrics([("n1", GuestStats(namespace="shop", name="hung"))]))
    assert read_back(text) == {
        "kvedge_vmi_stats_up": [({"node": "n1", "namespace": "shop", "name": "hung"}, 0.0)],
    }


def test_file_systems_have_kubevirts_labels_and_those_without_a_size_no_series() -> None:
    mounts = [
        FilesystemStats(disk="vda1", mount_point="/", type="ext4", used=3, total=10),
        # The guest's word: two that look the same make no scrape unreadable.
        FilesystemStats(disk="vda1", mount_point="/", type="ext4", used=4, total=11),
        FilesystemStats(disk="vdb", mount_point='/a "b"\n', type="xfs", total=7),
        FilesystemStats(disk="vdc", mount_point="/old", type="ext4"),
    ]
    guest = GuestStats(namespace="shop", name="web", answered=True, complete=True, filesystems=mounts)
    found = read_back(render(build_guest_metrics([("n1", guest)])))
    base = {"node": "n1", "namespace": "shop", "name": "web"}
    root = base | {"disk_name": "vda1", "mount_point": "/", "file_system_type": "ext4"}
    other = base | {"disk_name": "vdb", "mount_point": '/a "b"\n', "file_system_type": "xfs"}
    assert found["kubevirt_vmi_filesystem_capacity_bytes"] == [(root, 10.0), (other, 7.0)]
    assert found["kubevirt_vmi_filesystem_used_bytes"] == [(root, 3.0), (other, 0.0)]

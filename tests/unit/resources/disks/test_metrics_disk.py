"""Which VMIs read metrics of their host."""

from __future__ import annotations

import pytest

from kvedge.resources.disks.metrics_disk import has_metrics_disk, reads_metrics
from tests.support.builders import small_vmi, vmi_of

DISK = [{"name": "metrics", "downwardMetrics": {}}]


@pytest.mark.parametrize(
    ("changes", "reads", "disk"),
    [
        ({}, False, False),
        ({"domain__devices__downwardMetrics": {}}, True, False),
        ({"volumes": DISK}, True, True),
    ],
    ids=["neither", "a port", "a disk"],
)
def test_a_guest_reads_by_a_port_or_a_disk(changes: dict[str, object], reads: bool, disk: bool) -> None:
    spec = vmi_of(small_vmi(**changes)).spec
    assert (reads_metrics(spec), has_metrics_disk(spec.volumes)) == (reads, disk)

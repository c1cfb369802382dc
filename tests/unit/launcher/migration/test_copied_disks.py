"""Which disks of a guest that moves are copied."""

from __future__ import annotations

import pytest

from kvedge.launcher.libvirt.domain_facts import DomainDisk
from kvedge.launcher.migration.copied_disks import find_copied

OWN = "/var/run/kubevirt-ephemeral-disks/disk-data/root/disk.qcow2"


@pytest.mark.parametrize(
    ("disk", "is_copied"),
    [
        pytest.param(DomainDisk("d", "vda", "disk", OWN), True, id="layer over an image"),
        pytest.param(DomainDisk("d", "vda", "disk", "/var/run/libvirt/empty-disks/d.qcow2"), True, id="empty disk"),
        pytest.param(
            DomainDisk("d", "vda", "disk", "/var/run/kubevirt-private/secret-disks/d.iso"), True, id="ISO as a disk"
        ),
        pytest.param(DomainDisk("d", "vda", "disk", OWN, read_only=True), False, id="read only"),
        pytest.param(DomainDisk("d", "sda", "cdrom", OWN, read_only=True), False, id="drive"),
        pytest.param(
            DomainDisk("d", "vda", "disk", "/var/run/kubevirt-private/vmi-disks/d/disk.img"), False, id="claim"
        ),
        pytest.param(DomainDisk("d", "vda", "disk", "/dev/d"), False, id="block device"),
        pytest.param(DomainDisk("d", "sda", "cdrom", ""), False, id="empty drive"),
    ],
)
def test_the_pods_own_writable_disks_are_copied(disk: DomainDisk, *, is_copied: bool) -> None:
    assert find_copied([disk]) == (("vda",) if is_copied else ())


def test_a_root_before_the_paths_is_not_looked_at() -> None:
    assert find_copied([DomainDisk("d", "vda", "disk", f"/tmp/x{OWN}")], "/tmp/x") == ("vda",)

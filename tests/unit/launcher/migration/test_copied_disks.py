"""Which disks of a guest that moves are copied."""

from __future__ import annotations

import pytest

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.libvirt.destination_xml import CopiedClaim
from kvedge.launcher.libvirt.domain_facts import DomainDisk
from kvedge.launcher.migration.copied_disks import find_copied, find_copied_claims

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


DATA = DomainDisk("d", "vdb", "disk", "/var/run/kubevirt-private/vmi-disks/d/disk.img")
DEVICE = DomainDisk("d", "vdb", "disk", "/dev/d")


@pytest.mark.parametrize("disk", [DATA, DEVICE], ids=["from a file", "from a device"])
def test_a_disk_whose_claim_is_another_one_over_there_is_copied_to_what_that_is(disk: DomainDisk) -> None:
    assert find_copied_claims([disk], ["d"], []) == (CopiedClaim("d", "vdb", DATA.source, block=False),)
    assert find_copied_claims([disk], ["d"], ["d"]) == (CopiedClaim("d", "vdb", "/dev/d", block=True),)
    below = disk._replace(source=f"/tmp/x{disk.source}")
    assert find_copied_claims([below], ["d"], ["d"], "/tmp/x")[0].path == "/tmp/x/dev/d"
    assert find_copied_claims([disk], [], []) == ()


@pytest.mark.parametrize(
    "disk",
    [
        DATA._replace(name="e"),
        DATA._replace(read_only=True),
        DATA._replace(device="lun"),
        DATA._replace(source="/var/run/kubevirt/hotplug-disks/d.img"),
        DATA._replace(source="/var/run/kubevirt-private/vmi-disks/d/other.img"),
    ],
    ids=["there is none", "read only", "a LUN", "hotplugged", "of the host"],
)
def test_what_is_no_disk_on_a_claim_of_the_guest_alone_is_not_copied(disk: DomainDisk) -> None:
    with pytest.raises(BadRequest, match=r"copied_volumes\[d\]"):
        find_copied_claims([disk], ["d"], [])

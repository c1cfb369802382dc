"""The directories of the host's disks in a launcher's Pod."""

from __future__ import annotations

from typing import Any

from kvedge.controller.vmi.launcher_pod.launcher_pod_host_disks import make_mounted_host_disks
from kvedge.resources.codec import encode
from tests.support.builders import vmi_with, with_volumes


def mounted(taken: set[str], *disks: dict[str, Any]) -> list[tuple[Any, Any]]:
    volumes = [{"name": f"disk{index}", "hostDisk": disk} for index, disk in enumerate(disks)]
    vmi = vmi_with(with_volumes(*volumes), name="v", namespace="n", uid="u")
    return [(encode(volume), encode(mount)) for volume, mount in make_mounted_host_disks(vmi, taken)]


def test_each_file_s_directory_is_mounted_and_may_be_made_only_with_the_file() -> None:
    found = mounted(
        {"disk1"}, {"path": "/srv/vms/a.img", "type": "Disk"}, {"path": "/srv/vms/b.img", "type": "DiskOrCreate"}
    )
    assert [volume["hostPath"] for volume, _ in found] == [
        {"path": "/srv/vms", "type": "Directory"},
        {"path": "/srv/vms", "type": "DirectoryOrCreate"},
    ]
    assert [mount["mountPath"] for _, mount in found] == [
        "/var/run/kubevirt-private/vmi-disks/disk0",
        "/var/run/kubevirt-private/vmi-disks/disk1",
    ]
    assert [volume["name"] == mount["name"] for volume, mount in found] == [True, True]
    assert found[1][0]["name"] != "disk1", "the launcher has that name for itself"

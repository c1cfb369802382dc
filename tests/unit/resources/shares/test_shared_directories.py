"""Which volumes are directories of the guest, and where they are."""

from __future__ import annotations

import pytest

from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.shares.shared_directories import share_socket, shared_directory, shared_volumes
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import Volume


@pytest.mark.parametrize(
    ("source", "directory"),
    [
        ({"persistentVolumeClaim": {"claimName": "a"}}, "vmi-disks/v"),
        ({"dataVolume": {"name": "a"}}, "vmi-disks/v"),
        ({"configMap": {"name": "a"}}, "config-map/v"),
        ({"secret": {"secretName": "a"}}, "secret/v"),
        ({"downwardAPI": {"fields": []}}, "downwardapi/v"),
        ({"serviceAccount": {"serviceAccountName": "a"}}, "service-account"),
        ({"sysprep": {"configMap": {"name": "a"}}}, None),
        ({"emptyDisk": {"capacity": "1Gi"}}, None),
        ({"ephemeral": {"persistentVolumeClaim": {"claimName": "a"}}}, None),
    ],
)
def test_a_volume_has_one_directory_or_none(source: JsonObject, directory: str | None) -> None:
    expected = None if directory is None else f"/var/run/kubevirt-private/{directory}"
    assert shared_directory(decode(Volume, {"name": "v", **source})) == expected


def test_filesystems_find_their_volumes_by_name() -> None:
    filesystems = [{"name": name, "virtiofs": {}} for name in ("b", "missing", "a")]
    volumes = [{"name": name, "configMap": {"name": name}} for name in ("a", "b", "c")]
    spec = decode(VirtualMachineInstanceSpec, {"domain": {"devices": {"filesystems": filesystems}}, "volumes": volumes})
    assert [(index, volume.name) for index, volume in shared_volumes(spec)] == [(0, "b"), (2, "a")]


def test_the_longest_name_makes_a_path_that_a_socket_can_have() -> None:
    assert len(share_socket("a" * 63).encode()) < 108

"""The directories that a guest has by virtiofs: of which volumes, and where they and their sockets are in its Pod.

Called by admission, by the controller, which gives each of them a container, and by the launcher. Pure. Names and paths
are KubeVirt's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kvedge.resources.disks.config_disks import config_disk
from kvedge.resources.disks.volume_facts import claim_directory
from kvedge.resources.names import SHARES_DIRECTORY
from kvedge.resources.shares.container_paths import PATH_DIRECTORY

if TYPE_CHECKING:
    from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
    from kvedge.resources.types.volumes import Volume

# The Pod's volume that the launcher and these containers have in common.
SHARES_VOLUME: Final = "virtiofs-containers"
# The longest tag that virtio takes, in bytes of UTF-8.
LONGEST_TAG: Final = 36


def shared_volumes(spec: VirtualMachineInstanceSpec) -> Iterator[tuple[int, Volume]]:
    """The volumes that are filesystems of the guest, each with its filesystem's place in the list."""
    volumes = {volume.name: volume for volume in spec.volumes}
    for index, filesystem in enumerate(spec.domain.devices.filesystems):
        if filesystem.name in volumes:
            yield index, volumes[filesystem.name]


def is_claim(volume: Volume) -> bool:
    """Whether the volume's directory is that of a claim."""
    return volume.persistent_volume_claim is not None or volume.data_volume is not None


def shared_directory(volume: Volume) -> str | None:
    """Where the volume's directory is in its container; None for a volume that has none to share."""
    if volume.container_path is not None:
        return PATH_DIRECTORY
    if is_claim(volume):
        return claim_directory(volume.name)
    disk = config_disk(volume)
    return None if disk is None or volume.sysprep is not None else disk.directory


def share_socket(name: str) -> str:
    """The socket by which QEMU reaches what serves the directory of a volume."""
    return f"{SHARES_DIRECTORY}/{name}.sock"

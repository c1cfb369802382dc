"""The images whose file systems a VMI's launcher needs: container disks, and the one that holds a kernel.

Called by the controller, which puts them into the Pod, and by the handler, which hands those over that the kubelet
could not mount. Touches nothing.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.resources.names import IMAGE_VOLUMES_DIRECTORY
from kvedge.resources.types.vmi import VirtualMachineInstance

KERNEL_BOOT: Final = "kernel-boot"


class ImageTree(Struct, frozen=True):
    """One image; `name` is that of the Pod's volume, and of the container where there is one for it."""

    name: str
    path: str
    image: str
    pull_policy: str = ""
    pull_secret: str = ""
    # What the VMI calls it, for messages.
    subject: str = ""


def image_trees(vmi: VirtualMachineInstance) -> list[ImageTree]:
    """All of them, in the order in which they are mounted; `path` is where the launcher looks for each."""
    firmware = vmi.spec.domain.firmware
    made = []
    if firmware is not None and firmware.kernel_boot is not None and firmware.kernel_boot.container is not None:
        kernel = firmware.kernel_boot.container
        made.append(
            ImageTree(
                KERNEL_BOOT,
                f"{IMAGE_VOLUMES_DIRECTORY}/{KERNEL_BOOT}",
                kernel.image,
                kernel.image_pull_policy,
                kernel.image_pull_secret,
                "the kernel's image",
            )
        )
    for index, volume in enumerate(vmi.spec.volumes):
        disk = volume.container_disk
        if disk is not None:
            made.append(
                ImageTree(
                    f"volume{volume.name}",
                    f"{IMAGE_VOLUMES_DIRECTORY}/disk_{index}",
                    disk.image,
                    disk.image_pull_policy,
                    disk.image_pull_secret,
                    f"container disk {volume.name}",
                )
            )
    return made

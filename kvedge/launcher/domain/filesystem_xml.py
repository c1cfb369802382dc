"""`<filesystem>`: a directory of the launcher's Pod that the guest mounts by its tag.

What serves it runs in a container of its own, and QEMU reaches it by a socket. Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.shares.shared_directories import share_socket
from kvedge.resources.types.vmi import VirtualMachineInstance

_FIELD: Final = "spec.domain.devices.filesystems"
# Requests that wait in the ring, as in KubeVirt.
_QUEUE: Final = 1024


def add_filesystems(devices: Element, vmi: VirtualMachineInstance, root: str = "") -> None:
    """One for each; `root` is before the Pod's paths.

    Raises:
        ConversionError: for one of no kind that there is.
    """
    for index, filesystem in enumerate(vmi.spec.domain.devices.filesystems):
        if filesystem.virtiofs is None:
            raise ConversionError(f"{_FIELD}[{index}].virtiofs", "is not there", "set it to {}")
        element = add(devices, "filesystem", type="mount", accessmode="passthrough")
        add(element, "driver", type="virtiofs", queue=_QUEUE)
        add(element, "source", socket=root + share_socket(filesystem.name))
        add(element, "target", dir=filesystem.name)

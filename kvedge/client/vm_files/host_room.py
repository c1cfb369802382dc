"""How much room there is for the disks of an import, where their volumes lie on this computer.

Called by imports. A box's volumes lie on the host on which its user mostly sits: then a full disk is told before it is
full. Looks at the file systems of volumes that are there; changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from kvedge.resources.types.storage import PersistentVolume


def find_room(volumes: Iterable[PersistentVolume], storage_class: str) -> int | None:
    """The free bytes beside the volumes of a class, of any class when it is empty.

    None when that cannot be known: no such volume is on this computer. A volume's path has its UID in it, so that one
    of another host is not taken for it.
    """
    for volume in volumes:
        if storage_class and volume.spec.storage_class_name != storage_class:
            continue
        source = volume.spec.local or volume.spec.host_path
        # Of a device the file system says nothing.
        if source is None or not os.path.isdir(source.path):
            continue
        facts = os.statvfs(source.path)
        return facts.f_bavail * facts.f_frsize
    return None

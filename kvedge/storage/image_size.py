"""How large the guest's disk is in a container disk's file system.

Called by the command line, for the claim that an image is copied to. Reads the first bytes of the disk alone: the tree
is hostile, and no link is followed.
"""

from __future__ import annotations

import os
from pathlib import Path

from kvedge.storage.beneath import hold_directory, open_regular
from kvedge.storage.container_disk import ContainerDiskError, find_disk_at
from kvedge.storage.image_errors import BadImage
from kvedge.storage.qcow2_header import HEADER_SIZE, check_qcow2_header


def read_disk_size(tree: Path) -> int:
    """In bytes.

    Raises:
        BadImage: when there is no disk that can be used.
    """
    try:
        with hold_directory(tree) as root:
            disk = find_disk_at(root)
            if disk.format != "qcow2":
                return disk.size
            opened = open_regular(root, disk.path)
    except ContainerDiskError as error:
        raise BadImage(str(error)) from error
    try:
        return check_qcow2_header(os.pread(opened, HEADER_SIZE, 0)).virtual_size
    finally:
        os.close(opened)

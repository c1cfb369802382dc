"""The container disk that the cluster tests' VMs boot from.

For a cluster of somebody else's: `python -m tests.support.cluster.guest_image guest.tar`, then import the archive on
its nodes (`k3s ctr images import guest.tar`), or push it to a registry and name it with $KVEDGE_TEST_IMAGE.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.cluster.any_cluster import GUEST_IMAGE
from tests.support.guest import build_guest
from tests.support.small_images import directory, file, layer, oci_archive


def write_guest_image(archive: Path, image: str = GUEST_IMAGE, *, agent: bool = False) -> None:
    """Write an archive with the small guest's disk, with a guest agent in it or without."""
    disk = build_guest(agent=agent).disk.read_bytes()
    found = layer([directory("disk", 0o755), file("disk/disk.qcow2", disk, 0o644)])
    oci_archive(archive, [found], {}, image, zipped=False)


if __name__ == "__main__":
    write_guest_image(Path(sys.argv[1]))

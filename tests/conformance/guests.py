"""The guests that KubeVirt's tests name, made from the distribution's packages and brought into a server's images.

Called by the conformance run. Each is the small guest of packaging/guest with an overlay of `guests/`: its users,
prompts and login texts are what the specs expect. With KVEDGE_TEST_DEBIAN set, Fedora is a real Debian with systemd and
cloud-init, whose user is fedora. Writes below the tests' cache directory only.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.box import Box
from tests.support.debian_guest.guest_disk import build_debian_guest
from tests.support.guest import BUILDER, cache_directory
from tests.support.small_images import directory, file, layer, oci_archive
from tests.support.unpacked_packages import unpack_packages

REGISTRY_PORT: Final = 5443
TAG: Final = "devel"
_OVERLAYS: Final = Path(__file__).parent / "guests"


@dataclass(frozen=True)
class NamedGuest:
    """One guest and the images that hold it."""

    overlay: str
    images: tuple[str, ...]
    agent: bool = False


GUESTS: Final = (
    NamedGuest("alpine", ("alpine-container-disk-demo",)),
    NamedGuest("alpine", ("alpine-with-test-tooling-container-disk",), agent=True),
    NamedGuest("cirros", ("cirros-container-disk-demo", "cirros-custom-container-disk-demo")),
    NamedGuest("fedora", ("fedora-with-test-tooling-container-disk",), agent=True),
)


def image_prefix(address: str) -> str:
    """What the names of all images begin with, where a registry at this address may be asked for them."""
    return f"{address}:{REGISTRY_PORT}/kubevirt"


def import_guests(box: Box, prefix: str) -> None:
    """Make what is missing, and bring all of it into the box."""
    for guest in GUESTS:
        disk = build_named_guest(guest)
        for image in guest.images:
            box.import_image(disk, f"{prefix}/{image}:{TAG}")


def build_named_guest(guest: NamedGuest) -> Path:
    """The guest's disk, made when it is missing or old.

    Raises:
        RuntimeError: with what the builder said, when it cannot be made.
    """
    if guest.overlay == "fedora" and has_debian():
        return build_debian_guest()
    target = cache_directory() / f"conformance-{guest.overlay}{'-agent' if guest.agent else ''}"
    command = [str(BUILDER), str(target), "--cache", str(cache_directory() / "packages"), "--generic"]
    command += ["--agent"] if guest.agent else []
    for overlay in (_bash_overlay(), _OVERLAYS / "common", _OVERLAYS / guest.overlay):
        command += ["--overlay", str(overlay)]
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "guest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return target / "disk.qcow2"


def has_debian() -> bool:
    """Whether the run was asked to take a real Debian for Fedora."""
    return bool(os.environ.get("KVEDGE_TEST_DEBIAN"))


def _bash_overlay() -> Path:
    """bash as the distribution links it statically: the specs' scripts name it."""
    program = unpack_packages("bash-static", "bash-static") / "bin/bash-static"
    overlay = cache_directory() / "packages" / "bash-overlay"
    (overlay / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(program, overlay / "bin/bash")
    return overlay


def write_disk_image(archive: Path, disk: Path, name: str = "") -> None:
    """The archive of an image that holds a guest's disk."""
    content = layer([directory("disk"), file("disk/disk.qcow2", disk.read_bytes())])
    oci_archive(archive, [content], {}, name, zipped=False)

"""The size of the guest's disk in an image."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kvedge.storage.image_errors import BadImage
from kvedge.storage.image_size import read_disk_size


@pytest.mark.parametrize("kind", ["raw", "qcow2"])
def test_the_size_is_the_guest_s_and_not_the_file_s(tmp_path: Path, kind: str) -> None:
    (tmp_path / "disk").mkdir()
    disk = tmp_path / "disk" / "image"
    subprocess.run(["qemu-img", "create", "-q", "-f", kind, disk, "3M"], check=True)
    disk.chmod(0o444)
    assert read_disk_size(tmp_path) == 3 << 20


def test_an_image_without_a_disk_has_no_size(tmp_path: Path) -> None:
    with pytest.raises(BadImage, match="no folder /disk"):
        read_disk_size(tmp_path)

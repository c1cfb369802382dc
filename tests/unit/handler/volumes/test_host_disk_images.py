"""The image of a hostDisk: made when it is absent and may be, and never touched when it is there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kvedge.handler.held_process import identity_of
from kvedge.handler.pod_errors import PodNotReady
from kvedge.handler.volumes import host_disk_images
from kvedge.handler.volumes.host_disk_images import HostDiskImages
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.storage.blank_image import MEBIBYTE
from tests.support.builders import vmi_with, with_volumes

NODE = "node-a"


@pytest.fixture(autouse=True)
def own_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but root gives files away."""
    monkeypatch.setattr(host_disk_images, "LAUNCHER_UID", os.getuid())
    monkeypatch.setattr(host_disk_images, "LAUNCHER_GID", os.getgid())


def vmi(path: Path, **disk: Any) -> VirtualMachineInstance:
    volume = {"name": "host", "hostDisk": {"path": str(path), "type": "DiskOrCreate", **disk}}
    return vmi_with(with_volumes(volume), name="v", namespace="n", uid="u")


def prepare(subject: VirtualMachineInstance, seen: Path) -> list[tuple[str, str]]:
    """Prepare for a launcher that has the directory `seen`; returns the events."""
    told: list[tuple[str, str]] = []
    launcher = Mock()
    launcher.identify_directory.return_value = identity_of(seen.stat())
    HostDiskImages(lambda vmi, reason, text: told.append((reason, text)), NODE).prepare(subject, launcher)
    launcher.identify_directory.assert_called_once_with("/var/run/kubevirt-private/vmi-disks/host")
    return told


def test_an_absent_image_is_made_sparse_in_whole_mebibytes(tmp_path: Path) -> None:
    assert prepare(vmi(tmp_path / "web.img", capacity="24.5Mi"), tmp_path) == []
    facts = (tmp_path / "web.img").stat()
    assert (facts.st_size, facts.st_blocks, stat.S_IMODE(facts.st_mode)) == (24 * MEBIBYTE, 0, 0o660)
    assert os.listdir(tmp_path) == ["web.img"]


@pytest.mark.parametrize("kind", ["a file", "a link", "a link to nothing"])
def test_what_is_there_is_left_as_it_is(tmp_path: Path, kind: str) -> None:
    directory, other = tmp_path / "vms", tmp_path / "other"
    directory.mkdir()
    other.write_bytes(b"of somebody else")
    image = directory / "web.img"
    if kind == "a file":
        image.write_bytes(b"short")
        image.chmod(0o600)
    else:
        image.symlink_to(other if kind == "a link" else tmp_path / "nothing")
    before = image.lstat()
    prepare(vmi(image, capacity="24Mi"), directory)
    assert image.lstat() == before
    assert other.read_bytes() == b"of somebody else"
    assert not (tmp_path / "nothing").exists()
    assert os.listdir(directory) == ["web.img"]


def test_a_file_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    launcher = Mock()
    HostDiskImages(Mock(), NODE).prepare(vmi(tmp_path / "web.img", type="Disk"), launcher)
    assert (os.listdir(tmp_path), launcher.mock_calls) == ([], [])


@pytest.mark.parametrize(
    ("disk", "free", "words"),
    [
        ({"capacity": "100Mi"}, 80 * MEBIBYTE, "not enough space, demanded size 104857600 B"),
        ({"capacity": "1k"}, 80 * MEBIBYTE, "volume host is too low, must be at least 1MiB"),
        ({}, 80 * MEBIBYTE, "does not exist; make it, or set hostDisk.capacity of volume host"),
        ({"capacity": "much"}, 80 * MEBIBYTE, "volume host: hostDisk.capacity: "),
    ],
    ids=["no room", "too small", "no size", "no quantity"],
)
def test_an_image_that_cannot_be_made_is_refused_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: dict[str, Any], free: int, words: str
) -> None:
    monkeypatch.setattr(host_disk_images, "count_free_bytes", lambda directory: free)
    with pytest.raises(PodNotReady, match=words):
        prepare(vmi(tmp_path / "web.img", **disk), tmp_path)
    assert os.listdir(tmp_path) == []


def test_an_image_that_nearly_fits_is_made_smaller_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_disk_images, "count_free_bytes", lambda directory: 95 * MEBIBYTE + 5)
    ((reason, text),) = prepare(vmi(tmp_path / "web.img", capacity="100Mi"), tmp_path)
    assert (reason, "within 10 % toleration" in text) == ("ToleratedSmallPV", True)
    assert (tmp_path / "web.img").stat().st_size == 95 * MEBIBYTE


def test_a_directory_that_was_exchanged_since_the_pod_began_gets_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    with pytest.raises(PodNotReady, match="no longer the directory that the Pod has; restart the VM"):
        prepare(vmi(tmp_path / "new/web.img", capacity="24Mi"), tmp_path / "old")
    assert os.listdir(tmp_path / "new") == []


def test_a_directory_that_has_gone_is_named(tmp_path: Path) -> None:
    launcher = Mock()
    with pytest.raises(PodNotReady, match=r"volume host: .*web\.img: No such file or directory"):
        HostDiskImages(Mock(), NODE).prepare(vmi(tmp_path / "gone/web.img", capacity="24Mi"), launcher)


def test_a_guest_that_comes_from_another_node_gets_no_empty_disk(tmp_path: Path) -> None:
    subject = vmi(tmp_path / "web.img", capacity="24Mi", shared=True)
    subject.status.node_name = "node-b"
    with pytest.raises(PodNotReady, match=r"host: .*web\.img is not on node node-a; mount what both nodes share"):
        prepare(subject, tmp_path)
    assert os.listdir(tmp_path) == []
    (tmp_path / "web.img").write_bytes(b"shared")
    assert prepare(subject, tmp_path) == []

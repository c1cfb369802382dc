from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kvedge.storage import container_disk
from kvedge.storage.container_disk import ContainerDiskError, find_disk


def _image(tree: Path, files: dict[str, bytes], mode: int = 0o644) -> Path:
    for name, data in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
    return tree


def test_the_only_file_in_disk_is_the_disk_and_its_magic_tells_the_format(tmp_path: Path) -> None:
    found = find_disk(_image(tmp_path, {"disk/fedora.qcow2": b"QFI\xfb" + bytes(100), "etc/other": b""}))
    assert (found.path, found.format, found.size) == ("disk/fedora.qcow2", "qcow2", 104)

    # A name tells nothing.
    (tmp_path / "disk/fedora.qcow2").write_bytes(bytes(512))
    assert find_disk(tmp_path).format == "raw"


@pytest.mark.parametrize("path", ["/images/a.img", "images/a.img", "//images/./a.img"])
def test_a_path_names_the_disk_wherever_it_is(tmp_path: Path, path: str) -> None:
    _image(tmp_path, {"images/a.img": bytes(512), "disk/one": b"", "disk/two": b""})

    assert find_disk(tmp_path, path).path == "images/a.img"


def _refused(tree: Path, path: str = "") -> str:
    with pytest.raises(ContainerDiskError) as refused:
        find_disk(tree, path)
    return str(refused.value)


def test_an_empty_folder_two_disks_or_none_are_said_in_kubevirt_s_words(tmp_path: Path) -> None:
    assert _refused(tmp_path) == "no folder /disk found in the image"
    (tmp_path / "disk").mkdir()
    assert _refused(tmp_path) == "no file found in folder /disk, no disk present"
    _image(tmp_path, {"disk/a": b"", "disk/b": b""})
    assert _refused(tmp_path) == "more than one file found in folder /disk, only one disk is allowed"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../etc/passwd", "real.img", "/proc/self/root/etc/passwd"])
def test_a_link_is_never_a_disk_wherever_it_leads(tmp_path: Path, target: str) -> None:
    _image(tmp_path, {"real.img": bytes(512)})
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/disk.img").symlink_to(target)

    assert "symbolic link" in _refused(tmp_path)
    assert "symbolic link" in _refused(tmp_path, "/disk/disk.img")


def test_a_folder_that_is_a_link_is_not_looked_into(tmp_path: Path) -> None:
    _image(tmp_path / "outside", {"disk.img": bytes(512)})
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "disk").symlink_to(tmp_path / "outside")

    assert "symbolic link" in _refused(tree)
    assert "symbolic link" in _refused(tree, "/disk/disk.img")


@pytest.mark.parametrize("path", ["/../outside", "disk/../../outside", "..", "/", "."])
def test_a_path_out_of_the_image_is_refused(tmp_path: Path, path: str) -> None:
    assert "invalid path" in _refused(tmp_path, path)


def test_a_fifo_a_socket_or_a_directory_is_no_disk_and_nobody_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    os.mkfifo(tmp_path / "disk/pipe")
    assert "not a regular file" in _refused(tmp_path)
    (tmp_path / "disk/pipe").unlink()
    (tmp_path / "disk/folder").mkdir()
    assert "not a regular file" in _refused(tmp_path)


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert _refused(tmp_path, "/images/a.img") == "invalid disk path /images/a.img: no such file in the image"


@pytest.mark.parametrize(
    ("owner", "group", "mode", "readable"),
    [
        (107, 107, 0o400, True),
        (107, 0, 0o040, False),
        (0, 107, 0o440, True),
        (0, 107, 0o404, False),
        (0, 0, 0o440, False),
        (0, 0, 0o444, True),
    ],
)
def test_only_what_qemu_s_user_can_read_is_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, group: int, mode: int, readable: bool
) -> None:
    _image(tmp_path, {"disk/disk.img": bytes(512)})
    real = os.fstat

    def owned(descriptor: int) -> os.stat_result:
        facts = list(real(descriptor))
        facts[0], facts[4], facts[5] = (facts[0] & ~0o7777) | mode, owner, group
        return os.stat_result(facts)

    monkeypatch.setattr(os, "fstat", owned)
    if readable:
        assert find_disk(tmp_path).path == "disk/disk.img"
    else:
        assert "not readable by user 107" in _refused(tmp_path)


def test_whoever_may_not_open_it_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher, which is that user, and looks into an image volume before anybody else."""
    _image(tmp_path, {"disk/disk.img": bytes(512)})

    def refused(root: int, path: str) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(container_disk, "open_regular", refused)
    assert "disk file /disk/disk.img is not readable by user 107: build the image with" in _refused(tmp_path)

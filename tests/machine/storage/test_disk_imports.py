"""Disks become images: real qcow2 and raw files, and those made to reach beyond themselves."""

from __future__ import annotations

import gzip
import json
import os
import stat
import struct
import subprocess
from pathlib import Path

import pytest

from kvedge.storage.container_disk import find_disk
from kvedge.storage.image_errors import BadImage, ImageError
from kvedge.storage.images.image_import import import_file
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.image_work import import_work
from tests.machine.storage.conftest import left_over


def _qemu_img(*words: str | Path) -> str:
    return subprocess.run(["qemu-img", *map(str, words)], check=True, capture_output=True, text=True).stdout


def _qcow2(path: Path, *options: str) -> Path:
    _qemu_img("create", "-q", "-f", "qcow2", *options, path, "64M")
    subprocess.run(
        ["qemu-io", "-f", "qcow2", "-c", "write -P 7 1M 3M", str(path)], check=True, stdout=subprocess.DEVNULL
    )
    return path


def test_a_qcow2_becomes_a_container_disk_that_qemu_s_user_can_read(store: ImageStore, tmp_path: Path) -> None:
    source = _qcow2(tmp_path / "guest.qcow2")
    (image,) = import_file(store, source, "local/guest:1")

    disk = find_disk(image.tree)
    assert (disk.path, disk.format) == ("disk/disk.qcow2", "qcow2")
    copy = image.tree / disk.path
    assert stat.S_IMODE(copy.stat().st_mode) == 0o444
    assert copy.stat().st_ino != source.stat().st_ino
    assert "identical" in _qemu_img("compare", "-f", "qcow2", "-F", "qcow2", source, copy)
    assert (image.name, image.origin, image.kind) == ("docker.io/local/guest:1", "imported", "disk")


def test_a_raw_disk_is_copied_sparsely(store: ImageStore, tmp_path: Path) -> None:
    source = tmp_path / "disk.raw"
    with source.open("wb") as stream:
        stream.truncate(256 << 20)
        stream.seek(100 << 20)
        stream.write(b"data" * 1000)
    (image,) = import_file(store, source, "raw")

    copy = image.tree / "disk/disk.img"
    assert copy.stat().st_size == 256 << 20
    assert copy.stat().st_blocks * 512 < 2 << 20
    assert subprocess.run(["cmp", source, copy], check=False).returncode == 0


def test_a_worker_copies_a_sparse_disk_that_is_larger_than_an_unpacked_image_may_be(
    store: ImageStore, tmp_path: Path
) -> None:
    source = tmp_path / "disk.raw"
    with source.open("wb") as stream:
        stream.truncate(300 << 30)
        stream.seek(299 << 30)
        stream.write(b"data" * 1000)
    (image,) = import_work(store, source, "large").run()
    assert (image.tree / "disk/disk.img").stat().st_size == 300 << 30


def test_the_same_disk_is_kept_once_whatever_its_holes(store: ImageStore, tmp_path: Path) -> None:
    sparse, full = tmp_path / "a.img", tmp_path / "b.img"
    with sparse.open("wb") as stream:
        stream.truncate(4 << 20)
        stream.seek(70_000)
        stream.write(b"x" * 200_000)
    full.write_bytes(sparse.read_bytes())

    (one,), (two,) = import_file(store, sparse, "one"), import_file(store, full, "two")

    assert one.id == two.id
    assert len(list((store.root / "images").iterdir())) == 1


def test_a_compressed_disk_is_unpacked(store: ImageStore, tmp_path: Path) -> None:
    source = tmp_path / "disk.img.gz"
    source.write_bytes(gzip.compress(bytes(1 << 20) + b"y" * 512))
    (image,) = import_file(store, source, "packed")

    assert (image.tree / "disk/disk.img").stat().st_size == (1 << 20) + 512


def test_progress_is_told_until_the_end(store: ImageStore, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    source = tmp_path / "disk.img"
    source.write_bytes(os.urandom(5 << 20))
    import_file(store, source, "x", lambda done, total: told.append((done, total)))

    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (5 << 20, 5 << 20)


def _refused(store: ImageStore, path: Path) -> str:
    before = path.read_bytes()
    with pytest.raises(BadImage) as refused:
        import_file(store, path, "bad")
    assert path.read_bytes() == before
    assert store.list() == []
    assert left_over(store) == []
    assert not (store.root / "images").exists() or os.listdir(store.root / "images") == []
    return str(refused.value)


def test_a_backing_file_is_refused_with_the_way_out(store: ImageStore, tmp_path: Path) -> None:
    _qemu_img("create", "-q", "-f", "qcow2", tmp_path / "base.qcow2", "1M")
    _qemu_img("create", "-q", "-f", "qcow2", "-b", tmp_path / "base.qcow2", "-F", "qcow2", tmp_path / "top.qcow2")

    message = _refused(store, tmp_path / "top.qcow2")

    assert "backing file" in message
    assert "qemu-img convert" in message


def test_an_external_data_file_is_refused_and_never_opened(store: ImageStore, tmp_path: Path) -> None:
    data = tmp_path / "data.raw"
    _qemu_img("create", "-q", "-f", "qcow2", "-o", f"data_file={data}", tmp_path / "top.qcow2", "1M")
    before = data.stat().st_atime_ns

    assert "in another file" in _refused(store, tmp_path / "top.qcow2")
    assert data.stat().st_atime_ns == before


def test_an_encrypted_disk_is_refused(store: ImageStore, tmp_path: Path) -> None:
    path = tmp_path / "secret.qcow2"
    # The older of the two methods: for a LUKS image qemu-img measures its own CPU time, which fails on some machines.
    secret = ["--object", "secret,id=s,data=abc", "-o", "encrypt.format=aes,encrypt.key-secret=s"]
    _qemu_img("create", "-q", "-f", "qcow2", *secret, path, "1M")

    assert "encrypted" in _refused(store, path)


def test_a_qcow2_that_is_cut_off_is_refused(store: ImageStore, tmp_path: Path) -> None:
    path = _qcow2(tmp_path / "guest.qcow2")
    os.truncate(path, 300_000)

    assert "get it again" in _refused(store, path)


def test_a_qcow2_whose_tables_are_overwritten_is_refused(store: ImageStore, tmp_path: Path) -> None:
    path = _qcow2(tmp_path / "guest.qcow2")
    table = json.loads(_qemu_img("info", "--output=json", "-f", "qcow2", path))["cluster-size"] * 3
    with path.open("r+b") as stream:
        stream.seek(table)
        stream.write(struct.pack(">Q", (1 << 63) | 0x123456789000))

    assert "damaged" in _refused(store, path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        pytest.param("a.qcow2", b"<html>not found</html>", "no qcow2 header", id="a download that failed"),
        pytest.param("a.qcow2", b"QFI\xfb", "too short", id="a header cut off"),
        pytest.param("a.img", b"", "is empty", id="an empty file"),
        pytest.param("a.img", b"x" * 1000, "multiple of 512", id="any other file"),
        pytest.param("a.vmdk", b"KDMV" + bytes(508), "VMDK", id="a VMDK"),
        pytest.param("a.vhdx", b"vhdxfile" + bytes(504), "VHDX", id="a VHDX"),
        pytest.param("a.tar.gz", b"\x1f\x8b" + b"garbage" * 100, "broken", id="broken compression"),
        pytest.param("a.qcow2", b"QFI\xfb\0\0\0\x09" + bytes(500), "version 9", id="a version from the future"),
    ],
)
def test_what_is_no_disk_is_refused_with_a_reason(
    store: ImageStore, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    assert words in _refused(store, path)


def test_a_disk_needs_a_name(store: ImageStore, tmp_path: Path) -> None:
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(512))
    with pytest.raises(ImageError, match="--name"):
        import_file(store, path)


@pytest.mark.parametrize("name", ["Not A Name", "x@sha256:" + "0" * 64])
def test_a_name_that_cannot_be_given_is_refused(store: ImageStore, tmp_path: Path, name: str) -> None:
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(512))
    with pytest.raises(ImageError):
        import_file(store, path, name)


def test_a_file_that_is_not_there_is_refused(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="No such file"):
        import_file(store, tmp_path / "nowhere.img", "x")

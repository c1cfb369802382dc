"""Images that the real qemu-img has made, in every format, from a server into claims of both modes."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import lzma
import os
import random
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvedge.resources.types.import_job import CloneSource, HttpSource, ImportJob, ImportOutcome
from kvedge.storage.imports.import_door import ImportDoor
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_run import ImportPlaces, run_import
from tests.support.image_server import PlayedServer, played_server
from tests.support.small_images import file, layer, oci_archive

pytestmark = pytest.mark.machine

MIB = 1 << 20
SIZE = 48 * MIB
CLAIM = 64 * MIB


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A disk with data here and there, some of which compresses."""
    path = tmp_path_factory.mktemp("images") / "disk.raw"
    chance = random.Random(5)
    with path.open("wb") as disk:
        disk.truncate(SIZE)
        for _ in range(40):
            disk.seek(chance.randrange(0, SIZE - MIB) // 4096 * 4096)
            disk.write(chance.randbytes(70_000) + b"text " * 20_000)
    return path


@pytest.fixture
def xfs(tmp_path: Path) -> Iterator[Path]:
    """A file system whose files can share blocks."""
    image, place = tmp_path / "xfs.img", tmp_path / "xfs"
    with image.open("wb") as file:
        file.truncate(400 * MIB)
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", image], check=True)
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    yield place
    subprocess.run(["umount", "--recursive", place], check=True)


def made(raw: Path, kind: str, *options: str) -> bytes:
    """The disk in another format."""
    into = raw.with_name("made")
    subprocess.run(["qemu-img", "convert", *options, "-f", "raw", "-O", kind, raw, into], check=True)
    return into.read_bytes()


def zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def run(server: PlayedServer, places: ImportPlaces, *, block: bool = False, checksum: str = "") -> ImportOutcome:
    job = ImportJob(name="d", size=CLAIM, block=block, http=HttpSource(url=server.url, checksum=checksum))
    return run_import(job, places, ImportProgress(), ImportDoor(own_host=True))


@contextmanager
def loop_device(folder: Path) -> Iterator[Path]:
    """A block device with old content."""
    backing = folder / "backing"
    backing.write_bytes(os.urandom(MIB) * (CLAIM // MIB))
    found = subprocess.run(["losetup", "-f", "--show", backing], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"no loop devices here: {found.stderr.strip()}")
    try:
        yield Path(found.stdout.strip())
    finally:
        subprocess.run(["losetup", "-d", found.stdout.strip()], check=True)


def check(disk: Path, raw: Path) -> None:
    """The disk's content, by its sum."""
    with disk.open("rb") as opened:
        assert hashlib.sha256(opened.read(SIZE)).digest() == hashlib.sha256(raw.read_bytes()).digest()


FORMATS = {
    "raw": ("raw",),
    "qcow2": ("qcow2",),
    "qcow2 of version 2": ("qcow2", "-o", "compat=0.10"),
    "qcow2 with compressed clusters": ("qcow2", "-c"),
    "qcow2 with small clusters": ("qcow2", "-o", "cluster_size=4k"),
    "qcow2 with large clusters": ("qcow2", "-o", "cluster_size=2M"),
    "qcow2 with clusters compressed by zstd": ("qcow2", "-c", "-o", "compression_type=zstd"),
    "qcow2 with subclusters": ("qcow2", "-o", "extended_l2=on"),
    "qcow2 whose tables are all there": ("qcow2", "-o", "preallocation=metadata"),
    "VMDK": ("vmdk",),
    "VMDK of an appliance": ("vmdk", "-o", "subformat=streamOptimized"),
    "VDI": ("vdi",),
    "VHD": ("vpc", "-o", "force_size=on"),
    "VHDX": ("vhdx",),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_an_image_of_any_format_comes_into_a_file(raw: Path, tmp_path: Path, kind: str) -> None:
    with played_server(made(raw, *FORMATS[kind])) as server:
        assert run(server, ImportPlaces(directory=tmp_path)).virtual_size == CLAIM

    check(tmp_path / "disk.img", raw)
    assert os.listdir(tmp_path) == ["disk.img"]


def test_an_image_that_ends_within_a_sector_is_read_and_what_is_wrong_with_it_told(tmp_path: Path) -> None:
    # QEMU reads such a VMDK from its first byte to its last one, and waits for ever for the rest of the last sector.
    head = struct.pack("<4sIIQQQQIQQQB4s", b"KDMV", 1, 3, 0xFFFFFFFF0001, 3456, 1, 20, 512, 21, 26, 128, 0, b"\n \r\n")
    text = b'# Disk DescriptorFile\nversion=1\nCID=1\nparentCID=ffffffff\ncreateType="monolithicSparse"\n'
    image = (head.ljust(512, b"\0") + text + b'RW 1 SPARSE "vmdk"\n').ljust(65405, b"\0")
    with played_server(image) as server, pytest.raises(ImportFailure, match="L1 size too big"):
        run(server, ImportPlaces(directory=tmp_path))


def descriptor_of(secret: Path) -> bytes:
    """The beginning of a VMDK whose data are another file's, as QEMU believes it where the header has no size."""
    head = struct.pack("<4sIIQQQQ", b"KDMV", 1, 3, 0, 128, 1, 20).ljust(512, b"\0")
    extent = f'RW {SIZE // 512} FLAT "{secret}" 0'
    text = f'# Disk DescriptorFile\nversion=1\nCID=1\nparentCID=ffffffff\ncreateType="monolithicFlat"\n{extent}\n'
    return head + text.encode().ljust(20 * 512, b"\0")


def with_backing_file(image: bytes, name: str) -> bytes:
    """A qcow2 that names one, somewhere in its first cluster."""
    named = bytearray(image)
    named[8:20] = struct.pack(">QI", 4096, len(name))
    named[4096 : 4096 + len(name)] = name.encode()
    return bytes(named)


def with_data_file(image: bytes, name: str) -> bytes:
    """A qcow2 whose clusters are said to be in another file."""
    named = bytearray(image)
    named[72:80] = struct.pack(">Q", int.from_bytes(image[72:80], "big") | 4)
    at = int.from_bytes(image[100:104], "big")
    named[at : at + 8] = struct.pack(">II", 0x44415441, len(name))
    named[at + 8 : at + 8 + len(name)] = name.encode()
    return bytes(named)


@pytest.mark.parametrize("block", [False, True], ids=["file", "device"])
@pytest.mark.parametrize(
    "way", ["extent", "whole descriptor", "parent", "backing file", "options as backing file", "data file"]
)
def test_a_header_that_a_server_gives_by_ranges_only_is_never_read(
    raw: Path, tmp_path: Path, way: str, block: bool
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret!!" * (SIZE // 8))
    honest = made(
        raw, *FORMATS["VMDK" if way in ("extent", "whole descriptor", "parent") else "qcow2 with subclusters"]
    )
    options = json.dumps({"driver": "raw", "file": {"driver": "file", "filename": str(secret)}})
    hostile = {
        "extent": lambda: descriptor_of(secret) + honest[21 * 512 :],
        "whole descriptor": lambda: descriptor_of(secret)[512:].ljust(21 * 512, b"\0") + honest[21 * 512 :],
        "parent": lambda: honest[:512] + f'parentFileNameHint="{secret}"\n'.encode().ljust(10240) + honest[10752:],
        "backing file": lambda: with_backing_file(honest, str(secret)),
        "options as backing file": lambda: with_backing_file(honest, f"json:{options}"),
        "data file": lambda: with_data_file(honest, str(secret)),
    }[way]()
    secret_read = secret.stat().st_atime_ns
    with played_server(honest) as server, contextlib.ExitStack() as devices:
        server.by_ranges = hostile[: len(honest)]
        (tmp_path / "claim").mkdir()
        device = devices.enter_context(loop_device(tmp_path)) if block else tmp_path / "none"
        run(server, ImportPlaces(directory=tmp_path / "claim", device=device), block=block)
        assert any(wanted for _, wanted, _ in server.asked)
        check(device if block else tmp_path / "claim/disk.img", raw)

    assert secret.stat().st_atime_ns == secret_read


@pytest.mark.parametrize("kind", FORMATS)
def test_an_image_of_any_format_comes_onto_a_device_with_old_content(raw: Path, tmp_path: Path, kind: str) -> None:
    with loop_device(tmp_path) as device, played_server(made(raw, *FORMATS[kind])) as server:
        assert run(server, ImportPlaces(device=device), block=True).virtual_size == CLAIM
        check(device, raw)


@pytest.mark.parametrize("kind", ["raw", "qcow2", "VMDK", "VHDX"])
@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstd], ids=["gz", "xz", "zst"])
def test_an_image_of_any_format_may_be_compressed_and_checked(raw: Path, tmp_path: Path, kind: str, pack) -> None:  # type: ignore[no-untyped-def]
    packed = pack(made(raw, *FORMATS[kind]))
    with played_server(packed) as server:
        run(server, ImportPlaces(directory=tmp_path), checksum=f"sha256:{hashlib.sha256(packed).hexdigest()}")

    check(tmp_path / "disk.img", raw)
    assert os.listdir(tmp_path) == ["disk.img"]


@pytest.mark.parametrize("ranges", [True, False], ids=["by ranges", "without ranges"])
def test_a_qcow2_that_was_grown_is_read_here_and_there(raw: Path, tmp_path: Path, ranges: bool) -> None:
    grown = raw.with_name("grown.qcow2")
    # Small clusters: so little growth already moves the first table to the end.
    subprocess.run(
        ["qemu-img", "convert", "-O", "qcow2", "-o", "cluster_size=512", "-f", "raw", raw, grown], check=True
    )
    subprocess.run(["qemu-img", "resize", grown, str(CLAIM)], check=True, stdout=subprocess.DEVNULL)
    claim = tmp_path / "claim"
    claim.mkdir()
    with played_server(grown.read_bytes()) as server:
        server.ranges = ranges
        run(server, ImportPlaces(directory=claim))

    check(claim / "disk.img", raw)
    assert os.listdir(claim) == ["disk.img"]


def test_a_qcow2_whose_clusters_were_written_again_after_a_snapshot_is_read(raw: Path, tmp_path: Path) -> None:
    image = raw.with_name("snapshot.qcow2")
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", "-f", "raw", raw, image], check=True)
    subprocess.run(["qemu-img", "snapshot", "-c", "before", image], check=True)
    subprocess.run(["qemu-io", "-c", "write -P 9 1M 2M", image], check=True, stdout=subprocess.DEVNULL)
    with played_server(image.read_bytes()) as server:
        run(server, ImportPlaces(directory=tmp_path))

    with (tmp_path / "disk.img").open("rb") as disk:
        content = disk.read(SIZE)
    expected = bytearray(raw.read_bytes())
    expected[MIB : 3 * MIB] = b"\x09" * (2 * MIB)
    assert content == expected


@pytest.mark.parametrize("options", [("-b", "/etc/passwd", "-F", "raw"), ("-o", "data_file=/tmp/kvedge-data.raw")])
def test_a_qcow2_that_refers_to_another_file_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    image = tmp_path / "hostile.qcow2"
    created = ["qemu-img", "create", "-q", "-f", "qcow2", *options, image, "1M"]
    if "-b" in options:
        subprocess.run([*created[:3], "-u", *created[3:]], check=True)
    else:
        subprocess.run(created, check=True)
        Path("/tmp/kvedge-data.raw").unlink()
    claim = tmp_path / "claim"
    claim.mkdir()
    with (
        played_server(image.read_bytes()) as server,
        pytest.raises(ImportFailure, match="Unable to process data") as no,
    ):
        run(server, ImportPlaces(directory=claim))

    assert "backing file '/etc/passwd'" in no.value.message or "another file" in no.value.message
    assert os.listdir(claim) == []


def test_a_disk_that_is_larger_than_the_claim_is_refused_by_its_header(tmp_path: Path) -> None:
    image = tmp_path / "large.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image, "100T"], check=True)
    claim = tmp_path / "claim"
    claim.mkdir()
    with played_server(image.read_bytes()) as server, pytest.raises(ImportFailure) as refused:
        run(server, ImportPlaces(directory=claim))

    wanted = f"virtual image size {100 << 40} is larger than the reported available storage {CLAIM}"
    assert wanted in refused.value.message
    assert os.listdir(claim) == []


@pytest.mark.parametrize(("from_block", "to_block"), [(True, False), (False, True), (True, True)])
def test_a_clone_goes_from_either_mode_to_either(raw: Path, tmp_path: Path, from_block: bool, to_block: bool) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        folder.mkdir()
    with loop_device(source) as from_device, loop_device(target) as to_device:
        if from_block:
            with from_device.open("r+b") as device:
                device.write(raw.read_bytes())
        else:
            (source / "disk.img").write_bytes(raw.read_bytes())
        places = ImportPlaces(directory=target, device=to_device, source_directory=source, source_device=from_device)
        job = ImportJob(name="d", size=CLAIM, block=to_block, clone=CloneSource(block=from_block))
        run_import(job, places, ImportProgress())
        check(to_device if to_block else target / "disk.img", raw)


def test_a_clone_on_a_file_system_that_shares_blocks_takes_no_space_and_is_its_own(raw: Path, xfs: Path) -> None:
    """The claims are mounts of their own, as a worker's Pod has them."""
    source, target = xfs / "source", xfs / "target"
    for folder in (source, target):
        folder.mkdir()
        subprocess.run(["mount", "--bind", folder, folder], check=True)
    (source / "disk.img").write_bytes(raw.read_bytes())
    os.sync()
    before = os.statvfs(xfs).f_bfree
    job = ImportJob(name="d", size=CLAIM, clone=CloneSource())
    run_import(job, ImportPlaces(directory=target, source_directory=source), ImportProgress())
    os.sync()
    check(target / "disk.img", raw)
    assert (before - os.statvfs(xfs).f_bfree) * os.statvfs(xfs).f_frsize < 4 * MIB
    with (target / "disk.img").open("r+b") as disk:
        disk.write(b"written by the clone's guest")
    assert (source / "disk.img").read_bytes() == raw.read_bytes()


def test_a_blank_block_claim_is_left_as_it_is_and_zeroed_when_preallocated(tmp_path: Path) -> None:
    with loop_device(tmp_path) as device:
        places = ImportPlaces(device=device)
        before = device.read_bytes()
        assert run_import(ImportJob(name="d", block=True), places, ImportProgress()).virtual_size == CLAIM
        assert device.read_bytes() == before
        run_import(ImportJob(name="d", block=True, preallocate=True), places, ImportProgress())
        assert not any(device.read_bytes())
        assert (tmp_path / "backing").stat().st_blocks * 512 >= CLAIM


@pytest.mark.parametrize("kind", ["raw", "qcow2"])
@pytest.mark.parametrize("preallocate", [False, True], ids=["sparse", "preallocated"])
def test_a_preallocated_device_has_its_space_also_where_the_image_has_none(
    raw: Path, tmp_path: Path, kind: str, *, preallocate: bool
) -> None:
    with loop_device(tmp_path) as device, played_server(made(raw, *FORMATS[kind])) as server:
        job = ImportJob(name="d", block=True, preallocate=preallocate, http=HttpSource(url=server.url))
        run_import(job, ImportPlaces(device=device), ImportProgress(), ImportDoor(own_host=True))
        check(device, raw)
        assert ((tmp_path / "backing").stat().st_blocks * 512 >= CLAIM) is preallocate


@pytest.mark.parametrize("kind", ["qcow2", "VMDK"])
@pytest.mark.parametrize("archive", ["oci-archive", "docker-archive"])
def test_the_disk_in_an_archive_that_skopeo_has_made_comes_in(
    raw: Path, tmp_path: Path, kind: str, archive: str
) -> None:
    layers = [layer([file("disk/image", made(raw, *FORMATS[kind]))])]
    oci_archive(tmp_path / "made.tar", layers, {})
    stored = tmp_path / "stored.tar"
    words = ["skopeo", "copy", "-q", "--insecure-policy", f"oci-archive:{tmp_path}/made.tar"]
    subprocess.run([*words, f"{archive}:{stored}:site/disk:1"], check=True)
    (tmp_path / "claim").mkdir()
    with played_server(stored.read_bytes()) as server:
        assert run(server, ImportPlaces(directory=tmp_path / "claim")).virtual_size == CLAIM
    check(tmp_path / "claim/disk.img", raw)
    assert os.listdir(tmp_path / "claim") == ["disk.img"]

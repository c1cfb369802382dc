# Tests: kvedge/client/vm_files/archive_writer.py, kvedge/client/vm_files/tar_member.py
# Tests: kvedge/client/vm_files/archive_errors.py
"""Archives come back as they were written, and are refused when a bit of them is not as it was written."""

from __future__ import annotations

import hashlib
import io
import random
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvedge.client.errors import ClientError, UsageError
from kvedge.client.exports.new_file import write_file
from kvedge.client.exports.remote_disk import CHUNK
from kvedge.client.vm_files import archive_reader, zstd_chunks
from kvedge.client.vm_files.archive_errors import DamagedFile, IncompleteFile, UnknownFile
from kvedge.client.vm_files.archive_manifest import SUMS, chunk_name, encode_manifest
from kvedge.client.vm_files.archive_reader import Archive
from kvedge.client.vm_files.archive_writer import ArchiveWriter, make_sum
from kvedge.client.vm_files.tar_member import END, make_header, padding
from tests.unit.client.vm_files.archives import manifest_of, read, write


def sparse(size: int, seed: int, places: set[int]) -> bytes:
    """A disk with data here and there."""
    drawn, content = random.Random(seed), bytearray(size)
    for place in sorted(places):
        data = drawn.randbytes(drawn.randrange(1, 3000))[: max(0, size - place)]
        content[place : place + len(data)] = data
    return bytes(content)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 3 * CHUNK), max_size=2),
    seed=st.integers(0, 1000),
    places=st.sets(st.integers(0, 3 * CHUNK), max_size=4),
)
def test_disks_come_back_as_they_were(tmp_path: Path, sizes: list[int], seed: int, places: set[int]) -> None:
    disks = [sparse(size, seed + number, places) for number, size in enumerate(sizes)]
    path = tmp_path / "vm"
    path.unlink(missing_ok=True)
    assert read(write(path, *disks)) == disks


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """An archive of two small disks, of which one has its data at its end."""
    return write(tmp_path / "vm", bytes(CHUNK) + b"end of the disk", b"\1" * 700)


def test_every_truncation_is_refused(small: Path, tmp_path: Path) -> None:
    content, cut = small.read_bytes(), tmp_path / "cut"
    for size in range(0, len(content), 97):
        cut.write_bytes(content[:size])
        with pytest.raises((IncompleteFile, UnknownFile, DamagedFile)):
            read(cut)
    cut.write_bytes(content[:-1])
    with pytest.raises(IncompleteFile, match="ends before its digests"):
        read(cut)


def test_every_flipped_bit_is_refused(small: Path, tmp_path: Path) -> None:
    content, flipped = bytearray(small.read_bytes()), tmp_path / "flipped"
    # A bit of every seventh byte, and so of each field of each header, in turn.
    for position in range(0, len(content), 7):
        bit = 1 << (position % 8)
        content[position] ^= bit
        flipped.write_bytes(content)
        with pytest.raises(ClientError):
            Archive.open(flipped, None, lambda done, total: None)
        content[position] ^= bit


def test_what_stands_behind_the_end_is_refused(small: Path) -> None:
    with small.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(DamagedFile, match="goes on behind its end"):
        read(small)


def forge(path: Path, *members: tuple[str, bytes], disks: int = 1, size: int = CHUNK) -> Path:
    """An archive with these members, and honest digests of them."""
    found = [("manifest.json", encode_manifest(manifest_of(*[size] * disks))), *members]
    sums = b"".join(make_sum(hashlib.sha256(content).digest(), name) for name, content in found)
    with path.open("wb") as file:
        for name, content in (*found, (SUMS, sums)):
            file.write(make_header(name, len(content)) + content + bytes(padding(len(content))))
        file.write(END)
    return path


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("../../etc/passwd", "does not belong there", id="that-leaves-its-directory"),
        pytest.param("/etc/passwd", "does not belong there", id="with-a-whole-path"),
        pytest.param(chunk_name(1, 0), "does not belong there", id="of-a-disk-that-there-is-not"),
        pytest.param(chunk_name(0, CHUNK), "place where none can be", id="behind-its-disk"),
        pytest.param(chunk_name(0, 512), "place where none can be", id="between-two-places"),
    ],
)
def test_a_member_that_none_can_be_is_refused(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(DamagedFile, match=says):
        read(forge(tmp_path / "vm", (name, zstd_chunks.compress(bytes(CHUNK)))))


def test_a_place_that_comes_twice_is_refused(tmp_path: Path) -> None:
    frame = zstd_chunks.compress(b"\1" * CHUNK)
    with pytest.raises(DamagedFile, match="place where none can be"):
        read(forge(tmp_path / "vm", (chunk_name(0, 0), frame), (chunk_name(0, 0), frame)))


@pytest.mark.parametrize("length", [CHUNK - 1, CHUNK + 1, 64 * CHUNK])
def test_a_chunk_that_unpacks_to_another_size_is_refused(tmp_path: Path, length: int) -> None:
    path = forge(tmp_path / "vm", (chunk_name(0, 0), zstd_chunks.compress(bytes(length))))
    with pytest.raises(DamagedFile, match="a chunk of the archive"):
        read(path)


def test_a_chunk_that_another_program_has_compressed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="not compressed by zstd"):
        read(forge(tmp_path / "vm", (chunk_name(0, 0), b"\x1f\x8b" + bytes(100))))


def test_a_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vm"
    member = tarfile.TarInfo("manifest.json")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(path, "w") as archive:
        archive.addfile(member)
    with pytest.raises(DamagedFile, match="header"):
        read(path)


def test_a_file_of_another_kind_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "vm"
    path.write_bytes(b"QFI\xfb" + bytes(4096))
    with pytest.raises(UnknownFile, match="no archive of a VM"):
        read(path)


def test_one_that_changes_while_it_is_read_is_refused(small: Path) -> None:
    with Archive.open(small, None, lambda done, total: None) as archive:
        content = bytearray(small.read_bytes())
        place = content.index(b"\x28\xb5\x2f\xfd") + 8
        content[place] ^= 1
        small.write_bytes(content)
        with pytest.raises(DamagedFile, match="has changed while it was read"):
            list(archive.chunks(0))


def test_the_member_that_has_changed_is_named(small: Path) -> None:
    content = bytearray(small.read_bytes())
    content[content.index(b"\x28\xb5\x2f\xfd") + 8] ^= 1
    small.write_bytes(content)
    with pytest.raises(DamagedFile, match=r"disks/0/0000000000400000\.zst does not have the digest"):
        read(small)


def test_digests_that_memory_does_not_hold_are_compared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_reader, "SUMS_IN_MEMORY", 64)
    disk = sparse(3 * CHUNK, 1, {0, CHUNK, 2 * CHUNK})
    assert read(write(tmp_path / "vm", disk)) == [disk]


@pytest.mark.skipif(shutil.which("tar") is None, reason="no tar")
def test_it_is_read_without_kvedge(small: Path, tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    subprocess.run(["tar", "-xf", small, "-C", place], check=True)
    done = subprocess.run(["sha256sum", "-c", SUMS], cwd=place, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "manifest.json: OK",
        "disks/0/0000000000400000.zst: OK",
        "disks/1/0000000000000000.zst: OK",
    ]
    chunk = subprocess.run(["zstd", "-dc", place / chunk_name(0, CHUNK)], check=True, capture_output=True)
    assert chunk.stdout == b"end of the disk"


def test_a_file_that_is_there_is_not_written_over(small: Path) -> None:
    before = small.read_bytes()
    with pytest.raises(UsageError, match="is there already"), write_file(small):
        pass
    assert small.read_bytes() == before


def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path: Path) -> None:
    path = tmp_path / "vm"

    def write_the_beginning() -> None:
        with write_file(path) as file:
            file.write(b"the beginning")
            raise RuntimeError("the server went away")

    with pytest.raises(RuntimeError):
        write_the_beginning()
    assert list(tmp_path.iterdir()) == []


def test_zeros_take_no_room() -> None:
    into = io.BytesIO()
    writer = ArchiveWriter(into, manifest_of(10 * CHUNK), Path("/tmp"))
    before = writer.written
    for offset in range(0, 10 * CHUNK, CHUNK):
        writer.add_chunk(0, offset, bytes(CHUNK))
    assert writer.written == before
    writer.finish()
    writer.close()

"""Archives unpacked into a claim, and those that would leave it."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kvedge.resources.types.import_job import HttpSource, ImportJob, ImportOutcome
from kvedge.storage.imports.import_door import ImportDoor
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_run import ImportPlaces, run_import
from tests.support.image_server import played_server

Entry = tuple[str, bytes, bytes, str]


def archive(*entries: Entry) -> bytes:
    """Of (name, type, content, link)."""
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as tar:
        for name, kind, content, link in entries:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname, info.mode = kind, len(content), link, 0o4755
            tar.addfile(info, io.BytesIO(content))
    return into.getvalue()


HONEST = archive(
    ("./", tarfile.DIRTYPE, b"", ""),
    ("./a", tarfile.DIRTYPE, b"", ""),
    ("./a/b.txt", tarfile.REGTYPE, b"words", ""),
    ("c/d/e", tarfile.REGTYPE, b"more", ""),
    ("c/link", tarfile.SYMTYPE, b"", "../a/b.txt"),
    ("c/d/up", tarfile.SYMTYPE, b"", "./../../a/./b.txt"),
    ("c/hard", tarfile.LNKTYPE, b"", "a/b.txt"),
)


def unpack(data: bytes, directory: Path, size: int = 1 << 20, uid: str = "") -> ImportOutcome:
    with played_server(data) as server:
        job = ImportJob(name="d", size=size, archive=True, http=HttpSource(url=server.url), uid=uid)
        return run_import(job, ImportPlaces(directory=directory), ImportProgress(), ImportDoor(own_host=True))


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["as it is", "gz"])
def test_an_archive_comes_into_the_claim(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    unpack(pack(HONEST), tmp_path)

    assert sorted(os.listdir(tmp_path)) == ["a", "c"]
    assert (tmp_path / "a/b.txt").read_bytes() == b"words"
    assert (tmp_path / "c/d/e").read_bytes() == b"more"
    assert (tmp_path / "c/link").read_bytes() == b"words"
    assert (tmp_path / "c/d/up").read_bytes() == b"words"
    assert (tmp_path / "c/hard").samefile(tmp_path / "a/b.txt")
    assert not (tmp_path / "c/d/e").stat().st_mode & 0o4000


def test_an_attempt_after_a_kill_replaces_what_the_first_one_left(tmp_path: Path) -> None:
    (tmp_path / ".kvedge-archive.part/x").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/old").touch()
    unpack(HONEST, tmp_path)

    assert sorted(os.listdir(tmp_path)) == ["a", "c"]
    assert os.listdir(tmp_path / "a") == ["b.txt"]


HOSTILE = {
    "above": archive(("../x", tarfile.REGTYPE, b"x", "")),
    "above from within": archive(("a/../../x", tarfile.REGTYPE, b"x", "")),
    "absolute": archive(("/etc/x", tarfile.REGTYPE, b"x", "")),
    "link out": archive(("l", tarfile.SYMTYPE, b"", "../../etc/passwd")),
    "absolute link": archive(("l", tarfile.SYMTYPE, b"", "/etc/passwd")),
    "hard link out": archive(("l", tarfile.LNKTYPE, b"", "../../etc/passwd")),
    "hard link to nothing": archive(("l", tarfile.LNKTYPE, b"", "etc/passwd")),
    "through a link": archive(
        ("d", tarfile.DIRTYPE, b"", ""), ("l", tarfile.SYMTYPE, b"", "d"), ("l/x", tarfile.REGTYPE, b"x", "")
    ),
    "up behind a link": archive(
        ("x/y", tarfile.DIRTYPE, b"", ""),
        ("x/y/top", tarfile.SYMTYPE, b"", "../.."),
        ("l", tarfile.SYMTYPE, b"", "x/y/top/../etc/passwd"),
    ),
    "up behind what becomes a link": archive(
        ("x/l", tarfile.SYMTYPE, b"", "y/../../etc/passwd"), ("x/y", tarfile.SYMTYPE, b"", "..")
    ),
    "hard link up behind a link": archive(
        ("a", tarfile.REGTYPE, b"x", ""), ("d", tarfile.SYMTYPE, b"", "."), ("l", tarfile.LNKTYPE, b"", "d/../a")
    ),
    "the place where it is unpacked": archive((".kvedge-archive.part", tarfile.DIRTYPE, b"", "")),
    "within the place where it is unpacked": archive(("./.kvedge-archive.part/x", tarfile.REGTYPE, b"x", "")),
    "a link in place of where it is unpacked": archive((".kvedge-archive.part", tarfile.SYMTYPE, b"", "a")),
    "device": archive(("null", tarfile.CHRTYPE, b"", "")),
    "fifo": archive(("pipe", tarfile.FIFOTYPE, b"", "")),
    "too deep": archive(("d/" * 100 + "x", tarfile.REGTYPE, b"x", "")),
    "no archive": b"x" * 2048,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_archive_is_refused_and_leaves_nothing(tmp_path: Path, data: bytes) -> None:
    claim = tmp_path / "claim"
    claim.mkdir()
    with pytest.raises(ImportFailure, match="Unable to process data"):
        unpack(data, claim)

    assert os.listdir(claim) == []
    assert os.listdir(tmp_path) == ["claim"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["as it is", "gz"])
def test_an_archive_that_is_larger_than_the_claim_is_refused(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ImportFailure, match="too small"):
        unpack(pack(archive(("big", tarfile.REGTYPE, bytes(200_000), ""))), tmp_path, 100_000)

    assert os.listdir(tmp_path) == []


def test_no_archive_comes_into_a_claim_that_holds_a_guests_disk(tmp_path: Path) -> None:
    (tmp_path / "disk.img").write_bytes(b"a guest's")
    with pytest.raises(ImportFailure, match=r"holds an older disk\.img"):
        unpack(archive(("disk.img", tarfile.REGTYPE, b"new", "")), tmp_path, uid="claim-1")
    upload = ImportJob(name="d", size=1 << 20, archive=True, upload=True, uid="claim-1")
    with pytest.raises(ImportFailure, match="the claim holds a disk already") as refused:
        run_import(upload, ImportPlaces(directory=tmp_path), ImportProgress())
    assert refused.value.fatal, "whoever uploads is told at once"
    assert os.listdir(tmp_path) == ["disk.img"]
    assert (tmp_path / "disk.img").read_bytes() == b"a guest's"


def test_an_archive_with_a_disk_is_unpacked_again_by_the_worker_of_its_claim(tmp_path: Path) -> None:
    packed = archive(("disk.img", tarfile.REGTYPE, b"new", ""), ("notes", tarfile.REGTYPE, b"words", ""))
    unpack(packed, tmp_path, uid="claim-1")
    # The first worker was killed before it had moved all.
    (tmp_path / "notes").unlink()
    unpack(packed, tmp_path, uid="claim-1")
    assert (tmp_path / "notes").read_bytes() == b"words"
    with pytest.raises(ImportFailure, match=r"holds an older disk\.img"):
        unpack(packed, tmp_path, uid="claim-2")

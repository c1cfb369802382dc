"""Uploads into a real target: what is taken, what is refused and in which words."""

from __future__ import annotations

import errno
import io
import tarfile
from pathlib import Path

import pytest

from kvedge.resources.types.import_job import ImportJob
from kvedge.storage.image_errors import BadImage
from kvedge.storage.imports.import_errors import ImportFailure, NotStreamable, OtherLayer, TooSmall
from kvedge.storage.imports.sinks.image_sink import Way
from kvedge.storage.imports.sinks.import_target import open_target
from kvedge.storage.imports.uploads.upload_attempt import Attempt
from kvedge.storage.imports.uploads.upload_run import UploadRun
from kvedge.storage.imports.uploads.upload_worker import UploadSinks
from tests.support.small_images import file, layer, oci_archive

DISK = b"kvedge" * 20_000


def upload(run: UploadRun, data: bytes) -> Attempt:
    attempt = run.begin("", 0)
    for start in range(0, len(data), 1000):
        if not attempt.bring(data[start : start + 1000]):
            break
    else:
        attempt.finish()
    assert attempt.ended.wait(30)
    return attempt


def test_a_raw_disk_is_put_in_its_place(tmp_path: Path) -> None:
    job = ImportJob(name="disk", size=1 << 20, upload=True)
    target = open_target(job, tmp_path, tmp_path / "none")
    attempt = upload(UploadRun(UploadSinks(job, target).make), DISK)
    assert attempt.error is None
    assert (tmp_path / "disk.img").read_bytes()[: len(DISK)] == DISK
    target.close()


def test_what_is_too_large_is_refused_and_leaves_nothing_and_a_smaller_one_is_taken(tmp_path: Path) -> None:
    job = ImportJob(name="disk", size=1 << 20, upload=True)
    target = open_target(job, tmp_path, tmp_path / "none")
    sinks = UploadSinks(job, target)
    run = UploadRun(sinks.make)
    attempt = upload(run, b"x" * (2 << 20))
    assert attempt.error is not None
    refusal = sinks.make_refusal(attempt.error)
    assert refusal.status == 400
    assert refusal.message.startswith(
        "Saving stream failed: effective image size is larger than the reported available storage"
    )
    assert not (tmp_path / "disk.img").exists()
    assert upload(run, DISK).error is None
    target.close()


def test_an_archive_is_unpacked(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("folder/file")
        member.size = 5
        archive.addfile(member, io.BytesIO(b"hello"))
    job = ImportJob(name="disk", size=1 << 20, upload=True, archive=True)
    target = open_target(job, tmp_path, tmp_path / "none")
    assert upload(UploadRun(UploadSinks(job, target).make), packed.getvalue()).error is None
    assert (tmp_path / "folder/file").read_bytes() == b"hello"
    target.close()


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (OSError(errno.ENOSPC, "full"), 400, "effective image size is larger than the reported available storage"),
        (ImportFailure("Unable to process data: no"), 400, "Unable to process data: no"),
        (NotStreamable(), 503, "send it again"),
        (OSError(errno.EIO, "broken"), 500, "broken"),
    ],
    ids=["no room", "no image", "not to be streamed", "the disk"],
)
def test_what_is_wrong_is_told_with_its_status(tmp_path: Path, error: Exception, status: int, words: str) -> None:
    job = ImportJob(name="disk", size=1 << 20, upload=True)
    target = open_target(job, tmp_path, tmp_path / "none")
    refusal = UploadSinks(job, target).make_refusal(error)
    target.close()
    assert refusal.status == status
    assert words in refusal.message


def test_an_archive_whose_first_disk_is_not_the_image_s_is_taken_when_it_is_sent_again(tmp_path: Path) -> None:
    layers = [layer([file("disk/image", data)]) for data in (DISK, b"another one".ljust(4096))]
    oci_archive(tmp_path / "made.tar", layers, {}, zipped=False)
    with tarfile.open(tmp_path / "made.tar") as opened:
        found = [(item, content.read()) for item in opened if (content := opened.extractfile(item)) is not None]
    turned = layer(sorted(found, key=lambda item: item[1] == layers[0]))
    job = ImportJob(name="disk", size=1 << 20, upload=True)
    (tmp_path / "claim").mkdir()
    target = open_target(job, tmp_path / "claim", tmp_path / "none")
    sinks = UploadSinks(job, target)
    run = UploadRun(sinks.make)
    attempt = upload(run, turned)
    assert attempt.error is not None
    refusal = sinks.make_refusal(attempt.error)
    assert (refusal.status, "send it again" in refusal.message) == (503, True)
    assert upload(run, turned).error is None
    assert (tmp_path / "claim/disk.img").read_bytes()[: len(DISK)] == DISK
    target.close()


def test_an_archive_is_taken_after_another_one_whose_layer_was_to_be_sent_again_was_refused(tmp_path: Path) -> None:
    job = ImportJob(name="disk", size=1 << 20, upload=True)
    (tmp_path / "claim").mkdir()
    target = open_target(job, tmp_path / "claim", tmp_path / "none")
    sinks = UploadSinks(job, target)
    run = UploadRun(sinks.make)
    sinks.make_refusal(OtherLayer("blobs/sha256/of-an-archive-that-is-gone"))
    oci_archive(tmp_path / "made.tar", [layer([file("disk/image", DISK)])], {})
    sent = (tmp_path / "made.tar").read_bytes()
    refused = upload(run, sent)
    assert refused.error is not None
    assert sinks.make_refusal(refused.error).status == 400
    assert upload(run, sent).error is None
    assert (tmp_path / "claim/disk.img").read_bytes()[: len(DISK)] == DISK
    target.close()


@pytest.mark.parametrize("error", [ImportFailure("no"), BadImage("broken"), TooSmall(2, 1)])
def test_a_refused_image_does_not_say_how_the_next_one_is_taken(tmp_path: Path, error: Exception) -> None:
    job = ImportJob(name="disk", size=1 << 20, upload=True)
    target = open_target(job, tmp_path, tmp_path / "none")
    sinks = UploadSinks(job, target)
    sinks.make_refusal(NotStreamable())
    sinks.make_refusal(error)
    run = UploadRun(sinks.make)
    assert sinks._way == Way()
    assert upload(run, DISK).error is None
    target.close()

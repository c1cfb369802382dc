# Tests: kvedge/storage/imports/sinks/image_sink.py, kvedge/storage/imports/sources/web_source.py
# Tests: kvedge/storage/imports/sources/checksum.py
# Tests: kvedge/storage/imports/import_errors.py, kvedge/storage/imports/sinks/import_target.py
# Tests: kvedge/storage/imports/sinks/present_disk.py
"""Jobs from their source to their claim: what is then in the claim, and what is left after a failure."""

from __future__ import annotations

import errno
import gzip
import hashlib
import lzma
import os
import stat
from pathlib import Path

import msgspec
import pytest

from kvedge.resources.types.import_job import HttpSource, ImportJob, ImportOutcome
from kvedge.storage.imports.import_door import ImportDoor
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_run import ImportPlaces, run_import
from kvedge.storage.imports.sinks import present_disk
from kvedge.storage.imports.sources.web_source import SourceFiles
from tests.support.image_server import PlayedServer, played_server

MIB = 1 << 20
# Data, a hole, data, and an end that is no whole block.
IMAGE = b"\xab" * 70_000 + bytes(3 * MIB) + os.urandom(300_032)


@pytest.fixture
def places(tmp_path: Path) -> ImportPlaces:
    for name in ("claim", "credentials", "certificates", "headers"):
        (tmp_path / name).mkdir()
    files = SourceFiles(tmp_path / "credentials", tmp_path / "certificates", tmp_path / "headers")
    return ImportPlaces(directory=tmp_path / "claim", files=files)


def run(job: ImportJob, places: ImportPlaces, progress: ImportProgress | None = None) -> ImportOutcome:
    return run_import(job, places, progress or ImportProgress(), ImportDoor(own_host=True))


def http_job(server: PlayedServer, size: int = 8 * MIB, **options: object) -> ImportJob:
    return ImportJob(name="d", size=size, http=HttpSource(url=server.url, **options))  # type: ignore[arg-type]


def test_a_blank_disk_is_a_sparse_file_of_the_size_that_only_its_group_may_write(places: ImportPlaces) -> None:
    assert run(ImportJob(name="d", size=64 * MIB), places).virtual_size == 64 * MIB

    facts = (places.directory / "disk.img").stat()
    assert (facts.st_size, facts.st_blocks, stat.S_IMODE(facts.st_mode)) == (64 * MIB, 0, 0o660)


def test_a_preallocated_blank_disk_has_its_space(places: ImportPlaces) -> None:
    assert run(ImportJob(name="d", size=4 * MIB, preallocate=True), places).preallocated
    assert (places.directory / "disk.img").stat().st_blocks * 512 >= 4 * MIB


def test_a_raw_image_comes_whole_with_holes_and_grows_to_the_size(places: ImportPlaces) -> None:
    progress = ImportProgress()
    with played_server(IMAGE) as server:
        assert run(http_job(server), places, progress).virtual_size == 8 * MIB

    disk = places.directory / "disk.img"
    content = disk.read_bytes()
    assert content[: len(IMAGE)] == IMAGE
    assert not any(content[len(IMAGE) :])
    assert disk.stat().st_blocks * 512 < 2 * MIB
    assert progress.text() == "100.00%"
    assert os.listdir(places.directory) == ["disk.img"]


def test_a_disk_that_a_worker_of_the_claim_completed_is_not_fetched_again(places: ImportPlaces) -> None:
    with played_server(IMAGE) as server:
        run(msgspec.structs.replace(http_job(server), uid="claim-1"), places)
        asked = len(server.asked)
        again = run(msgspec.structs.replace(http_job(server), uid="claim-1"), places)

    assert (again.virtual_size, len(server.asked)) == (8 * MIB, asked)


@pytest.mark.parametrize("made_by", ["somebody", "another claim's worker"])
def test_an_older_disk_is_neither_taken_nor_written_over(places: ImportPlaces, made_by: str) -> None:
    disk = places.directory / "disk.img"
    if made_by == "somebody":
        disk.write_bytes(b"older")
    else:
        run(ImportJob(name="d", size=MIB, uid="claim-1"), places)
    before = disk.read_bytes()
    with played_server(IMAGE) as server, pytest.raises(ImportFailure, match=r"holds an older disk\.img") as refused:
        run(msgspec.structs.replace(http_job(server), uid="claim-2"), places)

    assert (server.asked, refused.value.fatal) == ([], False), "it may be removed"
    assert (disk.read_bytes(), os.listdir(places.directory)) == (before, ["disk.img"])


def test_an_upload_into_a_claim_that_holds_a_disk_fails_for_good_and_leaves_it(places: ImportPlaces) -> None:
    disk = places.directory / "disk.img"
    disk.write_bytes(b"a guest's")
    with pytest.raises(ImportFailure, match="the claim holds a disk already") as refused:
        run(ImportJob(name="d", size=MIB, uid="claim-1", upload=True), places)

    assert refused.value.fatal, "whoever uploads is told at once"
    assert (disk.read_bytes(), os.listdir(places.directory)) == (b"a guest's", ["disk.img"])


def test_what_a_killed_worker_left_is_replaced_and_no_link_is_followed(places: ImportPlaces, tmp_path: Path) -> None:
    bystander = tmp_path / "bystander"
    bystander.write_text("mine")
    (places.directory / ".disk.img.part").symlink_to(bystander)
    with played_server(IMAGE) as server:
        run(http_job(server), places)

    assert bystander.read_text() == "mine"
    assert os.listdir(places.directory) == ["disk.img"]


@pytest.mark.parametrize("packed", [gzip.compress(IMAGE), lzma.compress(IMAGE)], ids=["gzip", "xz"])
def test_a_compressed_image_is_unpacked_on_its_way(places: ImportPlaces, packed: bytes) -> None:
    with played_server(packed) as server:
        run(http_job(server), places)

    assert (places.directory / "disk.img").read_bytes()[: len(IMAGE)] == IMAGE


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256", "sha512"])
def test_a_checksum_is_of_the_bytes_as_they_are_sent(places: ImportPlaces, algorithm: str) -> None:
    packed = gzip.compress(IMAGE) + b"\0" * 100
    with played_server(packed) as server:
        run(http_job(server, checksum=f"{algorithm}:{hashlib.new(algorithm, packed).hexdigest()}"), places)

    assert (places.directory / "disk.img").exists()


def test_a_wrong_checksum_is_for_good_and_leaves_nothing(places: ImportPlaces) -> None:
    with played_server(IMAGE) as server, pytest.raises(ImportFailure, match="checksum") as refused:
        run(http_job(server, checksum="sha256:" + "0" * 64), places)

    assert (refused.value.fatal, refused.value.reason) == (True, "ChecksumError")
    assert os.listdir(places.directory) == []


def test_a_malformed_checksum_is_told_before_anything_is_sent(places: ImportPlaces) -> None:
    with played_server(IMAGE) as server, pytest.raises(ImportFailure, match="Invalid checksum format"):
        run(http_job(server, checksum="sha256:12"), places)

    assert server.asked == []


@pytest.mark.parametrize("packed", [IMAGE, gzip.compress(IMAGE)], ids=["as it is", "compressed"])
@pytest.mark.parametrize("length", [True, False], ids=["size told", "size not told"])
def test_an_image_that_is_larger_than_the_claim_is_refused(places: ImportPlaces, packed: bytes, length: bool) -> None:
    with played_server(packed) as server:
        server.length = length
        with pytest.raises(ImportFailure, match="DataVolume too small to contain image"):
            run(http_job(server, MIB), places)

    assert os.listdir(places.directory) == []


def test_a_bomb_ends_at_the_size_of_the_claim(places: ImportPlaces) -> None:
    bomb = gzip.compress(bytes(64 * MIB))
    with played_server(bomb) as server, pytest.raises(ImportFailure, match="too small"):
        run(http_job(server, 2 * MIB), places)

    assert os.listdir(places.directory) == []


def test_an_answer_that_is_no_200_is_told_in_cdi_s_words(places: ImportPlaces) -> None:
    words = "Unable to connect to http data source: expected status code 200, got 404. Status: 404 Not Found"
    with played_server(IMAGE) as server:
        server.status = 404
        with pytest.raises(ImportFailure) as refused:
            run(http_job(server), places)

    assert refused.value.message == words
    assert not refused.value.fatal


def test_a_broken_connection_is_gone_on_with(places: ImportPlaces) -> None:
    with played_server(IMAGE) as server:
        server.breaks, server.breaks_after = 1, 100_000
        run(http_job(server), places)

    assert (places.directory / "disk.img").read_bytes()[: len(IMAGE)] == IMAGE
    ranges = [wanted for _, wanted, _ in server.asked]
    assert ranges[0] == ""
    assert ranges[1].startswith("bytes=")


def test_a_server_without_ranges_is_read_once_more_after_a_break(places: ImportPlaces) -> None:
    with played_server(IMAGE) as server:
        server.ranges, server.breaks, server.breaks_after = False, 1, 100_000
        run(http_job(server), places)

    assert (places.directory / "disk.img").read_bytes()[: len(IMAGE)] == IMAGE


def test_a_file_that_changes_during_a_break_is_fetched_from_its_beginning(places: ImportPlaces) -> None:
    other = b"\x01" * len(IMAGE)

    def change(server: PlayedServer) -> None:
        server.body, server.etag = other, '"2"'

    with played_server(IMAGE) as server:
        server.breaks, server.breaks_after, server.after_break = 1, 200_000, change
        run(http_job(server), places)

    assert (places.directory / "disk.img").read_bytes()[: len(IMAGE)] == other


def test_logins_and_headers_go_to_the_server_and_not_where_it_redirects(places: ImportPlaces, tmp_path: Path) -> None:
    (tmp_path / "credentials/accessKeyId").write_text("ann\n")
    (tmp_path / "credentials/secretKey").write_text("secret")
    (tmp_path / "headers/one").write_text("X-Key: 7")
    with played_server(IMAGE) as first, played_server(IMAGE) as second:
        first.redirect = second.url
        url = first.url.replace("disk.img", "away")
        run(ImportJob(name="d", size=8 * MIB, http=HttpSource(url=url, extra_headers=["X-More: 8"])), places)

    sent, led = first.asked[0][2], second.asked[0][2]
    assert (sent["Authorization"], sent["X-Key"], sent["X-More"]) == ("Basic YW5uOnNlY3JldA==", "7", "8")
    assert not {"Authorization", "X-Key", "X-More"} & led.keys()


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/x", "file:///etc/passwd", "gopher://127.0.0.1/"])
def test_a_redirect_to_another_scheme_is_refused(places: ImportPlaces, target: str) -> None:
    with played_server(IMAGE) as server:
        server.redirect = target
        job = ImportJob(name="d", size=MIB, http=HttpSource(url=server.url.replace("disk.img", "away")))
        with pytest.raises(ImportFailure, match=r"redirects|got 302"):
            run(job, places)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://server/x", "http:///x", "nonsense"])
def test_a_url_that_is_not_of_the_web_is_refused(places: ImportPlaces, url: str) -> None:
    with pytest.raises(ImportFailure, match="no http or https URL"):
        run(ImportJob(name="d", size=MIB, http=HttpSource(url=url)), places)


def test_two_workers_do_not_fill_one_claim_at_once(places: ImportPlaces) -> None:
    with played_server(IMAGE) as server:
        failures = []

        def try_again(_: PlayedServer) -> None:
            with pytest.raises(ImportFailure, match="another worker") as refused:
                run(http_job(server), places)
            failures.append(refused.value)

        server.breaks, server.breaks_after, server.after_break = 1, 1000, try_again
        run(http_job(server), places)

    assert len(failures) == 1


def test_a_disk_that_fills_its_place_exactly_goes_without_a_mark(
    places: ImportPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "setxattr", fail)
    monkeypatch.setattr(present_disk, "_mark_beside", fail)
    run(ImportJob(name="d", size=MIB, uid="u"), places)
    assert (places.directory / "disk.img").stat().st_size == MIB

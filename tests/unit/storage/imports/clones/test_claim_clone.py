"""A disk copied from one claim into another; devices are tested where there are some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.launcher.disks.state_return import return_state
from kvedge.resources.types.import_job import CloneSource, ImportJob, ImportOutcome
from kvedge.storage.arriving_mark import ARRIVING
from kvedge.storage.imports.clones import claim_clone
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_run import ImportPlaces, run_import
from kvedge.storage.state_archive import TPM, unpack

MIB = 1 << 20


@pytest.fixture
def places(tmp_path: Path) -> ImportPlaces:
    for name in ("source", "claim"):
        (tmp_path / name).mkdir()
    with (tmp_path / "source/disk.img").open("wb") as disk:
        disk.write(b"\x01" * 5000)
        disk.seek(6 * MIB)
        disk.write(b"\x02" * 70_000)
        disk.truncate(16 * MIB)
    return ImportPlaces(directory=tmp_path / "claim", source_directory=tmp_path / "source")


def run(places: ImportPlaces, size: int = 32 * MIB) -> ImportOutcome:
    return run_import(ImportJob(name="d", size=size, clone=CloneSource()), places, ImportProgress())


@pytest.mark.parametrize("shares", [True, False], ids=["shared where the file system can", "copied"])
def test_a_clone_has_the_content_and_the_holes_and_grows(
    places: ImportPlaces, monkeypatch: pytest.MonkeyPatch, shares: bool
) -> None:
    if not shares:
        monkeypatch.setattr(claim_clone, "share_blocks", lambda source, into: False)
    assert run(places).virtual_size == 32 * MIB

    content = (places.directory / "disk.img").read_bytes()
    assert content[: 16 * MIB] == (places.source_directory / "disk.img").read_bytes()
    assert not any(content[16 * MIB :])
    assert (places.directory / "disk.img").stat().st_blocks * 512 < MIB


def test_a_smaller_claim_is_refused(places: ImportPlaces) -> None:
    with pytest.raises(ImportFailure, match="too small"):
        run(places, MIB)

    assert os.listdir(places.directory) == []


def test_an_unfinished_copy_is_no_source(places: ImportPlaces) -> None:
    (places.source_directory / ARRIVING).write_text("vmi copy\n")
    with pytest.raises(ImportFailure, match="unfinished copy"):
        run(places)


def test_a_source_whose_disk_is_a_link_is_refused(places: ImportPlaces) -> None:
    disk = places.source_directory / "disk.img"
    disk.unlink()
    disk.symlink_to("/etc/passwd")
    with pytest.raises(ImportFailure, match=r"no disk\.img that can be read"):
        run(places)


def test_a_claim_that_keeps_a_vm_s_state_is_copied_as_one_file(places: ImportPlaces) -> None:
    source = places.source_directory
    (source / "disk.img").unlink()
    (source / "swtpm/tpm2").mkdir(parents=True)
    (source / "swtpm/tpm2/tpm2-00.permall").write_bytes(b"secrets")
    run(places)
    copied = places.directory / "disk.img"
    target = os.memfd_create("tpm")
    with copied.open("rb") as archive:
        unpack(archive.fileno(), {TPM: target})
    assert os.pread(target, 100, 0) == b"secrets"
    os.close(target)
    # What a restore has brought and no VM has taken yet goes before what lies beside it.
    (source / "disk.img").write_bytes(b"\x03" * MIB)
    copied.unlink()
    run(places)
    assert copied.read_bytes()[:MIB] == b"\x03" * MIB


def test_the_claim_of_a_vm_that_has_not_started_yet_is_an_empty_state(places: ImportPlaces, tmp_path: Path) -> None:
    source = places.source_directory
    (source / "disk.img").unlink()
    (source / "lost+found").mkdir()
    job = ImportJob(name="d", size=10 * MIB, clone=CloneSource(state=True))
    (source / "notes").write_text("of somebody")
    with pytest.raises(ImportFailure, match=r"no disk\.img that can be read"):
        run_import(job, places, ImportProgress())
    (source / "notes").unlink()
    run_import(job, places, ImportProgress())
    # The VM of a restore starts with new ones.
    place = tmp_path / "restored"
    place.mkdir()
    (places.directory / "disk.img").rename(place / "disk.img")
    return_state(str(place), "web")
    assert list(place.iterdir()) == []


def test_an_empty_claim_that_keeps_no_state_is_no_source(places: ImportPlaces) -> None:
    (places.source_directory / "disk.img").unlink()
    with pytest.raises(ImportFailure, match=r"no disk\.img that can be read"):
        run(places)


def test_a_claim_whose_state_cannot_be_read_is_told(places: ImportPlaces) -> None:
    source = places.source_directory
    (source / "disk.img").unlink()
    (source / "swtpm.current").write_bytes(b"../elsewhere")
    with pytest.raises(ImportFailure, match="names no directory"):
        run(places)

"""Claims from images that the node has: the disk is taken as it is, and nothing outside the image is read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kvedge.resources.types.import_job import ImageSource, ImportJob
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_run import ImportPlaces, run_import

MIB = 1 << 20
CONTENT = b"\xab" * 70_000 + bytes(2 * MIB) + os.urandom(4096)
JOB = ImportJob(name="d", size=8 * MIB, image=ImageSource(name="local/a:1"))


@pytest.fixture
def places(tmp_path: Path) -> ImportPlaces:
    (tmp_path / "claim").mkdir()
    (tmp_path / "image" / "disk").mkdir(parents=True)
    return ImportPlaces(directory=tmp_path / "claim", source_directory=tmp_path / "image")


def test_a_raw_disk_of_an_image_fills_the_claim_and_grows(places: ImportPlaces) -> None:
    (places.source_directory / "disk" / "disk.img").write_bytes(CONTENT)
    (places.source_directory / "disk" / "disk.img").chmod(0o444)
    progress = ImportProgress()
    outcome = run_import(JOB, places, progress)
    assert (outcome.virtual_size, outcome.message) == (8 * MIB, "Import Complete")
    assert progress.text() == "100.00%"
    made = (places.directory / "disk.img").read_bytes()
    assert made == CONTENT + bytes(8 * MIB - len(CONTENT))


def test_a_qcow2_of_an_image_is_converted(places: ImportPlaces, tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(CONTENT + bytes(-len(CONTENT) % 512))
    disk = places.source_directory / "disk" / "disk.qcow2"
    subprocess.run(["qemu-img", "convert", "-c", "-O", "qcow2", tmp_path / "raw", disk], check=True)
    disk.chmod(0o444)
    run_import(JOB, places, ImportProgress())
    assert (places.directory / "disk.img").read_bytes()[: len(CONTENT)] == CONTENT


def test_a_link_in_an_image_is_not_followed(places: ImportPlaces, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(CONTENT)
    (places.source_directory / "disk" / "disk.img").symlink_to(tmp_path / "secret")
    with pytest.raises(ImportFailure, match=r"local/a:1: .*links are not followed"):
        run_import(JOB, places, ImportProgress())
    assert os.listdir(places.directory) == []


def test_an_image_without_a_disk_is_named(places: ImportPlaces) -> None:
    with pytest.raises(ImportFailure, match="image local/a:1: no file found in folder /disk"):
        run_import(JOB, places, ImportProgress())

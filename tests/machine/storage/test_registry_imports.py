"""Container disks of a real registry into claims."""

from __future__ import annotations

import gzip
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.types.import_job import ImportJob, ImportOutcome, RegistrySource
from kvedge.storage.imports.import_door import ImportDoor
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_run import ImportPlaces, run_import
from kvedge.storage.imports.sources.web_source import SourceFiles
from tests.machine.storage.real_registry import PASSWORD, USER, Registry, basic_auth, registry
from tests.support.small_images import directory, file, layer, link, oci_archive

pytestmark = pytest.mark.machine

MIB = 1 << 20
CONTENT = b"\x05" * 3 * MIB + os.urandom(MIB)
UPPER = layer([directory("disk"), file("disk/other.img", b"\x09" * MIB)])


def qcow2(folder: Path) -> bytes:
    (folder / "raw").write_bytes(CONTENT)
    words = ["qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", folder / "raw", folder / "qcow2"]
    subprocess.run(words, check=True)
    return (folder / "qcow2").read_bytes()


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archives of images, by what is in them."""
    folder = tmp_path_factory.mktemp("archives")
    config = {"Env": ["INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE=fedora"]}
    base = layer([directory("etc"), file("etc/hosts", b"x")])
    oci_archive(folder / "raw.tar", [base, layer([file("disk/disk.img", CONTENT)]), UPPER], config, zipped=True)
    oci_archive(folder / "qcow2.tar", [layer([file("./disk/d.qcow2", qcow2(folder))])], {}, zipped=False)
    packed = gzip.compress(CONTENT)
    oci_archive(folder / "packed.tar", [layer([file("disk/d.gz", packed)])], {}, zipped=True)
    oci_archive(folder / "none.tar", [base], {}, zipped=True)
    oci_archive(folder / "two.tar", [layer([file("disk/a", CONTENT), file("disk/b", CONTENT)])], {}, zipped=True)
    oci_archive(folder / "link.tar", [layer([link("disk/a", "/etc/passwd")])], {}, zipped=True)
    return folder


@pytest.fixture(scope="module")
def shelf(archives: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as running:
        for archive in archives.glob("*.tar"):
            running.push(archive, f"disks/{archive.stem}:1")
        yield running


def run(url: str, claim: Path, **options: str) -> ImportOutcome:
    nothing = claim / "nothing"
    job = ImportJob(name="d", size=8 * MIB, registry=RegistrySource(url=url, **options))
    places = ImportPlaces(directory=claim, files=SourceFiles(nothing, nothing, nothing))
    return run_import(job, places, ImportProgress(), ImportDoor(own_host=True))


@pytest.mark.parametrize("name", ["raw", "qcow2", "packed"])
def test_the_disk_of_a_container_disk_comes_into_a_claim(shelf: Registry, tmp_path: Path, name: str) -> None:
    outcome = run(f"docker://{shelf.address}/disks/{name}:1", tmp_path)

    assert (tmp_path / "disk.img").read_bytes()[: len(CONTENT)] == CONTENT
    assert os.listdir(tmp_path) == ["disk.img"]
    wanted = {"instancetype.kubevirt.io/default-preference": "fedora"} if name == "raw" else {}
    assert outcome.labels == wanted


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none", "Failed to find VM disk image file in the container image"),
        ("two", "image directory contains more than one file"),
        ("link", "no regular file"),
        ("missing", "not found"),
    ],
)
def test_an_image_without_one_disk_is_refused(shelf: Registry, tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ImportFailure, match=words):
        run(f"docker://{shelf.address}/disks/{name}:1", tmp_path)

    assert os.listdir(tmp_path) == []


def test_an_image_of_another_architecture_is_refused(shelf: Registry, tmp_path: Path) -> None:
    with pytest.raises(ImportFailure, match="s390x"):
        run(f"docker://{shelf.address}/disks/raw:1", tmp_path, architecture="s390x")


def test_a_registry_that_wants_a_login_gets_it(archives: Path, tmp_path: Path) -> None:
    folder, claim, secret = tmp_path / "registry", tmp_path / "claim", tmp_path / "secret"
    for made in (folder, claim, secret):
        made.mkdir()
    (secret / "accessKeyId").write_text(USER)
    (secret / "secretKey").write_text(PASSWORD)
    with registry(folder, basic_auth(folder)) as running:
        running.push(archives / "raw.tar", "disks/raw:1", "--dest-creds", f"{USER}:{PASSWORD}")
        job = ImportJob(name="d", size=8 * MIB, registry=RegistrySource(url=f"docker://{running.address}/disks/raw:1"))
        places = ImportPlaces(directory=claim, files=SourceFiles(secret, claim / "no", claim / "no"))
        run_import(job, places, ImportProgress(), ImportDoor(own_host=True))

    assert (claim / "disk.img").exists()

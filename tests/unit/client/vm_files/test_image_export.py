# Tests: kvedge/client/vm_files/ova_descriptor.py
"""Exports for other programs, judged by qemu-img, and by kvedge's own import of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.client.errors import ClientError, HostError, UsageError
from kvedge.client.exports.remote_disk import ExportAddress, RemoteDisk
from kvedge.client.vm_files.image_export import write_images, write_ova
from kvedge.client.vm_files.open_export import OpenExport
from kvedge.client.vm_files.ova_reader import read_ova
from kvedge.storage.imports.sinks.foreign_image import check_foreign
from tests.support.played_exports import PlayedExports, played_exports
from tests.unit.client.vm_files.archives import manifest_of

pytestmark = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="no qemu-img")
MIB = 1 << 20
ROOT = bytes(3 * MIB) + os.urandom(100_000) + bytes(20 * MIB - 100_000)
DATA = os.urandom(MIB)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PlayedExports]:
    with played_exports(tmp_path) as exports:
        for name, content in (("root", ROOT), ("data", DATA)):
            (tmp_path / name).write_bytes(content)
            exports.files[f"/{name}"] = tmp_path / name
        yield exports


@pytest.fixture
def export(server: PlayedExports) -> Iterator[OpenExport]:
    disks = [
        RemoteDisk(ExportAddress(server.url(f"/{name}"), server.ca, "secret"), lambda seconds: None)
        for name in ("root", "data")
    ]
    yield OpenExport(manifest_of(len(ROOT), len(DATA)), disks)
    for disk in disks:
        disk.close()


def show(done: int, total: int) -> None:
    assert done <= total == len(ROOT) + len(DATA)


def raw_of(image: Path) -> bytes:
    raw = image.with_suffix(".raw")
    subprocess.run(["qemu-img", "convert", "-O", "raw", image, raw], check=True)
    return raw.read_bytes()


def test_a_plain_qemu_gets_qcow2_images(tmp_path: Path, export: OpenExport) -> None:
    place = tmp_path / "web"
    write_images(export, place, show)
    assert sorted(path.name for path in place.iterdir()) == ["disk1-root.qcow2", "disk2-data.qcow2", "vm.json"]
    for name, content in (("disk1-root.qcow2", ROOT), ("disk2-data.qcow2", DATA)):
        subprocess.run(["qemu-img", "check", place / name], check=True, capture_output=True)
        assert raw_of(place / name) == content
    assert json.loads((place / "vm.json").read_bytes())[0]["metadata"]["name"] == "web"


def test_an_appliance_has_what_others_read(tmp_path: Path, export: OpenExport) -> None:
    path = tmp_path / "web.ova"
    write_ova(export, path, show)
    with tarfile.open(path) as archive:
        # A description comes first, as the standard has it.
        assert archive.getnames() == ["web.ovf", "web.mf", "disk1-root.vmdk", "disk2-data.vmdk"]
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "-xf", path, "-C", tmp_path / "out"], check=True)
    subprocess.run(["sha256sum", "-c", "-"], cwd=tmp_path / "out", input=as_sums(tmp_path / "out/web.mf"), check=True)
    for name, content in (("disk1-root.vmdk", ROOT), ("disk2-data.vmdk", DATA)):
        image = tmp_path / "out" / name
        info = subprocess.run(["qemu-img", "info", "--output=json", image], check=True, capture_output=True)
        found: Any = json.loads(info.stdout)
        assert found["format-specific"]["data"]["create-type"] == "streamOptimized"
        assert found["virtual-size"] == len(content)
        assert raw_of(image) == content
        # What the worker of an import looks at before qemu-img may.
        check_foreign(image.read_bytes()[: 64 << 10], "vmdk")


def as_sums(manifest: Path) -> bytes:
    """The digests as `sha256sum` reads them."""
    lines = [line.removeprefix("SHA256(").split(")= ") for line in manifest.read_text().splitlines()]
    return "".join(f"{digest}  {name}\n" for name, digest in lines).encode()


def test_our_own_import_takes_it(tmp_path: Path, export: OpenExport) -> None:
    domain = export.manifest.vm["spec"]["template"]["spec"]["domain"]
    changed = {**domain, "cpu": {"cores": 3}, "memory": {"guest": "3Gi"}, "firmware": {"bootloader": {"efi": {}}}}
    vm = json.loads(json.dumps(export.manifest.vm))
    vm["spec"]["template"]["spec"]["domain"] = changed
    export.manifest.vm = vm
    path = tmp_path / "web.ova"
    write_ova(export, path, show)
    machine = read_ova(path)
    found = machine.manifest.vm["spec"]["template"]["spec"]["domain"]
    assert machine.manifest.vm["metadata"]["name"] == "web"
    assert found["cpu"] == {"sockets": 1, "cores": 3, "threads": 1}
    assert found["memory"] == {"guest": "3072Mi"}
    assert found["firmware"]["bootloader"] == {"efi": {"secureBoot": False}}
    assert found["devices"]["interfaces"][0]["macAddress"] == "52:54:00:12:34:56"
    assert [disk.size for disk in machine.manifest.disks] == [len(ROOT), len(DATA)]
    assert machine.warnings == []


@pytest.mark.parametrize("write", [write_images, write_ova])
def test_nothing_is_left_of_one_that_failed(
    tmp_path: Path, server: PlayedExports, export: OpenExport, write: Any
) -> None:
    server.statuses = [200, 200, 403, 403]
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ClientError):
        write(export, tmp_path / "web", lambda done, total: None)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("write", [write_images, write_ova])
def test_what_is_there_is_not_written_over(tmp_path: Path, export: OpenExport, write: Any) -> None:
    (tmp_path / "web").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        write(export, tmp_path / "web", show)


def test_a_host_without_qemu_img_is_told_the_package(
    tmp_path: Path, export: OpenExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="apt install qemu-utils"):
        write_ova(export, tmp_path / "web", show)

"""Small archives for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kvedge.client.exports.new_file import write_file
from kvedge.client.exports.remote_disk import CHUNK
from kvedge.client.vm_files.archive_manifest import ArchiveManifest, DiskEntry
from kvedge.client.vm_files.archive_reader import Archive
from kvedge.client.vm_files.archive_writer import ArchiveWriter
from kvedge.resources.codec import JsonObject

VM: Final[JsonObject] = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachine",
    "metadata": {"name": "web", "labels": {"kubevirt.io/vm": "web"}},
    "spec": {
        "runStrategy": "Always",
        "dataVolumeTemplates": [{"metadata": {"name": "web-root"}, "spec": {}}],
        "template": {
            "metadata": {"labels": {"kubevirt.io/vm": "web"}},
            "spec": {
                "domain": {
                    "devices": {
                        "disks": [{"name": "root"}],
                        "interfaces": [{"name": "default", "macAddress": "52:54:00:12:34:56", "bridge": {}}],
                    }
                },
                "networks": [{"name": "default", "pod": {}}],
                "volumes": [
                    {"name": "root", "dataVolume": {"name": "web-root"}},
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                ],
            },
        },
    },
}


def manifest_of(*sizes: int) -> ArchiveManifest:
    """A manifest of up to two disks."""
    entries = [("root", "web-root", True), ("data", "data", False)]
    disks = [
        DiskEntry(volume=volume, claim=claim, size=size, is_owned=owned)
        for (volume, claim, owned), size in zip(entries, sizes, strict=False)
    ]
    return ArchiveManifest(vm=VM, disks=disks)


def write(path: Path, *disks: bytes, signer: object = None) -> Path:
    """An archive of disks with these contents."""
    with write_file(path) as file:
        writer = ArchiveWriter(file, manifest_of(*map(len, disks)), path.parent)
        for number, content in enumerate(disks):
            for offset in range(0, len(content), CHUNK):
                writer.add_chunk(number, offset, content[offset : offset + CHUNK])
        writer.finish(signer)  # type: ignore[arg-type]
        writer.close()
    return path


def read(path: Path, trusted: bytes | None = None) -> list[bytes]:
    """The contents of its disks."""
    with Archive.open(path, trusted, lambda done, total: None) as archive:
        contents = []
        for number, disk in enumerate(archive.disks):
            content = bytearray(disk.size)
            for place, data in archive.chunks(number):
                content[place : place + len(data)] = data
            contents.append(bytes(content))
        return contents

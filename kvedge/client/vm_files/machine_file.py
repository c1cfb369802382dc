"""A VM in a file, ready to be imported, wherever the file comes from.

Made by the readers of archives, appliances and libvirt's domains; used by imports. Reads the archive that is open.
"""

from __future__ import annotations

import hashlib
from typing import BinaryIO, Final, cast

from msgspec import Struct, field

from kvedge.client.exports.remote_disk import CHUNK
from kvedge.client.uploads.upload_source import RangedReader, UploadSource
from kvedge.client.vm_files.archive_manifest import ArchiveManifest
from kvedge.client.vm_files.archive_reader import Archive
from kvedge.client.vm_files.qcow2_view import Qcow2View

_SECTOR: Final = 512


class MachineFile(Struct, frozen=True):
    """What is to be made, and the image of each of its disks, in the manifest's order."""

    manifest: ArchiveManifest
    sources: list[UploadSource]
    # The bytes that each claim needs at least, beside the disk's size: an image that is converted there lies in it.
    least_sizes: list[int]
    # What of the VM has no equal here.
    warnings: list[str] = field(default_factory=list)
    # The files of this computer that are read besides the one that was named, and for what.
    sent_from: list[str] = field(default_factory=list)


class ArchivedImage:
    """One disk of an archive as an image: a qcow2 without holes, made while it is sent."""

    def __init__(self, archive: Archive, number: int) -> None:
        disk = archive.disks[number]
        self._seed = archive.digest + number.to_bytes(4, "big")
        # A qcow2 has whole sectors.
        size = disk.size + -disk.size % _SECTOR
        self._view = Qcow2View(size, disk.places, CHUNK, lambda chunk: disk.read(archive.file, chunk))

    @property
    def size(self) -> int:
        """Of the image."""
        return self._view.size

    def identity(self) -> str:
        """The archive's digests, and which of its disks it is."""
        return hashlib.sha256(self._seed).hexdigest()

    def open(self) -> BinaryIO:
        """The image as a stream."""
        return cast("BinaryIO", RangedReader(self.size, self._view.read_at, lambda: None))


def machine_of(archive: Archive) -> MachineFile:
    """The VM of a checked archive that stays open while it is imported."""
    sources: list[UploadSource] = [ArchivedImage(archive, number) for number in range(len(archive.disks))]
    return MachineFile(archive.manifest, sources, [0] * len(sources))

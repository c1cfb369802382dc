"""Writes the archive of an opened export.

Called by `kvedge export`. Reads the export's disks chunk by chunk, and writes the file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kvedge.client.exports.new_file import write_file
from kvedge.client.vm_files.archive_writer import ArchiveWriter
from kvedge.client.vm_files.open_export import OpenExport

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Show = Callable[[int, int], None]


def write_archive(export: OpenExport, path: Path, signer: Ed25519PrivateKey | None, show: Show) -> int:
    """Write it; returns the file's size. Nothing is left when it fails.

    Raises:
        ClientError: a disk cannot be read, or there is such a file.
        OSError: of the file.
    """
    total = sum(disk.size for disk in export.manifest.disks)
    before = 0
    with write_file(path) as file:
        writer = ArchiveWriter(file, export.manifest, path.parent)
        try:
            for number, disk in enumerate(export.disks):
                for start, end in disk.find_ranges():
                    for place, chunk in disk.read_chunks(start, end):
                        writer.add_chunk(number, place, chunk)
                        show(before + place + len(chunk), total)
                before += disk.read_size()
                show(before, total)
            writer.finish(signer)
        finally:
            writer.close()
        return writer.written

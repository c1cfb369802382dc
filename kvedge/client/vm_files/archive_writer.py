"""Writes an archive from its beginning to its end; what is there before the end is no archive yet.

Called by exports. Writes the stream that it is given, and holds one chunk at a time.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from kvedge.client.exports.remote_disk import CHUNK
from kvedge.client.vm_files import archive_signature
from kvedge.client.vm_files.archive_manifest import (
    MANIFEST,
    SIGNATURE,
    SUMS,
    ArchiveManifest,
    chunk_name,
    encode_manifest,
)
from kvedge.client.vm_files.tar_member import END, make_header, padding
from kvedge.client.vm_files.zstd_chunks import compress

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PIECE: Final = 1 << 20
# The digests of 80 GiB; those of larger disks lie beside the archive until it is written.
SUMS_IN_MEMORY: Final = 2 << 20
_ZEROS: Final = bytes(CHUNK)


class ArchiveWriter:
    """One archive: chunks disk by disk in the order of their places, and then :meth:`finish`."""

    def __init__(self, into: BinaryIO, manifest: ArchiveManifest, spool: Path) -> None:
        """`spool` is where digests lie that are too many for memory."""
        self._into = into
        self._digest = hashlib.sha512()
        self._sums = tempfile.SpooledTemporaryFile(SUMS_IN_MEMORY, dir=str(spool))  # noqa: SIM115 - close() does
        self.written = 0
        self._put(MANIFEST, encode_manifest(manifest))

    def add_chunk(self, disk: int, offset: int, data: bytes) -> None:
        """What a disk has at an offset; nothing is written for zeros."""
        if data != (_ZEROS if len(data) == CHUNK else bytes(len(data))):
            self._put(chunk_name(disk, offset), compress(data))

    def finish(self, signer: Ed25519PrivateKey | None = None) -> None:
        """The digests, and a signature of them; from here on the archive is complete."""
        size = self._sums.tell()
        self._sums.seek(0)
        self._write(make_header(SUMS, size))
        while piece := self._sums.read(_PIECE):
            self._write(piece)
        self._write(bytes(padding(size)))
        self._sums.close()
        if signer is not None:
            signature = archive_signature.sign(signer, self._digest.digest())
            self._write(make_header(SIGNATURE, len(signature)) + signature + bytes(padding(len(signature))))
        self._write(END)

    def close(self) -> None:
        """Forget what is not finished."""
        self._sums.close()

    def _put(self, name: str, content: bytes) -> None:
        self._write(make_header(name, len(content)))
        self._write(content)
        self._write(bytes(padding(len(content))))
        line = make_sum(hashlib.sha256(content).digest(), name)
        self._digest.update(line)
        self._sums.write(line)

    def _write(self, data: bytes) -> None:
        self._into.write(data)
        self.written += len(data)


def make_sum(digest: bytes, name: str) -> bytes:
    """A line as `sha256sum` writes it."""
    return f"{digest.hex()}  {name}\n".encode()

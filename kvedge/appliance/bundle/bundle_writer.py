"""Packs a bundle for a site.

Called by `kvedge bundle create`. Reads the files that it is given, writes one file, whole or not at all. The same
files give the same bundle byte for byte: members stand in the order of their names, without times and owners.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

import msgspec

from kvedge import __version__
from kvedge.appliance.bundle.bundle_format import (
    DESCRIPTION,
    FORMAT,
    PROGRAM,
    SUMS,
    BundleError,
    Description,
    check_member,
    sums_text,
)
from kvedge.runtime.durable_files import put_durably


def write_bundle(target: Path, members: Mapping[str, Path]) -> str:
    """Pack files, by the names that they have in the bundle; returns the sha256 of the bundle in hexadecimal.

    Raises:
        BundleError: for a file that cannot be packed, or that changes meanwhile.
    """
    description = msgspec.json.encode(Description(format=FORMAT, version=__version__))
    digests = {DESCRIPTION: hashlib.sha256(description).hexdigest()}
    for name, path in members.items():
        check_member(name)
        with _open(path) as stream:
            digests[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    coming = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with coming.open("xb") as out:
            with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
                _add(archive, SUMS, io.BytesIO(sums_text(digests)))
                _add(archive, DESCRIPTION, io.BytesIO(description))
                for name, path in sorted(members.items()):
                    with _open(path) as stream:
                        _add(archive, name, stream, digests[name])
            out.flush()
            os.fsync(out.fileno())
        with coming.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        put_durably(coming, target)
    except OSError as error:
        raise BundleError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        coming.unlink(missing_ok=True)
    return digest


def _add(archive: tarfile.TarFile, name: str, stream: BinaryIO, digest: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    info.mode = 0o755 if name == PROGRAM else 0o644
    hashing = _Hashing(stream)
    try:
        archive.addfile(info, hashing)
    except OSError as error:
        if error.errno is not None:
            raise
        # tarfile's own: the file has become shorter.
        raise BundleError(f"{name} changed while it was packed: stop whatever writes it") from error
    if digest and hashing.digest.hexdigest() != digest:
        raise BundleError(f"{name} changed while it was packed: stop whatever writes it")


class _Hashing(io.RawIOBase):
    """Reads another stream and hashes what comes."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """As the stream."""
        data = self._stream.read(size)
        self.digest.update(data)
        return data


@contextmanager
def _open(path: Path) -> Iterator[BufferedReader]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from error
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BundleError(f"{path} is no regular file")
        yield stream

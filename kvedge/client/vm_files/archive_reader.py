"""Reads an archive: all of it is checked before anything of it is used, and each chunk once more when it is.

Called by imports. Reads the one file; holds 48 bytes for each chunk of 4 MiB. Whatever is not as the writer makes it is
refused, to the last bit: a member of another name or place, content after the end, a chunk that unpacks to more.
"""

from __future__ import annotations

import hashlib
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from kvedge.client.exports.remote_disk import CHUNK
from kvedge.client.vm_files import archive_signature
from kvedge.client.vm_files.archive_errors import DamagedFile, IncompleteFile, NotTrusted, UnknownFile
from kvedge.client.vm_files.archive_manifest import (
    LONGEST_MANIFEST,
    MANIFEST,
    SIGNATURE,
    SUMS,
    ArchiveManifest,
    decode_manifest,
    parse_chunk_name,
)
from kvedge.client.vm_files.archive_writer import SUMS_IN_MEMORY, make_sum
from kvedge.client.vm_files.tar_member import BLOCK, END, make_header, padding, read_header
from kvedge.client.vm_files.zstd_chunks import decompress, longest_frame

_PIECE: Final = 1 << 20
_DIGEST: Final = 32
_MAGIC: Final = make_header(MANIFEST, 0)[:100]
_LONGEST_LINE: Final = 256

Show = Callable[[int, int], None]


def is_archive(head: bytes) -> bool:
    """Whether a file that begins so is an archive of a VM."""
    return head.startswith(_MAGIC)


class ArchivedDisk:
    """The chunks of one disk: where each belongs, where it lies in the file, and what its digest is."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.places = array("Q")
        self._positions = array("Q")
        self._sizes = array("I")
        self._digests = bytearray()

    def add(self, place: int, position: int, size: int, digest: bytes) -> None:
        """The next chunk."""
        self.places.append(place)
        self._positions.append(position)
        self._sizes.append(size)
        self._digests += digest

    def read(self, file: BinaryIO, number: int) -> bytes:
        """A chunk's data.

        Raises:
            DamagedFile: it is not what it was when the archive was checked, or not what it claims to be.
        """
        file.seek(self._positions[number])
        frame = file.read(self._sizes[number])
        if hashlib.sha256(frame).digest() != self._digests[number * _DIGEST : (number + 1) * _DIGEST]:
            raise DamagedFile("the archive has changed while it was read: leave it alone, and import again")
        return decompress(frame, self.length_at(self.places[number]))

    def find(self, place: int) -> int | None:
        """The number of the chunk at a place; None for a hole."""
        number = bisect_left(self.places, place)
        return number if number < len(self.places) and self.places[number] == place else None

    def length_at(self, place: int) -> int:
        """How long the chunk at a place is: the last one may be short."""
        return min(CHUNK, self.size - place)


class Archive:
    """A checked archive, open."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file = file
        self.path = path
        self.manifest = ArchiveManifest(vm={})
        self.disks: list[ArchivedDisk] = []
        # Tells this archive from another one, and the key that has signed it.
        self.digest = b""
        self.signed_by: bytes | None = None

    @classmethod
    def open(cls, path: Path, trusted: bytes | None, show: Show) -> Self:
        """Open and check; `trusted` is the key that must have signed it, `show` gets how far it is.

        Raises:
            DamagedFile, IncompleteFile, UnknownFile, NotTrusted: with what is wrong.
            OSError: of the file.
        """
        file = path.open("rb")
        try:
            archive = cls(file, path)
            _Check(archive, show).run()
            archive._check_trust(trusted)
        except BaseException:
            file.close()
            raise
        return archive

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def chunks(self, disk: int) -> Iterator[tuple[int, bytes]]:
        """All data of a disk in their order, with their places."""
        found = self.disks[disk]
        for number, place in enumerate(found.places):
            yield place, found.read(self.file, number)

    def _check_trust(self, trusted: bytes | None) -> None:
        if trusted is None:
            return
        if self.signed_by is None:
            raise NotTrusted(f"{self.path}: is not signed; leave --verify-key out to import it all the same")
        if self.signed_by != trusted:
            raise NotTrusted(
                f"{self.path}: is signed by another key, {archive_signature.fingerprint(self.signed_by)}; "
                f"--verify-key is {archive_signature.fingerprint(trusted)}"
            )


class _Check:
    """One reading of the whole file."""

    def __init__(self, archive: Archive, show: Show) -> None:
        self._archive = archive
        self._file = archive.file
        self._show = show
        self._size = archive.path.stat().st_size
        self._position = 0
        self._digest = hashlib.sha512()
        self._sums = tempfile.SpooledTemporaryFile(SUMS_IN_MEMORY)  # noqa: SIM115 - run() closes it
        self._last = (0, -1)

    def run(self) -> None:
        """Read it to its end."""
        with self._sums:
            self._read_manifest()
            while (header := read_header(self._read(BLOCK)))[0] != SUMS:
                self._take_chunk(*header)
            self._compare_sums(header[1])
        self._read_end()

    def _read_manifest(self) -> None:
        block = self._read(BLOCK)
        if not is_archive(block):
            raise UnknownFile(f"{self._archive.path}: is no archive of a VM")
        _, size = read_header(block)
        if size > LONGEST_MANIFEST:
            raise DamagedFile(f"the archive's {MANIFEST} has {size} bytes; {LONGEST_MANIFEST} are the most")
        content = self._content(MANIFEST, size)
        manifest = decode_manifest(content)
        self._archive.manifest = manifest
        self._archive.disks = [ArchivedDisk(disk.size) for disk in manifest.disks]

    def _take_chunk(self, name: str, size: int) -> None:
        found = parse_chunk_name(name)
        if found is None or found[0] >= len(self._archive.disks):
            raise DamagedFile(f"the archive has a member that does not belong there: {name[:100]!r}")
        number, place = found
        disk = self._archive.disks[number]
        if place % CHUNK or place >= disk.size or found <= self._last:
            raise DamagedFile(f"the archive has a member at a place where none can be: {name}")
        self._last = found
        if not 0 < size <= longest_frame(disk.length_at(place)):
            raise DamagedFile(f"the archive's member {name} has {size} bytes, which no chunk has")
        position = self._position
        content = self._content(name, size)
        disk.add(place, position, size, hashlib.sha256(content).digest())

    def _content(self, name: str, size: int) -> bytes:
        content = self._read(size)
        self._skip_padding(size)
        line = make_sum(hashlib.sha256(content).digest(), name)
        self._digest.update(line)
        self._sums.write(line)
        return content

    def _compare_sums(self, size: int) -> None:
        """The digests as they stand against those of what was read; line by line to name what has changed."""
        if size != self._sums.tell():
            raise DamagedFile(f"the archive is damaged: {SUMS} does not name the members that are there")
        self._sums.seek(0)
        while line := self._sums.readline(_LONGEST_LINE):
            if self._read(len(line)) != line:
                name = line.decode().split()[-1]
                raise DamagedFile(f"the archive is damaged: {name} does not have the digest that {SUMS} tells")
        self._skip_padding(size)
        self._archive.digest = self._digest.digest()

    def _read_end(self) -> None:
        block = self._read(BLOCK)
        if block != bytes(BLOCK):
            name, size = read_header(block)
            if name != SIGNATURE or size > archive_signature.LONGEST_SIGNATURE:
                raise DamagedFile(f"the archive has a member that does not belong there: {name[:100]!r}")
            self._archive.signed_by = archive_signature.verify(self._read(size), self._archive.digest)
            self._skip_padding(size)
            block = self._read(BLOCK)
        if block + self._read(len(END) - BLOCK) != END:
            raise DamagedFile("the archive is damaged: it has more behind its digests")
        if self._file.read(1):
            raise DamagedFile("the archive is damaged: the file goes on behind its end")

    def _skip_padding(self, size: int) -> None:
        if any(self._read(padding(size))):
            raise DamagedFile("the archive is damaged: there is something between its members")

    def _read(self, size: int) -> bytes:
        # Compared before it is read: a header may claim any size.
        if size > self._size - self._position:
            raise _incomplete(self._archive.path)
        data = self._file.read(size)
        if len(data) < size:
            raise _incomplete(self._archive.path)
        self._position += size
        self._show(self._position, self._size)
        return data


def _incomplete(path: Path) -> IncompleteFile:
    return IncompleteFile(
        f"{path}: ends before its digests: its export did not come to its end, or the file was not copied whole"
    )

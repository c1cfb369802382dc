"""An archive of a container image as it comes in: its one disk, without the archive being stored.

Called by the image sink, for what a server sends and a client pushes. In such an archive (`skopeo copy`, `podman save`,
`docker save`) the documents that name the layers may come after them. So the first layer that has a disk is taken, and
only at the archive's end is it known whether that was the right one: when it was not, the archive is read again for the
layer that is. Everything is a stranger's: documents that are kept, members and bytes are bounded, the layer's digest is
checked.

    archive = StreamedArchive(stream, limit)
    disk = archive.disk()     # read it to its end
    disk.verify()
    labels = archive.finish()
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, cast

from kvedge.storage.image_errors import BadImage, TooMuch
from kvedge.storage.images.image_archive import ArchivedImage, images_of
from kvedge.storage.images.image_manifest import MAX_DOCUMENT
from kvedge.storage.imports.containers.image_labels import labels_of
from kvedge.storage.imports.containers.layer_disk import Layer, LayerDisk
from kvedge.storage.imports.disk_formats import is_tar
from kvedge.storage.imports.import_errors import ImportFailure, OtherLayer
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.tar_reader import EntryKind, TarEntry, TarReader

_CHUNK: Final = 1 << 20
# By so many bytes a document, and how a layer is packed, are told.
_BEGIN: Final = 16
# As the image store has it for archives on disk.
_MOST_MEMBERS: Final = 20_000
_MOST_NAMES: Final = 8 << 20
_MOST_LINKS: Final = 8
# Documents of several images. What comes after them is not kept, and then it is told that it lacks.
_MOST_DOCUMENTS: Final = 16 << 20
_BLOBS: Final = "blobs/sha256/"
_FIRST_MEMBERS: Final = re.compile(
    r"(\./)?(oci-layout|index\.json|manifest\.json|repositories|blobs(/.*)?|[0-9a-f]{64}(\.tar|\.json|/.*)?)"
)
_WHAT: Final = "the archive"


def begins_image_archive(head: bytes) -> bool:
    """Whether what begins so is a tar archive whose first member is one of an image's; 512 bytes are enough."""
    name = head[:100].split(b"\0", 1)[0].decode("ascii", "replace")
    return is_tar(head) and _FIRST_MEMBERS.fullmatch(name) is not None


class StreamedArchive:
    """Reads one archive once; `limit` is the most that a layer may unpack to."""

    def __init__(self, stream: BinaryIO, limit: int, layer: str = "") -> None:
        """`layer` is the member whose disk is wanted, as :class:`OtherLayer` has named it; empty for the first one."""
        self._reader = TarReader(cast("BinaryIO", _Forward(stream)))
        self._entries = iter(self._reader)
        self._limit = limit
        self._wanted = layer
        self._documents: dict[str, bytes] = {}
        self._documents_left = _MOST_DOCUMENTS
        self._links: dict[str, str] = {}
        self._members = 0
        self._names_left = _MOST_NAMES
        # Layers that have a disk, in the archive's order; the first is the one that was taken.
        self._with_disk: list[str] = []
        self._digest = ""
        # The first bytes of the member that is read.
        self._begin = b""

    def disk(self) -> LayerDisk:
        """The disk of the wanted layer, from its beginning.

        Raises:
            ImportFailure: when there is none.
            BadImage: when the archive is broken, or none.
        """
        for name in self._layers():
            found = self._disk_of(name)
            if found is not None:
                return found
        # Whoever reads this wants to know whether it is an image at all.
        self._image()
        raise _no_disk()

    def finish(self) -> dict[str, str]:
        """Read on to the end; what the image says of itself, as labels.

        Raises:
            OtherLayer: when the disk of another layer is the image's.
            ImportFailure: when the image has no disk.
            BadImage: when the archive is broken, or the layer is not what its digest says.
        """
        for name in self._layers():
            other = self._disk_of(name)
            if other is not None:
                other.close()
        image = self._image()
        layers = {self._resolve(layer.name): number for number, layer in enumerate(image.layers)}
        taken = self._with_disk[0]
        right = next((name for name in layers if name in self._with_disk), None)
        if right is None:
            raise _no_disk()
        if right != taken:
            raise OtherLayer(right)
        self._check(image, layers[taken], taken)
        return labels_of(image.config)

    def _layers(self) -> Iterator[str]:
        """The members that may be layers, each while it is the one that is read; documents are kept on the way."""
        for entry in self._entries:
            name = os.path.normpath(entry.name)
            self._count(entry)
            if entry.kind in (EntryKind.SYMLINK, EntryKind.HARDLINK):
                above = os.path.dirname(name) if entry.kind is EntryKind.SYMLINK else ""
                self._links[name] = os.path.normpath(os.path.join(above, entry.link))
            elif entry.kind is EntryKind.FILE and name.endswith(".json"):
                self._keep(name, entry.size, b"")
            elif entry.kind is EntryKind.FILE and (name.startswith(_BLOBS) or name.endswith(".tar")):
                begin = self._read_begin()
                if begin.startswith(b"{"):
                    self._keep(name, entry.size, begin)
                elif begin and self._wanted in ("", name):
                    self._begin = begin
                    yield name

    def _disk_of(self, name: str) -> LayerDisk | None:
        found = LayerDisk(_WHAT, self._member(is_taken=not self._with_disk), ImportProgress(), self._limit)
        try:
            has_disk = found.begin()
        except TooMuch:
            found.close()
            raise
        except BadImage:
            # What an image has besides layers: signatures, bills of material. A layer that is wanted is missed.
            found.close()
            return None
        if not has_disk:
            return None
        self._with_disk.append(name)
        return found

    def _member(self, *, is_taken: bool) -> Layer:
        @contextmanager
        def open_member(progress: ImportProgress) -> Iterator[BinaryIO]:
            member = _Member(self._reader, self._begin, hashes=is_taken)
            yield cast("BinaryIO", member)
            while member.read(_CHUNK):
                continue
            if is_taken:
                self._digest = member.digest()

        return open_member

    def _read_begin(self) -> bytes:
        begin = b""
        while len(begin) < _BEGIN and (data := self._reader.read(_BEGIN - len(begin))):
            begin += data
        return begin

    def _keep(self, name: str, size: int, begin: bytes) -> None:
        if size > min(MAX_DOCUMENT, self._documents_left):
            return
        self._documents_left -= size
        parts = [begin]
        while data := self._reader.read(_CHUNK):
            parts.append(data)
        self._documents[name] = b"".join(parts)

    def _count(self, entry: TarEntry) -> None:
        self._members += 1
        self._names_left -= len(entry.name) + len(entry.link)
        if self._members > _MOST_MEMBERS or self._names_left < 0:
            raise BadImage("the archive holds more files than an archive of images")

    def _image(self) -> ArchivedImage:
        found = images_of(_Documents(self._documents))
        if len(found) != 1:
            names = ", ".join(name[:80] for image in found[:5] for name in image.names[:1])
            raise ImportFailure(f"Unable to process data: the archive holds several images ({names}); save one alone")
        return found[0]

    def _resolve(self, name: str) -> str:
        wanted = os.path.normpath(name)
        for _ in range(_MOST_LINKS):
            if wanted not in self._links:
                break
            wanted = self._links[wanted]
        return wanted

    def _check(self, image: ArchivedImage, number: int, name: str) -> None:
        by_name = f"sha256:{name.removeprefix(_BLOBS)}" if name.startswith(_BLOBS) else ""
        # In archives of docker's own kind a layer is stored as it is, and known by its content's digest.
        wanted = image.layers[number].digest or by_name or image.config.diff_ids[number]
        if self._digest != wanted:
            raise BadImage(f"layer {name[:100]} of the archive is not what its digest says", "get the archive again")


class _Forward:
    """A stream that can only go on."""

    def __init__(self, stream: BinaryIO) -> None:
        self.read = stream.read

    def seekable(self) -> bool:
        """Never."""
        return False


class _Member:
    """A member of the archive, as it is stored."""

    def __init__(self, reader: TarReader, begin: bytes, *, hashes: bool) -> None:
        """`begin` was read already."""
        self._reader = reader
        self._begin = begin
        self._found = hashlib.sha256() if hashes else None

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        size = _CHUNK if size < 0 else size
        data, self._begin = self._begin[:size], self._begin[size:]
        data = data or self._reader.read(size)
        if self._found is not None:
            self._found.update(data)
        return data

    def digest(self) -> str:
        """Of all that was read."""
        assert self._found is not None
        return f"sha256:{self._found.hexdigest()}"


class _Documents:
    """The documents of an archive that was read to its end."""

    def __init__(self, found: dict[str, bytes]) -> None:
        self._found = found

    def names(self) -> frozenset[str]:
        """All of them."""
        return frozenset(self._found)

    def open(self, name: str) -> BinaryIO:
        """One of them."""
        data = self._found.get(os.path.normpath(name))
        if data is None:
            raise BadImage(f"the archive lacks {name[:256]}", "it may be a broken download: get it again")
        return io.BytesIO(data)


def _no_disk() -> ImportFailure:
    return ImportFailure("Failed to find VM disk image file in the container image of the archive: it lies in /disk")

"""An archive of a container image as it comes in: its one disk, without the archive being stored.

Called by the image sink, for what a server sends and a client pushes. In such an archive (`skopeo copy`, `podman save`,
`docker save`) the documents that name the layers may come after them. So the first layer that has a disk is taken, and
only at the archive's end is it known whether that was the right one: when it was not, the archive is read again for the
layer that is. What is wrong with a member counts only if the image's disk may be in it. Everything is a stranger's:
documents that are kept, members and bytes are bounded for the whole archive, the layer's digest is checked.

    archive = StreamedArchive(stream, limit)
    disk = archive.disk()     # read it to its end
    disk.verify()
    labels = archive.finish()
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, cast

from kvedge.storage.decompress import is_compressed
from kvedge.storage.image_errors import BadImage, ImageError
from kvedge.storage.images.image_archive import ArchivedImage, images_of
from kvedge.storage.images.image_manifest import MAX_DOCUMENT
from kvedge.storage.imports.containers.archive_members import ArchiveMember, ForwardStream, KeptDocuments, lacks
from kvedge.storage.imports.containers.archive_names import digest_in_name
from kvedge.storage.imports.containers.image_labels import labels_of
from kvedge.storage.imports.containers.layer_disk import Layer, LayerDisk
from kvedge.storage.imports.import_errors import ImportFailure, OtherLayer
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.tar_reader import EntryKind, HeaderBudget, TarEntry, TarReader

_CHUNK: Final = 1 << 20
# By so many bytes a document, and how a layer is packed, are told.
_BEGIN: Final = 16
# As the image store has it for archives on disk.
_MOST_MEMBERS: Final = 20_000
_MOST_NAMES: Final = 8 << 20
_MOST_LINKS: Final = 8
# Documents of several images. What comes after them is not kept, and then it is told that it lacks.
_MOST_DOCUMENTS: Final = 16 << 20
_WHAT: Final = "the archive"


class StreamedArchive:
    """Reads one archive once; `limit` is the most that its layers together may unpack to."""

    def __init__(self, stream: BinaryIO, limit: int, layer: str = "") -> None:
        """`layer` is the member whose disk is wanted, as :class:`OtherLayer` has named it; empty for the first one."""
        self._headers = HeaderBudget()
        self._reader = TarReader(cast("BinaryIO", ForwardStream(stream)), self._headers)
        self._entries = iter(self._reader)
        self._left = limit
        self._wanted = layer
        self._documents: dict[str, bytes] = {}
        self._documents_left = _MOST_DOCUMENTS
        self._links: dict[str, str] = {}
        self._members = 0
        self._names_left = _MOST_NAMES
        # The files that have come, those of them that have a disk, and those that cannot be told to have none.
        self._met: set[str] = set()
        self._with_disk: set[str] = set()
        self._troubles: dict[str, ImageError | ImportFailure] = {}
        # The member whose disk was taken, that disk, how the layer begins and what its digest is.
        self._taken = ""
        self._disk: LayerDisk | None = None
        self._taken_begin = b""
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
                self._taken, self._disk, self._taken_begin = name, found, self._begin
                return found
        # Whoever reads this wants to know whether it is an image at all.
        self._find_right(self._image())
        raise _no_disk()

    def judge_taken(self) -> None:
        """Read on to the end after the taken disk has turned out to be none, and was closed.

        Raises:
            OtherLayer: when the disk of another layer is the image's.
            ImportFailure, BadImage: when the image's first layer that may have a disk is broken or lacks.
        """
        try:
            self._read_on()
            image = self._image()
        except (ImageError, ImportFailure):
            # Nobody knows whose disk it is.
            return
        self._find_right(image)

    def finish(self) -> dict[str, str]:
        """Read on to the end; what the image says of itself, as labels.

        Raises:
            OtherLayer: when the disk of another layer is the image's.
            ImportFailure: when the image has no disk.
            BadImage: when the archive is broken, or the layer is not what its digest says.
        """
        self._read_on()
        image = self._image()
        number = self._find_right(image)
        if number is None:
            raise _no_disk()
        self._check(image, number)
        return labels_of(image.config)

    def _read_on(self) -> None:
        if self._disk is not None:
            self._left = self._disk.left
        for name in self._layers():
            other = self._disk_of(name)
            if other is not None:
                other.close()

    def _find_right(self, image: ArchivedImage) -> int | None:
        """The number of the image's layer that has its disk, if that was taken; None when no layer has one."""
        for number, layer in enumerate(image.layers):
            name = self._resolve(layer.name)
            if name == self._taken:
                return number
            if name in self._with_disk:
                raise OtherLayer(name)
            if name in self._troubles:
                raise self._troubles[name]
            if name not in self._met:
                raise lacks(layer.name)
        return None

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
            elif entry.kind is EntryKind.FILE:
                self._met.add(name)
                begin = self._read_begin()
                if begin.startswith(b"{"):
                    self._keep(name, entry.size, begin)
                elif begin and self._wanted in ("", name):
                    self._begin = begin
                    yield name

    def _disk_of(self, name: str) -> LayerDisk | None:
        is_taken = not self._taken
        found = LayerDisk(_WHAT, self._member(is_taken=is_taken), ImportProgress(), self._left, self._headers)
        try:
            has_disk = found.begin()
        except (ImageError, ImportFailure) as error:
            found.close()
            # Signatures and bills of material are no layers either. What leads to it is not kept: it holds buffers.
            error.__cause__ = error.__context__ = None
            self._troubles[name] = error.with_traceback(None)
            has_disk = False
        if not is_taken or not has_disk:
            self._left = found.left
        if not has_disk:
            return None
        self._with_disk.add(name)
        return found

    def _member(self, *, is_taken: bool) -> Layer:
        @contextmanager
        def open_member(progress: ImportProgress) -> Iterator[BinaryIO]:
            member = ArchiveMember(self._reader, self._begin, hashes=is_taken)
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
        found = images_of(KeptDocuments(self._documents))
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

    def _check(self, image: ArchivedImage, number: int) -> None:
        named = image.layers[number].digest or digest_in_name(self._taken)
        if not named and is_compressed(self._taken_begin):
            # Its diff id is that of what it unpacks to.
            raise BadImage(
                f"layer {self._taken[:100]} of the archive is compressed, and nothing tells its digest",
                "save the image by skopeo copy with oci-archive:FILE",
            )
        # In archives of docker's own kind a layer is stored as it is, and known by its content's digest.
        if self._digest != (named or image.config.diff_ids[number]):
            raise BadImage(
                f"layer {self._taken[:100]} of the archive is not what its digest says", "get the archive again"
            )


def _no_disk() -> ImportFailure:
    return ImportFailure("Failed to find VM disk image file in the container image of the archive: it lies in /disk")

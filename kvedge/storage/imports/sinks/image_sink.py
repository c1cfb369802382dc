"""The one way of an image into a claim: it is recognised, decompressed, converted and put in its place as it comes in.

Called by the import worker with what a server sends, and by the upload's server with what a client pushes:

    sink = ImageSink(target)
    try:
        sink.take(stream)        # reads to the end; afterwards everything is in the claim
        size = sink.finish()     # whole, on disk and under its name
    except BaseException:
        sink.discard()           # nothing is left
        raise

No second copy is made of raw and of nearly all qcow2 images, compressed or not, nor of the archive of a container disk,
whose disk is the image. What has to be read here and there (VMDK, VDI, VHD, VHDX, a qcow2 that was grown) is read by
ranges from a server that can do that, and otherwise lies in a file of the claim until it is converted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from kvedge.storage.decompress import CountedReader, is_compressed, open_decompressed
from kvedge.storage.image_errors import BadImage, ImageError, TooMuch
from kvedge.storage.imports.containers.archive_names import begins_image_archive
from kvedge.storage.imports.containers.streamed_archive import StreamedArchive
from kvedge.storage.imports.disk_formats import HEAD_SIZE, QCOW2, RAW, is_tar, recognise
from kvedge.storage.imports.image_parts import FileParts, Parts, PinnedParts
from kvedge.storage.imports.import_errors import (
    TOO_SMALL,
    ContentEndless,
    ImportFailure,
    NotStreamable,
    OtherLayer,
    TooSmall,
)
from kvedge.storage.imports.sinks.foreign_image import check_foreign
from kvedge.storage.imports.sinks.import_target import FileTarget, ImportTarget, check_fits
from kvedge.storage.imports.sinks.qcow2_stream import Qcow2Stream
from kvedge.storage.imports.sinks.qemu_img_convert import convert_to, virtual_size_of
from kvedge.storage.qcow2_header import Qcow2Header, backing_file_of, check_qcow2_header
from kvedge.storage.sparse_file import write_all

_CHUNK: Final = 1 << 20
# An image file has tables, snapshots and unused clusters beside the disk's data, and ends all the same.
_OVERHEAD: Final = 64 << 20
# The bytes that tell an image's format, and the bytes that qemu-img gets to read: headers, a VMDK's descriptor.
_HEAD: Final = 64 << 10


class Way(Struct, frozen=True):
    """How an image is to be taken.

    `keep_whole` has even a qcow2 lie in the claim first: for one that turned out not to be streamable. `is_archive`
    says that it must be an archive of a container disk, and `layer` which of its layers has the disk.
    """

    keep_whole: bool = False
    is_archive: bool = False
    layer: str = ""

    def after(self, error: NotStreamable) -> Way:
        """The way of another attempt."""
        if isinstance(error, OtherLayer):
            return replace(self, layer=error.layer)
        return replace(self, keep_whole=True)


_PLAIN: Final = Way()


class ImageSink:
    """Takes one image; :meth:`discard` is always allowed, also after an error and after :meth:`finish`."""

    def __init__(self, target: ImportTarget, way: Way = _PLAIN, name: str = "the image") -> None:
        """`name` stands for the image in messages."""
        self._target = target
        self._way = way
        self._name = name
        # What a container disk says of itself.
        self.labels: dict[str, str] = {}
        self._is_inside = False
        # Set for an image that is neither raw nor streamed.
        self._virtual_size = 0
        self._convert: Callable[[], None] | None = None
        self._spool = -1

    def take(self, stream: BinaryIO, parts: Parts | None = None) -> None:
        """Read an image to its end, or convert it from its parts; a bad image is refused here.

        Raises:
            ImportFailure: with CDI's words where there are some.
            NotStreamable: it has to be taken again from its beginning, by a sink that keeps it whole.
            OSError: of the claim or of the stream.
        """
        try:
            self._take(stream, parts)
        except BadImage as error:
            raise ImportFailure(f"Unable to process data: {error}") from error

    def finish(self) -> int:
        """Convert what lies in the claim, have all on disk and name it; returns the size of the guest's disk."""
        if self._convert is not None:
            self._convert()
        self._close_spool()
        return self._target.finish(self._virtual_size)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._close_spool()
        self._target.discard()

    def _take(self, stream: BinaryIO, parts: Parts | None) -> None:
        head = read_up_to(stream, HEAD_SIZE)
        whole = HeadedStream(head, stream)
        with _open_plain(whole, 2 * self._target.limit + _OVERHEAD, is_packed=is_compressed(head)) as plain:
            begin = read_up_to(plain, _HEAD)
            if not begin:
                raise ImportFailure("Unable to process data: the source is empty")
            image = HeadedStream(begin, plain)
            if not self._is_inside and (self._way.is_archive or begins_image_archive(begin)):
                self._take_archive(image, begin)
            else:
                self._take_plain(image, begin, None if is_compressed(head) else parts)
        if parts is None:
            # For its checksum. An image that was converted by ranges has none, and is not fetched a second time.
            _drain(whole)

    def _take_archive(self, image: HeadedStream, head: bytes) -> None:
        if not is_tar(head):
            raise ImportFailure("Unable to process data: this is no tar archive: oci-archive: needs one of an image")
        stream = cast("BinaryIO", image)
        archive = StreamedArchive(stream, 2 * self._target.limit + _OVERHEAD, self._way.layer)
        disk = archive.disk()
        self._is_inside = True
        try:
            self._take(cast("BinaryIO", disk), None)
            disk.verify()
        except BaseException as error:
            disk.close()
            if isinstance(error, ImportFailure | ImageError):
                # It counts only if the image's disk is this one.
                archive.judge_taken()
            raise
        self.labels = archive.finish()
        _drain(image)

    def _take_plain(self, image: HeadedStream, head: bytes, parts: Parts | None) -> None:
        kind = recognise(head)
        if kind == RAW:
            self._take_raw(image, parts.size if parts else 0)
            return
        header = self._check_qcow2(head) if kind == QCOW2 else None
        if header is not None and not self._way.keep_whole:
            try:
                streamed = Qcow2Stream(header, self._target.write)
            except NotStreamable:
                pass
            else:
                self._take_qcow2(image, streamed)
                return
        self._take_foreign(image, kind, head, parts)

    def _take_raw(self, image: HeadedStream, size: int) -> None:
        # The size is that of the image only where it is not compressed.
        check_fits(self._target, size)
        self._target.begin()
        position = 0
        while chunk := read_up_to(image, _CHUNK):
            if position + len(chunk) > self._target.limit:
                raise TooSmall(position + len(chunk), self._target.limit)
            self._target.write(position, chunk)
            position += len(chunk)
        self._virtual_size = position

    def _check_qcow2(self, head: bytes) -> Qcow2Header:
        if backing := backing_file_of(head):
            raise ImportFailure(
                f"Unable to process data: Image {self._name} is invalid because it has invalid backing file "
                f"{backing[:200]!r}; flatten it where it comes from: qemu-img convert -O qcow2 OLD NEW"
            )
        header = check_qcow2_header(head)
        check_fits(self._target, header.virtual_size)
        self._virtual_size = header.virtual_size
        return header

    def _take_qcow2(self, image: HeadedStream, streamed: Qcow2Stream) -> None:
        self._target.begin(self._virtual_size)
        while chunk := read_up_to(image, _CHUNK):
            streamed.feed(chunk)
        streamed.end()

    def _take_foreign(self, image: HeadedStream, kind: str, head: bytes, parts: Parts | None) -> None:
        if parts is None:
            spooled = _pin(head, self._spool_image(image))
            self._virtual_size = self._check(head, spooled, kind)
            self._convert = lambda: convert_to(self._target, spooled, kind, self._virtual_size)
            return
        pinned = _pin(head, parts)
        self._virtual_size = self._check(head, pinned, kind)
        convert_to(self._target, pinned, kind, self._virtual_size)

    def _check(self, head: bytes, parts: PinnedParts, kind: str) -> int:
        if kind == QCOW2:
            return self._virtual_size
        check_foreign(head, kind)
        virtual_size = virtual_size_of(parts, kind)
        check_fits(self._target, virtual_size)
        return virtual_size

    def _spool_image(self, image: HeadedStream) -> FileParts:
        if not isinstance(self._target, FileTarget):
            raise ImportFailure(
                "Unable to process data: this image has to be read here and there, and a block claim has no room for "
                "it beside the disk: have a server give it uncompressed and by ranges, without a checksum here; or "
                "convert it: qemu-img convert -O qcow2 OLD NEW"
            )
        self._spool = self._target.spool()
        position = 0
        while chunk := read_up_to(image, _CHUNK):
            if position + len(chunk) > self._target.limit:
                # It counts against the claim's size.
                raise TooSmall(position + len(chunk), self._target.limit)
            write_all(self._spool, position, chunk)
            position += len(chunk)
        return FileParts(self._spool, position)

    def _close_spool(self) -> None:
        if self._spool >= 0:
            os.close(self._spool)
            self._spool = -1
            if isinstance(self._target, FileTarget):
                self._target.drop_spool()


class HeadedStream:
    """A stream whose first bytes were read already; reading copies nothing after them."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Up to `size` bytes."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        return self._stream.read(size)


@contextmanager
def _open_plain(stream: HeadedStream, limit: int, *, is_packed: bool) -> Iterator[BinaryIO]:
    """What is in a stream; :func:`open_decompressed` would copy what is not compressed once more."""
    source = cast("BinaryIO", stream)
    try:
        if not is_packed:
            yield cast("BinaryIO", CountedReader(source, limit))
            return
        with open_decompressed(source, limit) as opened:
            yield opened
    except TooMuch as error:
        raise ContentEndless(f"{TOO_SMALL}: the source sends more than {limit} bytes") from error


def _pin(head: bytes, parts: Parts) -> PinnedParts:
    """Convert the header that was checked: a server may give another one when it is asked by ranges."""
    if len(head) < min(_HEAD, parts.size):
        raise ImportFailure("Unable to process data: the image ended before its header did; get it again")
    return PinnedParts(head, parts)


def _drain(stream: HeadedStream) -> None:
    """To the end of what is sent, for its checksum."""
    while stream.read(_CHUNK):
        continue


def read_up_to(stream: BinaryIO | HeadedStream, size: int) -> bytes:
    """`size` bytes of a stream that may give less at a time; fewer only at its end."""
    data = stream.read(size)
    if len(data) == size or not data:
        return data
    parts, have = [data], len(data)
    while have < size and (part := stream.read(size - have)):
        parts.append(part)
        have += len(part)
    return b"".join(parts)

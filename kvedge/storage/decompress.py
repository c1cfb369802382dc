"""Compressed streams, recognised by their first bytes, with the output counted.

Called for archives and layers. Starts `zstd` (with no file name) where Python itself has no zstandard.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import shutil
import subprocess
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final, cast

from kvedge.storage.image_errors import BadImage, StoreError, TooMuch

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_XZ: Final = b"\xfd7zXZ\0"
_BZIP2: Final = b"BZh"
_CHUNK: Final = 1 << 18
# The memory that `xz -9` and `zstd --ultra -22` need, the most that these programs use unless asked for more.
_XZ_MEMORY: Final = 80 << 20
# Small: the bytes behind a stream are copied, and a hostile file is made of streams of 32 bytes.
_XZ_CHUNK: Final = 1 << 14
_ZSTD_MEMORY_MIB: Final = 128
# All that the program zstd has: that and its buffers.
ZSTD_MEMORY: Final = 160 << 20


class CountedReader(io.RawIOBase):
    """Reads another stream; stops with :class:`BadImage` once more than `limit` bytes came out of it."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        super().__init__()
        self._stream = stream
        self._left = limit
        self._limit = limit

    @property
    def left(self) -> int:
        """How many bytes may still come."""
        return max(0, self._left)

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """As read(2): up to `size` bytes."""
        try:
            data = self._stream.read(_CHUNK if size < 0 else size)
        except (lzma.LZMAError, EOFError, zlib.error) as error:
            raise _damage(error) from error
        except OSError as error:
            # The libraries' own have no number; others are the disk's.
            if error.errno is not None:
                raise
            raise _damage(error) from error
        self._left -= len(data)
        if self._left < 0:
            raise TooMuch(f"content unpacks to more than {self._limit >> 20} MiB")
        return data


def _damage(error: Exception) -> BadImage:
    return BadImage(f"compressed data are broken: {error}", "it may be a broken download: get it again")


def is_compressed(head: bytes) -> bool:
    """Whether a file that begins so is compressed in a way that :func:`open_decompressed` reads."""
    return head.startswith((_GZIP, _ZSTD, _XZ, _BZIP2))


@contextmanager
def open_decompressed(stream: BinaryIO, limit: int) -> Iterator[BinaryIO]:
    """What is in a possibly compressed stream, at most `limit` bytes of it; forward reading only.

    Raises:
        BadImage: when the data are broken or too much.
        StoreError: when the tool for a compression is missing.
    """
    head = stream.read(6)
    rest = cast("BinaryIO", io.BufferedReader(_Rejoined(head, stream), _CHUNK))
    if head.startswith(_GZIP):
        with gzip.GzipFile(fileobj=rest, mode="rb") as opened:
            yield cast("BinaryIO", CountedReader(cast("BinaryIO", opened), limit))
    elif head.startswith(_XZ):
        yield cast("BinaryIO", CountedReader(cast("BinaryIO", _XzReader(rest)), limit))
    elif head.startswith(_BZIP2):
        with bz2.BZ2File(rest) as opened_bz2:
            yield cast("BinaryIO", CountedReader(cast("BinaryIO", opened_bz2), limit))
    elif head.startswith(_ZSTD):
        with _open_zstd(rest) as opened_zstd:
            yield cast("BinaryIO", CountedReader(opened_zstd, limit))
    else:
        yield cast("BinaryIO", CountedReader(rest, limit))


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        super().__init__()
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        data = self._head[: len(view)] or self._stream.read(len(view))
        self._head = self._head[len(data) :] if self._head else b""
        view[: len(data)] = data
        return len(data)


class _XzReader(io.RawIOBase):
    """The streams of an xz file; a dictionary that takes more memory than `xz -9` has is refused.

    `lzma.LZMAFile` has no such limit: a header of some bytes makes it allocate gigabytes.
    """

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream
        self._decoder = self._new_decoder()
        # The bytes behind the previous stream.
        self._pending = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; empty at the end."""
        wanted = _CHUNK if size < 0 else size
        while True:
            if self._decoder.eof and not self._begin_next_stream():
                return b""
            given = self._read_more() if self._decoder.needs_input else b""
            if self._decoder.needs_input and not given:
                raise EOFError("the data end in the middle")
            if data := self._decompress(given, wanted):
                return data

    def _decompress(self, given: bytes, wanted: int) -> bytes:
        try:
            return self._decoder.decompress(given, wanted)
        except lzma.LZMAError as error:
            # The library has no other sign of it than its text.
            if "Memory usage limit" not in str(error):
                raise
            raise BadImage(
                f"xz data need more than {_XZ_MEMORY >> 20} MiB of memory to unpack", "compress them with xz -9 or less"
            ) from error

    def _read_more(self) -> bytes:
        given, self._pending = self._pending, b""
        return given or self._stream.read(_XZ_CHUNK)

    def _begin_next_stream(self) -> bool:
        """Go on to the stream that follows; streams may have zero bytes between them."""
        following = self._decoder.unused_data.lstrip(b"\0")
        while not following:
            part = self._stream.read(_XZ_CHUNK)
            if not part:
                return False
            following = part.lstrip(b"\0")
        self._pending = following
        self._decoder = self._new_decoder()
        return True

    @staticmethod
    def _new_decoder() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


@contextmanager
def _open_zstd(stream: BinaryIO) -> Iterator[BinaryIO]:
    try:
        library = importlib.import_module("compression.zstd")
    except ModuleNotFoundError:
        with _run_zstd(stream) as opened:
            yield opened
    else:
        with library.ZstdFile(stream) as opened:
            yield opened


@contextmanager
def _run_zstd(stream: BinaryIO) -> Iterator[BinaryIO]:
    program = shutil.which("zstd")
    if program is None:
        raise StoreError("this image is compressed with zstd, and the program zstd is missing", "apt install zstd")
    # --memory: a hostile header may ask for a window of gigabytes.
    process = subprocess.Popen(
        ["prlimit", f"--data={ZSTD_MEMORY}", program, "-dcq", f"--memory={_ZSTD_MEMORY_MIB}MB"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    feeding = threading.Thread(target=_feed, args=(stream, process), name="zstd-feed", daemon=True)
    feeding.start()
    complete = False
    try:
        yield cast("BinaryIO", _ProcessOutput(process))
        complete = True
    finally:
        if not complete or process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        feeding.join()


class _ProcessOutput(io.RawIOBase):
    """The output of a process; its end counts only when the process says that all went well."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__()
        self._process = process

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        output = self._process.stdout
        data = output.read(size) if output is not None else b""
        if not data and self._process.wait() != 0:
            raise BadImage("compressed data are broken (zstd)", "it may be a broken download: get it again")
        return data


def _feed(stream: BinaryIO, process: subprocess.Popen[bytes]) -> None:
    into = process.stdin
    if into is None:
        return
    try:
        while chunk := stream.read(_CHUNK):
            into.write(chunk)
    except (BrokenPipeError, ValueError, BadImage):
        # The reader of the output has gone, or the source is broken: zstd then reports a cut stream.
        return
    finally:
        with suppress(BrokenPipeError):
            into.close()

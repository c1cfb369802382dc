"""Chunks of a disk, each compressed by zstd as a frame of its own, with zstd's checksum.

Called by the archive's writer and reader. Uses Python's own zstandard where it has one, and otherwise starts `zstd`.
"""

from __future__ import annotations

import importlib
import io
import shutil
import subprocess
from functools import cache
from typing import Any, Final

from kvedge.client.errors import HostError
from kvedge.client.vm_files.archive_errors import DamagedFile
from kvedge.storage.decompress import open_decompressed
from kvedge.storage.image_errors import BadImage, StoreError

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
# zstd's own default: three times as fast as a disk of an edge host, and near what slower levels reach.
_LEVEL: Final = 3
# What does not compress grows by some bytes.
_GROWTH: Final = 1 << 16


def longest_frame(length: int) -> int:
    """No honest frame of so much data is longer."""
    return length + _GROWTH


def compress(data: bytes) -> bytes:
    """One frame.

    Raises:
        HostError: this computer lacks `zstd`, or it failed.
    """
    library = _load_library()
    if library is not None:
        options = {
            library.CompressionParameter.compression_level: _LEVEL,
            library.CompressionParameter.checksum_flag: 1,
        }
        return bytes(library.compress(data, options=options))
    program = shutil.which("zstd")
    if program is None:
        raise HostError("the program zstd is missing on this computer: apt install zstd")
    done = subprocess.run([program, f"-{_LEVEL}", "--check", "-q", "-c"], input=data, capture_output=True, check=False)
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip()[:200]
        raise HostError(f"zstd failed ({done.returncode}): {words or 'it says nothing'}")
    return done.stdout


def decompress(frame: bytes, length: int) -> bytes:
    """What is in a frame, which must be so long.

    Raises:
        DamagedFile: it is broken, or longer or shorter.
        HostError: this computer lacks `zstd`.
    """
    if not frame.startswith(_MAGIC):
        raise DamagedFile("a chunk of the archive is not compressed by zstd")
    parts: list[bytes] = []
    try:
        with open_decompressed(io.BytesIO(frame), length) as stream:
            while part := stream.read(1 << 20):
                parts.append(part)
    except BadImage as error:
        raise DamagedFile(f"a chunk of the archive is damaged: {error}") from error
    except StoreError as error:
        raise HostError(str(error)) from error
    found = b"".join(parts)
    if len(found) != length:
        raise DamagedFile(f"a chunk of the archive holds {len(found)} bytes instead of {length}")
    return found


@cache
def _load_library() -> Any:
    try:
        return importlib.import_module("compression.zstd")
    except ModuleNotFoundError:
        return None

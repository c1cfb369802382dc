"""The header of a qcow2 file, read before any tool may open it.

Called when a disk is imported, and by a launcher before QEMU sees a container disk. QEMU follows what the header names
(a backing file, an external data file), and a header made by a stranger may name any file of the host: such images
are refused here first. Touches nothing.
"""

from __future__ import annotations

import struct
from typing import Final

from msgspec import Struct

from kvedge.storage.image_errors import BadImage

MAGIC: Final = b"QFI\xfb"
# Fields up to nb_snapshots' offset (version 2), then the three feature words of version 3.
_VERSION_2: Final = struct.Struct(">4sIQIIQIIQQIIQ")
_FEATURES: Final = struct.Struct(">QQQ")
HEADER_SIZE: Final = _VERSION_2.size + _FEATURES.size
# The size that QEMU can address with the largest clusters; a larger disk is not honest.
_LARGEST: Final = 1 << 56
# qcow2's own limit for the name of a backing file.
_LONGEST_NAME: Final = 1023

_DIRTY: Final = 1 << 0
_CORRUPT: Final = 1 << 1
_EXTERNAL_DATA: Final = 1 << 2
_COMPRESSION: Final = 1 << 3
_EXTENDED_L2: Final = 1 << 4
_KNOWN: Final = _DIRTY | _CORRUPT | _EXTERNAL_DATA | _COMPRESSION | _EXTENDED_L2


class Qcow2Header(Struct, frozen=True):
    """What matters of a header: sizes are bytes, `l1_entries` lie at `l1_offset`.

    `is_plain` says that clusters are as version 2 has them: no subclusters, and compressed by zlib only.
    """

    version: int
    virtual_size: int
    cluster_bits: int = 16
    l1_entries: int = 0
    l1_offset: int = 0
    is_plain: bool = True


def backing_file_of(data: bytes) -> str:
    """The name of the backing file, cut, as far as it is in these first bytes; empty when there is none."""
    if len(data) < HEADER_SIZE or not data.startswith(MAGIC):
        return ""
    (_, _, offset, size, *_) = _VERSION_2.unpack_from(data)
    return data[offset : offset + min(size, _LONGEST_NAME)].decode(errors="replace") if offset else ""


def check_qcow2_header(data: bytes) -> Qcow2Header:
    """Read the first :data:`HEADER_SIZE` bytes of a qcow2 file.

    Raises:
        BadImage: when it is no complete qcow2, or refers to another file, or is marked as damaged or encrypted.
    """
    if len(data) < HEADER_SIZE or not data.startswith(MAGIC):
        raise BadImage("the qcow2 file is too short to have a header", "get it again")
    (_, version, backing, _, cluster_bits, size, encryption, l1_entries, l1_offset, *_) = _VERSION_2.unpack_from(data)
    if version not in (2, 3):
        raise BadImage(f"qcow2 version {version} is not known", "convert it: qemu-img convert -O qcow2 OLD NEW")
    if backing:
        raise BadImage(
            "the qcow2 file has a backing file, which a container disk may not have",
            "flatten it where it comes from: qemu-img convert -O qcow2 OLD NEW",
        )
    if encryption:
        raise BadImage("the qcow2 file is encrypted, which is not supported", "decrypt it with qemu-img convert")
    if not 9 <= cluster_bits <= 21:
        raise BadImage("the qcow2 file has a broken header (cluster size)", "get it again")
    if not 0 < size <= _LARGEST:
        raise BadImage(f"the qcow2 file claims a disk of {size} bytes", "get it again")
    incompatible = _FEATURES.unpack_from(data, _VERSION_2.size)[0] if version == 3 else 0
    _check_features(incompatible)
    is_plain = not incompatible & (_COMPRESSION | _EXTENDED_L2)
    return Qcow2Header(version, size, cluster_bits, l1_entries, l1_offset, is_plain)


def _check_features(incompatible: int) -> None:
    if incompatible & _EXTERNAL_DATA:
        raise BadImage(
            "the qcow2 file keeps its data in another file, which a container disk may not do",
            "convert it where it comes from: qemu-img convert -O qcow2 OLD NEW",
        )
    if incompatible & _CORRUPT:
        raise BadImage("the qcow2 file is marked as corrupt", "repair a copy: qemu-img check -r all FILE")
    if incompatible & _DIRTY:
        raise BadImage(
            "the qcow2 file is in use or was not closed",
            "stop what uses it, or repair a copy: qemu-img check -r all FILE",
        )
    if incompatible & ~_KNOWN:
        raise BadImage("the qcow2 file needs a newer QEMU", "convert it: qemu-img convert -O qcow2 OLD NEW")

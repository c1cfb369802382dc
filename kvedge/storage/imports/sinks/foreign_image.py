"""What an image of another format may not have, found out before `qemu-img` opens it.

A VMDK may name other files as its data or as its parent, and QEMU would open them: its author could read files of
this host. VDI, VHD and VHDX name none that QEMU follows; those that need a parent are refused with a word for it.
Called before a conversion, with the very bytes that qemu-img gets to read there (`PinnedParts`). Touches nothing.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from kvedge.storage.imports.import_errors import ImportFailure

# Magic, version, flags, capacity, grain size, and where the descriptor is, in sectors.
_VMDK: Final = struct.Struct("<4sIIQQQQ")
_SECTOR: Final = 512
# QEMU looks for the parent in this sector and the 19 after it, wherever the header says that the descriptor is.
_DESCRIPTOR_SECTOR: Final = 1
_DESCRIPTOR_SECTORS: Final = 20
_LINES: Final = re.compile(r"[\r\n]")
_EXTENT: Final = re.compile(r"^\s*(RW|RDONLY|NOACCESS)\b", re.IGNORECASE)
# A path, or a name of QEMU's with a protocol, is another file.
_OWN_EXTENT: Final = re.compile(r'\s*RW\s+\d+\s+SPARSE\s+"[^"/\\:{}]+"\s*')
_PARENT: Final = b"parentfilenamehint"
_VPC_KIND: Final = 60
_VPC_DYNAMIC: Final = 3
_VDI_KIND: Final = 0x4C
_VDI_KINDS: Final = (1, 2)


def check_foreign(head: bytes, kind: str) -> None:
    """Look at the first bytes of a VMDK, VDI or VHD; qemu-img refuses a VHDX with a parent by itself.

    Raises:
        ImportFailure: when it needs another file, is broken, or has its descriptor behind these bytes.
    """
    if len(head) < _SECTOR:
        raise _refusal(kind, "is too short")
    if kind == "vmdk":
        _check_vmdk(head)
    elif kind == "vpc" and int.from_bytes(head[_VPC_KIND : _VPC_KIND + 4], "big") != _VPC_DYNAMIC:
        raise _refusal("VHD", "needs its parent, or is of an unknown kind")
    elif kind == "vdi" and int.from_bytes(head[_VDI_KIND : _VDI_KIND + 4], "little") not in _VDI_KINDS:
        raise _refusal("VDI", "needs its parent, or is of an unknown kind")


def _check_vmdk(head: bytes) -> None:
    _, version, _, capacity, _, offset, sectors = _VMDK.unpack_from(head)
    if not 1 <= version <= 3:
        raise _refusal("VMDK", f"has the unknown version {version}")
    # Without a size the descriptor would be believed, which names files.
    if not capacity or offset != _DESCRIPTOR_SECTOR or not sectors:
        raise _refusal("VMDK", "has a broken header")
    end = (offset + max(sectors, _DESCRIPTOR_SECTORS)) * _SECTOR
    if end > len(head):
        raise _refusal("VMDK", "has a descriptor that does not end within its first bytes")
    descriptor = head[offset * _SECTOR : end]
    if _PARENT in descriptor.lower():
        raise _refusal("VMDK", "has invalid backing file: it needs its parent")
    lines = _LINES.split(descriptor.split(b"\0", 1)[0].decode("latin-1"))
    extents = [line for line in lines if _EXTENT.match(line)]
    if len(extents) != 1 or not _OWN_EXTENT.fullmatch(extents[0]):
        raise _refusal("VMDK", "has its data in other files")


def _refusal(kind: str, why: str) -> ImportFailure:
    return ImportFailure(
        f"Unable to process data: the {kind} image {why}; convert it where it comes from: "
        "qemu-img convert -O qcow2 OLD NEW"
    )

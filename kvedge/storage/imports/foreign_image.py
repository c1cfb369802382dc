"""What an image of another format may not have, found out before `qemu-img` opens it.

A VMDK may name other files as its data or as its parent, and QEMU would open them: whoever made it could read files of
this host. VDI, VHD and VHDX name none that QEMU follows; those that need a parent are refused with a word for it.
Called before a conversion. Reads the image's first bytes.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from kvedge.storage.imports.image_parts import Parts
from kvedge.storage.imports.import_errors import ImportFailure

# Magic, version, flags, capacity, grain size, and where the descriptor is, in sectors.
_VMDK: Final = struct.Struct("<4sIIQQQQ")
# qemu-img writes 20 sectors; an honest descriptor has one KiB.
_MOST_SECTORS: Final = 128
_SECTOR: Final = 512
_EXTENT: Final = re.compile(r"^\s*(RW|RDONLY|NOACCESS)\s+\d+\s+(\w+)", re.MULTILINE)
_PARENT: Final = re.compile(r"^\s*parentFileNameHint\s*=", re.MULTILINE | re.IGNORECASE)
_VPC_KIND: Final = 60
_VPC_DYNAMIC: Final = 3
_VDI_KIND: Final = 0x4C
_VDI_KINDS: Final = (1, 2)


def check_foreign(parts: Parts, kind: str) -> None:
    """Look at a VMDK, VDI or VHD; qemu-img refuses a VHDX with a parent by itself.

    Raises:
        ImportFailure: when it needs another file, or is broken.
    """
    head = parts.read_at(0, _SECTOR)
    if len(head) < _SECTOR:
        raise _refused(kind, "is too short")
    if kind == "vmdk":
        _check_vmdk(parts, head)
    elif kind == "vpc" and int.from_bytes(head[_VPC_KIND : _VPC_KIND + 4], "big") != _VPC_DYNAMIC:
        raise _refused("VHD", "needs its parent, or is of an unknown kind")
    elif kind == "vdi" and int.from_bytes(head[_VDI_KIND : _VDI_KIND + 4], "little") not in _VDI_KINDS:
        raise _refused("VDI", "needs its parent, or is of an unknown kind")


def _check_vmdk(parts: Parts, head: bytes) -> None:
    _, version, _, capacity, _, offset, sectors = _VMDK.unpack_from(head)
    if not 1 <= version <= 3:
        raise _refused("VMDK", f"has the unknown version {version}")
    # Without a size the descriptor would be believed, which names files.
    if not capacity or not offset or not 0 < sectors <= _MOST_SECTORS:
        raise _refused("VMDK", "has a broken header")
    text = parts.read_at(offset * _SECTOR, sectors * _SECTOR).split(b"\0", 1)[0].decode("latin-1")
    if _PARENT.search(text):
        raise _refused("VMDK", "has invalid backing file: it needs its parent")
    kinds = [found[1].upper() for found in _EXTENT.findall(text)]
    if kinds != ["SPARSE"]:
        raise _refused("VMDK", "has its data in other files")


def _refused(kind: str, why: str) -> ImportFailure:
    return ImportFailure(
        f"Unable to process data: the {kind} image {why}; convert it where it comes from: "
        "qemu-img convert -O qcow2 OLD NEW"
    )

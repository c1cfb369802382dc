"""Which format an image has, by its first bytes; and what to do with formats that cannot be read.

Called for whatever comes in, after it was decompressed. Touches nothing.
"""

from __future__ import annotations

from typing import Final

from kvedge.storage.imports.import_errors import ImportFailure

# The bytes of an image that are looked at.
HEAD_SIZE: Final = 512
RAW: Final = "raw"
QCOW2: Final = "qcow2"
# qemu-img's names.
_MAGIC: Final = {
    b"QFI\xfb": QCOW2,
    b"KDMV": "vmdk",
    b"vhdxfile": "vhdx",
    b"conectix": "vpc",
}
# Oracle's signature stands behind a text of 64 bytes.
_VDI_OFFSET: Final = 0x40
_VDI_SIGNATURE: Final = b"\x7f\x10\xda\xbe"
_TAR_OFFSET: Final = 257
_TAR: Final = b"ustar"
_REFUSED: Final = {
    b"# Disk DescriptorFile": "a VMDK descriptor, whose data are in other files",
    b"COWD": "a VMDK of ESX's old kind",
    b"QED\0": "a QED image",
    b"<html": "an HTML page",
    b"<!DOCTYPE": "an HTML page",
    b"<!doctype": "an HTML page",
}


def recognise(head: bytes) -> str:
    """The format of an image that begins so: raw, qcow2, vmdk, vdi, vpc or vhdx. An image without a magic is raw.

    Raises:
        ImportFailure: for what is known to be no image that can be read.
    """
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    if head[_VDI_OFFSET : _VDI_OFFSET + len(_VDI_SIGNATURE)] == _VDI_SIGNATURE:
        return "vdi"
    for magic, what in _REFUSED.items():
        if head.startswith(magic):
            raise ImportFailure(
                f"Unable to process data: this is {what}, no disk image; "
                "check the URL, or convert it: qemu-img convert -O qcow2 OLD NEW"
            )
    return RAW


def is_tar(head: bytes) -> bool:
    """Whether a stream that begins so is a tar archive."""
    return head[_TAR_OFFSET : _TAR_OFFSET + len(_TAR)] == _TAR

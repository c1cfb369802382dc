"""The image of the disk by which a guest reads metrics: vhostmd's header, and the document behind it.

Made by `disks` in the preparation process, written again and again by `metrics_keeper`. Touches the one file. A guest
that reads just then sees by the header that the document is being written, or that its sum does not fit.
"""

from __future__ import annotations

import os
import struct
from typing import Final

# KubeVirt's size of the image.
IMAGE_BYTES: Final = 256 << 10
_SIGNATURE: Final = b"mvbd"
# Signature, whether it is being written, the sum of the document's bytes, its length.
_HEADER: Final = struct.Struct(">4sIII")
# As much as readers of vhostmd take.
MOST_BYTES: Final = IMAGE_BYTES - 24


def make_image(path: str, text: str) -> None:
    """Make the image with this document, unless it is there. Raises OSError."""
    if os.path.exists(path):
        return
    staged = f"{path}.new"
    with open(staged, "wb") as file:
        file.truncate(IMAGE_BYTES)
    write_image(staged, text)
    os.rename(staged, path)


def write_image(path: str, text: str) -> None:
    """Put this document in place of the one before.

    Raises:
        OSError: when the image is not there, or cannot be written.
        ValueError: when the document is too long.
    """
    body = text.encode()
    if len(body) > MOST_BYTES:
        raise ValueError(f"{len(body)} bytes are more than an image holds: {MOST_BYTES}")
    opened = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        total = sum(body)
        os.pwrite(opened, _HEADER.pack(_SIGNATURE, 1, total, len(body)), 0)
        os.pwrite(opened, body, _HEADER.size)
        os.pwrite(opened, _HEADER.pack(_SIGNATURE, 0, total, len(body)), 0)
    finally:
        os.close(opened)

"""What the names of an image archive's members tell: that it is one, and a layer's digest. Pure.

Called for what a server sends and a client pushes. The names are those of `skopeo`, `podman`, `docker`, `crane` and
`kaniko`, and of a layout directory that was packed by tar.
"""

from __future__ import annotations

import io
import os
import re
from typing import BinaryIO, Final, cast

from kvedge.storage.image_errors import BadImage
from kvedge.storage.imports.disk_formats import is_tar
from kvedge.storage.tar_reader import TarReader

_FIRST_MEMBERS: Final = re.compile(
    r"oci-layout|index\.json|manifest\.json|repositories|blobs(/.*)?|sha256:[0-9a-f]{64}"
    r"|[0-9a-f]{64}(\.tar|\.tar\.gz|\.json|/.*)?"
)
# `crane` and `kaniko` name packed layers so.
_DIGEST: Final = re.compile(r"(?:blobs/sha256/|sha256:)([0-9a-f]{64})|([0-9a-f]{64})\.tar\.gz")


def begins_image_archive(head: bytes) -> bool:
    """Whether what begins so is a tar archive whose first member is one of an image's; 1 KiB is enough for most."""
    if not is_tar(head):
        return False
    try:
        for entry in TarReader(cast("BinaryIO", io.BytesIO(head))):
            name = os.path.normpath(entry.name)
            # `tar -C LAYOUT .` begins with the directory itself.
            if name != ".":
                return _FIRST_MEMBERS.fullmatch(name) is not None
    except BadImage:
        pass
    return False


def digest_in_name(name: str) -> str:
    """The digest of a layer's bytes that its member is named by, or empty. A plain layer is named by its own."""
    found = _DIGEST.fullmatch(name)
    return f"sha256:{found[1] or found[2]}" if found else ""

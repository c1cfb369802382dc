"""What is in a bundle for a site: its members' names, its checksums and its description. Pure.

Used by `bundle_writer` and `bundle_reader`. A bundle is a plain tar archive, so that a site needs nothing to begin
with: `tar xf site.kvb bin/kvedge`, and `sha256sum -c SHA256SUMS` checks what `tar` has unpacked.

    SHA256SUMS          of all others, as sha256sum writes them
    bundle.json         the format, the version of kvedge that packed it
    bin/kvedge          the program, when there is one
    images/<file>       disks and archives
    manifests/<path>    manifests
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from kvedge.storage.images.image_store import OWN_ENTRIES

# Grows when an older kvedge would misread a bundle.
FORMAT: Final = 1
SUMS: Final = "SHA256SUMS"
DESCRIPTION: Final = "bundle.json"
PROGRAM: Final = "bin/kvedge"
IMAGES: Final = "images/"
MANIFESTS: Final = "manifests/"
# Far more than any site has files.
MOST_SUMS_BYTES: Final = 4 << 20
_LINE: Final = re.compile(r"([0-9a-f]{64})  (.+)")
# The kernel's limit of a name, less what a file that is still being written has before it.
_LONGEST_PART: Final = 200


class BundleError(Exception):
    """A bundle cannot be used or made; the text says why and what to do."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """bundle.json."""

    format: int
    version: str


def check_member(name: str) -> None:
    """Whether a bundle may have a member of this name.

    Raises:
        BundleError: for anything that would not end up as a file in one of the two directories.
    """
    if name in (SUMS, DESCRIPTION, PROGRAM):
        return
    parts = name.split("/")
    is_image = len(parts) == 2 and name.startswith(IMAGES)
    is_manifest = len(parts) >= 2 and name.startswith(MANIFESTS)
    if not (is_image or is_manifest):
        raise BundleError(f"{name!r} has no place in a bundle")
    if is_image and parts[1] in OWN_ENTRIES:
        raise BundleError(f"{name!r} belongs to the image store: rename the file")
    for part in parts:
        # A hidden file would never be looked at; `..` and `` are such parts, too.
        if not part or part.startswith(".") or not part.isprintable() or len(part.encode()) > _LONGEST_PART:
            raise BundleError(f"{name!r} is no name that a file of a bundle may have")


def sums_text(digests: Mapping[str, str]) -> bytes:
    """SHA256SUMS for members by name, in hexadecimal."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())).encode()


def read_sums(data: bytes) -> dict[str, str]:
    """The digests by member.

    Raises:
        BundleError: for a line that is none, or a member that may not be.
    """
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise BundleError(f"{SUMS} is no text") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in found or match[2] == SUMS:
            raise BundleError(f"{SUMS}, line {number}: {line[:80]!r} is no checksum of another file")
        check_member(match[2])
        found[match[2]] = match[1]
    if DESCRIPTION not in found:
        raise BundleError(f"{SUMS} does not name {DESCRIPTION}: this is no bundle of kvedge")
    return found


def read_description(data: bytes) -> Description:
    """bundle.json.

    Raises:
        BundleError: when it is damaged, or of a newer kvedge.
    """
    try:
        found = msgspec.json.decode(data, type=Description)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(f"{DESCRIPTION} cannot be read: {error}") from error
    if found.format > FORMAT:
        raise BundleError(
            f"the bundle was packed by kvedge {found.version}, which writes a newer format: use that version, "
            f"which may be in the bundle itself (tar xf FILE {PROGRAM})"
        )
    return found

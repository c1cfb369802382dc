"""The first member of an archive: which VM it is, what it needs, and which disks follow.

Read and written by the archive's reader and writer. Pure. The format is told in this folder's README; a program that
writes what an older one cannot read takes the next `VERSION`.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from kvedge.client.exports.remote_disk import CHUNK, LARGEST_DISK
from kvedge.client.vm_files.archive_errors import DamagedFile, UnknownFile
from kvedge.resources.codec import JsonObject

FORMAT: Final = "kvedge-vm"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
SUMS: Final = "SHA256SUMS"
SIGNATURE: Final = "SHA256SUMS.sig"
# A VM and its Secrets, each of which an API server takes up to 1.5 MB of.
LONGEST_MANIFEST: Final = 64 << 20
MOST_DISKS: Final = 256
_MEMBER: Final = re.compile(r"disks/(0|[1-9][0-9]{0,2})/([0-9a-f]{16})\.zst")


class DiskEntry(msgspec.Struct, rename="camel", kw_only=True):
    """One disk; its chunks are the members `disks/<its place in the list>/<offset>.zst`."""

    # The volume's name in the VM.
    volume: str
    # The claim that it lay on, and that claim's class and modes.
    claim: str
    size: int
    storage_class: str = ""
    access_modes: list[str] = []
    is_block: bool = msgspec.field(default=False, name="block")
    # Whether the claim was the VM's own, and goes with it.
    is_owned: bool = msgspec.field(default=False, name="owned")


class ArchiveManifest(msgspec.Struct, rename="camel", kw_only=True):
    """What an archive says of itself."""

    format: str = FORMAT
    version: int = VERSION
    # The version of the program that wrote it, and when; for people.
    written_by: str = ""
    created: str = ""
    # How the disks were read: of a stopped VM, or of a snapshot.
    source: str = ""
    chunk_size: int = CHUNK
    vm: JsonObject
    # Secrets and ConfigMaps that the VM names.
    objects: list[JsonObject] = []
    disks: list[DiskEntry] = []
    # What of the VM is not in the archive.
    left_out: list[str] = []


class _Kind(msgspec.Struct):
    format: str = ""
    version: int = 0


def encode_manifest(manifest: ArchiveManifest) -> bytes:
    """As it stands in the archive: for people, too."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def decode_manifest(content: bytes) -> ArchiveManifest:
    """Read it.

    Raises:
        UnknownFile: when it is of another program, or of a newer kvedge.
        DamagedFile: when it does not hold together.
    """
    try:
        kind = msgspec.json.decode(content, type=_Kind)
        if kind.format != FORMAT:
            raise UnknownFile("the file is no archive of a VM: its manifest has another format")
        if kind.version > VERSION:
            raise UnknownFile(
                f"the archive has version {kind.version} of its format, and this kvedge reads up to {VERSION}: "
                "upgrade kvedge here"
            )
        manifest = msgspec.json.decode(content, type=ArchiveManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFile(f"the archive's {MANIFEST} cannot be read: {str(error)[:200]}") from error
    _check(manifest)
    return manifest


def chunk_name(disk: int, offset: int) -> str:
    """The member that holds what a disk has at an offset.

    >>> chunk_name(0, 4 << 20)
    'disks/0/0000000000400000.zst'
    """
    return f"disks/{disk}/{offset:016x}.zst"


def parse_chunk_name(name: str) -> tuple[int, int] | None:
    """The disk and the offset; None for a name of another form."""
    found = _MEMBER.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2], 16))


def _check(manifest: ArchiveManifest) -> None:
    if manifest.chunk_size != CHUNK or manifest.version < 1:
        raise DamagedFile(f"the archive's {MANIFEST} is damaged: chunkSize {manifest.chunk_size} is not {CHUNK}")
    if len(manifest.disks) > MOST_DISKS:
        raise DamagedFile(f"the archive's {MANIFEST} has {len(manifest.disks)} disks; {MOST_DISKS} are the most")
    volumes = [disk.volume for disk in manifest.disks]
    if len(set(volumes)) < len(volumes):
        raise DamagedFile(f"the archive's {MANIFEST} has two disks of one volume")
    for disk in manifest.disks:
        if not 0 < disk.size <= LARGEST_DISK:
            raise DamagedFile(f"disk {disk.volume[:63]!r} of the archive has a size that no disk has: {disk.size}")

"""What the image store writes beside its trees: one small JSON file per image and one per name.

Called by the image store only. Each file is replaced as a whole, so that a reader sees the old one or the new one.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from kvedge.resources.codec import learn
from kvedge.storage.image_errors import StoreError
from kvedge.storage.image_manifest import ImageConfig
from kvedge.storage.image_rules import Origin

# Raised when a record changes in a way that an older kvedge would misread.
FORMAT: Final = 1
T = TypeVar("T", bound="Record")


class Record(msgspec.Struct, kw_only=True):
    """Base of both: the version of the file's format."""

    format: int = FORMAT


class ImageRecord(Record, kw_only=True):
    """`images/<hex>/image.json`: what does not depend on a name; `size` in bytes as stored."""

    id: str
    kind: str
    size: int
    created: str
    config: ImageConfig


class NameRecord(Record, kw_only=True):
    """`names/<hash>.json`: a reference, its image, and how it came; `digest` is the manifest's in the registry."""

    name: str
    image: str
    origin: Origin
    created: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """An image under one of its names; `tree` is its read-only file system on this host."""

    id: str
    name: str
    digest: str
    origin: Origin
    kind: str
    size: int
    created: str
    config: ImageConfig
    tree: Path

    @property
    def image_id(self) -> str:
        """What a Pod's status shows as imageID."""
        repository = self.name.rpartition("@")[0] or self.name.rpartition(":")[0]
        return f"{repository}@{self.digest}" if self.digest else self.id


def name_file(name: str) -> str:
    """The file name of a reference's record; references hold slashes and may be long."""
    return f"{hashlib.sha256(name.encode()).hexdigest()[:40]}.json"


def read_record(cls: type[T], path: Path) -> T | None:
    """A record, or None when there is none.

    Raises:
        StoreError: when it is damaged or of a newer kvedge.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        record = msgspec.json.decode(data, type=cls)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"the image store's file {path} is damaged ({error})", f"remove it and import again: {path}"
        ) from error
    if record.format > FORMAT:
        raise StoreError(f"the image store's file {path} was written by a newer kvedge", "use that version")
    return record


def write_record(record: Record, path: Path) -> None:
    """Write a record so that it is there whole, also after a power cut.

    Raises:
        OSError: as the file system has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(msgspec.json.encode(record))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Workers, pulls and verbs read records at the same time.
for _record in (NameRecord, ImageRecord):
    learn(_record)

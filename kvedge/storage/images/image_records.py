"""What the image store writes beside its trees: one small JSON file per image and one per name.

Called by the image store only. Each file is replaced as a whole, so that a reader sees the old one or the new one.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from kvedge.resources.codec import learn
from kvedge.runtime.durable_files import write_durably
from kvedge.storage.image_errors import StoreError
from kvedge.storage.images.image_manifest import ImageConfig, is_sha256
from kvedge.storage.images.image_names import parse_image_name
from kvedge.storage.images.image_rules import Origin

log = logging.getLogger(__name__)

# The ending of a damaged file's name once it was put aside.
ASIDE: Final = ".damaged"
# The errors of a file on a dying disk, and of one that a repair has turned into something else.
_SPOILT: Final = frozenset({errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.EISDIR})
# Raised when a record changes in a way that an older kvedge would misread.
FORMAT: Final = 1
T = TypeVar("T", bound="Record")


class Record(msgspec.Struct, kw_only=True):
    """Base of both: the version of the file's format."""

    format: int = FORMAT

    def check(self) -> None:
        """What the types do not say.

        Raises:
            ValueError: when a value cannot be used.
        """
        raise NotImplementedError


class _Format(msgspec.Struct):
    """No more than the version, which an older kvedge understands of whatever comes later."""

    format: int = FORMAT


class ImageRecord(Record, kw_only=True):
    """`images/<hex>/image.json`: the facts that do not depend on a name; `size` in bytes as stored."""

    id: str
    kind: str
    size: int
    created: str
    config: ImageConfig

    def check(self) -> None:
        """The id names a directory."""
        if not is_sha256(self.id):
            raise ValueError("id is no sha256 digest")


class NameRecord(Record, kw_only=True):
    """`names/<hash>.json`: a reference, its image, and how it came; `digest` is the manifest's in the registry."""

    name: str
    image: str
    origin: Origin
    created: str
    digest: str = ""

    def check(self) -> None:
        """The image names a directory, the digest stands in a Pod's status, and lists are sorted by the name."""
        if not is_sha256(self.image):
            raise ValueError("image is no sha256 digest")
        if self.digest and not is_sha256(self.digest):
            raise ValueError("digest is no sha256 digest")
        parse_image_name(self.name)


class Image(Struct, frozen=True):
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
    """A record, or None when there is none; a damaged one is put aside, told, and is none from then on.

    One file that a power cut or a dying disk has spoilt must not keep a box down: the image is pulled or imported
    again.

    Raises:
        StoreError: when it is of a newer kvedge.
        OSError: when it cannot be read now.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in _SPOILT:
            raise
        put_aside(path, os.strerror(error.errno))
        return None
    try:
        record = msgspec.json.decode(data, type=cls)
        record.check()
    except (msgspec.DecodeError, ValueError) as error:
        _refuse_newer(_format_of(data), path)
        # Unless a whole one has taken its place meanwhile.
        if _holds(path, data):
            put_aside(path, str(error)[:200])
        return None
    _refuse_newer(record.format, path)
    return record


def _refuse_newer(number: int, path: Path) -> None:
    if number > FORMAT:
        raise StoreError(f"the image store's file {path} was written by a newer kvedge", "use that version")


def _format_of(data: bytes) -> int:
    """The format of a record that is otherwise not understood; today's when it says none."""
    try:
        return msgspec.json.decode(data, type=_Format).format
    except msgspec.DecodeError:
        return FORMAT


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def put_aside(path: Path, why: str) -> None:
    """Give a damaged file a name under which nobody reads it, beside its old one, and say so in the log.

    A later one replaces it: a disk that spoils files must not be filled with them too.
    """
    aside = path.with_name(f"{path.name}{ASIDE}")
    forget_aside(path)
    try:
        os.replace(path, aside)
    except FileNotFoundError:
        # Another thread or process was here first.
        return
    except OSError as error:
        # A read-only disk: it goes on being none.
        log.error("a damaged file of the image store stays: %s", error.strerror, extra={"facts": {"file": str(path)}})
        return
    facts = {"file": str(path), "kept as": str(aside), "error": why, "remedy": "pull or import its image again"}
    log.error("a damaged file of the image store was put aside", extra={"facts": facts})


def forget_aside(path: Path) -> None:
    """Remove what was put aside of a file: a good one has taken its place."""
    aside = path.with_name(f"{path.name}{ASIDE}")
    try:
        aside.unlink(missing_ok=True)
    except OSError:
        # A directory, which a repaired file system may have made of a file.
        shutil.rmtree(aside, ignore_errors=True)


def write_record(record: Record, path: Path) -> None:
    """Write a record so that it is there whole, also after a power cut.

    Raises:
        OSError: as the file system has it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_durably(path, msgspec.json.encode(record))


# Workers, pulls and verbs read records at the same time.
for _record in (NameRecord, ImageRecord, _Format):
    learn(_record)

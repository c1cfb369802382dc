"""What a disk that was dropped is called, and what is to be done about a file. Pure.

Used by `image_drop_ins`. `fedora-40.qcow2` becomes `local/fedora-40`: the name without its endings, in lower case,
below `local/`; a colon in it is the tag (`fedora:40.qcow2` becomes `local/fedora:40`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

import msgspec

from kvedge.storage.images.image_names import InvalidImageName, parse_image_name

_COMPRESSIONS: Final = (".gz", ".xz", ".zst", ".bz2")
_DISKS: Final = (".qcow2", ".qcow", ".img", ".raw", ".iso")
PREFIX: Final = "local/"


class NoName(ValueError):
    """A file's name cannot become an image's; the text says what to do."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a dropped file: its content, the images that it gave, or what was wrong with it."""

    signature: tuple[int, int, int, int, int]
    digest: str
    names: tuple[str, ...] = ()
    error: str = ""


class Step(Enum):
    """What to do about a file that is whole."""

    NOTHING = auto()
    REMEMBER = auto()
    IMPORT = auto()


def disk_name(file_name: str) -> str:
    """The image name of a dropped disk.

    Raises:
        NoName: for a file name that makes no image name.
    """
    stem = file_name
    for endings in (_COMPRESSIONS, _DISKS):
        ending = next((ending for ending in endings if stem.lower().endswith(ending)), "")
        stem = stem[: len(stem) - len(ending)]
    repository, colon, tag = stem.partition(":")
    name = f"{PREFIX}{repository.lower()}{colon}{tag}"
    try:
        if "@" in name or "/" in stem:
            raise NoName(f"{file_name!r} cannot be an image's name: rename the file to letters, digits and - _ .")
        parse_image_name(name)
    except InvalidImageName as error:
        raise NoName(f"{file_name!r} cannot be an image's name ({error}): rename the file") from error
    return name


def name_taken_by(name: str, file_name: str, known: Mapping[str, Taken]) -> str:
    """The other dropped file whose image has this name already; empty for none."""
    if not name:
        return ""
    whole = str(parse_image_name(name))
    return next((other for other, taken in sorted(known.items()) if other != file_name and whole in taken.names), "")


def plan_file(known: Taken | None, digest: str, *, images_are_there: bool) -> Step:
    """What to do about a file that has changed since it was last looked into.

    The same content again is not imported again, so that an image that somebody has removed stays removed while its
    file merely lies there; a file that was copied anew brings its image back.
    """
    if known is None or known.digest != digest:
        return Step.IMPORT
    if known.error or images_are_there:
        return Step.REMEMBER
    return Step.IMPORT

"""What an exporter answers of a backup: the bytes of a volume, and the map that says which of them count.

Called by export_answers.py. Reads the images of one backup. The map of a full backup tells data from zeros, that of an
incremental one what has changed; what has not is not in it, and reading that is refused.
"""

from __future__ import annotations

import errno
import os
from typing import Final, NamedTuple

import msgspec

from kvedge.resources.types.protection.export_job import ServedBackup
from kvedge.storage.changed_blocks.saved_image import SavedImage
from kvedge.storage.exports.export_calls import Call, Client, Denied

_PIECE: Final = 256 << 10
_MOST_EXTENTS: Final = 4096
# As NBD has them in base:allocation, and in a dirty bitmap.
_DATA, _HOLE = (0, "data"), (3, "hole,zero")
_CLEAN, _DIRTY = (0, "clean"), (1, "dirty")


class _Entry(NamedTuple):
    offset: int
    length: int
    type: int
    description: str


def answer_backup(client: Client, call: Call, claim: str, backup: ServedBackup, volume: str, what: str) -> None:
    """Answer a call for a volume of a backup.

    Raises:
        Denied: when there is no such image, or what is asked is not in it.
        OSError: when it cannot be read.
    """
    opened = _open(claim, backup, volume)
    try:
        image = SavedImage(opened)
        offset = min(_number(call, "offset", 0), image.size)
        end = min(offset + _number(call, "length", image.size), image.size)
        if what == "map":
            _answer_map(client, call, image, offset, end, incremental=backup.incremental)
        else:
            _answer_data(client, image, offset, end, incremental=backup.incremental)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise Denied(500, f"the image of volume {volume}: {error.strerror}") from error
    finally:
        os.close(opened)


def _open(claim: str, backup: ServedBackup, volume: str) -> int:
    """The image, by no link."""
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    held = os.open(claim, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in backup.directory.split("/"):
            below = os.open(name, os.O_PATH | os.O_DIRECTORY | flags, dir_fd=held)
            os.close(held)
            held = below
        return os.open(backup.images[volume], os.O_RDONLY | os.O_NONBLOCK | flags, dir_fd=held)
    except PermissionError as error:
        raise Denied(500, "the exporter's user may not read the image") from error
    except OSError as error:
        raise Denied(404, "the claim holds no such image") from error
    finally:
        os.close(held)


def _answer_map(client: Client, call: Call, image: SavedImage, offset: int, end: int, *, incremental: bool) -> None:
    page = max(1, min(_number(call, "page_size", _MOST_EXTENTS), _MOST_EXTENTS))
    listed: list[_Entry] = []
    following: int | None = None
    for extent in image.extents(offset, end):
        kinds = (_CLEAN, _DIRTY) if incremental else (_HOLE, _DATA)
        kind, description = kinds[extent.held if incremental else bool(extent.at)]
        entry = listed[-1] if listed else None
        if entry is not None and entry.type == kind:
            listed[-1] = entry._replace(length=entry.length + extent.length)
            continue
        if len(listed) == page:
            following = extent.offset
            break
        listed.append(_Entry(extent.offset, extent.length, kind, description))
    body = msgspec.json.encode({"extents": [each._asdict() for each in listed], "next_offset": following})
    if client.begin(200, {"Content-Type": "application/json"}, len(body)):
        client.send(body)


def _answer_data(client: Client, image: SavedImage, offset: int, end: int, *, incremental: bool) -> None:
    if incremental:
        missing = next((each for each in image.extents(offset, end) if not each.held), None)
        if missing is not None:
            text = f"an incremental backup does not have byte {missing.offset}: read what its map calls dirty"
            raise Denied(416, text)
    if not client.begin(200, {"Content-Type": "application/octet-stream"}, end - offset):
        return
    for extent in image.extents(offset, end):
        at, stop = extent.offset, extent.offset + extent.length
        while at < stop:
            length = min(_PIECE, stop - at)
            client.send(image.read(extent, at, length))
            at += length


def _number(call: Call, name: str, default: int) -> int:
    text = call.parameter(name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Denied(400, f"{name} must be a number of bytes")
    return int(text)

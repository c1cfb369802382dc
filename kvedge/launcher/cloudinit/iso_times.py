"""Takes the times out of an ISO 9660 image, so that the same files always give the same bytes.

pycdlib stamps the present time on everything and cannot be told another. Called by iso.py. Touches nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

_SECTOR: Final = 2048
_FIRST_DESCRIPTOR: Final = 16
_TERMINATOR: Final = 255
# Types of descriptors that have a directory tree: the primary one, and Joliet's.
_TREES: Final = frozenset({1, 2})
# Creation, modification, expiration and effective time of a volume: ASCII digits and an offset from UTC.
_VOLUME_TIMES: Final = range(813, 813 + 4 * 17, 17)
_NO_VOLUME_TIME: Final = b"0" * 16 + b"\0"
_ROOT_RECORD: Final = 156
_RECORD_TIME: Final = 18
# 1980-01-01 00:00:00 UTC. Zeros would mean "not specified", but Linux makes a day in 2036 of them.
_NEUTRAL_TIME: Final = bytes((80, 1, 1, 0, 0, 0, 0))
_IS_DIRECTORY: Final = 0x02
# The header of a directory record, up to its name.
_RECORD_HEADER: Final = 33
# The header of a SUSP entry (signature, length, version), and TF's flags after it.
_ENTRY_HEADER: Final = 4
_TF_HEADER: Final = 5


def clear_times(image: bytearray) -> None:
    """Make every time in the image a neutral one: of volumes, of directory records, and of Rock Ridge's TF entries."""
    sector = _FIRST_DESCRIPTOR
    while image[sector * _SECTOR] != _TERMINATOR:
        base = sector * _SECTOR
        if image[base] in _TREES:
            for offset in _VOLUME_TIMES:
                image[base + offset : base + offset + 17] = _NO_VOLUME_TIME
            _clear_record(image, base + _ROOT_RECORD)
            _clear_directory(image, base + _ROOT_RECORD)
        sector += 1


def _clear_directory(image: bytearray, record: int) -> None:
    """Clear the records of the directory that the record at this offset describes, and those below it."""
    for index, child in enumerate(_children(image, record)):
        _clear_record(image, child)
        # The first two are the directory itself and its parent.
        if index > 1 and image[child + 25] & _IS_DIRECTORY:
            _clear_directory(image, child)


def _children(image: bytearray, record: int) -> Iterator[int]:
    extent, size = _extent_of(image, record)
    offset, end = extent * _SECTOR, extent * _SECTOR + size
    while offset < end:
        length = image[offset]
        if length:
            yield offset
            offset += length
        else:
            # Records do not cross sectors: the rest of this one is padding.
            offset = (offset // _SECTOR + 1) * _SECTOR


def _extent_of(image: bytearray, record: int) -> tuple[int, int]:
    """Where a record's data starts, in sectors, and its length in bytes; both stand there in both byte orders."""
    extent, size = struct.unpack_from("<I4xI", image, record + 2)
    return extent, size


def _clear_record(image: bytearray, record: int) -> None:
    image[record + _RECORD_TIME : record + _RECORD_TIME + len(_NEUTRAL_TIME)] = _NEUTRAL_TIME
    name_length = image[record + _RECORD_HEADER - 1]
    # The system use area starts at an even offset.
    start = record + _RECORD_HEADER + name_length + (1 - name_length % 2)
    _clear_rock_ridge(image, start, record + image[record])


def _clear_rock_ridge(image: bytearray, start: int, end: int) -> None:
    while start + _ENTRY_HEADER <= end:
        signature, length = bytes(image[start : start + 2]), image[start + 2]
        if length < _ENTRY_HEADER:
            return
        if signature == b"TF":
            # pycdlib writes the short form: seven bytes for each of the entry's times.
            times = (length - _TF_HEADER) // len(_NEUTRAL_TIME)
            image[start + _TF_HEADER : start + length] = _NEUTRAL_TIME * times
        if signature == b"CE":
            block, offset, size = struct.unpack_from("<I4xI4xI", image, start + _ENTRY_HEADER)
            _clear_rock_ridge(image, block * _SECTOR + offset, block * _SECTOR + offset + size)
        start += length

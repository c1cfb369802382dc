"""A reader of tar archives that were made by strangers.

The standard library's reader takes a header's word for how much to read into memory; this one bounds everything, and
knows just what image archives hold: ustar, PAX paths, GNU long names. All other PAX headers are forgotten as they are
read. Called for archives and layers. Reads the stream only.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import BinaryIO, Final

from msgspec import Struct

from kvedge.storage.image_errors import BadImage

_BLOCK: Final = 512
# A PAX header holds a path and a few times; extended attributes may be longer. More is an attack.
_MAX_PAX: Final = 1 << 20
# Linux' limit for a path, with the zero byte at its end.
_MAX_NAME: Final = 4096
# Users and groups are 32 bits wide; the last number means "none".
_MAX_ID: Final = (1 << 32) - 2
# File systems end their calendars between 2038 and 2514.
_MAX_TIME: Final = 1 << 33
_SKIP_CHUNK: Final = 1 << 20
_KEPT_RECORDS: Final = frozenset({b"path", b"linkpath", b"size", b"uid", b"gid", b"mtime"})


class EntryKind(Enum):
    """What an entry is; `OTHER` are devices, fifos and what no image holds."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    HARDLINK = "hardlink"
    OTHER = "other"


_KINDS: Final = {
    b"0": EntryKind.FILE,
    b"\0": EntryKind.FILE,
    b"7": EntryKind.FILE,
    b"5": EntryKind.DIRECTORY,
    b"2": EntryKind.SYMLINK,
    b"1": EntryKind.HARDLINK,
}


class TarEntry(Struct, frozen=True):
    """One entry; `offset` is where its data begin in the (uncompressed) stream, `size` their length in bytes."""

    name: str
    kind: EntryKind
    size: int
    mode: int
    uid: int
    gid: int
    mtime: int
    link: str
    offset: int


class HeaderBudget(Struct):
    """How many PAX and GNU headers the readers of one image may still meet, and how many bytes of them.

    Such a header takes time and brings no file. An honest entry has two at most, of a block or two.
    """

    headers: int = 1_000_000
    size: int = 512 << 20

    def take(self, size: int) -> None:
        """Count one header of `size` bytes.

        Raises:
            BadImage: when no honest image has as many.
        """
        self.headers -= 1
        self.size -= size
        if self.headers < 0 or self.size < 0:
            raise BadImage("the image holds too many headers")


class TarReader:
    """Iterates over the entries of one stream; :meth:`read` gives the data of the entry that came last."""

    def __init__(self, stream: BinaryIO, budget: HeaderBudget | None = None) -> None:
        self._stream = stream
        self._budget = budget or HeaderBudget()
        self._position = 0
        self._remaining = 0
        self._padding = 0
        self._seekable = stream.seekable()

    def __iter__(self) -> Iterator[TarEntry]:
        """All entries, in order.

        Raises:
            BadImage: for a header that is broken, too large, or of a kind that cannot be unpacked.
        """
        extended: dict[str, str] = {}
        common: dict[str, str] = {}
        while True:
            self._skip_rest()
            header = self._read_exactly(_BLOCK, at_end_allowed=True)
            if not header.strip(b"\0"):
                return
            _check_sum(header)
            kind, size = header[156:157], _number(header[124:136])
            if kind in (b"x", b"X"):
                extended |= _pax_records(self._read_special(size, _MAX_PAX))
            elif kind == b"g":
                common |= _pax_records(self._read_special(size, _MAX_PAX))
            elif kind == b"L":
                extended["path"] = _text(self._read_special(size, _MAX_NAME).rstrip(b"\0"))
            elif kind == b"K":
                extended["linkpath"] = _text(self._read_special(size, _MAX_NAME).rstrip(b"\0"))
            else:
                yield self._make_entry(header, kind, size, common | extended)
                extended = {}

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of the current entry's data; empty at their end."""
        wanted = min(size, self._remaining)
        if not wanted:
            return b""
        data = self._stream.read(wanted)
        if not data:
            raise BadImage("the archive ends in the middle of a file", "it may be a broken download: get it again")
        self._remaining -= len(data)
        self._position += len(data)
        return data

    def _make_entry(self, header: bytes, kind: bytes, size: int, pax: dict[str, str]) -> TarEntry:
        if kind == b"S":
            raise _sparse_error()
        size = _pax_number(pax, "size", size)
        known = _KINDS.get(kind, EntryKind.OTHER)
        # POSIX: only files carry data; a size on a link or directory is to be ignored, as all other readers do.
        if known in (EntryKind.DIRECTORY, EntryKind.SYMLINK, EntryKind.HARDLINK):
            size = 0
        name = pax.get("path") or _ustar_name(header)
        if known is EntryKind.FILE and name.endswith("/"):
            known = EntryKind.DIRECTORY
        link = pax.get("linkpath") or _text(header[157:257].split(b"\0", 1)[0])
        if not _is_name(name) or (link and not _is_name(link)) or (known is EntryKind.SYMLINK and not link):
            raise BadImage("the archive holds a file whose name is empty, too long or not a name")
        self._remaining, self._padding = size, -size % _BLOCK
        return TarEntry(
            name=name,
            kind=known,
            size=size,
            mode=_number(header[100:108]) & 0o7777,
            uid=_owner(name, "user", _pax_number(pax, "uid", _number(header[108:116]))),
            gid=_owner(name, "group", _pax_number(pax, "gid", _number(header[116:124]))),
            mtime=min(_pax_number(pax, "mtime", _number(header[136:148])), _MAX_TIME),
            link=link,
            offset=self._position,
        )

    def _read_special(self, size: int, limit: int) -> bytes:
        if size > limit:
            raise BadImage(f"the archive holds a header of {size} bytes")
        self._budget.take(size)
        data = self._read_exactly(size)
        self._read_exactly(-size % _BLOCK)
        return data

    def _read_exactly(self, size: int, *, at_end_allowed: bool = False) -> bytes:
        parts = []
        missing = size
        while missing:
            part = self._stream.read(missing)
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        if missing and not (at_end_allowed and missing == size):
            raise BadImage("the archive is cut short", "it may be a broken download: get it again")
        self._position += size - missing
        return b"".join(parts)

    def _skip_rest(self) -> None:
        skip = self._remaining + self._padding
        self._remaining = self._padding = 0
        if self._seekable and skip:
            self._stream.seek(self._position + skip)
            self._position += skip
            return
        while skip:
            skip -= len(self._read_exactly(min(skip, _SKIP_CHUNK)))


def _sparse_error() -> BadImage:
    return BadImage("the archive holds a sparse file in GNU's own format", "make it without tar's --sparse")


def _is_name(text: str) -> bool:
    return bool(text) and "\0" not in text and len(text.encode("utf-8", "surrogateescape")) < _MAX_NAME


def _owner(name: str, what: str, number: int) -> int:
    if number > _MAX_ID:
        raise BadImage(f"{name[:64]!r} of the archive has an owner that does not exist: {what} {number}")
    return number


def _check_sum(header: bytes) -> None:
    total = sum(header[:148]) + 8 * 0x20 + sum(header[156:])
    if total != _number(header[148:156]):
        raise BadImage("not a tar archive, or a damaged one: a header's checksum is wrong")


def _ustar_name(header: bytes) -> str:
    name = _text(header[:100].split(b"\0", 1)[0])
    # GNU's old format has times where POSIX has the prefix.
    if header[257:263] == b"ustar\0":
        prefix = _text(header[345:500].split(b"\0", 1)[0])
        if prefix:
            return f"{prefix}/{name}"
    return name


def _number(field: bytes) -> int:
    """Octal text, or GNU's base 256 for what does not fit; negative numbers are no sizes, ids or modes."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    if field[0] == 0xFF:
        # A time before 1970.
        return 0
    digits = field.strip(b" \0")
    try:
        return int(digits, 8) if digits else 0
    except ValueError as error:
        raise BadImage("the archive holds a header with a broken number") from error


def _pax_number(pax: dict[str, str], key: str, otherwise: int) -> int:
    if key not in pax:
        return otherwise
    whole = pax[key].partition(".")[0].lstrip("-")
    # 19 digits hold 2^63; int() of a very long text is slow.
    if not whole.isascii() or not whole.isdigit() or len(whole) > 19:
        raise BadImage(f"the archive holds a header with a broken {key}")
    return 0 if pax[key].startswith("-") else int(whole)


def _pax_records(data: bytes) -> dict[str, str]:
    """`<length> <key>=<value>\\n`, repeated; only the records that this reader uses are kept."""
    found: dict[str, str] = {}
    position = 0
    while position < len(data):
        space = data.find(b" ", position, position + 20)
        digits = data[position:space] if space > 0 else b""
        if not digits.isdigit():
            raise BadImage("the archive holds a broken PAX header")
        end = position + int(digits)
        record = data[space + 1 : end]
        key, equals, value = record.partition(b"=")
        if end <= space or end > len(data) or not equals or not value.endswith(b"\n"):
            raise BadImage("the archive holds a broken PAX header")
        if key.startswith(b"GNU.sparse"):
            raise _sparse_error()
        if key in _KEPT_RECORDS:
            if len(value) > _MAX_NAME:
                raise BadImage("the archive holds a PAX header with a value that is too long")
            found[_text(key)] = _text(value[:-1])
        position = end
    return found


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")

"""A VM's own state in one file: the variables of its UEFI firmware and what is in its TPM, as a snapshot keeps them.

Written by the launcher of a running VM and by the worker that copies the claim of a stopped one; read by the launcher
of a VM that was restored. It lies in its claim as a disk's image does, so that all that copies disks copies it, too.
Its head says how large each file is, and its digest: whoever reads it trusts nothing else, and reads no more than that.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

# What is in it, by these names: neither depends on the VM's name.
NVRAM: Final = "nvram"
TPM: Final = "tpm"
NAMES: Final = (NVRAM, TPM)
# The largest file: the variables of firmware for ARM take 64 MiB, nearly all of which is empty.
LARGEST: Final = 64 << 20
_MAGIC: Final = b"KVSTATE1"
_HEAD: Final = 4096
_CHUNK: Final = 64 << 10
# What is no multiple of this is no disk's image.
_ROUNDED: Final = 1 << 20


class BadState(Exception):
    """A state that is damaged, or none."""


class _Member(NamedTuple):
    name: str
    size: int
    packed: int
    digest: str


def pack(files: Mapping[str, int], target: int) -> int:
    """Write the opened files into an empty one; returns its size.

    Raises:
        BadState: one is larger than any state is.
        OSError: of either.
    """
    position = _HEAD
    members = []
    for name in NAMES:
        if name in files:
            member = _pack_member(name, files[name], target, position)
            members.append(member._asdict())
            position += member.packed
    head = _MAGIC + json.dumps({"files": members}).encode()
    _write(target, head.ljust(_HEAD, b"\0"), 0)
    size = -(-position // _ROUNDED) * _ROUNDED
    os.ftruncate(target, size)
    return size


def is_archive(source: int) -> bool:
    """Whether an opened file looks like one. Raises OSError."""
    return os.pread(source, len(_MAGIC), 0) == _MAGIC


def names_in(source: int) -> set[str]:
    """Which files it holds.

    Raises:
        BadState: it is damaged.
        OSError: it cannot be read.
    """
    return {member.name for member in _read_head(source)}


def unpack(source: int, targets: Mapping[str, int]) -> None:
    """Write what an opened archive holds into empty files, which stay empty where it has none.

    Raises:
        BadState: it is damaged.
        OSError: of either.
    """
    position = _HEAD
    for member in _read_head(source):
        _unpack_member(member, source, position, targets[member.name])
        position += member.packed


def _pack_member(name: str, file: int, target: int, position: int) -> _Member:
    digest, packer = hashlib.sha256(), zlib.compressobj(1)
    size = packed = 0

    def put(data: bytes) -> int:
        _write(target, data, position + packed)
        return len(data)

    while data := os.pread(file, _CHUNK, size):
        size += len(data)
        if size > LARGEST:
            raise BadState(f"{name} is larger than {LARGEST} bytes, as no state of firmware or a TPM is")
        digest.update(data)
        packed += put(packer.compress(data))
    packed += put(packer.flush())
    return _Member(name, size, packed, digest.hexdigest())


def _unpack_member(member: _Member, source: int, position: int, target: int) -> None:
    digest, written = hashlib.sha256(), 0
    for piece in _inflate(member, source, position):
        if written + len(piece) > member.size:
            raise BadState(f"{member.name} is longer than it says")
        _write(target, piece, written)
        digest.update(piece)
        written += len(piece)
    if (written, digest.hexdigest()) != (member.size, member.digest):
        raise BadState(f"{member.name} is not what was packed")


def _inflate(member: _Member, source: int, position: int) -> Iterator[bytes]:
    """What a member holds, in pieces of a bounded size whatever it was packed to."""
    packer, end = zlib.decompressobj(), position + member.packed
    waiting = b""
    try:
        while not packer.eof:
            if not waiting:
                waiting = os.pread(source, min(_CHUNK, end - position), position)
                position += len(waiting)
                if not waiting:
                    raise BadState(f"{member.name} ends before its end")
            yield packer.decompress(waiting, _CHUNK)
            waiting = packer.unconsumed_tail
    except zlib.error as error:
        raise BadState(f"{member.name} cannot be unpacked: {error}") from None


def _read_head(source: int) -> list[_Member]:
    head = os.pread(source, _HEAD, 0)
    if not head.startswith(_MAGIC):
        raise BadState("it does not begin as a state does")
    try:
        found: Any = json.loads(head[len(_MAGIC) :].rstrip(b"\0"))
        members = [_read_member(each) for each in found["files"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BadState("its head is damaged") from None
    names = [member.name for member in members]
    if len(set(names)) != len(names):
        raise BadState("its head names a file twice")
    return members


def _read_member(found: Any) -> _Member:
    match found:
        case {"name": str(name), "size": int(size), "packed": int(packed), "digest": str(digest)} if (
            name in NAMES and 0 <= size <= LARGEST and 0 <= packed <= 2 * LARGEST
        ):
            return _Member(name, size, packed, digest)
    raise ValueError("no file of a state")


def _write(target: int, data: bytes, position: int) -> None:
    while data:
        done = os.pwrite(target, data, position)
        data, position = data[done:], position + done

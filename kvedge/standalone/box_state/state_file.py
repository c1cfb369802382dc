"""The file that `kvedge state backup` writes: all that makes a box this box, except images and disks.

Used by backup, restore and check. A tar archive compressed with gzip, for its owner alone, as it holds private keys:

    state.json          format, version of kvedge, the store's revision, checksums of all others
    kvedge.db           a consistent copy of the object store
    layout              the version mark of the data directory
    pki/<name>          the box's authorities and certificates, so that kubeconfigs go on to work
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import tarfile
import tempfile
import zlib
from datetime import datetime
from pathlib import Path
from typing import IO, Final

import msgspec

from kvedge import __version__
from kvedge.runtime.durable_files import put_durably
from kvedge.standalone.apiserver.store.object_store_file import StoreError, check_file, revision_of
from kvedge.standalone.apiserver.store.object_store_snapshot import SnapshotFailed, copy_now
from kvedge.standalone.box_lock import LAYOUT, read_layout

# Grows when an older kvedge would misread such a file.
FORMAT: Final = 1
STORE: Final = "kvedge.db"
_HEAD: Final = "state.json"
_LAYOUT: Final = "layout"
_PKI: Final = re.compile(r"pki/[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_PIECE: Final = 1 << 20
# Far more than certificates have.
_MOST_SMALL_BYTES: Final = 4 << 20


class StateError(Exception):
    """The state cannot be copied, put back or read; the text says why and what to do."""


class StateHead(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """state.json; `made_at` is `20260102T030405Z`, `digests` are sha256 in hexadecimal, by member."""

    format: int
    version: str
    made_at: str
    revision: int
    objects: int
    digests: dict[str, str]


def write_state(data_dir: Path, target: Path, now: datetime) -> StateHead:
    """Copy a box's state into a file, whether kvedge runs there or not.

    Raises:
        StateError: there is no state, it is damaged, or the file cannot be written; nothing is left of it then.
    """
    state = data_dir / "state"
    if not (state / STORE).exists():
        raise StateError(f"{state / STORE} does not exist: no kvedge standalone has run in {data_dir}")
    coming = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with tempfile.TemporaryDirectory(prefix=".state-", dir=target.parent) as folder:
            copy = Path(folder) / STORE
            copy_now(state / STORE, copy)
            members = {STORE: copy, _LAYOUT: state / _LAYOUT}
            members |= {f"pki/{path.name}": path for path in sorted((state / "pki").glob("*")) if path.is_file()}
            members = {name: path for name, path in members.items() if name in (STORE, _LAYOUT) or _PKI.fullmatch(name)}
            head = StateHead(
                format=FORMAT,
                version=__version__,
                made_at=f"{now:%Y%m%dT%H%M%SZ}",
                revision=revision_of(copy),
                objects=check_file(copy),
                digests={name: _digest_of(path) for name, path in members.items()},
            )
            _pack(coming, head, members)
        put_durably(coming, target)
    except (SnapshotFailed, StoreError) as error:
        raise StateError(str(error)) from error
    except OSError as error:
        raise StateError(
            f"{target} cannot be written: {error.strerror or error} ({error.filename or target})"
        ) from error
    finally:
        coming.unlink(missing_ok=True)
    return head


def read_state(path: Path, into: Path) -> StateHead:
    """Unpack such a file into an empty directory, and check all that is in it.

    Raises:
        StateError: it is cut off, was changed, is of a newer kvedge, or its store is damaged.
        OSError: the directory cannot be written.
    """
    try:
        with (
            path.open("rb") as file,
            gzip.GzipFile(fileobj=file) as plain,
            tarfile.open(fileobj=plain, mode="r|") as archive,
        ):
            head = _unpack(path, archive, into)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise StateError(f"{path} is cut off, or no file of `kvedge state backup`: {error}") from error
    except FileNotFoundError as error:
        if error.filename != str(path):
            raise
        raise StateError(f"{path} does not exist") from error
    layout, newer = read_layout(into / _LAYOUT)
    if layout > LAYOUT:
        raise StateError(f"{path} is of kvedge {newer}, which is newer than this one ({__version__}): use that version")
    try:
        check_file(into / STORE)
    except StoreError as error:
        raise StateError(f"the object store in {path} is no good: {error}") from error
    return head


def _pack(target: Path, head: StateHead, members: dict[str, Path]) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with (
        open(descriptor, "wb") as file,
        gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        text = msgspec.json.encode(head)
        _add(archive, _HEAD, io.BytesIO(text), len(text))
        for name, path in members.items():
            with path.open("rb") as stream:
                _add(archive, name, stream, os.fstat(stream.fileno()).st_size)


def _add(archive: tarfile.TarFile, name: str, stream: IO[bytes], size: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    archive.addfile(info, stream)


def _unpack(path: Path, archive: tarfile.TarFile, into: Path) -> StateHead:
    head: StateHead | None = None
    missing: set[str] = set()
    for info in archive:
        stream = archive.extractfile(info) if info.isreg() else None
        if stream is None:
            raise StateError(f"{path}: {info.name!r} is no plain file: it was not written by kvedge")
        if head is None:
            head = _head(path, info, stream)
            missing = set(head.digests)
            continue
        is_small = info.name == _LAYOUT or _PKI.fullmatch(info.name) is not None
        if info.name not in missing or not (is_small or info.name == STORE):
            raise StateError(f"{path}: {info.name!r} does not belong there: the file was changed")
        if is_small and info.size > _MOST_SMALL_BYTES:
            raise StateError(f"{path}: {info.name!r} is too large: the file was changed")
        missing.discard(info.name)
        if _write(into / info.name, stream) != head.digests[info.name]:
            raise StateError(f"{path}: {info.name} is damaged or was changed")
    if head is None or missing or STORE not in head.digests or _LAYOUT not in head.digests:
        raise StateError(f"{path} is cut off: {', '.join(sorted(missing)) or 'the beginning'} is missing")
    return head


def _head(path: Path, info: tarfile.TarInfo, stream: IO[bytes]) -> StateHead:
    if info.name != _HEAD or info.size > _MOST_SMALL_BYTES:
        raise StateError(f"{path} is no file of `kvedge state backup`")
    data = stream.read()
    try:
        # The format first: of a newer one nothing else is known.
        found, version = msgspec.json.decode(data, type=_Format), ""
        version = found.version
        if found.format > FORMAT:
            raise StateError(
                f"{path} was written by kvedge {version}, newer than this one ({__version__}): use that version"
            )
        return msgspec.json.decode(data, type=StateHead)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateError(f"{path}: {_HEAD} cannot be read: {error}") from error


class _Format(msgspec.Struct, frozen=True):
    format: int
    version: str = "of a newer version"


def _write(path: Path, stream: IO[bytes]) -> str:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    digest = hashlib.sha256()
    # The public halves and the layout may be read by nobody else either: all of `state` is root's.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as out:
        while piece := stream.read(_PIECE):
            digest.update(piece)
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

"""What an exporter answers: the calls, whom it answers, and the bytes.

Called by export_server.py, in a thread for each connection. Reads the claims of the job, the token and the manifests;
writes nothing. No URL is logged: it may hold the token.
"""

from __future__ import annotations

import gzip
import hmac
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from email.message import Message
from email.utils import formatdate
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.resources.codec import DecodeError, decode_json
from kvedge.resources.disks.exports import (
    ALL_MANIFESTS,
    EXTERNAL,
    INTERNAL,
    SECRET_MANIFEST,
    TOKEN_HEADER,
    TOKEN_KEY,
    WAY_HEADER,
)
from kvedge.resources.types.protection.export_job import (
    MANIFESTS_KEY,
    OWN_DIRECTORY,
    TOKEN_DIRECTORY,
    ExportJob,
    ExportManifests,
    ServedVolume,
    volume_directory,
)
from kvedge.storage.exports.backup_answers import answer_backup
from kvedge.storage.exports.byte_ranges import ByteRange, Unsatisfiable, asked_range, is_same_file
from kvedge.storage.exports.export_calls import Call, Client, Denied
from kvedge.storage.exports.exported_disk import ExportedDisk, UnfinishedCopy, describe, hold_disk, map_page
from kvedge.storage.exports.exported_files import hold_entry, list_directory, pack_directory
from kvedge.storage.exports.gzip_stream import Compressor
from kvedge.storage.exports.manifest_text import Way, make_header_secret, make_manifests, read_way, render

log = logging.getLogger(__name__)

_PIECE: Final = 256 << 10
# Each has pieces of its own in memory, and works two processors.
_MOST_COMPRESSED: Final = 6
_LONGEST_TOKEN: Final = 4096
_DISK_FORMS: Final = ("disk.img", "disk.img.gz", "disk.img.map")
_BYTES: Final = "application/octet-stream"
_GZIP: Final = "application/gzip"


class Places(Struct, frozen=True):
    """Where the files of an exporter are."""

    token: Path = Path(TOKEN_DIRECTORY) / TOKEN_KEY
    manifests: Path = Path(OWN_DIRECTORY) / MANIFESTS_KEY


class ExportAnswers:
    """Answers calls for one job; every method may be called from any thread."""

    def __init__(self, job: ExportJob, places: Places, compressor: Compressor) -> None:
        self._name = job.name
        self._volumes = {volume.name: (number, volume) for number, volume in enumerate(job.volumes)}
        self._places = places
        self._compressor = compressor
        self._compressed = threading.BoundedSemaphore(_MOST_COMPRESSED)

    def answer(self, client: Client, target: str, headers: Message) -> None:
        """Answer one GET or HEAD.

        Raises:
            Denied: what else is to be said.
            OSError: the client went, or a disk cannot be read; what was sent is not whole then.
        """
        call = Call.read(target, headers)
        if call.path == "/exportready":
            _send(client, b"", "text/plain")
            return
        self._check_token(call)
        words = call.path.split("/")
        if len(words) == 4 and words[1] == "exports":
            self._answer_backup(client, call, words[2], words[3])
        elif len(words) >= 4 and words[1] == "volumes":
            self._answer_volume(client, call, words[2], "/".join(words[3:]))
        elif call.path in _MANIFESTS:
            self._answer_manifests(client, call)
        else:
            raise Denied(404)

    def _check_token(self, call: Call) -> None:
        token = self._read_token()
        given = (call.parameter(TOKEN_HEADER), call.headers.get(TOKEN_HEADER, ""))
        # Both are compared, and each in constant time.
        good = [hmac.compare_digest(each.encode("utf-8", "replace"), token) for each in given]
        if not token or not any(good):
            raise Denied(401)

    def _read_token(self) -> bytes:
        try:
            with self._places.token.open("rb") as opened:
                return opened.read(_LONGEST_TOKEN)
        except OSError as error:
            raise Denied(500, f"the token's Secret has no key {TOKEN_KEY!r}") from error

    def _answer_volume(self, client: Client, call: Call, name: str, form: str) -> None:
        found = self._volumes.get(name)
        if found is None:
            raise Denied(404)
        number, volume = found
        if volume.backup is not None:
            raise Denied(404, "of a backup, data and map are served")
        if volume.disk and form in _DISK_FORMS:
            self._answer_disk(client, call, number, volume, form)
        elif not volume.disk and (form == "dir" or form.startswith("dir/")):
            self._answer_entry(client, call, number, form[len("dir") :])
        elif not volume.disk and form == "disk.tar.gz":
            with self._compressing():
                pieces = pack_directory(volume_directory(number))
                _stream(client, self._compressor.compress_pieces(pieces), _GZIP)
        else:
            raise Denied(404)

    def _answer_backup(self, client: Client, call: Call, name: str, what: str) -> None:
        for number, volume in self._volumes.values():
            if volume.backup is not None and name in volume.backup.images and what in ("data", "map"):
                answer_backup(client, call, volume_directory(number), volume.backup, name, what)
                return
        raise Denied(404)

    def _answer_disk(self, client: Client, call: Call, number: int, volume: ServedVolume, form: str) -> None:
        try:
            held = hold_disk(volume, number)
            with held as disk:
                if form == "disk.img":
                    _send_part(client, call, disk)
                elif form == "disk.img.map":
                    _send(client, msgspec.json.encode(map_page(disk, _offset(call, disk))), "application/json")
                else:
                    with self._compressing():
                        pieces = _while_unchanged(disk, self._compressor.compress_disk(disk))
                        _stream(client, pieces, _GZIP, {"ETag": disk.tag})
        except FileNotFoundError as error:
            raise Denied(404, "the claim holds no disk.img") from error
        except UnfinishedCopy as error:
            raise Denied(409, "disk.img of the claim is the unfinished copy of a disk, and no disk") from error
        except PermissionError as error:
            raise Denied(500, "the exporter's user may not read disk.img") from error

    @staticmethod
    def _answer_entry(client: Client, call: Call, number: int, path: str) -> None:
        if "\0" in path:
            raise Denied(400)
        try:
            with hold_entry(volume_directory(number), path.strip("/")) as (opened, is_directory):
                if not is_directory:
                    _send_part(client, call, describe(opened))
                elif not path.endswith("/"):
                    raise Denied(301, headers={"Location": f"{call.path.rsplit('/', 1)[-1]}/"})
                else:
                    _send(client, list_directory(opened), "text/html; charset=utf-8")
        except PermissionError as error:
            raise Denied(403) from error
        except OSError as error:
            if error.filename is None:
                raise
            raise Denied(404) from error

    def _answer_manifests(self, client: Client, call: Call) -> None:
        try:
            documents = decode_json(ExportManifests, gzip.decompress(self._places.manifests.read_bytes()))
        except (OSError, EOFError, DecodeError) as error:
            raise Denied(404) from error
        is_secret, is_outside = _MANIFESTS[call.path]
        if is_secret:
            made = [make_header_secret(self._name, self._read_token().decode("utf-8", "replace"))]
        else:
            way = read_way(call.headers.get(WAY_HEADER, "")) if is_outside else Way(documents.base, documents.ca)
            if way is None:
                raise Denied(404, "these manifests are for those that come by the external link")
            made = make_manifests(self._name, documents, way)
        media, text = render(made, call.headers.get("Accept", ""))
        _send(client, text, media)

    @contextmanager
    def _compressing(self) -> Iterator[None]:
        if not self._compressed.acquire(blocking=False):
            text = f"{_MOST_COMPRESSED} compressed downloads are under way: try again later, or fetch disk.img"
            raise Denied(503, text, {"Retry-After": "10"})
        try:
            yield
        finally:
            self._compressed.release()


# By path: whether it is the Secret, and whether it is for clients from outside.
_MANIFESTS: Final = {
    f"/{way}/{what}": (what == SECRET_MANIFEST, way == EXTERNAL)
    for way in (INTERNAL, EXTERNAL)
    for what in (ALL_MANIFESTS, SECRET_MANIFEST)
}


def _offset(call: Call, disk: ExportedDisk) -> int:
    text = call.parameter("offset") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Denied(400, "offset must be a number of bytes")
    return min(int(text), disk.size)


def _send(client: Client, body: bytes, media: str) -> None:
    if client.begin(200, {"Content-Type": media}, len(body)) and body:
        client.send(body)


def _send_part(client: Client, call: Call, disk: ExportedDisk) -> None:
    modified = formatdate(disk.modified, usegmt=True)
    headers = {"Content-Type": _BYTES, "Accept-Ranges": "bytes", "ETag": disk.tag, "Last-Modified": modified}
    part = None
    try:
        if is_same_file(call.headers.get("If-Range", ""), disk.tag, modified):
            part = asked_range(call.headers.get("Range", ""), disk.size)
    except Unsatisfiable as error:
        raise Denied(416, headers={"Content-Range": f"bytes */{disk.size}"}) from error
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{disk.size}"
    whole = part or ByteRange(0, disk.size)
    if not client.begin(206 if part is not None else 200, headers, whole.length):
        return
    position = whole.start
    while position < whole.end:
        piece = disk.read(position, min(_PIECE, whole.end - position))
        if not piece:
            raise EOFError("the disk has become shorter")
        position += len(piece)
        if position >= whole.end:
            _check_unchanged(disk)
        client.send(piece)


def _while_unchanged(disk: ExportedDisk, pieces: Iterable[bytes]) -> Iterator[bytes]:
    yield from pieces
    _check_unchanged(disk)


def _check_unchanged(disk: ExportedDisk) -> None:
    """A guest that has started, and wrote before this exporter was ended, leaves no download that looks whole."""
    if not disk.is_unchanged():
        raise EOFError("the disk was written during the download")


def _stream(client: Client, pieces: Iterable[bytes], media: str, headers: dict[str, str] | None = None) -> None:
    begun = time.monotonic()
    sent = 0
    if not client.begin(200, {"Content-Type": media, **(headers or {})}, None):
        return
    for piece in pieces:
        client.send(piece)
        sent += len(piece)
    client.finish_body()
    log.info("%d bytes sent in %.1f s", sent, time.monotonic() - begun)

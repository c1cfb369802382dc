"""The stream of an archive, its members and its documents."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

import pytest

from kvedge.storage.image_errors import BadImage
from kvedge.storage.imports.containers.archive_members import ArchiveMember, ForwardStream, KeptDocuments
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.tar_reader import TarReader
from tests.support.small_images import digest, file, layer


class Broken:
    """A source that breaks once, and would go on."""

    def __init__(self) -> None:
        self.answers: list[bytes | Exception] = [b"some", ImportFailure("it is unreachable"), b"more"]

    def read(self, size: int) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_stream_that_broke_stays_broken() -> None:
    stream = ForwardStream(cast("BinaryIO", Broken()))
    assert stream.read(4) == b"some"
    for _ in range(3):
        with pytest.raises(ImportFailure, match="it is unreachable"):
            stream.read(4)
    assert not stream.seekable()


@pytest.mark.parametrize("begun", [0, 16, 100_000])
def test_a_member_s_digest_is_that_of_all_its_bytes_whatever_was_read_before(begun: int) -> None:
    data = bytes(range(256)) * 400
    reader = TarReader(cast("BinaryIO", io.BytesIO(layer([file("a", data), file("b", b"next")]))))
    entries = iter(reader)
    next(entries)
    member = ArchiveMember(reader, reader.read(begun), hashes=True)
    read = b""
    while part := member.read(1000):
        read += part
    assert (read, member.digest()) == (data, digest(data))


def test_documents_are_found_however_they_are_named() -> None:
    kept = KeptDocuments({"blobs/sha256/a": b"{}"})
    assert kept.names() == {"blobs/sha256/a"}
    assert kept.open("./blobs//sha256/a").read() == b"{}"
    with pytest.raises(BadImage, match="the archive lacks blobs/sha256/b"):
        kept.open("blobs/sha256/b")

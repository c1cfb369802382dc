"""Servers that are slow, have ranges or not, and show certificates."""

from __future__ import annotations

import http.client
import os
import ssl
from email.message import Message
from pathlib import Path

import pytest

from kvedge.storage.image_errors import RegistryError
from kvedge.storage.images.registry_pace import Pace, PaceLimits
from kvedge.storage.imports.import_door import ImportDoor
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.sources.http_download import HttpDownload, SourceChanged
from kvedge.storage.imports.sources.web_source import SourceFiles
from tests.support.certificate_files import FileAuthority
from tests.support.image_server import PlayedServer, played_server

BODY = os.urandom(3 << 20)


def download(server: PlayedServer, limits: PaceLimits | None = None) -> HttpDownload:
    pace = Pace("", limits or PaceLimits(), peer="server s", remedy="check the network")
    return HttpDownload(server.url, ImportDoor(own_host=True), pace, sleep=lambda seconds: None)


def test_a_server_that_sends_a_byte_now_and_then_is_given_up() -> None:
    with played_server(BODY) as server:
        server.drips = True
        stream = download(server, PaceLimits(window=0.3, window_bytes=10_000)).open()
        with pytest.raises(RegistryError, match="server s is too slow"):
            stream.read(1 << 20)
        stream.close()


def test_any_part_is_read_by_ranges_and_what_is_in_order_by_one_request() -> None:
    with played_server(BODY) as server:
        stream = download(server).open()
        parts = stream.parts()
        assert parts is not None
        assert parts.read_at(len(BODY) - 100, 500) == BODY[-100:]
        assert b"".join(parts.read_at(start, 300_000) for start in range(0, len(BODY), 300_000)) == BODY
        stream.close()

    assert [wanted for _, wanted, _ in server.asked] == ["", "bytes=2097152-", "bytes=0-"]


def test_parts_of_a_file_that_has_changed_are_no_parts() -> None:
    with played_server(BODY) as server:
        stream = download(server).open()
        parts = stream.parts()
        server.etag = '"2"'
        assert parts is not None
        with pytest.raises(SourceChanged):
            parts.read_at(0, 100)
        stream.close()


@pytest.mark.parametrize(("ranges", "etag"), [(False, '"1"'), (True, "")], ids=["no ranges", "nothing to know it by"])
def test_a_server_may_have_no_parts(ranges: bool, etag: str) -> None:
    with played_server(BODY) as server:
        server.ranges, server.etag = ranges, etag
        stream = download(server).open()
        assert stream.parts() is None
        stream.close()


def test_a_server_that_breaks_again_and_again_is_given_up() -> None:
    with played_server(BODY) as server:
        server.breaks, server.breaks_after = 100, 0
        stream = download(server).open()
        with pytest.raises(ImportFailure, match="Unable to connect to http data source"):
            stream.read(1 << 20)
        stream.close()


@pytest.mark.parametrize(
    ("given", "insecure", "works"),
    [("ours", False, True), ("none", True, True), ("none", False, False), ("another", False, False)],
    ids=["mounted certificate", "not verified", "no certificate", "another certificate"],
)
def test_a_server_s_certificate_is_verified_by_what_is_mounted(
    tmp_path: Path, given: str, insecure: bool, works: bool
) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    authorities = {name: FileAuthority(tmp_path, name) for name in ("ours", "another")}
    if given != "none":
        (mounted / "ca.pem").write_bytes(authorities[given].ca.read_bytes())
    pair = authorities["ours"].issue("server", hosts=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    with played_server(BODY, context) as server:
        wanted = download(server)
        wanted.context = SourceFiles(tmp_path, mounted, tmp_path).context(insecure)
        if not works:
            with pytest.raises(ImportFailure, match="certificate"):
                wanted.open()
            return
        stream = wanted.open()
        assert stream.read(10) == BODY[:10]
        stream.close()


class Chunked:
    """An answer without a length: what it has, and then the end, or a connection that breaks."""

    def __init__(self, *pieces: bytes, breaks: bool = False) -> None:
        self.headers = Message()
        self.headers["ETag"] = '"1"'
        self.status = 200
        self._pieces, self._breaks = list(pieces), breaks

    def read(self, size: int) -> bytes:
        if not self._pieces and self._breaks:
            raise http.client.IncompleteRead(b"")
        return self._pieces.pop(0) if self._pieces else b""

    def close(self) -> None:
        self._pieces, self._breaks = [], False


def test_a_connection_that_is_not_got_again_is_no_end_of_a_file_of_unknown_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Chunked | OSError] = [
        Chunked(b"the first half", breaks=True),
        OSError("nobody listens"),
        Chunked(b"the first half", b" and the rest"),
    ]

    def request(self: HttpDownload, headers: object) -> Chunked:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(HttpDownload, "request", request)
    with played_server(BODY) as server:
        stream = download(server).open()
    found = b"".join(iter(lambda: stream.read(1 << 20), b""))
    assert found == b"the first half and the rest"
    assert answers == []

# Tests: kvedge/storage/exports/export_answers.py, kvedge/storage/exports/exported_files.py
"""An exporter with real claims in a directory, and clients that know the token, guess it, are slow, or leave."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import io
import json
import os
import socket
import ssl
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.codec import encode_json
from kvedge.resources.types.protection import export_job
from kvedge.resources.types.protection.export_job import ExportJob, ExportManifests, ServedVolume
from kvedge.runtime.tls.certificates import LeafRequest
from kvedge.storage.arriving_mark import ARRIVING
from kvedge.storage.exports import export_server
from kvedge.storage.exports.export_answers import ExportAnswers, Places
from kvedge.storage.exports.export_server import ExportServer, export_tls, read_head
from kvedge.storage.exports.exported_disk import ExportedDisk
from kvedge.storage.exports.gzip_stream import Compressor
from tests.support.builders import NOW
from tests.support.played_upload import an_authority

NAME = "uid.export.kvedge.io"
AUTHORITY = an_authority()
TOKEN = "abcdefghij0123456789"
DISK = os.urandom(3 << 20)


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(export_job, "_DIRECTORIES", str(tmp_path / "exports"))
    disk, files, empty = (tmp_path / "exports" / str(number) for number in range(3))
    for each in (disk, files, empty):
        each.mkdir(parents=True)
    (disk / "disk.img").write_bytes(DISK)
    (files / "sub").mkdir()
    (files / "sub" / "a <b>.txt").write_text("hello")
    (files / "lost+found").mkdir()
    (files / "inside").symlink_to("/sub/a <b>.txt")
    (files / "outside").symlink_to("/../../../../../../etc/hostname")
    (files / "up").symlink_to("../0/disk.img")
    (tmp_path / "token").write_text(TOKEN)
    manifests = tmp_path / "manifests"
    manifests.write_bytes(gzip.compress(encode_json(ExportManifests(base="https://inside", ca="PEM"))))
    names = [("disk", True), ("files", False), ("empty", True)]
    job = ExportJob(name="e", volumes=[ServedVolume(name=name, disk=disk) for name, disk in names])
    material = AUTHORITY.issue(LeafRequest(NAME, hosts=[NAME], client=False), NOW)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "tls.crt").write_bytes(material.certificate)
    (tmp_path / "own" / "tls.key").write_bytes(material.key)
    compressor = Compressor(1)
    answers = ExportAnswers(job, Places(tmp_path / "token", manifests), compressor)
    server = ExportServer(answers, export_tls(tmp_path / "own"), "127.0.0.1", 0)
    server.start()
    yield server.port
    server.stop()
    compressor.close()


def tls(port: int) -> ssl.SSLSocket:
    context = ssl.create_default_context(cadata=AUTHORITY.bundle.decode())
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), 20), server_hostname=NAME)


def ask(
    port: int, path: str, method: str = "GET", token: str = TOKEN, **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPSConnection("127.0.0.1", port)
    connection.sock = tls(port)
    try:
        connection.request(method, path, headers={"x-kubevirt-export-token": token, **headers})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def test_a_disk_is_read_whole_in_part_and_packed(port: int) -> None:
    status, headers, body = ask(port, "/volumes/disk/disk.img")
    assert (status, body, headers["Content-Length"]) == (200, DISK, str(len(DISK)))
    status, headers, body = ask(port, "/volumes/disk/disk.img", Range="bytes=5-9")
    assert (status, body, headers["Content-Range"]) == (206, DISK[5:10], f"bytes 5-9/{len(DISK)}")
    status, headers, body = ask(port, "/volumes/disk/disk.img.gz")
    assert (status, gzip.decompress(body), headers["Content-Length"]) == (200, DISK, None)
    status, headers, body = ask(port, "/volumes/disk/disk.img", "HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(DISK)))
    assert json.loads(ask(port, "/volumes/disk/disk.img.map?offset=4096")[2])["size"] == len(DISK)


def test_the_unfinished_copy_of_a_disk_is_handed_out_as_none(port: int, tmp_path: Path) -> None:
    mark = tmp_path / "exports" / "0" / ARRIVING
    mark.write_text("vmi move\n")
    for form in ("disk.img", "disk.img.gz", "disk.img.map"):
        status, _, body = ask(port, f"/volumes/disk/{form}")
        assert (status, b"unfinished copy" in body) == (409, True)
    mark.unlink()
    assert ask(port, "/volumes/disk/disk.img")[2] == DISK


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/volumes/disk/disk.img.map?offset=-1", 400),
        ("/volumes/disk/disk.img.map?offset=x", 400),
        ("/volumes/other/disk.img", 404),
        ("/volumes/disk/dir/", 404),
        ("/volumes/disk/disk.tar.gz", 404),
        ("/volumes/files/disk.img", 404),
        ("/volumes/empty/disk.img", 404),
        ("/volumes/disk/../files/dir/", 404),
        ("/volumes/files/dir/../../0/disk.img", 404),
        ("/volumes/files/dir/%2e%2e/0/disk.img", 404),
        ("/volumes/files/dir/a%00b", 400),
        ("/volumes/files/dir/%ff", 400),
        ("/volumes/files/dir/outside", 404),
        ("/volumes/files/dir/up", 404),
        ("/", 404),
        ("/internal/manifests/other", 404),
        # These come by the proxy, which says by which way.
        ("/external/manifests/all", 404),
    ],
)
def test_what_is_not_there_is_not_found(port: int, path: str, status: int) -> None:
    assert ask(port, path)[0] == status


def test_nobody_reads_without_the_token(port: int) -> None:
    for path in ("/volumes/disk/disk.img", "/volumes/files/dir/", "/internal/manifests/secret", "/nothing"):
        assert ask(port, path, token="")[0] == 401
        assert ask(port, path, token=TOKEN[:-1])[0] == 401
        assert ask(port, path, token="ü")[0] == 401
    assert ask(port, f"/volumes/disk/disk.img?x-kubevirt-export-token={TOKEN}", "HEAD", token="wrong")[0] == 200
    assert ask(port, "/exportready", token="")[0] == 200


def test_an_empty_token_opens_nothing(port: int, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("")
    assert ask(port, "/volumes/disk/disk.img", token="")[0] == 401
    (tmp_path / "token").unlink()
    assert ask(port, "/volumes/disk/disk.img", token="")[0] == 500


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_refused_as_kubevirt_refuses_them(port: int, method: str) -> None:
    assert ask(port, "/volumes/disk/disk.img", method)[0] == 400


def test_files_are_listed_and_read_and_links_stay_inside(port: int) -> None:
    status, headers, page = ask(port, "/volumes/files/dir/")
    assert status == 200
    assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert b'<a href="./sub/">sub/</a>' in page
    page = ask(port, "/volumes/files/dir/sub/")[2]
    assert b'<a href="./a%20%3Cb%3E.txt">a &lt;b&gt;.txt</a>' in page
    assert ask(port, "/volumes/files/dir/sub/a%20%3Cb%3E.txt")[2] == b"hello"
    assert ask(port, "/volumes/files/dir/sub/a%20%3Cb%3E.txt", Range="bytes=1-2")[2] == b"el"
    assert ask(port, "/volumes/files/dir/inside")[2] == b"hello"
    status, headers, _ = ask(port, "/volumes/files/dir/sub")
    assert (status, headers["Location"]) == (301, "sub/")


def test_all_files_come_as_an_archive_with_links_as_links(port: int) -> None:
    status, _, body = ask(port, "/volumes/files/disk.tar.gz")
    assert status == 200
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        found = {each.name: each for each in archive}
    assert set(found) == {".", "./sub", "./sub/a <b>.txt", "./inside", "./outside", "./up"}
    assert found["./outside"].issym()


def test_manifests_are_for_the_way_within(port: int) -> None:
    status, headers, text = ask(port, "/internal/manifests/all", Accept="application/yaml")
    assert (status, headers["Content-Type"]) == (200, "application/yaml")
    assert b"ca.pem: PEM" in text
    assert TOKEN.encode() in ask(port, "/internal/manifests/secret")[2]


def test_a_client_that_stalls_keeps_nobody_else_waiting(port: int) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            slow = stack.enter_context(tls(port))
            head = f"GET /volumes/disk/disk.img HTTP/1.1\r\nHost: x\r\nx-kubevirt-export-token: {TOKEN}\r\n\r\n"
            slow.sendall(head.encode())
        assert ask(port, "/volumes/disk/disk.img")[2] == DISK


def test_a_head_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair()
    with here, there:
        here.sendall(b"GET / HTTP/1.1\r\nx: ")
        times = iter([0.0, 1.0, 11.0])
        here.sendall(b"y")
        with pytest.raises(TimeoutError):
            read_head(there, lambda: next(times))
        monkeypatch.setattr(export_server, "_LONGEST_HEAD", 8192)
        here.sendall(b"z" * 20_000)
        with pytest.raises(TimeoutError):
            read_head(there, lambda: 0.0)


@pytest.mark.parametrize("form", ["disk.img", "disk.img.gz"])
def test_a_disk_that_is_written_meanwhile_is_never_whole(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    path = tmp_path / "exports" / "0" / "disk.img"
    read = ExportedDisk.read

    def write_and_read(self: ExportedDisk, position: int, length: int) -> bytes:
        with path.open("r+b") as file:
            file.seek(5)
            file.write(b"x")
        return read(self, position, length)

    monkeypatch.setattr(ExportedDisk, "read", write_and_read)
    with pytest.raises((http.client.IncompleteRead, ConnectionError, ssl.SSLError)):
        ask(port, f"/volumes/disk/{form}")


def test_more_than_a_few_are_not_packed_at_the_same_time(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Barrier(7), threading.Event()

    def wait_for_go(self: Compressor, disk: object) -> Iterator[bytes]:
        begun.wait(20)
        go.wait(20)
        yield b""

    monkeypatch.setattr(Compressor, "compress_disk", wait_for_go)
    threads = [threading.Thread(target=ask, args=(port, "/volumes/disk/disk.img.gz")) for _ in range(6)]
    for each in threads:
        each.start()
    begun.wait(20)
    status, headers, _ = ask(port, "/volumes/disk/disk.img.gz")
    assert (status, headers["Retry-After"]) == (503, "10")
    go.set()
    for each in threads:
        each.join()

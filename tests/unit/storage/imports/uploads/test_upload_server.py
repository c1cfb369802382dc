# Tests: kvedge/storage/imports/uploads/upload_attempt.py, kvedge/storage/imports/uploads/upload_run.py
"""A worker's server, with a played sink behind it and clients that break off, come again, or are strangers."""

from __future__ import annotations

import hashlib
import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kvedge.resources.disks.uploads import UPLOAD_CLIENT_NAME, UPLOAD_ID_HEADER, UPLOAD_OFFSET_HEADER
from kvedge.storage.imports.uploads.upload_run import RESUME_SECONDS, Kept, NotNow, UploadRun
from tests.support.played_upload import PlayedSink, PlayedWorker, an_authority, client_tls, played_worker
from tests.support.waiting import wait_until

AUTHORITY = an_authority()
NAME = "uid.upload.kvedge.io"
IMAGE = bytes(range(256)) * 8192
SYNC, ASYNC = "/v1beta1/upload", "/v1beta1/upload-async"


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[PlayedWorker]:
    with played_worker(AUTHORITY, NAME, tmp_path) as worker:
        yield worker


class Connection(http.client.HTTPSConnection):
    """To loopback, by the name that the worker's certificate is for."""

    def connect(self) -> None:
        plain = socket.create_connection(("127.0.0.1", self.port), 20)
        self.sock = client_tls(AUTHORITY, UPLOAD_CLIENT_NAME).wrap_socket(plain, server_hostname=NAME)


def call(
    worker: PlayedWorker, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = Connection("127.0.0.1", worker.server.port)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers
    finally:
        connection.close()


def begin(worker: PlayedWorker, size: int, sent: bytes, headers: dict[str, str] | None = None) -> Connection:
    """An upload that has begun and not ended."""
    connection = Connection("127.0.0.1", worker.server.port)
    connection.putrequest("POST", ASYNC)
    for name, value in {"Content-Length": str(size), **(headers or {})}.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(sent)
    return connection


def break_off(connection: Connection) -> None:
    assert connection.sock is not None
    with suppress(OSError):
        connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def test_the_asynchronous_call_is_there(worker: PlayedWorker) -> None:
    assert call(worker, "HEAD", ASYNC)[0] == 200
    assert call(worker, "HEAD", SYNC)[0] == 404
    assert call(worker, "GET", ASYNC)[0] == 404
    assert call(worker, "POST", "/v1beta1/else", b"x")[0] == 404


@pytest.mark.parametrize("path", [SYNC, ASYNC, "/v1alpha1/upload"])
def test_an_upload_is_taken_whole(worker: PlayedWorker, path: str) -> None:
    assert call(worker, "POST", path, IMAGE)[:2] == (200, "")
    attempt = worker.run.wait(20)
    assert attempt is not None
    assert attempt.size == len(IMAGE)
    assert worker.sinks[0].digest.digest() == hashlib.sha256(IMAGE).digest()


def test_the_asynchronous_call_answers_before_the_conversion_and_the_other_one_after_it(worker: PlayedWorker) -> None:
    sink = held_sink(worker)
    sink.may_finish.clear()
    assert call(worker, "POST", ASYNC, b"disk")[0] == 200
    assert not sink.is_finished
    assert call(worker, "POST", SYNC, b"disk")[0] == 409
    sink.may_finish.set()
    assert worker.run.wait(20) is not None
    assert sink.is_finished


def held_sink(worker: PlayedWorker) -> PlayedSink:
    """The one that the next attempt gets."""
    sink = PlayedSink()

    def make() -> PlayedSink:
        worker.sinks.append(sink)
        return sink

    worker.run._make_sink = make
    return sink


def test_a_second_upload_is_refused_while_one_is_under_way_and_after_it(worker: PlayedWorker) -> None:
    first = begin(worker, 8, b"half")
    wait_until(lambda: worker.sinks and worker.sinks[0].size, "the first one is taken")
    status, text, _ = call(worker, "POST", ASYNC, IMAGE)
    assert (status, text) == (503, "another upload is under way; try again later\n")
    first.send(b"half")
    assert first.getresponse().status == 200
    first.close()
    assert call(worker, "POST", ASYNC, b"again")[0] == 409


@pytest.mark.parametrize("path", [SYNC, ASYNC])
def test_an_image_that_does_not_fit_is_refused_and_a_smaller_one_is_taken(tmp_path: Path, path: str) -> None:
    with played_worker(AUTHORITY, NAME, tmp_path, room=1000) as worker:
        status, text, _ = call(worker, "POST", path, IMAGE)
        assert status == 400
        assert text.startswith("Saving stream failed: effective image size is larger than the reported available")
        assert worker.sinks[0].is_discarded
        assert call(worker, "POST", path, IMAGE[:1000])[0] == 200


def test_a_client_that_is_killed_midway_begins_again_and_nothing_is_left_of_the_first(worker: PlayedWorker) -> None:
    break_off(begin(worker, len(IMAGE), IMAGE[:100_000]))
    wait_until(lambda: worker.sinks and worker.sinks[0].is_discarded, "what was there is removed")
    assert call(worker, "POST", ASYNC, IMAGE)[0] == 200
    assert worker.sinks[1].digest.digest() == hashlib.sha256(IMAGE).digest()


def test_a_client_with_an_identity_goes_on_where_it_was_broken_off(worker: PlayedWorker) -> None:
    break_off(begin(worker, len(IMAGE), IMAGE[:1_500_000], {UPLOAD_ID_HEADER: "mine"}))

    def offset() -> int:
        return int(call(worker, "HEAD", ASYNC)[2].get(UPLOAD_OFFSET_HEADER, 0))

    wait_until(offset, "the rest is waited for")
    there = offset()
    assert 0 < there <= 1_500_000
    assert call(worker, "HEAD", ASYNC)[2][UPLOAD_ID_HEADER] == "mine"
    headers = {UPLOAD_ID_HEADER: "mine", UPLOAD_OFFSET_HEADER: str(there)}
    assert call(worker, "POST", ASYNC, IMAGE[there:], headers)[0] == 200
    assert len(worker.sinks) == 1
    assert worker.sinks[0].digest.digest() == hashlib.sha256(IMAGE).digest()


def test_another_upload_cannot_go_on_with_it_but_may_begin(worker: PlayedWorker) -> None:
    break_off(begin(worker, len(IMAGE), IMAGE[:1_500_000], {UPLOAD_ID_HEADER: "mine"}))
    wait_until(lambda: worker.run.find_kept().received, "the rest is waited for")
    other = {UPLOAD_ID_HEADER: "other", UPLOAD_OFFSET_HEADER: str(worker.run.find_kept().received)}
    assert call(worker, "POST", ASYNC, IMAGE, other)[0] == 416
    assert call(worker, "POST", ASYNC, IMAGE, {UPLOAD_ID_HEADER: "other"})[0] == 200
    assert worker.sinks[0].is_discarded


def test_what_nobody_goes_on_with_is_removed_after_a_while() -> None:
    now = [0.0]
    sinks = [PlayedSink()]
    run = UploadRun(lambda: sinks[-1], lambda: now[0])
    attempt = run.begin("mine", 0)
    attempt.bring(b"half")
    run.leave(attempt)
    now[0] = RESUME_SECONDS - 1
    assert run.find_kept() == Kept("mine", 4)
    now[0] = RESUME_SECONDS
    assert run.find_kept() == Kept()
    assert sinks[0].is_discarded


@pytest.mark.parametrize(
    "headers",
    [{UPLOAD_OFFSET_HEADER: "-1"}, {UPLOAD_OFFSET_HEADER: "9" * 30}, {UPLOAD_ID_HEADER: "x" * 200}],
    ids=["negative", "absurd", "a long identity"],
)
def test_headers_that_make_no_sense_are_refused(worker: PlayedWorker, headers: dict[str, str]) -> None:
    assert call(worker, "POST", ASYNC, b"disk", headers)[0] == 400
    assert not worker.sinks


def test_a_client_of_another_name_is_refused(worker: PlayedWorker) -> None:
    plain = socket.create_connection(("127.0.0.1", worker.server.port), 20)
    with client_tls(AUTHORITY, "somebody").wrap_socket(plain, server_hostname=NAME) as stranger:
        stranger.sendall(b"POST /v1beta1/upload HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        assert stranger.recv(100).startswith(b"HTTP/1.1 403 ")
    assert not worker.sinks


def test_a_client_of_another_authority_is_turned_away(worker: PlayedWorker) -> None:
    context = client_tls(an_authority(), UPLOAD_CLIENT_NAME)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", worker.server.port), 20)
    # An alert, a reset, or nothing: never an answer.
    with suppress(OSError), context.wrap_socket(plain) as stranger:
        stranger.sendall(b"HEAD /v1beta1/upload-async HTTP/1.1\r\n\r\n")
        assert stranger.recv(100) == b""


def test_strangers_that_say_nothing_do_not_keep_the_proxy_away(worker: PlayedWorker) -> None:
    strangers = [socket.create_connection(("127.0.0.1", worker.server.port)) for _ in range(8)]
    assert call(worker, "POST", ASYNC, b"disk")[0] == 200
    for stranger in strangers:
        stranger.close()


def test_an_upload_cannot_begin_twice() -> None:
    run = UploadRun(PlayedSink)
    attempt = run.begin("", 0)
    with pytest.raises(NotNow) as refused:
        run.begin("", 0)
    assert refused.value.status == 503
    run.leave(attempt)
    assert attempt.ended.wait(20)

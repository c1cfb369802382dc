"""A webhook gets its document over HTTPS, with its token; what it answers decides whether it is asked again."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from kvedge.controller.alarms.words.deadline_stream import WordsFailed
from kvedge.controller.alarms.words.receiver_settings import Webhook
from kvedge.controller.alarms.words.webhook_client import post
from tests.support.certificate_files import FileAuthority
from tests.support.https_backend import HttpsBackend


class Hook:
    """A server that notes what it is sent, and answers as the test says."""

    def __init__(self, directory: Path) -> None:
        self.status = 200
        self.pause = 0.0
        self.requests: list[tuple[str, str | None, object]] = []
        self.backend = HttpsBackend(directory, self._answer, "127.0.0.1", ["127.0.0.1"])
        self.port = self.backend.start()

    def webhook(self, **options: str) -> Webhook:
        ca = base64.b64decode(self.backend.ca_bundle).decode()
        return Webhook("noc", **{"url": f"https://127.0.0.1:{self.port}/alerts?team=edge", "ca": ca, **options})

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append((request.path_qs, request.headers.get("Authorization"), await request.json()))
        await asyncio.sleep(self.pause)
        return web.Response(status=self.status, headers={"Location": "https://elsewhere.example/"})


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Hook]:
    hook = Hook(tmp_path / "backend")
    yield hook
    hook.backend.stop()


def test_a_document_is_posted_with_its_token(hook: Hook) -> None:
    post(hook.webhook(token="s3cret"), {"text": "ü\n"})
    assert hook.requests == [("/alerts?team=edge", "Bearer s3cret", {"text": "ü\n"})]


@pytest.mark.parametrize(
    ("status", "is_final"),
    [(302, False), (400, True), (401, False), (404, False), (413, True), (429, False), (503, False)],
)
def test_what_it_answers_decides_whether_it_is_asked_again(hook: Hook, status: int, is_final: bool) -> None:
    hook.status = status
    with pytest.raises(WordsFailed, match=f"status {status}") as caught:
        post(hook.webhook(), {})
    assert caught.value.is_final == is_final
    assert len(hook.requests) == 1


def test_one_that_hangs_is_left(hook: Hook) -> None:
    hook.pause = 30
    begun = time.monotonic()
    with pytest.raises(WordsFailed, match="does not answer"):
        post(hook.webhook(), {}, seconds=0.5)
    assert time.monotonic() - begun < 3


def test_no_token_is_told_to_one_that_is_not_believed(hook: Hook, tmp_path: Path) -> None:
    stranger = FileAuthority(tmp_path, "stranger")
    with pytest.raises(WordsFailed, match="not believed"):
        post(hook.webhook(token="s3cret", ca=stranger.ca.read_text()), {})
    assert hook.requests == []


def test_nobody_there_and_no_certificate_are_told() -> None:
    with pytest.raises(WordsFailed, match="cannot be reached"):
        post(Webhook("noc", "https://127.0.0.1:1/"), {})
    with pytest.raises(WordsFailed, match="ca: is no PEM"):
        post(Webhook("noc", "https://127.0.0.1:1/", ca="-----BEGIN CERTIFICATE-----\nx"), {})

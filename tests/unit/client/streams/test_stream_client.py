"""Streams to a server that asks for tokens and has another name in its certificate."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from kvedge.client.errors import ClientError, NotFoundError, RefusedError
from kvedge.client.kubeconfigs import FoundKubeconfig
from kvedge.client.session import Session
from kvedge.client.streams.stream_client import StreamClient, StreamRefused
from kvedge.kube.credentials.connection_settings import from_document
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.rest_edge import RestEdge
from tests.support.https_backend import HttpsBackend
from tests.support.values import replace


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Session, list[str]]]:
    shown: list[str] = []

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        shown.append(request.headers.get("Authorization", ""))
        return web.json_response({"message": "not for you"}, status=403)

    backend = HttpsBackend(tmp_path / "backend", serve, "127.0.0.1", ["api.example"])
    document = {
        "current-context": "here",
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": f"https://127.0.0.1:{backend.start()}",
                    "certificate-authority-data": backend.ca_bundle,
                    "tls-server-name": "api.example",
                },
            }
        ],
        "contexts": [{"name": "here", "context": {"cluster": "c"}}],
    }
    connection = from_document(document, tmp_path / "kubeconfig")
    numbers = itertools.count(1)
    connection = replace(connection, authorization=lambda: f"Bearer {next(numbers)}")
    found = FoundKubeconfig(document=document, paths=(tmp_path / "kubeconfig",), context="here")
    try:
        yield Session(KubeClient(RestEdge(connection)), connection, found, "default"), shown
    finally:
        backend.stop()


def test_each_request_shows_the_token_of_its_time(served: tuple[Session, list[str]]) -> None:
    session, shown = served

    async def work() -> None:
        async with StreamClient(session) as client:
            for _ in range(2):
                with pytest.raises(StreamRefused, match="not for you"):
                    await client.open("virtualmachineinstances", "a", "console")

    asyncio.run(work())
    # A refusal is asked for once more, as its first answer has no body that can be read.
    assert shown == ["Bearer 1", "Bearer 2", "Bearer 3", "Bearer 4"]


def test_a_stream_checks_the_name_that_the_kubeconfig_gives(served: tuple[Session, list[str]]) -> None:
    session, shown = served
    other = replace(session, connection=replace(session.connection, server_name=""))

    async def work() -> None:
        async with StreamClient(other) as client:
            await client.open("virtualmachineinstances", "a", "console")

    with pytest.raises(StreamRefused, match="certificate"):
        asyncio.run(work())
    assert shown == []


def test_a_refusal_is_explained_to_whoever_has_nothing_else_to_try(served: tuple[Session, list[str]]) -> None:
    async def work() -> None:
        async with StreamClient(served[0]) as client:
            with pytest.raises(RefusedError, match="not for you"):
                await client.open_or_explain("virtualmachineinstances", "a", "vnc", {"preserveSession": "true"})
            with pytest.raises(RefusedError, match="not for you"):
                await client.check("virtualmachineinstances", "a", "spice")

    asyncio.run(work())


@pytest.mark.parametrize(("status", "told"), [(404, NotFoundError), (400, RefusedError), (0, RefusedError)])
def test_what_is_not_there_is_told_apart_from_what_is_refused(
    served: tuple[Session, list[str]], status: int, told: type[ClientError]
) -> None:
    client = StreamClient(served[0])
    assert type(client.explain(StreamRefused(status, "no"), "virtualmachineinstances", "a")) is told


def test_the_stream_of_a_first_look_is_not_kept(
    served: tuple[Session, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    class Stream:
        async def close(self) -> None:
            ended.append("closed")

    async def open_one(*given: object) -> Stream:
        ended.append(f"opened {given[3]}")
        return Stream()

    monkeypatch.setattr(StreamClient, "open", open_one)
    asyncio.run(StreamClient(served[0]).check("virtualmachineinstances", "a", "spice"))
    assert ended == ["opened spice", "closed"]

"""A stream ends when its user may no longer, or its guest is gone; not when nobody can say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from kvedge.api.subresources import stream_calls
from kvedge.api.subresources.caller_rules import Asked
from kvedge.api.subresources.status_message import Refusal, bad_request, internal, not_found_refusal
from kvedge.api.subresources.stream_calls import StreamCalls
from kvedge.api.subresources.stream_watch import GUEST_GONE, NOT_ALLOWED, StreamWatch
from kvedge.kube.figures.stream_figures import StreamFigures
from kvedge.resources.role_users import UserInfo
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.serving.stream_pump import Farewell
from tests.support.builders import vmi_with

ASKED = Asked("GET", "v1", "team", "virtualmachineinstances/portforward", "web")
ALICE = UserInfo("alice", ())
GONE = not_found_refusal("virtualmachineinstance.kubevirt.io", "web")
AWAY = internal("the API server: away")
NO_POD = bad_request("no network interfaces are present")


def vmi(uid: str = "one") -> VirtualMachineInstance:
    return vmi_with(namespace="team", uid=uid)


class Scripted:
    """Answers each question from its list; the last answer stays."""

    def __init__(self, may: Sequence[Any] = (True,), uid: Sequence[Any] = ("one",), address: Sequence[Any] = ("a",)):
        self._answers = {"may": list(may), "uid": list(uid), "address": list(address)}
        self.asked: list[str] = []

    async def may(self, user: UserInfo, asked: Asked) -> bool:
        assert (user, asked) == (ALICE, ASKED)
        return bool(self._next("may"))

    async def vmi(self, namespace: str, name: str) -> VirtualMachineInstance:
        assert (namespace, name) == ("team", "web")
        return vmi(self._next("uid"))

    async def pod_address(self, vmi: VirtualMachineInstance) -> str:
        return str(self._next("address"))

    def _next(self, question: str) -> Any:
        self.asked.append(question)
        answers = self._answers[question]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Refusal):
            raise answer
        return answer


def ended(cluster: Scripted, address: str = "a") -> Farewell:
    return asyncio.run(StreamWatch(cluster, ALICE, ASKED, vmi(), address).end(look_seconds=0))


@pytest.mark.parametrize(
    ("cluster", "farewell"),
    [
        (Scripted(may=[True, True, False]), NOT_ALLOWED),
        (Scripted(uid=["one", "two"]), GUEST_GONE),
        (Scripted(uid=["one", GONE]), GUEST_GONE),
        (Scripted(address=["a", "b"]), GUEST_GONE),
        (Scripted(address=["a", NO_POD]), GUEST_GONE),
    ],
    ids=["a right was taken away", "another of the name", "no VMI", "another address", "no Pod"],
)
def test_a_stream_ends(cluster: Scripted, farewell: Farewell) -> None:
    assert ended(cluster) == farewell


@pytest.mark.parametrize("question", ["may", "uid", "address"])
def test_an_api_server_that_does_not_answer_ends_no_stream(question: str) -> None:
    last = {"may": True, "uid": "one", "address": "a"}[question]
    answers = {question: [AWAY, AWAY, last]}
    cluster = Scripted(**{"may": [True, True, True, True, False], **answers})
    if question == "may":
        cluster = Scripted(may=[AWAY, AWAY, True, False])
    assert ended(cluster) == NOT_ALLOWED
    assert cluster.asked.count("may") >= 4


def test_a_relayed_stream_has_no_address_to_look_for() -> None:
    cluster = Scripted(uid=["one", "one", "two"], address=["never asked for"])
    assert ended(cluster, address="") == GUEST_GONE
    assert "address" not in cluster.asked


async def joined(watch: StreamWatch, talk: Callable[[Any], Any]) -> None:
    """A UDP forward of that watch, with a viewer who talks."""
    streams, ended = StreamCalls(None), asyncio.Event()  # type: ignore[arg-type]

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await streams.forward(request, watch, 53, "udp")
        finally:
            ended.set()

    application = web.Application()
    application.router.add_get("/", handle)
    async with TestClient(TestServer(application)) as client:
        async with client.ws_connect("/", protocols=("plain.kubevirt.io",)) as socket:
            await talk(socket)
        await asyncio.wait_for(ended.wait(), 10)
        assert streams.count == 0


def test_a_datagram_forward_ends_with_its_guest_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_calls, "_check_address", lambda address: None)

    async def talk(socket: Any) -> None:
        message = await socket.receive(10)
        assert (message.type.name, message.data, message.extra) == ("CLOSE", 1000, "the guest is gone")

    monkeypatch.setattr(stream_calls, "LOOK_SECONDS", 0.0)
    watch = StreamWatch(Scripted(uid=["one", "two"], address=["127.0.0.1"]), ALICE, ASKED, vmi(), "127.0.0.1")
    asyncio.run(joined(watch, talk))


def test_nobody_looks_after_a_stream_whose_viewer_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_calls, "_check_address", lambda address: None)
    cluster = Scripted()

    async def talk(socket: Any) -> None:
        await socket.close()

    async def run() -> None:
        watch = StreamWatch(cluster, ALICE, ASKED, vmi(), "127.0.0.1")
        await joined(watch, talk)
        assert [task for task in asyncio.all_tasks() if "_send_away" in repr(task)] == []

    asyncio.run(run())


def test_a_stream_is_counted_while_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_calls, "_check_address", lambda address: None)
    figures = StreamFigures(lambda: 77.0)
    monkeypatch.setattr(stream_calls, "STREAM_FIGURES", figures)

    async def talk(socket: Any) -> None:
        (streams,) = figures.tell()
        assert (streams.open, streams.ended) == ({"portforward": 1}, 0)
        assert (streams.name, streams.uid) == (vmi().metadata.name, "one")
        await socket.close()

    asyncio.run(joined(StreamWatch(Scripted(), ALICE, ASKED, vmi(), "127.0.0.1"), talk))
    (streams,) = figures.tell()
    assert (streams.open, streams.ended) == ({"portforward": 0}, 77)

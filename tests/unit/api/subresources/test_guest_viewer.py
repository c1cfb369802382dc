"""How sessions at a console or a display end: without a close frame where KubeVirt has none."""

from __future__ import annotations

import asyncio

import pytest

from kvedge.api.subresources.guest_viewer import GuestViewer
from kvedge.api.subresources.stream_calls import NODE_LOST, NODE_SILENT
from kvedge.api.subresources.stream_watch import GUEST_GONE, NOT_ALLOWED
from kvedge.handler.launchers.relay_core import build_takeover_farewell
from kvedge.runtime.serving.stream_pump import ENDED, FAILED, GOING_DOWN, LEFT, SILENT, Farewell
from kvedge.runtime.serving.websocket_viewer import WebSocketViewer


def ending(farewell: Farewell, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []

    async def close(self: WebSocketViewer, farewell: Farewell) -> None:
        done.append("close frame")

    async def drop(self: WebSocketViewer, farewell: Farewell) -> None:
        done.append("dropped")

    monkeypatch.setattr(WebSocketViewer, "close", close)
    monkeypatch.setattr(WebSocketViewer, "drop", drop)

    async def end() -> None:
        await GuestViewer().close(farewell)

    asyncio.run(end())
    return done


@pytest.mark.parametrize(
    "farewell",
    [
        ENDED,
        GUEST_GONE,
        build_takeover_farewell("console"),
        build_takeover_farewell("vnc"),
        Farewell(1000, "of an older handler"),
    ],
)
def test_an_end_that_kubevirt_does_not_announce_is_not_announced(
    farewell: Farewell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ending(farewell, monkeypatch) == ["dropped"]


@pytest.mark.parametrize("farewell", [LEFT, SILENT, FAILED, GOING_DOWN, NOT_ALLOWED, NODE_LOST, NODE_SILENT])
def test_an_end_with_a_reason_of_its_own_is_told(farewell: Farewell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ending(farewell, monkeypatch) == ["close frame"]

# Tests: kvedge/web/stream_bridge.py
"""What a page hears of a stream's end. Streams themselves: tests/browser."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kvedge.web.stream_bridge import join


class Silent:
    """A websocket on which nothing comes: for ever, or until its end with this code."""

    def __init__(self, close_code: int | None = None) -> None:
        self.close_code = close_code
        self.closed = False

    def __aiter__(self) -> Silent:
        return self

    async def __anext__(self) -> Any:
        if self.close_code is None:
            await asyncio.Event().wait()
        raise StopAsyncIteration

    async def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(1008, "you are no longer allowed to use this stream", id="the right was taken away"),
        pytest.param(1000, "the guest's end was closed, or another viewer took it over", id="the guest is gone"),
    ],
)
def test_a_page_hears_why_its_stream_has_ended(code: int, said: str) -> None:
    guest = Silent(code)
    assert asyncio.run(join(cast(Any, Silent()), cast(Any, guest))) == said
    assert guest.closed

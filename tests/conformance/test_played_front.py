"""How the door hands answers on."""

from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock, MagicMock

import pytest

from tests.conformance.played_front import relay_answer


@pytest.mark.parametrize(
    ("head", "is_watch", "line"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", True, b"1\r\n\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", False, b""),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n", True, b""),
    ],
    ids=["a watch", "a list", "a watch that is refused"],
)
def test_a_watch_begins_before_its_first_event(head: bytes, is_watch: bool, line: bytes) -> None:
    async def relayed() -> bytes:
        reader, writer = asyncio.StreamReader(), MagicMock(drain=AsyncMock())
        reader.feed_data(head + b"rest")
        reader.feed_eof()
        await relay_answer(reader, writer, is_watch=is_watch)
        return b"".join(call.args[0] for call in writer.write.call_args_list)

    assert asyncio.run(relayed()) == head + line + b"rest"

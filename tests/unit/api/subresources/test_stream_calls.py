"""The api role's end of a relayed stream: what it hears of the relay, and what it passes on."""

from __future__ import annotations

import asyncio
import errno
from collections import deque

import aiohttp
import pytest
from aiohttp import WSMsgType

from kvedge.api.subresources.status_message import Refusal
from kvedge.api.subresources.stream_calls import NODE_LOST, NODE_SILENT, RelaySource, dial, read_farewell
from kvedge.runtime.serving.stream_pump import Farewell


class ScriptedSocket:
    """Stands in for aiohttp's socket to a relay: says what it was told to, then falls silent."""

    def __init__(self, *messages: aiohttp.WSMessage) -> None:
        self._messages = deque(messages)
        self.sent: list[str] = []

    def get_extra_info(self, name: str) -> None:
        return None

    async def receive(self, timeout: float) -> aiohttp.WSMessage:
        if not self._messages:
            raise TimeoutError
        return self._messages.popleft()

    async def pong(self, data: bytes) -> None:
        self.sent.append(f"pong {data.decode()}")


def message(type_: WSMsgType, data: object = None, extra: str | None = None) -> aiohttp.WSMessage:
    return aiohttp.WSMessage(type_, data, extra)


def read_all(*messages: aiohttp.WSMessage) -> tuple[list[bytes], Farewell, list[str]]:
    async def read() -> tuple[list[bytes], Farewell, list[str]]:
        socket = ScriptedSocket(*messages)
        source = RelaySource(socket)  # type: ignore[arg-type]
        found = []
        while (data := await source.read()) is not None:
            found.append(data)
        return found, source.farewell, socket.sent

    return asyncio.run(read())


def test_data_is_passed_on_and_pings_are_answered() -> None:
    data, _, sent = read_all(
        message(WSMsgType.BINARY, b"a"),
        message(WSMsgType.PING, b"there?"),
        message(WSMsgType.TEXT, "texts do not exist here"),
        message(WSMsgType.PONG, b""),
        message(WSMsgType.BINARY, b"b"),
    )
    assert data == [b"a", b"b"]
    assert sent == ["pong there?"]


def test_what_the_relay_says_at_the_end_is_passed_on() -> None:
    _, farewell, _ = read_all(message(WSMsgType.CLOSE, 1000, "another viewer has opened this console"))
    assert farewell == Farewell(1000, "another viewer has opened this console")


def test_a_relay_that_is_not_heard_is_given_up() -> None:
    assert read_all()[1] == NODE_SILENT


def test_a_connection_that_breaks_is_told_as_such() -> None:
    assert read_all(message(WSMsgType.CLOSED))[1] == NODE_LOST
    assert read_all(message(WSMsgType.ERROR))[1] == NODE_LOST


def test_codes_that_may_not_be_sent_and_long_reasons_are_not_passed_on() -> None:
    assert read_farewell(1006, "") == NODE_LOST
    assert read_farewell(1001, "é" * 100).reason == "é" * 61


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "169.254.169.254", "224.0.0.1"])
def test_what_is_no_guests_address_is_not_dialled(address: str) -> None:
    with pytest.raises(Refusal, match="is not the address of a guest"):
        asyncio.run(dial(address, 22, "tcp"))


def test_a_guest_without_an_address_has_no_interfaces() -> None:
    with pytest.raises(Refusal, match="no network interfaces are present"):
        asyncio.run(dial("", 22, "tcp"))


def test_a_port_where_nobody_listens_is_told_without_the_address_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(address: str, port: int) -> None:
        # As asyncio words it; our own addresses are not dialled, so that there is no real one to ask.
        raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ('{address}', {port})")

    monkeypatch.setattr(asyncio, "open_connection", refused)
    with pytest.raises(Refusal, match=r"dialing VM: dial tcp 192\.0\.2\.1:22: connect: connection refused$"):
        asyncio.run(dial("192.0.2.1", 22, "tcp"))

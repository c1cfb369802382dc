# Tests: kvedge/handler/launchers/relay_core.py, kvedge/handler/launchers/relay_server.py
"""The relay over real TLS and real sockets: who is let in, what is carried, what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime

import aiohttp
import pytest

from kvedge.handler.launchers.relay_core import DoorError
from kvedge.handler.launchers.relay_server import RelayServer
from kvedge.handler.launchers.vsock_request import VsockRequest
from kvedge.resources.names import USB_SLOTS
from kvedge.runtime.serving.https_server import HttpsServer
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest, TlsMaterial
from kvedge.runtime.tls.rotating_tls import RotatingTls
from kvedge.runtime.tls.tls_contexts import client_context
from tests.support.echo_door import EchoDoor
from tests.support.waiting import wait_until

NOW = datetime.now(UTC)
AUTHORITY = CertificateAuthority.create("kvedge-ca", NOW)
API = AUTHORITY.issue(LeafRequest("kvedge-api"), NOW)
HANDLER = AUTHORITY.issue(LeafRequest("kvedge-handler", hosts=["node1.handler.kvedge.io", "127.0.0.1"]), NOW)
VMI = "/v1/namespaces/default/virtualmachineinstances/web"


class Relay:
    """A relay in its own thread, and a client's view of it."""

    def __init__(self) -> None:
        self.door = EchoDoor()
        self.server: RelayServer | None = None
        self._https = HttpsServer("127.0.0.1", 0, "relay")

    def start(self) -> None:
        def application() -> aiohttp.web.Application:
            self.server = RelayServer(self.door)
            return self.server.application()

        self._https.start(RotatingTls(HANDLER, AUTHORITY.certificate_pem, require_client=True), application)

    def stop(self) -> None:
        self._https.stop()

    @property
    def port(self) -> int:
        return self._https.port

    def url(self, what: str) -> str:
        return f"https://127.0.0.1:{self.port}{VMI}/{what}"

    def run(self, test: Callable[[aiohttp.ClientSession], Awaitable[None]], own: TlsMaterial = API) -> None:
        """Run a test with a client that has this certificate."""

        async def session() -> None:
            connector = aiohttp.TCPConnector(ssl=client_context(own), limit=0)
            async with aiohttp.ClientSession(connector=connector) as client:
                await asyncio.wait_for(test(client), 60)
            await sockets_closed()

        asyncio.run(session())


async def sockets_closed() -> None:
    """TLS says goodbye in both directions; a loop that ends before leaves sockets behind, with a warning."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        # One entry is the loop's own.
        while len(loop._selector.get_map()) > 1:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)


@pytest.fixture
def relay() -> Iterator[Relay]:
    relay = Relay()
    relay.start()
    yield relay
    relay.stop()


def test_bytes_come_back(relay: Relay) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        async with client.ws_connect(relay.url("console"), protocols=["plain.kubevirt.io"]) as socket:
            assert socket.protocol == "plain.kubevirt.io"
            await socket.send_bytes(b"hello")
            assert await socket.receive_bytes() == b"hello"
            await socket.send_str("texts are not carried")
            await socket.send_bytes(b"\x00\xff")
            assert await socket.receive_bytes() == b"\x00\xff"

    relay.run(test)


def test_a_call_reaches_the_launcher_and_its_answer_comes_back(relay: Relay) -> None:
    relay.door.answer = {"hostname": "guest"}

    async def test(client: aiohttp.ClientSession) -> None:
        async with client.put(relay.url("pause")) as response:
            assert response.status == 200
        async with client.get(relay.url("guestosinfo")) as response:
            assert await response.json() == {"hostname": "guest"}

    relay.run(test)
    assert relay.door.calls == [("default", "web", "pause"), ("default", "web", "guestosinfo")]


def test_the_node_tells_the_way_of_packets_and_records_them(relay: Relay) -> None:
    relay.door.answer, relay.door.picture = {"interfaces": []}, b"frames"

    async def test(client: aiohttp.ClientSession) -> None:
        async with client.get(relay.url("network")) as response:
            assert await response.json() == {"interfaces": []}
        async with client.get(relay.url("network/capture?interface=lan&bytes=100000&seconds=3")) as response:
            assert (response.status, await response.read()) == (200, b"frames")
        async with client.get(relay.url("network/capture?seconds=51")) as response:
            said = "seconds: '51' is no whole number between 1 and 50"
            assert (response.status, await response.json()) == (400, {"message": said})

    relay.run(test)
    assert relay.door.calls == [("default", "web", "network"), ("default", "web", "capture lan 100000 3")]


def test_what_a_guest_has_used_is_told_over_a_span_that_there_is(relay: Relay) -> None:
    relay.door.answer = {"span": "day"}

    async def test(client: aiohttp.ClientSession) -> None:
        for query in ("", "?range=day"):
            async with client.get(relay.url(f"usage{query}")) as response:
                assert (response.status, await response.json()) == (200, {"span": "day"})
        async with client.get(relay.url("usage?range=year")) as response:
            said = "range: 'year' is none of hour, day, month"
            assert (response.status, await response.json()) == (400, {"message": said})

    relay.run(test)
    assert relay.door.calls == [("default", "web", "usage hour"), ("default", "web", "usage day")]


def test_the_console_log_is_sent_as_bytes(relay: Relay) -> None:
    relay.door.console_text = b"one\x1b[31mtwo\xff"

    async def test(client: aiohttp.ClientSession) -> None:
        async with client.get(relay.url("console/log?tailBytes=4")) as response:
            assert (response.status, response.content_type) == (200, "application/octet-stream")
            assert await response.read() == b"two\xff"
        async with client.get(relay.url("console/log?previous=true")) as response:
            assert await response.read() == b""
        async with client.get(relay.url("console/log?tailBytes=-1")) as response:
            assert (response.status, await response.json()) == (
                400,
                {"message": "tailBytes: -1 is no positive number of bytes"},
            )

    relay.run(test)


def test_options_go_along_and_nonsense_does_not(relay: Relay) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        async with client.put(relay.url("freeze"), data=b'{"unfreezeSeconds": 90}') as response:
            assert response.status == 200
        for body in (b"[]", b"{", b"\xff"):
            async with client.put(relay.url("freeze"), data=body) as response:
                assert response.status == 400

    relay.run(test)
    assert (relay.door.calls, relay.door.options) == ([("default", "web", "freeze")], {"unfreezeSeconds": 90})


def test_a_screen_comes_as_a_file(relay: Relay) -> None:
    relay.door.picture = b"\x89PNG" + bytes(300_000)

    async def test(client: aiohttp.ClientSession) -> None:
        async with client.get(relay.url("vnc/screenshot"), params={"moveCursor": "true"}) as response:
            assert response.content_type == "image/png"
            assert await response.read() == relay.door.picture

    relay.run(test)
    assert relay.door.calls == [("default", "web", "screenshot and move")]


def test_another_role_is_not_let_in(relay: Relay) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        async with client.put(relay.url("pause")) as response:
            assert response.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await client.ws_connect(relay.url("console"))
        assert refusal.value.status == 403

    relay.run(test, HANDLER)
    assert relay.door.calls == []


def test_a_certificate_of_another_authority_is_not_let_in(relay: Relay) -> None:
    foreign = CertificateAuthority.create("kvedge-ca", NOW).issue(LeafRequest("kvedge-api"), NOW)

    async def test(client: aiohttp.ClientSession) -> None:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await client.put(relay.url("pause"))

    relay.run(test, TlsMaterial(AUTHORITY.certificate_pem, foreign.certificate, foreign.key))
    assert relay.door.calls == []


def test_a_refusal_of_the_launcher_is_passed_on(relay: Relay) -> None:
    relay.door.refusal = DoorError(409, "the guest is\r\nnot running")

    async def test(client: aiohttp.ClientSession) -> None:
        async with client.put(relay.url("pause")) as response:
            assert (response.status, await response.json()) == (409, {"message": "the guest is\r\nnot running"})
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await client.ws_connect(relay.url("console"))
        assert refusal.value.status == 409
        assert refusal.value.headers["X-Kvedge-Reason"] == "the guest is  not running"

    relay.run(test)


def test_the_second_viewer_takes_over_and_the_first_is_told(relay: Relay) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        first = await client.ws_connect(relay.url("console"))
        await first.send_bytes(b"1")
        assert await first.receive_bytes() == b"1"
        second = await client.ws_connect(relay.url("console"))
        assert b"another viewer has opened this console" in await first.receive_bytes()
        assert (await first.receive()).type == aiohttp.WSMsgType.CLOSE
        assert first.close_code == 1000
        await second.send_bytes(b"2")
        assert await second.receive_bytes() == b"2"
        await second.close()

    relay.run(test)
    assert relay.door.most_open_streams == 1


def test_a_viewer_of_vnc_may_insist_on_staying(relay: Relay) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        async with client.ws_connect(relay.url("vnc")) as first:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
                await client.ws_connect(relay.url("vnc"), params={"preserveSession": "true"})
            assert refusal.value.status == 503
            assert refusal.value.headers["X-Kvedge-Reason"] == "Active VNC connection. Request denied."
            await first.send_bytes(b"still here")
            assert await first.receive_bytes() == b"still here"

    relay.run(test)


def test_each_usb_device_has_a_slot_until_it_is_unplugged(relay: Relay) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        devices = [await client.ws_connect(relay.url("usbredir")) for _ in range(USB_SLOTS)]
        for number, device in enumerate(devices):
            await device.send_bytes(bytes((number,)))
            assert await device.receive_bytes() == bytes((number,))
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await client.ws_connect(relay.url("usbredir"))
        assert refusal.value.status == 503
        assert refusal.value.headers["X-Kvedge-Reason"] == "All USB devices are in use (websocket: bad handshake)."
        async with client.get(relay.url("usbredir")) as response:
            assert response.status == 503
        await devices[1].close()
        async with asyncio.timeout(10):
            while len(relay.door.sockets) == USB_SLOTS:
                with contextlib.suppress(aiohttp.WSServerHandshakeError):
                    devices[1] = await client.ws_connect(relay.url("usbredir"))
        await devices[1].send_bytes(b"again")
        assert await devices[1].receive_bytes() == b"again"
        for device in devices:
            await device.close()

    relay.run(test)
    assert relay.door.sockets == [*(f"virt-usbredir-{number}" for number in range(USB_SLOTS)), "virt-usbredir-1"]


def test_a_viewer_of_spice_comes_to_a_screen_that_nobody_looks_at_or_asks(relay: Relay) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        asked = {"preserveSession": "true"}
        async with client.ws_connect(relay.url("spice"), params=asked) as first:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
                await client.ws_connect(relay.url("spice"), params=asked)
            assert refusal.value.status == 503
            assert refusal.value.headers["X-Kvedge-Reason"] == "Active SPICE connection. Request denied."
            async with client.get(relay.url("spice"), params=asked) as response:
                assert response.status == 503
            # Without the question QEMU has the last word.
            async with client.ws_connect(relay.url("spice")) as second:
                for stream in (first, second):
                    await stream.send_bytes(b"here")
                    assert await stream.receive_bytes() == b"here"

    relay.run(test)


def test_spice_has_a_connection_for_each_channel_and_a_bound(relay: Relay) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        async with contextlib.AsyncExitStack() as stack:
            channels = [await stack.enter_async_context(client.ws_connect(relay.url("spice"))) for _ in range(16)]
            with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
                await client.ws_connect(relay.url("spice"))
            assert refusal.value.status == 503
            said = "16 connections are at the guest's spice already; close a viewer, and try again"
            assert refusal.value.headers["X-Kvedge-Reason"] == said
            async with client.get(relay.url("spice")) as response:
                assert (response.status, await response.json()) == (503, {"message": said})
            for number, channel in enumerate(channels):
                await channel.send_bytes(bytes([number]))
            assert [await channel.receive_bytes() for channel in channels] == [bytes([n]) for n in range(16)]
        async with client.ws_connect(relay.url("spice")) as channel:
            await channel.send_bytes(b"room again")
            assert await channel.receive_bytes() == b"room again"

    relay.run(test)
    server = relay.server
    assert server is not None
    assert relay.door.most_open_streams == 16
    wait_until(lambda: server.viewers == 0 and relay.door.open_streams == 0, "all channels are gone")


def test_a_port_of_a_guests_vsock_is_one_of_several_connections(relay: Relay) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for number in range(32):
                port = await stack.enter_async_context(
                    client.ws_connect(relay.url(f"vsock?port={22 + number}&tls=false"))
                )
                await port.send_bytes(bytes([number]))
                assert await port.receive_bytes() == bytes([number])
            with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
                await client.ws_connect(relay.url("vsock?port=22"))
            said = "32 connections are at the guest's vsock already; close a viewer, and try again"
            assert (refusal.value.status, refusal.value.headers["X-Kvedge-Reason"]) == (503, said)
        async with client.get(relay.url("vsock?port=0")) as response:
            assert (response.status, await response.json()) == (
                400,
                {"message": "port: '0' is not between 1 and 4294967294"},
            )
        async with client.get(relay.url("vsock?port=22")) as response:
            assert response.status == 400

    relay.run(test)
    assert relay.door.ports[:2] == [VsockRequest(22, tls=False), VsockRequest(23, tls=False)]
    server = relay.server
    assert server is not None
    wait_until(lambda: server.viewers == 0 and relay.door.open_streams == 0, "all connections are gone")


def test_nothing_is_left_after_many_viewers_half_of_them_torn_off(relay: Relay) -> None:
    async def look(client: aiohttp.ClientSession, number: int) -> None:
        socket = await client.ws_connect(relay.url("console" if number % 3 else "vnc"))
        await socket.send_bytes(b"x" * number)
        if number % 2:
            # Torn off: no goodbye, as when a laptop is shut.
            socket._response.connection.transport.abort()  # type: ignore[union-attr]
        else:
            await socket.close()

    async def test(client: aiohttp.ClientSession) -> None:
        for number in range(200):
            await look(client, number)

    relay.run(test)
    server = relay.server
    assert server is not None
    wait_until(lambda: server.viewers == 0 and relay.door.open_streams == 0, "all viewers are gone")
    first = descriptors()
    relay.run(test)
    wait_until(lambda: server.viewers == 0 and relay.door.open_streams == 0, "all viewers are gone")
    wait_until(lambda: descriptors() <= first, "no descriptor is left")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_viewer_that_does_not_read_holds_the_guest_back(relay: Relay) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        socket = await client.ws_connect(relay.url("console"))
        socket._response.connection.transport.pause_reading()  # type: ignore[union-attr]
        sent = await _send_until_stuck(socket)
        # Buffers of both sockets, of TLS and of the loop: megabytes, not whatever the guest prints.
        assert sent < 24 * 1024 * 1024
        socket._response.connection.transport.abort()  # type: ignore[union-attr]

    relay.run(test)


def test_a_guest_that_does_not_read_holds_the_viewer_back(relay: Relay) -> None:
    relay.door.deaf = True

    async def test(client: aiohttp.ClientSession) -> None:
        socket = await client.ws_connect(relay.url("console"))
        assert await _send_until_stuck(socket) < 24 * 1024 * 1024
        socket._response.connection.transport.abort()  # type: ignore[union-attr]

    relay.run(test)


async def _send_until_stuck(socket: aiohttp.ClientWebSocketResponse) -> int:
    sent = 0
    while sent < 64 * 1024 * 1024:
        try:
            await asyncio.wait_for(socket.send_bytes(b"x" * 65536), 1.0)
        except TimeoutError:
            return sent
        sent += 65536
    return sent


def test_viewers_are_sent_away_when_the_relay_stops(relay: Relay) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        socket = await client.ws_connect(relay.url("console"))
        stopping = asyncio.get_running_loop().run_in_executor(None, relay.stop)
        message = await socket.receive()
        assert (message.type, socket.close_code) == (aiohttp.WSMsgType.CLOSE, 1001)
        await stopping

    relay.run(test)


@pytest.mark.parametrize(
    "path", ["/", "/v1/namespaces/default/virtualmachineinstances/web/delete", f"{VMI}/console/.."]
)
def test_other_paths_are_not_there(relay: Relay, path: str) -> None:
    async def test(client: aiohttp.ClientSession) -> None:
        async with client.put(f"https://127.0.0.1:{relay.port}{path}") as response:
            assert response.status in (404, 405)

    relay.run(test)

"""What many streams, torn streams and slow sides cost: nothing is left behind, and memory stays flat.

Through client, API server, api role and relay; the guest's end is a socket of ours.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable

import psutil
import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.runtime.serving import stream_core, stream_pump, websocket_viewer
from kvedge.standalone.apiserver.aggregation import upgrade_tunnel
from tests.contract.api.conftest import EchoNode
from tests.contract.api.stream_parts import SUBPROTOCOL, VMI_PATH, Client, Held, echo_service, pod_at, steady
from tests.support.api_servers import ApiServerUnderTest
from tests.support.kube_apiserver import reachable_address
from tests.support.raw_websocket import CLOSE, RawWebSocket
from tests.support.tearing_proxy import TearingProxy
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
# What kernels, TLS and event loops of four hops hold while nobody reads; whatever a guest prints beyond waits with it.
MOST_UNDER_WAY = 64 << 20
MOST_MEMORY = 48 << 20


def test_nothing_is_left_of_two_hundred_streams_half_of_them_torn_off(
    client: Client, admin: KubeClient, guest: JsonObject, echo_node: EchoNode, network: TearingProxy
) -> None:
    address = reachable_address()

    async def look(kind: str, way: int) -> None:
        stream = await client.open(kind)
        stream.send(b"hello")
        assert await stream.receive_data() == b"hello"
        if way == 0:
            stream.reset()
        elif way == 1 and "port" not in kind:
            network.tear()
            assert (await stream.receive_close())[0] == 1011
            stream.vanish()
        else:
            await stream.leave()

    async def many(count: int, port: int) -> None:
        for number in range(count):
            await look(("console", "vnc", f"portforward/{port}/tcp")[number % 3], number % 4)

    with pod_at(admin, guest, address), echo_service(address) as port:
        client.run(lambda: many(24, port))
        wait_until(lambda: echo_node.door.open_streams == 0, "the guest's ends are closed")
        settled = wait_until(steady, "what is held is steady", 120, 0.5)
        client.run(lambda: many(200, port))
        wait_until(lambda: echo_node.door.open_streams == 0, "the guest's ends are closed")
        wait_until(lambda: network.connections == 0, "the relay's connections are closed")
        most = settled.with_pooled()
        wait_until(lambda: Held.now().within(most), f"no more is held than {most}")


def test_nothing_is_left_of_clients_that_go_before_they_are_answered(
    client: Client, guest: JsonObject, echo_node: EchoNode, caplog: pytest.LogCaptureFixture
) -> None:
    async def begin(number: int) -> None:
        kind = ("console", "vnc", "usbredir")[number % 3]
        stream = await RawWebSocket.begin(f"{client.host}{VMI_PATH}/{kind}", client.context, SUBPROTOCOL)
        # Each is torn off a little later: while it is authorized, while the relay is asked, while it is answered.
        ends = asyncio.get_running_loop().time() + number * 0.0003
        while asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(0)
        stream.reset()

    async def many() -> None:
        for number in range(60):
            await begin(number)

    client.run(many)
    settled = wait_until(steady, "what is held is steady", 120, 0.5)
    client.run(many)
    wait_until(lambda: echo_node.door.open_streams == 0, "the guest's ends are closed")
    most = settled.with_pooled()
    wait_until(lambda: Held.now().within(most), f"no more is held than {most}")
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_guest_that_floods_is_held_back_by_a_viewer_that_does_not_read(
    client: Client, guest: JsonObject, echo_node: EchoNode
) -> None:
    door, process = echo_node.door, psutil.Process()
    before = process.memory_info().rss

    async def test() -> None:
        door.flooding, door.printed = True, 0
        stream = await client.open("console")
        held = await stuck(lambda: door.printed)
        assert held < MOST_UNDER_WAY
        assert process.memory_info().rss - before < MOST_MEMORY
        # As soon as it is read it goes on, and nothing is missing.
        received = bytearray()
        while len(received) < held + (1 << 20):
            received += await stream.receive_data()
        assert received == (b"flood " * (len(received) // 6 + 1))[: len(received)]
        # A second viewer does not wait for the first one, who again takes nothing.
        await stuck(lambda: door.printed)
        second = await client.open("console")
        assert (await second.receive_data()).startswith(b"flood ")
        second.reset()
        door.flooding = False
        stream.reset()

    try:
        client.run(test)
    finally:
        door.flooding = False
    wait_until(lambda: door.open_streams == 0, "the guest's end is closed")


def test_a_viewer_that_floods_is_held_back_by_a_guest_that_does_not_read(
    client: Client, guest: JsonObject, echo_node: EchoNode
) -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    sent = 0

    async def test() -> None:
        nonlocal sent
        stream = await client.open("console")

        async def flood() -> None:
            nonlocal sent
            while True:
                stream.send(b"x" * 65536)
                await stream.drain()
                sent += 65536

        flooding = asyncio.create_task(flood())
        assert await stuck(lambda: sent) < MOST_UNDER_WAY
        assert process.memory_info().rss - before < MOST_MEMORY
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)
        # The next viewer is not held back by what the first one has left.
        second = await client.open("console")
        second.vanish()
        stream.reset()

    echo_node.door.deaf = True
    try:
        client.run(test)
    finally:
        echo_node.door.deaf = False
    wait_until(lambda: echo_node.door.open_streams == 0, "the guests' ends are closed")


def test_all_that_a_service_sent_before_it_closed_reaches_a_slow_client(
    client: Client, admin: KubeClient, guest: JsonObject
) -> None:
    address, size = reachable_address(), 24 << 20
    with pod_at(admin, guest, address), socket.create_server((address, 0)) as service:
        service.settimeout(20)
        sent = 0

        def send() -> None:
            nonlocal sent
            peer, _ = service.accept()
            with peer:
                while sent < size:
                    sent += peer.send(bytes(min(65536, size - sent)))

        async def test() -> None:
            sending = asyncio.create_task(asyncio.to_thread(send))
            stream = await client.open(f"portforward/{service.getsockname()[1]}")
            # The client is slow: all hops become full.
            await stuck(lambda: sent)
            code, _, data = await stream.receive_close()
            assert (code, len(data)) == (1000, size)
            await sending
            stream.vanish()

        client.run(test)


def test_all_that_a_client_sent_before_it_left_reaches_a_slow_service(
    client: Client, admin: KubeClient, guest: JsonObject
) -> None:
    address, size = reachable_address(), 24 << 20
    with pod_at(admin, guest, address), socket.create_server((address, 0)) as service:
        service.settimeout(20)
        sent = 0

        async def test() -> None:
            stream = await client.open(f"portforward/{service.getsockname()[1]}")
            peer, _ = await asyncio.to_thread(service.accept)

            async def upload() -> None:
                nonlocal sent
                while sent < size:
                    stream.send(b"x" * (1 << 16))
                    await stream.drain()
                    sent += 1 << 16
                stream.send(struct.pack("!H", 1000), CLOSE)

            uploading = asyncio.create_task(upload())
            # The service is slow: all hops become full.
            await stuck(lambda: sent)
            with peer:
                peer.settimeout(20)
                taken = await asyncio.to_thread(lambda: sum(map(len, iter(lambda: peer.recv(1 << 20), b""))))
            assert taken == size
            await uploading
            stream.vanish()

        client.run(test)


def test_a_client_that_takes_nothing_holds_nothing_once_its_stream_has_ended(
    client: Client,
    guest: JsonObject,
    echo_node: EchoNode,
    server: ApiServerUnderTest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if server.name == "real":
        pytest.skip("how long a kube-apiserver waits for its clients is not ours to say")
    monkeypatch.setattr(upgrade_tunnel, "_GOODBYE_SECONDS", 0.2)
    monkeypatch.setattr(websocket_viewer, "_LAST_WORDS_SECONDS", 0.2)
    monkeypatch.setattr(websocket_viewer, "_PATIENT_SECONDS", 0.2)
    monkeypatch.setattr(upgrade_tunnel, "_STUCK_SECONDS", 0.5)
    # Who does not read learns from a ping that cannot be sent that the other side has gone.
    real = stream_core.Liveness
    monkeypatch.setattr(stream_pump, "Liveness", lambda now: real(now, ping_seconds=0.2))
    door = echo_node.door
    settled = wait_until(steady, "what is held is steady", 120, 0.5)

    async def test() -> None:
        door.flooding, door.printed = True, 0
        first = await client.open("console")
        await stuck(lambda: door.printed)
        # The guest goes away under the eyes of somebody who does not look.
        door.flooding = False
        second = await client.open("console")
        await second.leave()
        # Our own end, and the loop that it is in, are all that is left.
        await asyncio.to_thread(
            wait_until, lambda: Held.now().within(settled.with_client()), "what is held is released"
        )
        first.vanish()

    client.run(test)
    wait_until(lambda: Held.now().within(settled), f"no more is held than {settled}")


async def stuck(count: Callable[[], int]) -> int:
    """The count, once it has not grown for a second."""
    last, since = count(), time.monotonic()
    while time.monotonic() - since < 1.0:
        await asyncio.sleep(0.05)
        if count() != last:
            last, since = count(), time.monotonic()
        assert last < MOST_UNDER_WAY * 2
    return last

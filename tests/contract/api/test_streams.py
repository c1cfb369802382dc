"""Streams through every hop but the last: client, API server, api role, relay; the guest's end is a socket of ours.

What is carried, who may look, and what a viewer is told when a hop fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvedge.api.subresources import stream_calls
from kvedge.api.subresources.caller_rules import Asked
from kvedge.api.subresources.cluster_reader import ClusterReader
from kvedge.api.subresources.stream_watch import StreamWatch
from kvedge.handler.launchers.relay_core import DoorError
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import UserInfo
from kvedge.runtime.serving import stream_core, stream_pump
from tests.contract.api.conftest import EchoNode
from tests.contract.api.stream_parts import SUBPROTOCOL, VMI_PATH, Client, pod_at
from tests.support.api_servers import Kubectl
from tests.support.kube_apiserver import reachable_address
from tests.support.raw_websocket import CLOSE, PING, TEXT, RawWebSocket, UpgradeRefused
from tests.support.tearing_proxy import TearingProxy
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]


def test_a_stream_carries_binary_messages_alone_under_kubevirts_name(
    client: Client, guest: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        stream = await client.open("console")
        assert stream.protocol == SUBPROTOCOL
        stream.send(b"texts are not carried", TEXT)
        stream.send(b"\x00\xff")
        assert await stream.receive_data() == b"\x00\xff"
        await stream.leave()

    client.run(test)
    # A viewer that does as it should is nothing that an operator is told of.
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


@pytest.mark.parametrize(("kind", "words"), [("console", b"\r\n*** disconnected: another viewer "), ("vnc", b"")])
def test_a_viewer_who_has_to_go_sees_what_kubevirts_sees(
    client: Client, guest: JsonObject, kind: str, words: bytes
) -> None:
    """No close frame, which clients read as 1006: virtctl tells only then what may have happened."""

    async def test() -> None:
        first = await client.open(kind)
        second = await client.open(kind)
        before = await first.receive_drop()
        assert before.startswith(words)
        assert bool(before) == bool(words)
        second.send(b"mine")
        assert await second.receive_data() == b"mine"
        second.vanish()
        first.vanish()

    client.run(test)


@pytest.mark.parametrize("kind", ["console", "vnc"])
def test_a_viewer_is_counted_until_it_leaves(client: Client, guest: JsonObject, kubectl: Kubectl, kind: str) -> None:
    name = f"kubevirt_{kind}_active_connections"

    def count() -> list[float]:
        text = kubectl.run("get", "--raw", "/apis/subresources.kubevirt.io/v1/metrics?roles=true")
        families = {family.name: family for family in text_string_to_metric_families(text)}
        samples = families[name].samples if name in families else []
        return [sample.value for sample in samples if sample.labels["vmi"] == guest["metadata"]["name"]]

    async def test() -> None:
        stream = await client.open(kind)
        stream.send(b"look")
        assert await stream.receive_data() == b"look"
        await asyncio.to_thread(wait_until, lambda: count() == [1.0], "the viewer is counted")
        await stream.leave()

    client.run(test)
    wait_until(lambda: count() == [0.0], "the viewer is counted no longer")


@pytest.mark.parametrize("kind", ["console", "vnc"])
def test_a_viewer_of_a_guest_that_ends_sees_what_kubevirts_sees(
    client: Client, guest: JsonObject, echo_node: EchoNode, kind: str
) -> None:
    async def test() -> None:
        stream = await client.open(kind)
        stream.send(b"last words")
        assert await stream.receive_data() == b"last words"
        echo_node.door.end_streams()
        assert await stream.receive_drop() == b""
        stream.vanish()

    client.run(test)


@pytest.mark.parametrize("kind", ["console", "vnc"])
def test_a_viewer_of_a_guest_that_is_no_more_sees_what_kubevirts_sees(
    client: Client, guest: JsonObject, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async def nobody(self: StreamWatch) -> bool:
        return False

    monkeypatch.setattr(StreamWatch, "_is_there", nobody)
    monkeypatch.setattr(stream_calls, "LOOK_SECONDS", 0.2)

    async def test() -> None:
        stream = await client.open(kind)
        assert await stream.receive_drop() == b""
        stream.vanish()

    client.run(test)


def test_a_viewer_of_vnc_who_insists_stays(client: Client, guest: JsonObject) -> None:
    async def test() -> None:
        first = await client.open("vnc")
        with pytest.raises(UpgradeRefused) as refused:
            await client.open("vnc?preserveSession=true")
        assert (refused.value.status, refused.value.message) == (503, "Active VNC connection. Request denied.")
        first.send(b"still here")
        assert await first.receive_data() == b"still here"
        await first.leave()
        # The seat is free again: insisting is then nothing special.
        third = await client.open("vnc?preserveSession=true")
        await third.leave()

    client.run(test)


def test_who_asks_without_a_websocket_is_told_what_is_in_the_way_and_sends_nobody_away(
    client: Client, admin: KubeClient, guest: JsonObject, echo_node: EchoNode
) -> None:
    def refusal(preserve: str) -> tuple[int, str]:
        with pytest.raises(KubeError) as refused:
            admin.request("GET", f"{VMI_PATH}/vnc", query={"preserveSession": preserve})
        return refused.value.status, refused.value.message

    async def test() -> None:
        first = await client.open("vnc")
        no_upgrade = (400, "this call is a websocket: connect with an Upgrade header")
        assert await asyncio.to_thread(refusal, "false") == no_upgrade
        busy = (503, "Active VNC connection. Request denied.")
        assert await asyncio.to_thread(refusal, "true") == busy
        echo_node.door.refusal = DoorError(400, "VMI default/small has no vnc")
        missing = (400, "VMI default/small has no vnc")
        assert await asyncio.to_thread(refusal, "true") == missing
        first.send(b"still here")
        assert await first.receive_data() == b"still here"
        await first.leave()

    try:
        client.run(test)
    finally:
        echo_node.door.refusal = None


def test_a_message_to_a_udp_port_is_a_datagram(client: Client, admin: KubeClient, guest: JsonObject) -> None:
    address = reachable_address()
    with pod_at(admin, guest, address), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as service:
        service.bind((address, 0))
        service.settimeout(20)

        async def test() -> None:
            stream = await client.open(f"portforward/{service.getsockname()[1]}/udp")
            for message in (b"one", b"two" * 300):
                stream.send(message)
                data, sender = await asyncio.to_thread(service.recvfrom, 65536)
                assert data == message
                service.sendto(b"re: " + data, sender)
                assert await stream.receive_data() == b"re: " + message
            await stream.leave()

        client.run(test)


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_a_forward_ends_with_its_guest(
    client: Client, admin: KubeClient, guest: JsonObject, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_calls, "LOOK_SECONDS", 0.2)
    address, kind = reachable_address(), socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
    with contextlib.ExitStack() as pod, socket.socket(socket.AF_INET, kind) as service:
        service.bind((address, 0))
        if protocol == "tcp":
            service.listen()
        pod.enter_context(pod_at(admin, guest, address))

        async def test() -> None:
            stream = await client.open(f"portforward/{service.getsockname()[1]}/{protocol}")
            await asyncio.to_thread(pod.close)
            assert (await stream.receive_close())[:2] == (1000, "the guest is gone")
            stream.vanish()

        client.run(test)


def test_a_stream_ends_with_its_users_right(client: Client, guest: JsonObject, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = [True]

    async def may(self: ClusterReader, user: UserInfo, asked: Asked) -> bool:
        assert (user.username, asked.resource, asked.name) == ("admin", "virtualmachineinstances/console", "small")
        return allowed[0]

    monkeypatch.setattr(ClusterReader, "may", may)
    monkeypatch.setattr(stream_calls, "LOOK_SECONDS", 0.2)

    async def test() -> None:
        stream = await client.open("console")
        stream.send(b"there")
        assert await stream.receive_data() == b"there"
        allowed[0] = False
        code, reason, _ = await stream.receive_close()
        assert (code, reason) == (1008, "you are no longer allowed to use this stream")
        stream.vanish()

    client.run(test)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is silent is given up after some seconds."""
    real = stream_core.Liveness
    monkeypatch.setattr(stream_pump, "Liveness", lambda now: real(now, ping_seconds=0.5, dead_seconds=5.0))
    monkeypatch.setattr(stream_calls, "DEAD_SECONDS", 5.0)


@pytest.mark.usefixtures("impatient")
def test_a_viewer_that_answers_no_ping_is_given_up(client: Client, guest: JsonObject, echo_node: EchoNode) -> None:
    async def test() -> None:
        stream = await client.open("console")
        seen = [(await stream.receive())[0] for _ in range(2)]
        assert seen == [PING, PING]
        code, reason, _ = await stream.receive_close()
        assert (code, reason) == (1001, "the viewer did not answer")
        stream.vanish()

    client.run(test)
    wait_until(lambda: echo_node.door.open_streams == 0, "the guest's end is closed")


@pytest.mark.usefixtures("impatient")
def test_a_node_that_is_gone_without_a_word_is_given_up_by_both_sides(
    client: Client, guest: JsonObject, echo_node: EchoNode, network: TearingProxy
) -> None:
    async def test() -> None:
        stream = await client.open("console")
        stream.send(b"hello")
        assert await stream.receive_data() == b"hello"
        network.freeze()
        answering = asyncio.create_task(answer_pings(stream))
        code, reason = await answering
        assert (code, reason) == (1011, "the guest's node does not answer")
        stream.vanish()

    try:
        client.run(test)
        # The relay hears nothing of the api role, either, and lets go of the guest.
        wait_until(lambda: echo_node.door.open_streams == 0, "the guest's end is closed")
    finally:
        network.thaw()


async def answer_pings(stream: RawWebSocket) -> tuple[int, str]:
    """Answer each ping until the server closes; its code and reason."""
    while True:
        opcode, content = await stream.receive()
        if opcode == PING:
            stream.send(content, 10)
        elif opcode == CLOSE:
            return int.from_bytes(content[:2]), content[2:].decode()

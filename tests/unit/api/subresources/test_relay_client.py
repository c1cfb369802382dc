"""The api role and a relay over real TLS: which certificates of one authority are believed, and on which side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

import pytest
from aiohttp import web

from kvedge.api.subresources.relay_client import RelayClient
from kvedge.api.subresources.status_message import Refusal
from kvedge.handler.launchers.relay_server import RelayServer
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.serving.https_server import HttpsServer
from kvedge.runtime.tls.certificates import (
    API_NAME,
    HANDLER_NAME,
    CertificateAuthority,
    LeafRequest,
    TlsMaterial,
    handler_server_name,
)
from kvedge.runtime.tls.rotating_tls import RotatingTls
from tests.support.builders import small_vmi, vmi_with
from tests.support.echo_door import EchoDoor

T = TypeVar("T")
NOW = datetime.now(UTC)
OURS = CertificateAuthority.create("kvedge-ca", NOW)
THEIRS = CertificateAuthority.create("kvedge-ca", NOW)
LOCAL = "127.0.0.1"


def leaf(name: str, *hosts: str, authority: CertificateAuthority = OURS) -> TlsMaterial:
    """A certificate, with our authority as the one to believe."""
    made = authority.issue(LeafRequest(name, hosts=[*hosts, LOCAL]), NOW)
    return TlsMaterial(OURS.certificate_pem, made.certificate, made.key)


API = leaf(API_NAME, "kvedge-api.kvedge-system.svc")
NODE1 = leaf(HANDLER_NAME, handler_server_name("node1"))
NODE2 = leaf(HANDLER_NAME, handler_server_name("node2"))
# What must not be taken for the handler of node1.
NOT_NODE1 = {
    "the handler of another node": NODE2,
    "the api role": API,
    "another node whose name begins alike": leaf(HANDLER_NAME, handler_server_name("node11")),
    "a handler of another authority": leaf(HANDLER_NAME, handler_server_name("node1"), authority=THEIRS),
}
# What must not be taken for the api role.
NOT_API = {
    "the handler of the same node": NODE1,
    "the handler of another node": NODE2,
    "the controller": leaf("kvedge-controller"),
    "a name that begins alike": leaf(f"{API_NAME}-2"),
}


@contextmanager
def relay(shown: TlsMaterial) -> Iterator[tuple[EchoDoor, int]]:
    """A relay that shows this certificate; its door and its port."""
    door, server = EchoDoor(), HttpsServer(LOCAL, 0, "relay")

    def application() -> web.Application:
        return RelayServer(door).application()

    server.start(RotatingTls(shown, OURS.certificate_pem, require_client=True), application)
    try:
        yield door, server.port
    finally:
        server.stop()


def ask(port: int, shown: TlsMaterial, question: Callable[[RelayClient], Awaitable[T]]) -> T:
    """Ask as a client that shows this certificate and wants node1."""

    async def address_of(node: str) -> str:
        assert node == "node1"
        return f"{LOCAL}:{port}"

    async def both() -> T:
        client = RelayClient(address_of, lambda: shown)
        try:
            return await asyncio.wait_for(question(client), 20)
        finally:
            await client.close()
            # TLS says goodbye in both directions before a loop may end.
            while len(asyncio.get_running_loop()._selector.get_map()) > 1:  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)

    return asyncio.run(both())


def vmi() -> VirtualMachineInstance:
    return vmi_with(small_vmi()["spec"], {"phase": "Running", "nodeName": "node1"}, name="small")


async def pause(client: RelayClient) -> None:
    await client.call(vmi(), "PUT", "pause")


async def look(client: RelayClient) -> None:
    socket = await client.open_stream(vmi(), "console", {})
    await socket.close()


@pytest.mark.parametrize("question", [pause, look])
def test_the_api_role_reaches_the_handler_of_the_node(question: Callable[[RelayClient], Awaitable[None]]) -> None:
    with relay(NODE1) as (_, port):
        ask(port, API, question)


@pytest.mark.parametrize("question", [pause, look])
@pytest.mark.parametrize("impostor", NOT_NODE1)
def test_the_api_role_tells_nothing_to_who_is_not_the_nodes_handler(
    impostor: str, question: Callable[[RelayClient], Awaitable[None]]
) -> None:
    with relay(NOT_NODE1[impostor]) as (door, port), pytest.raises(Refusal) as refused:
        ask(port, API, question)
    assert refused.value.code == 503
    assert "the handler of node node1 does not answer" in refused.value.message
    assert (door.calls, door.most_open_streams) == ([], 0)


@pytest.mark.parametrize("question", [pause, look])
@pytest.mark.parametrize("impostor", NOT_API)
def test_a_relay_does_nothing_for_who_is_not_the_api_role(
    impostor: str, question: Callable[[RelayClient], Awaitable[None]]
) -> None:
    with relay(NODE1) as (door, port), pytest.raises(Refusal) as refused:
        ask(port, NOT_API[impostor], question)
    assert refused.value.code == 403
    assert (door.calls, door.most_open_streams) == ([], 0)


def test_a_relay_does_nothing_for_an_api_role_of_another_authority() -> None:
    with relay(NODE1) as (door, port), pytest.raises(Refusal) as refused:
        ask(port, leaf(API_NAME, authority=THEIRS), pause)
    assert refused.value.code == 503
    assert door.calls == []

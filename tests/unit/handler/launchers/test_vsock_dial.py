"""The way to a port of a guest, over sockets of TCP, where no kernel has a guest to be reached by vsock."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kvedge.handler.launchers.relay_core import DoorError
from kvedge.handler.launchers.vsock_dial import dial_vsock
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def guest(directory: Path) -> ssl.SSLContext:
    """A guest's own certificate, of an authority that nobody knows."""
    now = datetime.now(UTC)
    made = CertificateAuthority.create("guest", now).issue(LeafRequest("guest", hosts=["guest"]), now)
    (directory / "cert").write_bytes(made.certificate)
    (directory / "key").write_bytes(made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "cert", directory / "key")
    return context


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readline())
    writer.close()


async def ask(server_tls: ssl.SSLContext | None, *, tls: bool) -> bytes:
    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=server_tls)
    async with server:
        address: Any = server.sockets[0].getsockname()
        reader, writer = await dial_vsock(address, tls=tls, family=socket.AF_INET)
        writer.write(b"hello\n")
        answer = await reader.read()
        writer.close()
        return answer


def test_bytes_go_there_and_back_in_the_clear() -> None:
    assert asyncio.run(ask(None, tls=False)) == b"hello\n"


def test_a_guest_with_a_certificate_of_its_own_is_spoken_to_by_tls(tmp_path: Path) -> None:
    assert asyncio.run(ask(guest(tmp_path), tls=True)) == b"hello\n"


def test_a_guest_that_speaks_no_tls_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(DoorError, match="does not answer by TLS") as caught:
        asyncio.run(ask(None, tls=True))
    assert caught.value.status == 503


def test_a_port_that_nobody_listens_on_is_told_of() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(DoorError, match=rf"port {address[1]} of the guest's vsock does not answer: Connection refused"):
        asyncio.run(dial(address))


async def dial(address: Any) -> None:
    await dial_vsock(address, tls=False, family=socket.AF_INET)


def test_a_node_whose_kernel_has_no_vsock_says_so() -> None:
    async def without() -> None:
        await dial_vsock((3, 22), tls=False, family=99)

    with pytest.raises(DoorError, match="this node has no vsock: Address family not supported"):
        asyncio.run(without())

# Tests: kvedge/handler/migration/incoming_channels.py, kvedge/handler/migration/outgoing_channels.py
"""The way of a guest's data from one handler to another, over real TLS and real sockets; launchers are echoes."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from kvedge.handler.launchers.launcher_socket import NotThere, Unexpected
from kvedge.handler.launchers.relay_server import RelayServer
from kvedge.handler.migration.incoming_channels import MOST_CONNECTIONS, ExpectedGuest, IncomingChannels
from kvedge.handler.migration.outgoing_channels import LeavingGuest, OutgoingChannels
from kvedge.resources.migration_channels import CHANNELS, CONTROL, MEMORY
from kvedge.resources.relay_protocol import migration_path
from kvedge.runtime.serving.https_server import HttpsServer
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest, TlsMaterial, handler_server_name
from kvedge.runtime.tls.rotating_tls import RotatingTls
from kvedge.runtime.tls.tls_contexts import client_context
from tests.support.echo_door import EchoDoor

# Who is not root can give nothing away.
USER = (107, 107) if os.geteuid() == 0 else (os.getuid(), os.getgid())
NOW = datetime.now(UTC)
AUTHORITY = CertificateAuthority.create("kvedge-ca", NOW)


def certificate(node: str, role: str = "kvedge-migration") -> TlsMaterial:
    return AUTHORITY.issue(LeafRequest(role, hosts=[handler_server_name(node)]), NOW)


class Site:
    """Two nodes: a relay of the target's, and the volumes of one Pod on each."""

    def __init__(self, directory: Path) -> None:
        self.source, self.target = directory / "source", directory / "target"
        for kubelet in (self.source, self.target):
            public(kubelet).mkdir(parents=True)
        self.incoming = IncomingChannels(self.target)
        self.incoming.expect("m-1", ExpectedGuest("n", "v", "node-a", "pod"))
        self._https = HttpsServer("127.0.0.1", 0, "relay")

    def start(self) -> None:
        tls = RotatingTls(certificate("node-b", "kvedge-handler"), AUTHORITY.certificate_pem, require_client=True)
        self._https.start(tls, lambda: RelayServer(EchoDoor(), self.incoming).application())

    def stop(self) -> None:
        self._https.stop()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._https.port}"

    def run(self, test: Callable[[OutgoingChannels], Awaitable[None]], own: TlsMaterial | None = None) -> None:
        """Run a test with the channels of a node that has this certificate, and a launcher that echoes."""
        context = client_context(own or certificate("node-a"))

        async def session() -> None:
            async with echoing(self.target):
                channels = OutgoingChannels(self.source, lambda: context, USER)
                try:
                    await asyncio.wait_for(test(channels), 60)
                finally:
                    await channels.close_all()
            await sockets_closed()

        asyncio.run(session())

    def guest(self, node: str = "node-b") -> LeavingGuest:
        return LeavingGuest("n", "v", "pod", node, self.address)


async def sockets_closed() -> None:
    """TLS says goodbye in both directions; a loop that ends before leaves sockets behind, with a warning."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        while len(loop._selector.get_map()) > 1:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)


def public(kubelet: Path) -> Path:
    return kubelet / "pods" / "pod" / "volumes" / "kubernetes.io~empty-dir" / "public"


@contextlib.contextmanager
def short(directory: Path) -> Iterator[str]:
    """By a path that sockets' names have room for."""
    opened = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)


@contextlib.asynccontextmanager
async def echoing(kubelet: Path):  # type: ignore[no-untyped-def]  # a generator of nothing
    """A launcher whose sockets send back what they get."""
    folder = public(kubelet) / "migration"
    folder.mkdir(exist_ok=True)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
        writer.close()

    servers = []
    with short(folder) as path:
        for channel in CHANNELS:
            servers.append(await asyncio.start_unix_server(echo, f"{path}/{channel}"))
    yield
    for server in servers:
        server.close()


async def connect(kubelet: Path, channel: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """As libvirt and QEMU do in the Pod that the guest leaves."""
    with short(public(kubelet) / "migration") as path:
        return await asyncio.open_unix_connection(f"{path}/{channel}")


async def is_refused(kubelet: Path, channel: str = CONTROL) -> bool:
    """Whether a connection ends without an answer."""
    reader, writer = await connect(kubelet, channel)
    writer.write(b"hello")
    try:
        return await reader.read(5) == b""
    except ConnectionError:
        return True
    finally:
        writer.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    site.start()
    yield site
    site.stop()


def test_many_streams_go_there_and_back_at_once_and_whole(site: Site) -> None:
    async def stream(channel: str, number: int) -> None:
        reader, writer = await connect(site.source, channel)
        sent = bytes([number]) * 300_000
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        writer.close()

    async def test(channels: OutgoingChannels) -> None:
        await channels.open("m-1", site.guest())
        await asyncio.gather(*(stream(channel, number) for channel in CHANNELS for number in range(5)))

    site.run(test)


@pytest.mark.parametrize("is_made", [False, True], ids=["the first migration", "one after another user's folder"])
def test_folder_and_sockets_are_the_launchers_whoever_has_the_volume(site: Site, is_made: bool) -> None:
    folder = public(site.source) / "migration"
    if is_made:
        folder.mkdir()

    async def test(channels: OutgoingChannels) -> None:
        await channels.open("m-1", site.guest())
        for path in (folder, *(folder / channel for channel in CHANNELS)):
            found = path.lstat()
            assert (found.st_uid, found.st_gid) == USER

    site.run(test)


@pytest.mark.parametrize(
    ("own", "uid"),
    [
        pytest.param(certificate("node-c"), "m-1", id="another node"),
        pytest.param(certificate("node-a", "kvedge-api"), "m-1", id="the api role"),
        pytest.param(certificate("node-a", "kvedge-handler"), "m-1", id="a relay's own certificate"),
        pytest.param(certificate("node-a"), "m-2", id="another migration"),
    ],
)
def test_a_guest_that_is_not_expected_is_refused(site: Site, own: TlsMaterial, uid: str) -> None:
    async def test(channels: OutgoingChannels) -> None:
        await channels.open(uid, site.guest())
        assert await is_refused(site.source)

    site.run(test, own)


def test_another_nodes_relay_is_not_believed(site: Site) -> None:
    async def test(channels: OutgoingChannels) -> None:
        await channels.open("m-1", site.guest("node-c"))
        assert await is_refused(site.source)

    site.run(test)


def test_a_handler_may_ask_a_relay_for_nothing_else(site: Site) -> None:
    async def test() -> None:
        connector = aiohttp.TCPConnector(ssl=client_context(certificate("node-a")))
        async with aiohttp.ClientSession(connector=connector) as client:
            base = f"https://{site.address}/v1/namespaces/n/virtualmachineinstances/v"
            async with client.put(f"{base}/pause", server_hostname=handler_server_name("node-b")) as response:
                assert response.status == 403
            path = migration_path("n", "v", "m-1", "..%2Fsockets")
            url = f"https://{site.address}{path}"
            async with client.get(url, server_hostname=handler_server_name("node-b")) as response:
                assert response.status == 400
        await sockets_closed()

    asyncio.run(test())


def test_a_guest_that_is_no_longer_expected_is_refused(site: Site) -> None:
    async def test(channels: OutgoingChannels) -> None:
        await channels.open("m-1", site.guest())
        assert not await is_refused(site.source)
        site.incoming.forget("m-1")
        assert await is_refused(site.source)

    site.run(test)


def test_closing_ends_what_is_open(site: Site) -> None:
    async def test(channels: OutgoingChannels) -> None:
        await channels.open("m-1", site.guest())
        reader, writer = await connect(site.source, MEMORY)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        await channels.close("m-1")
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(OSError, match="refused"):
            await connect(site.source, MEMORY)

    site.run(test)


def test_no_migration_has_more_connections_than_its_share(site: Site) -> None:
    async def test(channels: OutgoingChannels) -> None:
        await channels.open("m-1", site.guest())
        held = []
        for _ in range(MOST_CONNECTIONS):
            reader, writer = await connect(site.source, MEMORY)
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            held.append(writer)
        assert await is_refused(site.source)
        for writer in held:
            writer.close()

    site.run(test)


def test_a_launcher_that_does_not_listen_is_told_as_such(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.incoming.expect("m-1", ExpectedGuest("n", "v", "node-a", "another-pod"))

    async def test(channels: OutgoingChannels) -> None:
        await channels.open("m-1", site.guest())
        assert await is_refused(site.source)

    with caplog.at_level("WARNING"):
        site.run(test)
    reasons = [record.facts["reason"] for record in caplog.records if hasattr(record, "facts")]
    assert "the launcher of n/v does not listen on libvirt-sock yet" in reasons


def test_a_link_in_the_sockets_place_is_not_followed(site: Site, tmp_path: Path) -> None:
    (public(site.source) / "migration").symlink_to(tmp_path)

    async def test(channels: OutgoingChannels) -> None:
        with pytest.raises(Unexpected):
            await channels.open("m-1", site.guest())
        with pytest.raises(NotThere):
            await channels.open("m-2", site.guest()._replace(pod_uid="gone"))

    site.run(test)
    assert not (tmp_path / CONTROL).exists()


def test_connections_arrive_in_the_order_in_which_they_were_made(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived: list[str] = []
    inner, connect_on = IncomingChannels.open_channel, OutgoingChannels._connect
    begun = 0

    async def note(self: IncomingChannels, *what: str) -> object:
        arrived.append(what[3])
        return await inner(self, *what)  # type: ignore[arg-type]

    async def first_is_slow(self: OutgoingChannels, *what: object) -> object:
        nonlocal begun
        begun += 1
        if begun == 1:
            # As long as the others would take.
            for _ in range(200):
                await asyncio.sleep(0)
            order.append("slow")
        else:
            order.append("next")
        return await connect_on(self, *what)  # type: ignore[arg-type]

    order: list[str] = []
    monkeypatch.setattr(IncomingChannels, "open_channel", note)
    monkeypatch.setattr(OutgoingChannels, "_connect", first_is_slow)

    async def test(channels: OutgoingChannels) -> None:
        await channels.open("m-1", site.guest())
        made = [await connect(site.source, MEMORY) for _ in range(5)]
        for number, (reader, writer) in enumerate(made):
            writer.write(str(number).encode())
            assert await reader.read(1) == str(number).encode()
            writer.close()

    site.run(test)
    assert order == ["slow", *["next"] * 4]
    assert arrived == [MEMORY] * 5

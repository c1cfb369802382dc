"""Answers guests' questions about names, on the node bridge's address: ours by itself, all others by asking on.

Started by `kvedge standalone` before the node agent, as Pods are told of it; the networking service gives it its names.
One event loop in a thread of its own. A guest has so many questions a second and so many at once; what is over is not
answered, and packets that are over do not come here where the kernel can count them. Questions from elsewhere than the
Pods' network are nobody's.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from typing import Final, cast

from kvedge.network.binding.port_rules import NAMES_PORT, QUESTIONS_PER_SECOND
from kvedge.network.packet_budget import PacketBudget
from kvedge.runtime.background_tasks import passing_task
from kvedge.runtime.serving.loop_thread import LoopThread, Serving
from kvedge.standalone.names.name_message import (
    LONGEST_QUESTION,
    NoQuestion,
    Question,
    answer,
    no_such_name,
    read_question,
    refusal,
    with_identity,
)
from kvedge.standalone.names.name_table import ZONE, NameTable, is_in_zone
from kvedge.standalone.names.other_servers import OtherServers

log = logging.getLogger(__name__)

PORT: Final = NAMES_PORT
_MOST_AT_ONCE: Final = 256
_MOST_OF_A_GUEST: Final = 32
_MOST_STREAMS: Final = 64
_MOST_STREAMS_OF_A_GUEST: Final = 8
_IDLE_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 5.0
# More guests than that begin with an empty account again.
_MOST_ACCOUNTS: Final = 4096
# An address may be taken before its link is there.
_IP_FREEBIND: Final = 15


class NameServer:
    """One box's name server; `address` is empty where it cannot be one."""

    name = "names"

    def __init__(self, address: str, guests: str, other_servers: OtherServers, port: int = PORT) -> None:
        self.address = ""
        self._wanted, self._port = address, port
        self._guests = IPv4Network(guests)
        self._others = other_servers
        self._table: Callable[[], NameTable] | None = None
        self._thread = LoopThread("kvedge-names", "the name server's event loop")
        self._budgets: dict[str, PacketBudget] = {}
        self._open: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Take the port and serve; where another program has it, guests are told the host's servers instead."""
        taken: list[socket.socket] = []
        try:
            taken.append(_bind_socket(socket.SOCK_DGRAM, self._wanted, self._port))
            taken.append(_bind_socket(socket.SOCK_STREAM, self._wanted, taken[0].getsockname()[1]))
        except OSError as error:
            for each in taken:
                each.close()
            facts = {"address": f"{self._wanted}:{self._port}", "error": error.strerror}
            log.error("guests cannot ask for names of VMs and Services here", extra={"facts": facts})
            return
        self._port = taken[0].getsockname()[1]
        self._thread.start(lambda serving: self._serve(taken[0], taken[1], serving))
        self.address = self._wanted

    def stop(self) -> None:
        """Answer nothing any more."""
        self._thread.stop(_STOP_SECONDS)

    def failure(self) -> str | None:
        """Why nothing is answered any more, or None."""
        return self._thread.failure()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    def know(self, table: Callable[[], NameTable]) -> None:
        """From now on these are our names."""
        self._table = table

    async def _serve(self, datagrams: socket.socket, streams: socket.socket, serving: Serving) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self._take), sock=datagrams)
        server = await asyncio.start_server(self._take_stream, sock=streams, limit=LONGEST_QUESTION)
        try:
            await serving()
        finally:
            transport.close()
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, packet: bytes, peer: tuple[str, int], transport: asyncio.DatagramTransport) -> None:
        """A question by UDP. What is ours is answered here and now; what is not, in a task of its own."""
        guest = peer[0]
        if not self._may_ask(guest):
            return
        try:
            question = read_question(packet)
        except NoQuestion as error:
            if error.answer:
                transport.sendto(error.answer, peer)
            return
        known = self._own_answer(question)
        if known is not None:
            transport.sendto(known, peer)
            return
        if len(self._tasks) >= _MOST_AT_ONCE or self._open[guest] >= _MOST_OF_A_GUEST:
            return

        async def ask_on() -> None:
            transport.sendto(await self._ask_others(packet, question, by_stream=False), peer)

        self._open[guest] += 1
        task = passing_task("names", ask_on)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._close(guest, done))

    def _close(self, guest: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._open[guest] -= 1
        if self._open[guest] <= 0:
            del self._open[guest]

    async def _take_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Questions by TCP, one after the other."""
        guest = writer.get_extra_info("peername")[0]
        full = self._streams.total() >= _MOST_STREAMS or self._streams[guest] >= _MOST_STREAMS_OF_A_GUEST
        self._streams[guest] += 1
        try:
            # A guest that goes, or says nothing, has its connection ended.
            with suppress(OSError, EOFError, TimeoutError):
                while not full and self._may_ask(guest):
                    async with asyncio.timeout(_IDLE_SECONDS):
                        (length,) = struct.unpack("!H", await reader.readexactly(2))
                        if length > LONGEST_QUESTION:
                            return
                        packet = await reader.readexactly(length)
                        said = await self._answer_by_stream(packet)
                        if not said:
                            return
                        writer.write(struct.pack("!H", len(said)) + said)
                        await writer.drain()
        finally:
            self._streams[guest] -= 1
            if self._streams[guest] <= 0:
                del self._streams[guest]
            writer.close()

    async def _answer_by_stream(self, packet: bytes) -> bytes:
        try:
            question = read_question(packet)
        except NoQuestion as error:
            return error.answer
        known = self._own_answer(question)
        return known if known is not None else await self._ask_others(packet, question, by_stream=True)

    def _may_ask(self, guest: str) -> bool:
        if IPv4Address(guest) not in self._guests:
            return False
        if len(self._budgets) >= _MOST_ACCOUNTS:
            self._budgets.clear()
        budget = self._budgets.setdefault(guest, PacketBudget(QUESTIONS_PER_SECOND))
        return not budget.spend(asyncio.get_running_loop().time())

    def _own_answer(self, question: Question) -> bytes | None:
        """What we know by ourselves; None for a name that may be anybody's."""
        if not is_in_zone(question.labels):
            return None
        if self._table is None:
            return refusal(question)
        try:
            addresses = self._table().in_zone(question.labels)
            return no_such_name(question, ZONE) if addresses is None else answer(question, _shuffle(addresses), ZONE)
        except Exception:
            # This question fails, and is told as that; the next one is another.
            log.exception("a question about a name cannot be answered")
            return refusal(question)

    async def _ask_others(self, packet: bytes, question: Question, *, by_stream: bool) -> bytes:
        """What other servers say; `vm.namespace` is ours where they know no such name: nobody's site is hidden."""
        identity = secrets.randbelow(0x10000)
        found = await self._others.ask(with_identity(packet, identity), identity, question, by_stream=by_stream)
        if found is not None and not found.is_without_result:
            return with_identity(found.packet, question.header.id)
        addresses = self._table().of_vm(question.labels) if self._table is not None else None
        if addresses is not None:
            return answer(question, _shuffle(addresses), ZONE)
        return refusal(question) if found is None else with_identity(found.packet, question.header.id)


class _Datagrams(asyncio.DatagramProtocol):
    """Hands each packet on with the way back."""

    def __init__(self, take: Callable[[bytes, tuple[str, int], asyncio.DatagramTransport], None]) -> None:
        self._take = take
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # asyncio gives a datagram transport for such a socket, although it does not declare it as that.
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        self._take(data, addr, self._transport)


def _shuffle(addresses: tuple[str, ...]) -> list[str]:
    """In an order by chance: clients take the first."""
    return random.sample(addresses, len(addresses))


def _bind_socket(kind: socket.SocketKind, address: str, port: int) -> socket.socket:
    taken = socket.socket(socket.AF_INET, kind)
    try:
        taken.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        if kind == socket.SOCK_STREAM:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((address, port))
    except OSError:
        taken.close()
        raise
    return taken

"""Takes connections in and has them prove who they are, a bounded number at a time.

Made by every HTTPS server of ours, in its event loop. asyncio's own server would keep each half-open connection for a
minute, and any number of them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from functools import partial
from typing import Final

from kvedge.runtime.background_tasks import background_task, passing_task

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 10.0
# So many may be in the middle of their handshake. Then the oldest gives way once it has had its chance: a client that
# means it needs milliseconds, and some more when many come at once.
MOST_HANDSHAKES: Final = 256
_CHANCE_SECONDS: Final = 0.5
# asyncio gives each TLS connection a buffer of 256 kB, which is nearly all that an idle one takes. A TLS record has 16.
_TLS_BUFFER: Final = 32 << 10
_BACKLOG: Final = 512
# So long a client may take to answer the end of a TLS connection; most never do.
GOODBYE_SECONDS: Final = 0.2
# Accepting failed for want of descriptors or memory: others must end first.
_PAUSE_SECONDS: Final = 0.05
# Of the event loop, from a connection that the kernel has to one that is looked after.
_TURNS: Final = 3


class ConnectionAcceptor:
    """Accepts on one listening socket, which stays its owner's."""

    def __init__(
        self,
        listening: socket.socket,
        tls: Callable[[], ssl.SSLContext],
        make_protocol: Callable[[], asyncio.Protocol],
        give_one_up: Callable[[], bool],
        on_connected: Callable[[asyncio.Transport, asyncio.Protocol], None] = lambda transport, protocol: None,
    ) -> None:
        """`tls()` is what the next connection begins with; `give_one_up()` closes a connection that can be spared, if
        there is one; `on_connected` hears of each that got through its handshake.
        """
        self._listening = listening
        self._tls = tls
        self._make_protocol = make_protocol
        self._give_one_up = give_one_up
        self._on_connected = on_connected
        # With the time at which each began; the oldest comes first.
        self._handshakes: dict[asyncio.Task[None], float] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False

    def start(self) -> None:
        """Begin to accept."""
        SSLProtocol.max_size = _TLS_BUFFER
        self._listening.setblocking(False)
        self._listening.listen(_BACKLOG)
        self._task = background_task("accept", self._run)

    async def stop(self) -> None:
        """Accept no more, and turn away clients that have not proved who they are."""
        self._is_ending = True
        asyncio.get_running_loop().remove_reader(self._listening)
        # A client that was accepted in this turn begins its handshake in the next ones. Cancelled before, it would
        # leave a socket that is nobody's.
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        tasks = [task for task in (self._task, *self._handshakes) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._is_ending:
            try:
                connected, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                log.warning("a connection could not be accepted: %s", error.strerror)
                self._give_one_up()
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            task = passing_task("TLS handshake", partial(self._shake_hands, connected))
            self._handshakes[task] = loop.time()
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))
            while len(self._handshakes) >= MOST_HANDSHAKES:
                await self._make_room(loop.time())

    async def _make_room(self, now: float) -> None:
        """Wait for one to get through, or have the oldest give way. Clients that come meanwhile wait in the kernel."""
        oldest, began = next(iter(self._handshakes.items()))
        left = began + _CHANCE_SECONDS - now
        if left > 0:
            await asyncio.wait(list(self._handshakes), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            # The callbacks of those that are done run in the next turn of the loop.
            await asyncio.sleep(0)
        else:
            del self._handshakes[oldest]
            oldest.cancel()

    async def _shake_hands(self, connected: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection = await loop.connect_accepted_socket(
                self._make_protocol,
                connected,
                ssl=self._tls(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=GOODBYE_SECONDS,
            )
        except (OSError, TimeoutError) as error:
            # No TLS, no common version, a certificate of another authority, or nothing at all.
            log.debug("a client did not get through its TLS handshake: %s", error)
        except Exception:
            # The caller, who gets the exception, does not know the socket, and nobody else has it yet.
            connected.close()
            raise
        else:
            self._on_connected(*connection)

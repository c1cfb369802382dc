"""The way to a port of a guest's vsock, from its node.

Called by the door to launchers, in the relay's event loop. Connects a socket of the kernel's, and speaks TLS by it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

from kvedge.handler.launchers.relay_core import DoorError
from kvedge.runtime.tls.bare_contexts import new_context_for_anybody

_CONNECT_SECONDS: Final = 5.0
_HANDSHAKE_SECONDS: Final = 10.0
# The most bytes that a slow client may leave in memory.
_BUFFER: Final = 64 * 1024
Address = tuple[int, int]


async def dial_vsock(
    address: Address, *, tls: bool, family: int = getattr(socket, "AF_VSOCK", -1)
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port of a guest: its CID, and the port. `family` is the kernel's for such addresses.

    Raises:
        DoorError: when the node has no vsock, or the guest does not answer.
    """
    try:
        ours = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise DoorError(503, f"this node has no vsock: {_words(error)}") from error
    ours.setblocking(False)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            await asyncio.get_running_loop().sock_connect(ours, address)
        async with asyncio.timeout(_HANDSHAKE_SECONDS):
            if not tls:
                return await asyncio.open_connection(sock=ours, limit=_BUFFER)
            # The kernel says by the CID which guest it is, as with KubeVirt: guests make their own certificates.
            context = new_context_for_anybody()
            return await asyncio.open_connection(
                sock=ours, limit=_BUFFER, ssl=context, server_hostname="guest", ssl_handshake_timeout=None
            )
    except (OSError, TimeoutError) as error:
        ours.close()
        how = " by TLS" if tls else ""
        raise DoorError(503, f"port {address[1]} of the guest's vsock does not answer{how}: {_words(error)}") from error
    except BaseException:
        ours.close()
        raise


def _words(error: BaseException) -> str:
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else str(error) or "no answer"

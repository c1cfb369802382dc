"""Sockets on addresses of IPv6 that the kernel has been given a moment ago.

It counts one as tentative until work of its own has run, also where nobody is asked whether the address is taken, and
lets nobody bind to it meanwhile: on a loaded machine that is seen.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import Any

from tests.support.waiting import wait_until


def bind_in_time(opened: socket.socket, address: tuple[Any, ...]) -> None:
    """Bind, once the address is there for that; the socket is closed when it never is."""

    def bind() -> bool:
        try:
            opened.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            return False
        return True

    with contextlib.ExitStack() as stack:
        stack.callback(opened.close)
        wait_until(bind, f"{address[0]} can be bound to", 10)
        stack.pop_all()

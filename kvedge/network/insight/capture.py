"""Records the frames of a guest's NIC for a while, as a pcap file within a size.

Called by the handler in a thread, as root on the host: the socket is made in the Pod's namespace, on the guest's tap.
Reads only; nothing of the guest's is held up by it, and frames that come too fast are lost to the record alone.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge.network.errors import NetworkError
from kvedge.network.insight.pcap_message import LONGEST_FRAME, SMALLEST, PcapFile
from kvedge.network.netns import NetnsRef, run_in_netns

# It is in memory here and in the api role until it is whole.
MOST_BYTES: Final = 16 << 20
# The way from a client to a node gives up after a minute.
MOST_SECONDS: Final = 50.0
_DEFAULT_BYTES: Final = 10 << 20
_DEFAULT_SECONDS: Final = 10
# ETH_P_ALL of linux/if_ether.h: what comes and what goes.
_EVERYTHING: Final = 0x0003
_LOOK_SECONDS: Final = 0.2


class BadCaptureRequest(ValueError):
    """The query makes no sense; the text names the parameter."""


class CaptureRequest(Struct, frozen=True):
    """Which interface (empty: the first), and when it is enough."""

    interface: str = ""
    most_bytes: int = _DEFAULT_BYTES
    seconds: float = _DEFAULT_SECONDS


def capture_request(query: Mapping[str, str]) -> CaptureRequest:
    """The request in a query.

    Raises:
        BadCaptureRequest: when a parameter is not what it should be.
    """
    size = _number(query, "bytes", _DEFAULT_BYTES, SMALLEST, MOST_BYTES)
    seconds = _number(query, "seconds", _DEFAULT_SECONDS, 1, int(MOST_SECONDS))
    return CaptureRequest(query.get("interface", ""), size, float(seconds))


def _number(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and least <= int(text) <= most):
        raise BadCaptureRequest(f"{name}: {text[:40]!r} is no whole number between {least} and {most}")
    return int(text)


def capture(
    netns: NetnsRef, links: Sequence[str], wanted: CaptureRequest, is_over: Callable[[], bool] = lambda: False
) -> bytes:
    """What passes the guest's link until the time is over, the size is reached, or `is_over()`.

    The link is the first of these that is there. Raises NetworkError.
    """
    opened = run_in_netns(netns, lambda: _open_first(links))
    with opened:
        return record(opened, wanted, is_over)


def _open_first(links: Sequence[str]) -> socket.socket:
    for name in links[:-1]:
        try:
            return _open(name)
        except NetworkError as error:
            if error.errno != errno.ENODEV:
                raise
    return _open(links[-1])


def _open(tap: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    try:
        # Protocol 0 until it is bound: nothing of other links comes in before.
        opened.bind((tap, _EVERYTHING))
    except OSError as error:
        opened.close()
        raise NetworkError("cannot listen on", subject=tap, errno=error.errno or 0) from error
    return opened


def record(opened: socket.socket, wanted: CaptureRequest, is_over: Callable[[], bool]) -> bytes:
    """The file of what this socket receives."""
    found, end = PcapFile(wanted.most_bytes), time.monotonic() + wanted.seconds
    while (left := end - time.monotonic()) > 0 and not is_over():
        opened.settimeout(min(left, _LOOK_SECONDS))
        try:
            frame = opened.recv(LONGEST_FRAME)
        except TimeoutError:
            continue
        except OSError:
            # The link went with its guest, or is down: what came until then is worth having.
            break
        if not found.add(time.time(), frame, len(frame)):
            break
    return found.content()

"""What passt is started with, and what it needs. Pure.

Called by `passt_link` and `passt_program`. The options are those of passt since November 2022, when it learned to take
a connection that is there already (`--fd`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.rpc.launcher_pb2 import Passt

# Where QEMU finds passt's end while it starts: in the Pod's own network, on its loopback. One number for all Pods, so
# that a domain's document does not depend on what was free; it is among those that passt leaves to the Pod.
LINK_ADDRESS: Final = "127.0.0.1"
LINK_PORT: Final = 49215
PROGRAM: Final = "passt"
# The option by which one can tell that a passt is new enough.
CONNECTION_OPTION: Final = "--fd"
# The ports that passt opens when it is to have all: those below and above Linux's range for outgoing connections.
_ALL_PORTS: Final = 65535 - (60999 - 32768 + 1)
# One socket takes TCP of both IP versions, and two take UDP.
_TCP_SOCKETS, _UDP_SOCKETS = 1, 2
# For connections, and what passt has open anyway.
_SPARE: Final = 512


def passt_command(program: str, asked: Passt, mtu: int, descriptor: int) -> list[str]:
    """The argv of passt for a guest whose QEMU is at the other end of `descriptor`."""
    tcp, udp = _port_words(asked)
    return [
        program,
        "--quiet",
        CONNECTION_OPTION,
        str(descriptor),
        "--interface",
        asked.nic,
        "--mtu",
        str(mtu),
        # The Pod's loopback is none of the guest's: without this its gateway would lead there.
        "--no-map-gw",
        "--tcp-ports",
        tcp,
        "--udp-ports",
        udp,
    ]


def needed_descriptors(asked: Passt) -> int:
    """How many files and sockets passt has open at least, once it serves what is asked for."""
    tcp, udp = len(asked.tcp), len(asked.udp)
    if asked.all_ports:
        tcp, udp = _ALL_PORTS, 0 if asked.kept else _ALL_PORTS
    return tcp * _TCP_SOCKETS + udp * _UDP_SOCKETS + _SPARE


def _port_words(asked: Passt) -> tuple[str, str]:
    """What is led to the guest, of TCP and of UDP; beside a mesh's sidecar and without a list that is TCP alone, as in
    KubeVirt."""
    if asked.all_ports:
        return _join([f"~{port}" for port in asked.kept]) or "all", "none" if asked.kept else "all"
    tcp = _join([str(port) for port in asked.tcp if port not in asked.kept])
    return tcp or "none", _join([str(port) for port in asked.udp]) or "none"


def _join(words: Sequence[str]) -> str:
    return ",".join(words)

"""The ports at which programs of the host listen for others: a load balancer would take them away. Reads /proc."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

# The states of a socket that listens, and of one of UDP that is bound to no peer.
_STATES: Final = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
_LOOPBACK: Final = ("0100007F", "00000000000000000000000001000000")


def listening_ports(proc: Path = Path("/proc/net")) -> frozenset[tuple[str, int]]:
    """Protocol and port of each, but for those on the loopback."""
    return frozenset(each for name, state in _STATES.items() for each in _listed(proc / name, state))


def _listed(path: Path, state: str) -> Iterator[tuple[str, int]]:
    try:
        lines = path.read_text().splitlines()[1:]
    except OSError:
        # A kernel without IPv6 has no such file.
        return
    for line in lines:
        words = line.split()
        if len(words) > 3 and words[3] == state:
            address, _, port = words[1].partition(":")
            if address not in _LOOPBACK:
                yield path.name.removesuffix("6").upper(), int(port, 16)

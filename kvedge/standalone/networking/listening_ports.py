"""The ports at which programs of the host listen for others: a load balancer would take them away. Reads /proc."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# The states of a socket that listens, and of one of UDP that is bound to no peer.
_STATES: Final = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
# The prefix of an IPv4 address at which a socket of IPv6 listens.
_ANY_IPV4: Final = "0" * 8
_MAPPED: Final = "0000000000000000FFFF0000"


def listening_ports(*hosts: str, proc: Path = Path("/proc/net")) -> frozenset[tuple[str, int]]:
    """Protocol and port of each that is at one of these addresses of the host's, as at all of them.

    One at another address alone, as our name server's at the node bridge, has nothing taken away.
    """
    packed = [ipaddress.ip_address(host).packed for host in hosts]
    written = ["".join(f"{word:08X}" for word in struct.unpack(f"={len(each) // 4}I", each)) for each in packed]
    ipv4 = [*(each for each in written if len(each) == len(_ANY_IPV4)), _ANY_IPV4]
    addresses = frozenset((*written, _ANY_IPV4, *(_MAPPED + each for each in ipv4), "0" * 32))
    return frozenset(
        each for name, state in _STATES.items() for each in _read_listed_ports(proc / name, state, addresses)
    )


def _read_listed_ports(path: Path, state: str, addresses: frozenset[str]) -> Iterator[tuple[str, int]]:
    try:
        lines = path.read_text().splitlines()[1:]
    except OSError:
        # A kernel without IPv6 has no such file.
        return
    for line in lines:
        words = line.split()
        if len(words) > 3 and words[3] == state:
            address, _, port = words[1].partition(":")
            if address in addresses:
                yield path.name.removesuffix("6").upper(), int(port, 16)

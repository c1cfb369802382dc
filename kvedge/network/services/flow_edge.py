"""The door to the kernel's connections: forgets those of UDP that lead from a Service to endpoints that are gone.

A client of UDP says nothing of an end: the kernel goes on sending its packets where the first one went, until it has
been silent for half a minute. Called by `service_network` in the host's namespace. The kernel picks the flows to one
port (since 5.8; an older one shows all); what it shows besides is passed over.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Collection
from typing import Any, Final

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple, NFCTSocket

from kvedge.network.errors import NetworkError
from kvedge.network.services.service_rules import ANY_OWN, ANY_OWN_IPV6, PROTOCOLS, Frontend

_FAMILIES: Final = {4: socket.AF_INET, 6: socket.AF_INET6}


def forget_flows(front: Frontend, gone: Collection[tuple[str, int]]) -> int:
    """Ends the flows from there to these endpoints; how many there were. Raises NetworkError."""
    family = _FAMILIES[front.version]
    # Unset is any: a node port is at all of the host's addresses.
    address = None if front.address in (ANY_OWN, ANY_OWN_IPV6) else front.address
    wanted = NFCTAttrTuple(family=family, daddr=address, proto=PROTOCOLS[front.protocol], dport=front.port)
    try:
        with NFCTSocket(nfgen_family=family) as opened:
            # Not by the address: of IPv6 the kernel then shows all that have another one.
            to_port = NFCTAttrTuple(family=family, proto=wanted.proto, dport=wanted.dport)
            flows = [_both_ways(family, message) for message in opened.dump(tuple_orig=to_port)]
        stale = [there for there, back in flows if wanted == there and (back.saddr, back.sport) in gone]
        for there in stale:
            _forget(family, there)
    except NetlinkError as error:
        raise NetworkError("cannot forget flows to", subject=front.address, errno=error.code) from error
    except OSError as error:
        raise NetworkError("cannot forget flows to", subject=front.address, errno=error.errno or 0) from error
    return len(stale)


def _forget(family: int, there: Any) -> None:
    try:
        with NFCTSocket(nfgen_family=family) as opened:
            opened.entry("del", tuple_orig=there)
    except NetlinkError as error:
        # It has ended by itself.
        if error.code != errno.ENOENT:
            raise


def _both_ways(family: int, message: Any) -> tuple[Any, Any]:
    there, back = (message.get_attr(name) for name in ("CTA_TUPLE_ORIG", "CTA_TUPLE_REPLY"))
    return NFCTAttrTuple.from_netlink(family, there), NFCTAttrTuple.from_netlink(family, back)

"""What the kernel does with a first packet, read from what is put into the tables, as bytes: a model of their rules.

Used by the tests of policies. The machine tests show that the kernel does the same.
"""

from __future__ import annotations

from ipaddress import ip_address

from kvedge.network.policies.policy_plan import Enforced
from kvedge.network.policies.policy_rules import (
    FREE_IN,
    FREE_OUT,
    GROUPS_IN,
    GROUPS_OUT,
    ITSELF,
    PASSAGES,
    PEERS,
    PORTLESS,
    PROTOCOLS,
    WITH_PORTS,
)


class KernelModel:
    """The filters' tables with some contents."""

    def __init__(self, enforced: Enforced) -> None:
        self._of_version = {4: enforced.contents[0], 6: enforced.contents[-1]}
        self._sets = enforced.contents[0]

    def passes(
        self, source: str, destination: str, protocol: int, port: int, *, leaves: bool = True, reaches: bool = True
    ) -> bool:
        """Whether a connection may begin. `leaves`: it comes from the node bridge; `reaches`: it goes there."""
        one, other = ip_address(source).packed, ip_address(destination).packed
        self._sets = self._of_version[ip_address(source).version]
        return all(
            self._chain(self_, peer, groups.name, free.name, one + other, protocol, port)
            for is_ours, self_, peer, groups, free in (
                (leaves, one, other, GROUPS_OUT, FREE_OUT),
                (reaches, other, one, GROUPS_IN, FREE_IN),
            )
            if is_ours
        )

    def _chain(self, own: bytes, peer: bytes, groups: str, free: str, both: bytes, protocol: int, port: int) -> bool:
        if both in self._sets[ITSELF.name] or own in self._sets[free]:
            return True
        has_ports = bytes([protocol]) in self._sets[WITH_PORTS.name]
        assert has_ports == (protocol in PROTOCOLS.values())
        group = self._exact(groups, own)
        if group is None:
            return False
        kind, number = (protocol, port) if has_ports else (PORTLESS, 0)
        key = group + bytes([kind, 0, 0, 0]) + number.to_bytes(2, "big") + bytes(2)
        peers = self._ranged(PASSAGES.name, key)
        return peers is not None and self._ranged(PEERS.name, peers + peer) is not None

    def _exact(self, name: str, key: bytes) -> bytes | None:
        (*found,) = (each[len(key) :] for each in self._sets[name] if each.startswith(key))
        assert len(found) < 2
        return found[0] if found else None

    def _ranged(self, name: str, key: bytes) -> bytes | None:
        length = len(key)
        found = [each[2 * length :] for each in self._sets[name] if each[:length] <= key < each[length : 2 * length]]
        # The kernel refuses ranges that overlap.
        assert len(found) < 2
        return found[0] if found else None

"""What several clauses of policies let pass together: each port once, with all addresses that may be there. Pure.

Used by the plan of NetworkPolicies. How much it works is counted, as clauses are as many as users write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from kvedge.network.policies.address_ranges import Ranges, join_ranges
from kvedge.network.policies.policy_rules import Passage, Traffic


class WorkError(Exception):
    """There is more to do than may be done."""


class Clause(Struct, frozen=True):
    """Ports of a protocol, and who may be at the other end."""

    protocol: int
    first: int
    last: int
    peers: Ranges


def merge_clauses(clauses: Iterable[Clause], work: int) -> tuple[Traffic, int]:
    """Merge the clauses, and return what is left of `work`: the number of ranges that may be looked at.

    Raises:
        WorkError: when it would be more.
    """
    by_protocol: dict[int, list[Clause]] = {}
    for clause in clauses:
        by_protocol.setdefault(clause.protocol, []).append(clause)
    found: list[Passage] = []
    for protocol, those in sorted(by_protocol.items()):
        for first, last, peers in _segments(those):
            work -= sum(1 + len(each) for each in peers)
            if work < 0:
                raise WorkError
            passage = Passage(protocol, first, last, join_ranges(each for ranges in peers for each in ranges))
            if found and _continues(found[-1], passage):
                found[-1] = Passage(protocol, found[-1].first, last, passage.peers)
            elif passage.peers:
                found.append(passage)
    return tuple(found), work


def _continues(before: Passage, passage: Passage) -> bool:
    same = (before.protocol, before.last + 1, before.peers) == (passage.protocol, passage.first, passage.peers)
    return same and bool(passage.peers)


def _segments(clauses: Iterable[Clause]) -> Iterator[tuple[int, int, list[Ranges]]]:
    """Ports for which the same clauses hold, and whom these let pass."""
    edges: dict[int, list[tuple[int, Ranges]]] = {}
    for clause in clauses:
        edges.setdefault(clause.first, []).append((1, clause.peers))
        edges.setdefault(clause.last + 1, []).append((-1, clause.peers))
    # By identity: to compare long ranges with each other would cost more than to look at some of them twice.
    active: dict[int, tuple[int, Ranges]] = {}
    before = 0
    for edge in sorted(edges):
        if active:
            yield before, edge - 1, [peers for _, peers in active.values()]
        for change, peers in edges[edge]:
            count = active.pop(id(peers), (0, peers))[0] + change
            if count:
                active[id(peers)] = (count, peers)
        before = edge

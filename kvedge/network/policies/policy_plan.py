"""Which steps bring the tables of NetworkPolicies to what they should be.

Pure; `policy_network` looks, asks here, and does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvedge.network.nft_rules import Table
from kvedge.network.pods.pod_network_plan import NodeNetworkConfig, policy_table_name, port_prefix, stable_mac
from kvedge.network.policies.policy_rules import (
    Elements,
    PodTraffic,
    bridge_elements,
    bridge_table,
    filter_elements,
    filter_table,
    ipv6_elements,
    ipv6_filter_table,
    numbered,
)
from kvedge.network.steps import ChangeTables, Contents

# Every other number: what is behind the last address of one is not the first address of the next.
_STEP: Final = 2


@dataclass(frozen=True)
class Enforced:
    """What is, or should be, in the tables: the contents of the filter's, of the bridge's and of the one for IPv6, and
    the numbers in the first."""

    filter: Elements
    bridge: Elements
    numbers: Mapping[object, int]
    ipv6: Elements = field(default_factory=dict)

    def of(self, tables: Sequence[Table]) -> list[tuple[Table, Elements]]:
        """Each of :func:`policy_tables` with what is in it."""
        return list(zip(tables, (self.filter, self.bridge, self.ipv6), strict=False))


def policy_tables(config: NodeNetworkConfig) -> tuple[Table, ...]:
    """Our tables: the filter's and the bridge's, and one for IPv6 where Pods have it."""
    name = policy_table_name(config.table)
    prefix, mac = port_prefix(config.bridge), stable_mac(config.bridge)
    tables = (filter_table(name, config.bridge), bridge_table(name, prefix, mac, config.cidr))
    return (*tables, ipv6_filter_table(name, config.bridge)) if config.ipv6_cidr else tables


def plan_enforcing(pods: Iterable[PodTraffic], known: Mapping[object, int]) -> Enforced:
    """What should be in the tables; what has a number keeps it, and no number that is `known` is given anew.

    So what a number stands for never changes, and all about it is put into the kernel or taken out at once.
    """
    whole = list(pods)
    numbers: dict[object, int] = {}
    following = max(known.values(), default=0) + _STEP
    for content in numbered(whole):
        if content in numbers:
            continue
        if content in known:
            numbers[content] = known[content]
        else:
            numbers[content] = following
            following += _STEP
    return Enforced(filter_elements(whole, numbers), bridge_elements(whole), numbers, ipv6_elements(whole))


def plan_change(tables: Sequence[Table], present: Enforced, wanted: Enforced) -> ChangeTables | None:
    """What differs, as one step; None for nothing."""
    pairs = zip(present.of(tables), wanted.of(tables), strict=True)
    changes = [(table, _missing(before, after), _missing(after, before)) for (table, before), (_, after) in pairs]
    changes = [each for each in changes if each[1] or each[2]]
    return ChangeTables(tuple(changes)) if changes else None


def _missing(before: Elements, after: Elements) -> Contents:
    differing = {name: after[name] - before.get(name, frozenset()) for name in after}
    return {name: tuple(sorted(each)) for name, each in differing.items() if each}

"""Which steps bring the tables of NetworkPolicies to what they should be.

Pure; `policy_network` looks, asks here, and does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge.network.nft.nft_tables import Table
from kvedge.network.pods.attachments import NodeNetworkConfig, policy_table_name, port_prefix, stable_mac
from kvedge.network.policies.policy_bridge_rules import bridge_elements, bridge_table
from kvedge.network.policies.policy_rules import Elements, PodTraffic, filter_elements, filter_table, list_numbered
from kvedge.network.steps import ChangeTables, Contents

# Every other number: what is behind the last address of one is not the first address of the next.
_STEP: Final = 2


class Enforced(Struct, frozen=True):
    """What is, or should be, in each of our tables, in their order, and the numbers in it."""

    contents: tuple[Elements, ...]
    numbers: Mapping[object, int]


def policy_tables(config: NodeNetworkConfig) -> tuple[Table, ...]:
    """Our tables: the filter's, the bridge's, and where there is IPv6, its filter's."""
    name = policy_table_name(config.table)
    bridge = bridge_table(name, port_prefix(config.bridge), stable_mac(config.bridge), config.cidr, config.ipv6_cidr)
    both = (filter_table(name, config.bridge), bridge)
    return (*both, filter_table(name, config.bridge, 6)) if config.ipv6_cidr else both


def plan_enforcing(pods: Iterable[PodTraffic], known: Mapping[object, int], *, ipv6: bool = False) -> Enforced:
    """What should be in the tables; what has a number keeps it, and no number that is `known` is given anew.

    So what a number stands for never changes, and all about it is put into the kernel or taken out at once.
    """
    whole = list(pods)
    numbers: dict[object, int] = {}
    following = max(known.values(), default=0) + _STEP
    for content in list_numbered(whole):
        if content in numbers:
            continue
        if content in known:
            numbers[content] = known[content]
        else:
            numbers[content] = following
            following += _STEP
    both = (filter_elements(whole, numbers), bridge_elements(whole, ipv6=ipv6))
    return Enforced((*both, filter_elements(whole, numbers, 6)) if ipv6 else both, numbers)


def plan_change(tables: Sequence[Table], present: Enforced, wanted: Enforced) -> ChangeTables | None:
    """What differs, as one step; None for nothing."""
    each = zip(tables, present.contents, wanted.contents, strict=True)
    changes = [(table, _find_missing(before, after), _find_missing(after, before)) for table, before, after in each]
    changes = [change for change in changes if change[1] or change[2]]
    return ChangeTables(tuple(changes)) if changes else None


def _find_missing(before: Elements, after: Elements) -> Contents:
    differing = {name: after[name] - before.get(name, frozenset()) for name in after}
    return {name: tuple(sorted(each)) for name, each in differing.items() if each}

"""The nftables tables of a node network, and what the present Pods add to their sets.

Pure; `pod_network_plan` and `pod_port_plan` put them into their steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvedge.network.address_plan import parse_cidr
from kvedge.network.binding.port_rules import host_keys, nat_table, port_table
from kvedge.network.link_types import Link
from kvedge.network.nft.nft_tables import Family, Table
from kvedge.network.pods.attachments import NodeNetworkConfig, attachments_of, port_prefix
from kvedge.network.pods.forward_rules import fence_table


def our_tables(config: NodeNetworkConfig) -> tuple[Table, ...]:
    """The tables of a node network. All instances share the fences, which some hosts do not have."""
    tables = (way_out_of(config), ports_of(config), fence_table())
    return (*tables, ipv6_way_out_of(config), fence_table(Family.IP6)) if config.ipv6_cidr else tables


def way_out_of(config: NodeNetworkConfig) -> Table:
    """The table for packets that leave this bridge, and for their answers."""
    flows, questions = config.limits_flows, config.limits_questions
    return nat_table(config.table, config.cidr, config.bridge, limits_flows=flows, limits_questions=questions)


def ipv6_way_out_of(config: NodeNetworkConfig) -> Table:
    """The same for the IPv6 network, which must be configured."""
    return nat_table(config.table, config.ipv6_cidr, config.bridge, limits_flows=config.limits_flows)


def ports_of(config: NodeNetworkConfig) -> Table:
    """The table of this bridge's ports."""
    return port_table(config.table, port_prefix(config.bridge), ipv6=bool(config.ipv6_cidr))


def all_keys(config: NodeNetworkConfig, links: Iterable[Link]) -> Mapping[str, tuple[bytes, ...]]:
    """The keys in the sets of the ports' table for all present Pods."""
    keys: dict[str, tuple[bytes, ...]] = {}
    known = {each.name for each in ports_of(config).sets}
    for attachment in attachments_of(config, links):
        for name, more in attachment.keys.items():
            if name in known:
                keys[name] = (*keys.get(name, ()), *more)
    return keys


def all_ipv6_hosts(config: NodeNetworkConfig, links: Iterable[Link]) -> Mapping[str, tuple[bytes, ...]]:
    """The IPv6 addresses of all present Pods."""
    return host_keys(*{each.ipv6_address: None for each in attachments_of(config, links) if each.ipv6_address})


def all_hosts(config: NodeNetworkConfig, links: Iterable[Link]) -> Mapping[str, tuple[bytes, ...]]:
    """The addresses of all present Pods, and the broadcast address, to which bridged frames may pass as well."""
    everybody = str(parse_cidr(config.cidr).broadcast_address)
    return host_keys(everybody, *{each.address: None for each in attachments_of(config, links)})

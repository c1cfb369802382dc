"""The Pod network of one box, for the node agent: node bridge, way out, and Pods attached to it by a pair each.

Called as root on the host. Touches the configured bridge, its ports, the nftables tables of the configured name,
`ip_forward`, and namespaces under /run/netns with the configured prefix; decides by `pod_network_plan` and
`pod_port_plan`. Every call may be repeated, and takes up where an earlier one was cut short.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.network.address_plan import gateway_address
from kvedge.network.apply_step import apply_step, pass_over_gone
from kvedge.network.binding.binding_state import GUARD_PREFIX
from kvedge.network.errors import NotSupportedError
from kvedge.network.link_types import Link
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, list_netns, release_run_directory, run_in_netns
from kvedge.network.nft.nft_edge import is_whole, list_tables
from kvedge.network.nft.nft_tables import Family
from kvedge.network.node_seen import Ipv6Seen, LinkIpv6, NodeSeen
from kvedge.network.pods import ipv6_forwarding_plan
from kvedge.network.pods.attachments import POD_INTERFACE, Attachment, NodeNetworkConfig, attachment_for, attachments_of
from kvedge.network.pods.foreign_forwarding import dropping_chains, foreign_ipv6_nat, foreign_nat, forwards_already
from kvedge.network.pods.forward_rules import FENCE
from kvedge.network.pods.forwarding_plan import IP_FORWARD, ip_forward_before, links_kept_apart, plan_forwarding_back
from kvedge.network.pods.overlap_rules import overlaps_of
from kvedge.network.pods.pod_network_plan import describe, plan_healing, plan_node_network, plan_removal
from kvedge.network.pods.pod_port_plan import plan_detaching, plan_inside, plan_port
from kvedge.network.pods.pod_tables import our_tables
from kvedge.network.pods.rate_plan import rate_limit
from kvedge.network.pods.veth_ends import leads_into
from kvedge.network.services.service_plan import table_name
from kvedge.network.steps import Step
from kvedge.network.sysctls import read_sysctl
from kvedge.resources.values.bandwidth import Bandwidth

_UNLIMITED: Final = Bandwidth()
log = logging.getLogger(__name__)

# Absent without br_netfilter.
BRIDGED_CALLS: Final = "bridge/bridge-nf-call-iptables"
# A table is put back with the keys of the Pods that were seen: nobody is attached or detached between the two.
_changing: Final = threading.Lock()


class NodeNetwork(Struct, frozen=True):
    """A working node network. `blockers` names foreign filters (`family/table/chain`) that drop forwarded packets by
    policy: what guests send to the outside gets no further than these unless somebody allows it there. `overlaps`
    names what else on this host has addresses of the Pod CIDR (`10.0.0.0/8 of tun0`), `healed` what was put back,
    `apart` the links of others between which nothing is forwarded, `limits_flows` whether this kernel can count each
    guest's connections, `limits_questions` how often each asks for names."""

    bridge: str
    gateway: str
    blockers: tuple[str, ...]
    overlaps: tuple[str, ...]
    healed: tuple[str, ...]
    apart: tuple[str, ...] = ()
    limits_flows: bool = True
    limits_questions: bool = True


def ensure_node_network(config: NodeNetworkConfig) -> NodeNetwork:
    """Makes bridge, gateway address, NAT and anti-spoofing; raises OverlapError when --pod-cidr is in use here."""
    # Guests that can fill the host's table of connections are better than none; any other lack is refused at last.
    for tried in (config, replace(config, limits_questions=False), replace(config, limits_flows=False)):
        with suppress(NotSupportedError):
            return _ensure(tried)
    return _ensure(replace(config, limits_flows=False, limits_questions=False))


def _ensure(config: NodeNetworkConfig) -> NodeNetwork:
    with _changing, Links() as links:
        seen = _look_with_tables(links, config)
        _apply(links, plan_node_network(config, seen))
    return _network(config, seen)


def heal_node_network(config: NodeNetworkConfig) -> NodeNetwork:
    """Puts back what somebody has undone since; cheap when that is nothing. Raises NetworkError."""
    with _changing, Links() as links:
        seen = _look_with_tables(links, config)
        steps = plan_healing(config, seen, [table for table in our_tables(config) if is_whole(table)])
        _apply(links, steps)
    return _network(config, seen, describe(steps))


def _network(config: NodeNetworkConfig, seen: NodeSeen, healed: Sequence[str] = ()) -> NodeNetwork:
    return NodeNetwork(
        apart=links_kept_apart(config.bridge, seen),
        limits_flows=config.limits_flows,
        limits_questions=config.limits_questions,
        bridge=config.bridge,
        gateway=gateway_address(config.cidr),
        blockers=dropping_chains(ipv6=bool(config.ipv6_cidr)),
        overlaps=tuple(overlaps_of(config, seen)),
        healed=tuple(healed),
    )


def remove_node_network(config: NodeNetworkConfig) -> None:
    """Removes all that is ours: ports, namespaces' names, bridge, tables; puts `ip_forward` back, unless somebody else
    needs it by now."""
    with _changing, Links() as links:
        seen = _look_with_tables(links, config)
        for step in plan_removal(config, seen):
            _apply_unless_gone(links, step)
        bridge = seen.link(config.bridge)
        before = ip_forward_before(bridge) if bridge is not None else None
        ipv6_before = ipv6_forwarding_plan.forwarding_before(bridge) if bridge is not None else None
        # Another one that was removed at the same time may have left it to this one.
        seen = _look_with_tables(links, config)
        _apply(links, plan_forwarding_back(config.bridge, seen, before))
        _apply(links, list(ipv6_forwarding_plan.plan_forwarding_back(config.bridge, seen, ipv6_before)))
    if seen.foreign_nat and before == "0" and seen.ip_forward == "1":
        log.warning("ip_forward stays on for others", extra={"facts": {"tables": ", ".join(seen.foreign_nat)}})
    for name in list_netns(config.netns_prefix):
        delete_netns(name)
    release_run_directory()


def attach_pod(
    config: NodeNetworkConfig,
    netns: str,
    address: str,
    mac: str | None = None,
    ipv6_address: str = "",
    *,
    bandwidth: Bandwidth = _UNLIMITED,
) -> Attachment:
    """Makes the namespace `netns`, unless it is there, with `eth0` on the node bridge, its addresses and ways out.

    `mac` is that of the Pod's NIC, which its guest takes over. A Pod whose NIC the handler has bound already is left
    as it is inside. Raises NetworkError.
    """
    attachment = attachment_for(config, netns, address, mac, ipv6_address)
    path = create_netns(netns)
    with _changing, Links() as links:
        seen = _look_at(links, config.bridge, attachment.port)
        if any(each != attachment for each in attachments_of(config, seen.links)):
            seen = _look(links)
        whole = leads_into(seen.link(attachment.port), path)
        _apply(links, plan_port(config, seen, attachment, path, whole=whole))
        _apply(links, [*rate_limit(attachment.port, bandwidth.ingress)])

    def attach_inside() -> None:
        if list_tables(Family.BRIDGE, GUARD_PREFIX):
            return
        with Links() as links:
            _apply(links, plan_inside(config, links.list_links(), links.list_addresses(), attachment))
            _apply(links, [*rate_limit(POD_INTERFACE, bandwidth.egress)])

    run_in_netns(path, attach_inside)
    return attachment


def detach_pod(config: NodeNetworkConfig, netns: str) -> None:
    """Takes the Pod off the bridge and removes its namespace's name; nothing when it is gone already."""
    with _changing, Links() as links:
        for step in plan_detaching(config, _look(links), netns):
            _apply_unless_gone(links, step)
    delete_netns(netns)


def _look(links: Links) -> NodeSeen:
    return NodeSeen(
        links=tuple(links.list_links()),
        addresses=tuple(links.list_addresses()),
        routes=tuple(links.list_hops()),
        ip_forward=read_sysctl(IP_FORWARD) or "0",
        ipv6=read_sysctl("ipv6/conf/default/disable_ipv6") is not None,
        bridged_calls=read_sysctl(BRIDGED_CALLS) == "1",
    )


def _look_at(links: Links, *names: str) -> NodeSeen:
    """As :func:`_look`, these links only: with a hundred Pods a list of all costs 50 ms of CPU, for each Pod."""
    found = (links.find(name) for name in names)
    return NodeSeen(
        links=tuple(link for link in found if link is not None),
        addresses=(),
        routes=(),
        ip_forward=read_sysctl(IP_FORWARD) or "0",
        ipv6=read_sysctl("ipv6/conf/default/disable_ipv6") is not None,
        bridged_calls=read_sysctl(BRIDGED_CALLS) == "1",
    )


def _apply(links: Links, steps: list[Step]) -> None:
    for step in steps:
        apply_step(links, step)


def _apply_unless_gone(links: Links, step: Step) -> None:
    with pass_over_gone():
        apply_step(links, step)


def _look_with_tables(links: Links, config: NodeNetworkConfig) -> NodeSeen:
    seen = _look(links)
    seen = replace(seen, forwards=forwards_already(link.name for link in seen.links if link.name != "lo"))
    # Each instance's table bears its bridge's name.
    nodes = {config.table, *(link.name for link in seen.links if ip_forward_before(link) is not None)}
    ours = nodes | {table_name(name) for name in nodes}
    seen = replace(seen, of_ipv6=_look_at_ipv6(links, seen.links))
    try:
        seen = replace(seen, foreign_nat=foreign_nat(ours), fenced=FENCE in list_tables(Family.IP, FENCE))
        fenced = FENCE in list_tables(Family.IP6, FENCE)
        return replace(seen, of_ipv6=replace(seen.of_ipv6, foreign_nat=foreign_ipv6_nat(ours), fenced=fenced))
    except NotSupportedError:
        # A kernel without nftables: links of ours can be removed all the same.
        return seen


def _look_at_ipv6(links: Links, known: Sequence[Link]) -> Ipv6Seen:
    forwarding = read_sysctl(ipv6_forwarding_plan.FORWARDING)
    if forwarding is None:
        return Ipv6Seen()
    found = {}
    for name in ("default", *(link.name for link in known)):
        accepts, forwards = (read_sysctl(f"ipv6/conf/{name}/{setting}") for setting in ("accept_ra", "forwarding"))
        # A link may have gone since, or be too small for IPv6.
        if accepts is not None and forwards is not None:
            found[name] = LinkIpv6(accepts, forwards)
    return Ipv6Seen(forwarding, tuple(links.list_ipv6_routes()), found)

"""Which steps lead from what is seen in a launcher Pod's network namespace to a guest on a bridge.

Pure; `bridge_binding` looks, asks here, and does. The plan is computed from what is there, so it may be asked again
after a crash between any two steps and plans what is missing, and nothing when nothing is. What the Pod's NIC was
before the first change is in the record, for the kernel forgets its routes with its addresses.

The objects are KubeVirt's: bridge `k6t-eth0` with the DHCP server's address, the Pod's NIC renamed `eth0-nic` as a
port that learns nothing, `tap0` for QEMU, and a link that keeps the name `eth0`, its MAC and its addresses for those
who look at the Pod. A Pod whose NIC takes no frame but for its own MAC (macvlan) has the guest's MAC on its NIC, and a
bridge that does not keep for itself what is for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace  # noqa: TID251 - of dataclasses: launchers do without msgspec
from typing import Final

from kvedge.network.binding.binding_state import (
    SMALLEST_IPV6_MTU,
    Names,
    Record,
    Seen,
    guards_of,
    is_link_local,
    is_touched,
)
from kvedge.network.drop_rules import Reason, counting, drop
from kvedge.network.errors import LostStateError, NetworkError, UnsuitablePodError
from kvedge.network.link_types import MAIN_TABLE, Link, Route
from kvedge.network.nft.nft_rules import (
    ACCEPT,
    DROP,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV6,
    arp_sender_fits,
    ethertype_is,
    frame_source_is,
    frame_source_is_not,
    icmpv6_type_within,
    iifname_is,
    ipv6_source_fits,
    oifname_is,
    udp_port_within,
)
from kvedge.network.nft.nft_tables import Chain, Family, Hook, Rule, Set, Table
from kvedge.network.steps import (
    AddAddress,
    AddBridge,
    AddStandIn,
    AddTable,
    AddTap,
    DeleteLink,
    DeleteTable,
    ForgetOwnMac,
    RemoveAddress,
    SetLink,
    SetSysctl,
    Step,
)

# Before whatever else filters bridged frames in the Pod.
GUARD_PRIORITY: Final = -300
DHCP4_PORTS: Final = (67, 68)
DHCP6_PORTS: Final = (546, 547)
# Solicitations and advertisements of routers.
ROUTER_MESSAGES: Final = (133, 134)
# Neighbour solicitations, by which a guest also asks whether an address is free.
NEIGHBOUR_QUESTION: Final = (135, 135)
# All of neighbour discovery: a receiver of such a message remembers its sender.
NEIGHBOUR_MESSAGES: Final = (133, 137)
# A receiver of an ARP packet or a neighbour's question remembers its sender, in one table of at most 1,024 (gc_thresh3)
# for all namespaces of the host together. A guest has a handful of addresses; thirty-two leave room for its containers.
MOST_ADDRESSES: Final = 32
# As long as the kernel keeps a neighbour that nobody needs.
ADDRESS_SECONDS: Final = 60
ARP_SENDERS: Final = Set("arp_senders", (("ipv4_addr", 4),), MOST_ADDRESSES, ADDRESS_SECONDS)
IPV6_SENDERS: Final = Set("ipv6_senders", (("ipv6_addr", 16),), MOST_ADDRESSES, ADDRESS_SECONDS)
# Kinds of links that pass a frame on only when it is for their own MAC, whatever port they are of.
FILTERS_BY_MAC: Final = frozenset({"macvlan"})
# Kinds that the kernel lets be no bridge port: they share the MAC of their parent, or have none.
NEVER_A_PORT: Final = frozenset({"ipvlan", "ipvtap", "wireguard", "ipip", "sit", "ip6tnl", "gre", "xfrm"})


def bridge_mac(pod_mac: str, bridge: str) -> str:
    """The bridge's own MAC: the same at each planning, locally administered, never the guest's."""
    digest = hashlib.sha256(f"{bridge}/{pod_mac}".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))


def nic_mac(nic: Link, record: Record, names: Names, guest_mac: str) -> str:
    """The MAC of the Pod's NIC while it is a port of the bridge; a lent NIC goes back with its own, if it can."""
    if names.is_lent and nic.kind not in FILTERS_BY_MAC and record.mac != guest_mac:
        return record.mac
    return guest_mac if nic.kind in FILTERS_BY_MAC else bridge_mac(record.mac, names.bridge)


def namespace_sysctls() -> dict[str, str]:
    """Settings of the whole namespace that a binding needs. What they were is in the record."""
    return {
        # The stand-in's addresses are answered for by the guest alone.
        "ipv4/conf/all/arp_ignore": "1",
        # The guest speaks from an address that this namespace also has: no reason to drop its renewals.
        "ipv4/conf/all/rp_filter": "0",
        # The launcher serves port 67 without a capability; usually the Pod's own sysctl says so already.
        "ipv4/ip_unprivileged_port_start": "0",
        # A namespace has these settings by default as soon as the host wants them for its own bridges. With them the
        # kernel would track each frame of the guest as a connection of the Pod's.
        "bridge/bridge-nf-call-iptables": "0",
        "bridge/bridge-nf-call-ip6tables": "0",
        "bridge/bridge-nf-call-arptables": "0",
    }


def link_sysctls(names: Names, *, ipv6: bool = False) -> dict[str, str]:
    """Settings of the links made here; they come and go with them. With `ipv6` the bridge speaks it to the guest."""
    return {
        f"ipv4/conf/{names.bridge}/rp_filter": "0",
        # Without it the kernel takes the guest for an impostor: no answer to its ARP for the DHCP server, renewals
        # dropped.
        f"ipv4/conf/{names.bridge}/accept_local": "1",
        # The guest's advertisement is no news, and no other host can have the address that follows from our MAC.
        f"ipv6/conf/{names.bridge}/accept_ra": "0",
        f"ipv6/conf/{names.bridge}/accept_dad": "0",
        f"ipv6/conf/{names.bridge}/disable_ipv6": "0" if ipv6 else "1",
        f"ipv6/conf/{names.tap}/disable_ipv6": "1",
        f"ipv6/conf/{names.nic}/disable_ipv6": "1",
    }


IPV6_OF_NEW_LINKS: Final = "ipv6/conf/default/disable_ipv6"


def sysctls_to_read(names: Names) -> list[str]:
    """All settings that a plan looks at."""
    return [*namespace_sysctls(), *link_sysctls(names), IPV6_OF_NEW_LINKS]


def make_record(netns: str, seen: Seen, names: Names) -> Record:
    """What must be remembered, from a namespace that nobody changed yet. Raises NetworkError when it is not one."""
    pod = seen.link(names.pod)
    if is_touched(seen, names) or (not names.is_lent and seen.link(names.nic) is not None):
        raise LostStateError(
            "cannot bind",
            subject=names.pod,
            why="its network was changed before, and the record of how it was is gone",
            remedy="replace the Pod",
        )
    if pod is None:
        raise NetworkError(
            "cannot bind",
            subject=names.pod,
            why="the Pod has no such interface",
            remedy=_where_nics_come_from(names),
        )
    if pod.kind == "macvtap":
        raise UnsuitablePodError(
            "cannot bind",
            subject=names.pod,
            why="it is a macvtap, whose frames are for whoever opens its device, and for no bridge",
            remedy="use a network binding plugin of domainAttachmentType tap instead of bridge: {}",
        )
    if pod.kind in NEVER_A_PORT or not pod.mac:
        raise UnsuitablePodError(
            "cannot bind",
            subject=names.pod,
            why=f"it is {pod.kind or 'a link'} {'' if pod.mac else 'without a MAC '}that no guest's frames can pass",
            remedy="have a CNI that gives each Pod a MAC of its own, such as flannel, bridge, ptp or macvlan",
        )
    return Record(
        netns=netns,
        index=pod.index,
        name=pod.name,
        mac=pod.mac,
        mtu=pod.mtu,
        addresses=tuple(each for each in seen.addresses_of(pod) if not is_link_local(each.address)),
        routes=tuple(route for route in seen.routes if route.link == pod.index and _is_of_pod(route)),
        sysctls={name: seen.sysctls[name] for name in namespace_sysctls() if name in seen.sysctls},
    )


def _where_nics_come_from(names: Names) -> str:
    if names.pod == "eth0":
        return "look at the CNI configuration of this node, then replace the Pod"
    return "see whether Multus is installed and has joined the Pod to its network, then replace the Pod"


def _is_of_pod(route: Route) -> bool:
    # Of a link's own IPv6 routes, each link has its own.
    return route.table == MAIN_TABLE and not route.destination.startswith(("fe80:", "ff"))


def guard_table(names: Names, record: Record, guest_mac: str) -> Table:
    """The Pod side never meets the namespace's own stack (its DHCP, its ARP), and never tells the guest its addresses.

    Unless it is who has to: a router of the link that told the Pod its IPv6 addresses, or anybody where the CNI left
    addresses to the link. And what the node's bridge reflects (a port in hairpin mode, for the guest's own Services)
    never makes the guest believe that somebody else has its IPv6 address.

    The guest has one MAC, and speaks of itself with a bounded number of addresses: neither this node's bridges and
    neighbour tables nor those of whoever hears it fill up.
    """
    sides = (iifname_is(names.nic), oifname_is(names.nic))
    fenced = [udp_port_within(*ports) for ports in (DHCP4_PORTS, DHCP6_PORTS)]
    if not record.asks_its_router:
        fenced.append(icmpv6_type_within(*ROUTER_MESSAGES))
    rules = [(*side, *rule, DROP) for side in sides for rule in fenced] if record.addresses else []
    rules.append((*iifname_is(names.nic), *frame_source_is(guest_mac), *icmpv6_type_within(*NEIGHBOUR_QUESTION), DROP))
    table = Table(
        Family.BRIDGE,
        names.guard,
        (
            Chain("prerouting", Hook.PREROUTING, GUARD_PRIORITY, _of_guest(names, guest_mac)),
            Chain("forward", Hook.FORWARD, GUARD_PRIORITY, tuple(rules)),
            # The namespace itself may answer any IPv6 packet that reaches it, and look for its sender.
            Chain(
                "input",
                Hook.INPUT,
                GUARD_PRIORITY,
                (
                    (*iifname_is(names.nic), DROP),
                    *_limit_addresses(names.tap, ethertype_is(ETHERTYPE_IPV6), ipv6_source_fits(IPV6_SENDERS.name)),
                ),
            ),
            Chain("output", Hook.OUTPUT, GUARD_PRIORITY, ((*oifname_is(names.nic), DROP),)),
        ),
        (ARP_SENDERS, IPV6_SENDERS),
    )
    return counting(table)


def _of_guest(names: Names, guest_mac: str) -> tuple[Rule, ...]:
    return (
        (*iifname_is(names.tap), *frame_source_is_not(guest_mac), drop(Reason.MAC)),
        *_limit_addresses(names.tap, ethertype_is(ETHERTYPE_ARP), arp_sender_fits(ARP_SENDERS.name)),
        *_limit_addresses(names.tap, icmpv6_type_within(*NEIGHBOUR_MESSAGES), ipv6_source_fits(IPV6_SENDERS.name)),
    )


def _limit_addresses(tap: str, what: Rule, fits: Rule) -> tuple[Rule, Rule]:
    return (*iifname_is(tap), *what, *fits, ACCEPT), (*iifname_is(tap), *what, drop(Reason.TOO_MANY_ADDRESSES))


def plan_binding(
    record: Record,
    seen: Seen,
    names: Names,
    guest_mac: str,
    owner: tuple[int, int],
    queues: int,
    *,
    serves: bool = True,
) -> list[Step]:
    """The steps that are still missing, in their order; none when all is as it should be.

    Unless it `serves` the guest, the guest has its addresses from the network that the Pod is on, or from nobody:
    nothing of ours answers it, and nothing keeps it from who does.
    """
    whole = record
    record = record if serves else forget_offers(record)
    nic = _pod_nic(record, seen)
    steps: list[Step] = [] if names.guard in seen.guards else [AddTable(guard_table(names, record, guest_mac))]
    # A guard of an earlier version goes when ours is there: there is no moment without one.
    steps += [DeleteTable(Family.BRIDGE, guard) for guard in guards_of(seen, names) if guard != names.guard]
    steps += sysctl_steps({name: value for name, value in namespace_sysctls().items() if name in seen.sysctls}, seen)
    steps += _bridge_steps(record, seen, names)
    steps += _nic_steps(nic, nic_mac(nic, record, names, guest_mac), record, seen, names)
    steps += tap_steps(record, seen, names, owner, queues)
    steps += _stand_in_steps(whole, seen, names)
    bridge = seen.link(names.bridge)
    if bridge is None or not bridge.up:
        steps.append(SetLink(names.bridge, up=True))
    return steps


def forget_offers(record: Record) -> Record:
    """The record without what a guest would be told of it."""
    return replace(record, addresses=(), routes=())


def _pod_nic(record: Record, seen: Seen) -> Link:
    # By its index: that stays through a rename.
    nic = next((link for link in seen.links if link.index == record.index), None)
    if nic is None:
        raise LostStateError(
            "cannot bind", subject=record.name, why="the Pod's interface is gone", remedy="replace the Pod"
        )
    return nic


def sysctl_steps(wanted: Mapping[str, str], seen: Seen, *, fresh: bool = False) -> Iterator[Step]:
    """What makes these settings be so; of a `fresh` link, what is seen is nothing, or that of the one before it."""
    for name, value in wanted.items():
        # A kernel without IPv6 has none of its settings.
        if name.startswith("ipv6/") and IPV6_OF_NEW_LINKS not in seen.sysctls:
            continue
        if fresh or seen.sysctls.get(name) != value:
            yield SetSysctl(name, value)


def _settings_of(link: str, names: Names, record: Record) -> dict[str, str]:
    # The kernel has no settings of IPv6 for a link that is too small for it.
    families = ("ipv4/", "ipv6/") if record.mtu >= SMALLEST_IPV6_MTU else ("ipv4/",)
    wanted = link_sysctls(names, ipv6=record.ipv6 is not None)
    return {name: value for name, value in wanted.items() if f"/{link}/" in name and name.startswith(families)}


def _bridge_steps(record: Record, seen: Seen, names: Names) -> Iterator[Step]:
    bridge = seen.link(names.bridge)
    mac = bridge_mac(record.mac, names.bridge)
    if bridge is None:
        yield AddBridge(names.bridge, mac, record.guest_mtu)
    elif (bridge.mac, bridge.mtu) != (mac, record.guest_mtu):
        yield SetLink(names.bridge, mac=mac, mtu=record.guest_mtu)
    if bridge is not None and bridge.snooping:
        # As an earlier kvedge made it: it remembered each multicast group that a guest joins.
        yield SetLink(names.bridge, snooping=False)
    yield from sysctl_steps(_settings_of(names.bridge, names, record), seen)
    has = {address.address for address in seen.addresses_of(bridge)}
    if record.ipv4 is not None and names.server not in has:
        yield AddAddress(names.bridge, names.server, 32)


def _nic_steps(nic: Link, mac: str, record: Record, seen: Seen, names: Names) -> Iterator[Step]:
    renamed = nic.name == names.pod and not names.is_lent
    if renamed:
        yield SetLink(names.pod, up=False)
        yield SetLink(names.pod, rename=names.nic)
    yield from sysctl_steps(_settings_of(names.nic, names, record), seen)
    for address in seen.addresses_of(nic):
        yield RemoveAddress(names.nic, address.address, address.prefix_length)
    if nic.mac != mac:
        yield SetLink(names.nic, mac=mac)
    bridge = seen.link(names.bridge)
    enslaved = bridge is not None and nic.master == bridge.index
    if not enslaved:
        yield SetLink(names.nic, master=names.bridge)
    if nic.kind in FILTERS_BY_MAC and (nic.mac != mac or not enslaved or (nic.index, mac) in seen.own_macs):
        yield ForgetOwnMac(names.nic, mac)
    if nic.learning is not False or nic.master == 0:
        yield SetLink(names.nic, learning=False)
    if not nic.up or renamed:
        yield SetLink(names.nic, up=True)


def tap_steps(record: Record, seen: Seen, names: Names, owner: tuple[int, int], queues: int) -> Iterator[Step]:
    """What makes the guest's tap be there, as a port of the bridge that learns nothing."""
    tap = seen.link(names.tap)
    # A tap that QEMU has open is right as it is: a guest's cable is never pulled out to be exchanged.
    if tap is not None and not tap.carrier and tap.multi_queue != (queues > 1):
        yield DeleteLink(names.tap)
        tap = None
    if tap is None:
        yield AddTap(names.tap, owner, multi_queue=queues > 1)
    yield from sysctl_steps(_settings_of(names.tap, names, record), seen, fresh=tap is None)
    if tap is None or tap.mtu != record.guest_mtu:
        yield SetLink(names.tap, mtu=record.guest_mtu)
    bridge = seen.link(names.bridge)
    if tap is None or bridge is None or tap.master != bridge.index:
        yield SetLink(names.tap, master=names.bridge, learning=False)
    elif tap.learning is not False:
        # As an earlier kvedge made it. With two ports there is nothing to learn, and a guest has MACs without end.
        yield SetLink(names.tap, learning=False)
    if tap is None or not tap.up:
        yield SetLink(names.tap, up=True)


def _stand_in_steps(record: Record, seen: Seen, names: Names) -> Iterator[Step]:
    if names.is_lent:
        return
    found = seen.link(names.pod)
    stand_in = None if found is None or found.index == record.index else found
    if stand_in is None:
        yield AddStandIn(names.pod, record.mac, record.mtu)
    elif (stand_in.mac, stand_in.mtu) != (record.mac, record.mtu):
        yield SetLink(names.pod, mac=record.mac, mtu=record.mtu)
    has = {address.address for address in seen.addresses_of(stand_in)}
    ipv6 = seen.sysctls.get(IPV6_OF_NEW_LINKS) == "0"
    for address in record.addresses:
        if address.address not in has and not address.dynamic and (address.version == 4 or ipv6):
            yield AddAddress(names.pod, address.address, address.prefix_length)

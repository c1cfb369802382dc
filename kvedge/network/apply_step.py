"""Makes the changes that the plans of this folder ask for, one by one, in the namespace the calling thread is in."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from kvedge.network.errors import NetworkError, NotSupportedError
from kvedge.network.links import Links
from kvedge.network.nft.nft_edge import (
    change_elements,
    change_tables,
    delete_table,
    ensure_table,
    replace_table,
    replace_tables,
)
from kvedge.network.steps import (
    AddAddress,
    AddBridge,
    AddMacvtap,
    AddPortVlans,
    AddRoute,
    AddSideAddress,
    AddStandIn,
    AddTable,
    AddTap,
    AddVeth,
    ChangeElements,
    ChangeTables,
    DeleteLink,
    DeleteTable,
    ForgetOwnMac,
    KnowMac,
    LimitRate,
    RemoveAddress,
    RemoveRoute,
    ReplaceTable,
    ReplaceTables,
    SetLink,
    SetPortVlans,
    SetSysctl,
    Step,
)
from kvedge.network.sysctls import write_sysctl
from kvedge.network.tap import make_tap

# A link or a table that is not there.
_GONE: Final = (errno.ENOENT, errno.ENODEV)


@contextmanager
def pass_over_gone() -> Iterator[None]:
    """Passes over a step for what is gone: links end with a namespace's last process, and anybody may remove ours."""
    try:
        yield
    except NetworkError as error:
        if error.errno not in _GONE:
            raise


def apply_step(links: Links, step: Step) -> None:
    """Makes one change in the namespace of the calling thread. Raises NetworkError."""
    match step:
        case AddBridge(name, mac, mtu):
            links.add(name, "bridge", address=mac, br_stp_state=0, br_forward_delay=0, br_mcast_snooping=0)
            # Only an MTU that is changed is kept: one from the making is given up with the last port.
            links.set(name, mtu=mtu)
        case AddVeth():
            links.add_veth(
                step.name,
                step.peer,
                step.netns,
                mac=step.mac,
                peer_mac=step.peer_mac,
                mtu=step.mtu,
                peer_mtu=step.peer_mtu,
            )
        case AddTap(name, owner, multi_queue):
            make_tap(name, owner, multi_queue=multi_queue)
        case AddStandIn(name, mac, mtu):
            _add_stand_in(links, name, mac, mtu)
        case AddMacvtap():
            links.add_macvtap(step.name, step.lower, step.netns, mode=step.mode, mac=step.mac, mtu=step.mtu)
        case DeleteLink(name):
            links.delete(name)
        case SetLink():
            _set(links, step)
        case SetPortVlans(name, untagged, tagged):
            links.set_port_vlans(name, untagged, tagged)
        case AddPortVlans(name, tagged):
            links.add_port_vlans(name, tagged)
        case LimitRate(name, rate, bucket, queue):
            links.limit_rate(name, rate, bucket, queue)
        case KnowMac(link, mac):
            links.know_mac(link, mac)
        case ForgetOwnMac(link, mac):
            links.forget_own_mac(link, mac)
        case AddAddress(link, address, prefix_length, connected):
            links.add_address(link, address, prefix_length, connected=connected)
        case AddSideAddress(link, address, protocol):
            links.add_side_address(link, address, protocol)
        case RemoveAddress(link, address, prefix_length):
            links.delete_address(link, address, prefix_length)
        case AddRoute(link, route):
            links.add_route(route.destination, route.gateway, link, route.metric)
        case RemoveRoute(link, route):
            links.delete_route(route.destination, route.gateway, link, route.metric)
        case SetSysctl(name, value, others):
            with pass_over_gone() if others else nullcontext():
                write_sysctl(name, value)
        case AddTable(table):
            ensure_table(table)
        case ReplaceTable(table, elements, instead_of):
            replace_table(table, elements, instead_of)
        case ChangeElements(table, add, remove):
            change_elements(table, add, remove)
        case ReplaceTables(tables):
            replace_tables(tables)
        case ChangeTables(changes):
            change_tables(changes)
        case DeleteTable(family, name):
            delete_table(family, name)


def _add_stand_in(links: Links, name: str, mac: str, mtu: int) -> None:
    try:
        links.add(name, "dummy", address=mac, mtu=mtu)
    except NotSupportedError:
        # A kernel without dummy links: a bridge that has no ports and is never up keeps a name and addresses as well.
        links.add(name, "bridge", address=mac, mtu=mtu)


def _set(links: Links, step: SetLink) -> None:
    settings: dict[str, str | int] = {}
    if step.rename is not None:
        settings["ifname"] = step.rename
    if step.mac is not None:
        settings["address"] = step.mac
    if step.mtu is not None:
        settings["mtu"] = step.mtu
    if step.up is not None:
        settings["state"] = "up" if step.up else "down"
    if step.alias is not None:
        settings["ifalias"] = step.alias
    if settings:
        links.set(step.name, **settings)
    if step.master is not None:
        links.enslave(step.name, step.master)
    if step.learning is not None:
        links.set_port(step.name, learning=int(step.learning))
    if step.isolated is not None:
        links.set_port(step.name, isolated=int(step.isolated))
    if step.hairpin is not None:
        links.set_port(step.name, mode=int(step.hairpin))
    if step.all_multicast:
        links.take_all_multicast(step.name)
    if step.snooping is not None:
        links.set_bridge(step.name, br_mcast_snooping=int(step.snooping))
    if step.vlan_filtering is not None:
        links.set_bridge(step.name, br_vlan_filtering=int(step.vlan_filtering))

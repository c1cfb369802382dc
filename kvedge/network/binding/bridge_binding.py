"""Puts the guest of a launcher Pod onto the Pod's network, by a bridge in the Pod's namespace.

Called by the handler, as root on the host. Touches the links, addresses, routes, the `kvedge_guard_*` nftables table
and a few kernel settings of that namespace, /dev/net/tun, and the record file; decides by `bridge_binding_plan`.
"""

from __future__ import annotations

import errno
from pathlib import Path

from kvedge.network.apply_step import apply_step
from kvedge.network.binding.binding_record import read_record, write_record
from kvedge.network.binding.binding_state import (
    GUARD_PREFIX,
    Names,
    Record,
    Seen,
    is_touched,
    keep_lent_name,
    names_for,
)
from kvedge.network.binding.bound_interface import BoundInterface, make_bound_interface, make_unserved_interface
from kvedge.network.binding.bridge_binding_plan import (
    FILTERS_BY_MAC,
    make_record,
    plan_binding,
    sysctls_to_read,
)
from kvedge.network.binding.pod_namespace import pod_namespace
from kvedge.network.errors import MacInUseError, NetworkError
from kvedge.network.links import Links
from kvedge.network.netns import NetnsRef, run_in_netns
from kvedge.network.nft.nft_edge import list_tables
from kvedge.network.nft.nft_tables import Family
from kvedge.network.steps import SetLink, Step
from kvedge.network.sysctls import read_sysctl


def bind_pod_interface(
    netns: NetnsRef,
    *,
    record: Path,
    pod_interface: str = "eth0",
    index: int = 0,
    guest_mac: str | None = None,
    tap_owner: tuple[int, int] = (107, 107),
    queues: int = 1,
    serves: bool = True,
) -> BoundInterface:
    """Makes the binding, or what is missing of it; the same answer each time for the same Pod.

    `record` is a file for this Pod's NIC on a disk of the node; it is written before the first change. `tap_owner` is
    the (uid, gid) that QEMU runs as, `queues` the guest's virtio queues. Whether it `serves` the guest says who
    gives it addresses: we, or the network that the Pod is on. Nothing undoes it: everything goes with the
    Pod's namespace. Raises LostStateError when the Pod must be replaced, NetworkError for what a later try may cure.
    """
    plain = names_for(pod_interface, index)
    where = pod_namespace(netns)

    def bind() -> BoundInterface:
        with Links() as links:
            nic = links.find(plain.pod)
            names = keep_lent_name(plain) if nic is not None and nic.alias else plain
            seen = _look(links, names)
            remembered = _remember(record, where, seen, names)
            mac = (guest_mac or remembered.mac).lower()
            for step in plan_binding(remembered, seen, names, mac, tap_owner, queues, serves=serves):
                _apply(links, step, mac)
        nic = next(link for link in seen.links if link.index == remembered.index)
        if serves:
            return make_bound_interface(remembered, names, mac, nic.peer_index)
        return make_unserved_interface(remembered, names, mac)

    return run_in_netns(netns, bind)


def _apply(links: Links, step: Step, guest_mac: str) -> None:
    try:
        apply_step(links, step)
    except NetworkError as error:
        # Only a NIC that has to have the guest's own MAC can meet another one with it.
        takes_mac = isinstance(step, SetLink) and (step.mac == guest_mac or step.up)
        if takes_mac and error.errno in (errno.EADDRINUSE, errno.EBUSY):
            raise MacInUseError(
                "cannot give the guest its MAC",
                subject=guest_mac,
                why="another Pod of this node has it on the same parent link",
                remedy="give one of them another macAddress",
            ) from error
        raise


def _remember(path: Path, where: str, seen: Seen, names: Names) -> Record:
    # The record on disk counts only for a namespace that was begun, and only if it is the same one. A Pod's sandbox may
    # have been made anew, as after a reboot; then everything is as the CNI left it.
    if is_touched(seen, names):
        remembered = read_record(path)
        if remembered is not None and remembered.netns == where:
            return remembered
    made = make_record(where, seen, names)
    write_record(path, made)
    return made


def _look(links: Links, names: Names) -> Seen:
    settings = {name: read_sysctl(name) for name in sysctls_to_read(names)}
    found = links.list_links()
    return Seen(
        links=tuple(found),
        addresses=tuple(links.list_addresses()),
        routes=(*links.list_routes(), *links.list_ipv6_routes()),
        guards=tuple(list_tables(Family.BRIDGE, GUARD_PREFIX)),
        sysctls={name: value for name, value in settings.items() if value is not None},
        own_macs=tuple(links.list_own_macs()) if any(link.kind in FILTERS_BY_MAC for link in found) else (),
    )

"""Makes the steps of a move, and looks at a NIC and its bridge: what moving, replaying and giving back share.

Called as root on the host. Raises NetworkError alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvedge.network.apply_step import apply_step
from kvedge.network.links import Links
from kvedge.network.nics.nic_edge import NicEdge
from kvedge.network.nics.nic_journal import NicJournal
from kvedge.network.nics.nic_plan import NO_IPV6, SETTINGS, NicLinks, is_bridge_of, plan_back, setting_path
from kvedge.network.nics.nic_state import NicPhase, NicRecord
from kvedge.network.nics.nic_steps import GiveAddress, LeadRoute, NicStep, ReleasePort, TakeAddress
from kvedge.network.sysctls import read_sysctl
from kvedge.runtime.linux.boot import read_boot_id


def settings_of(nic: str) -> dict[str, str]:
    """The kernel's settings of a NIC that its bridge has too."""
    values = {name: read_sysctl(setting_path(nic, name)) for name in (*SETTINGS, NO_IPV6)}
    return {name: value for name, value in values.items() if value is not None}


def links_of(record: NicRecord) -> NicLinks:
    """The NIC and the bridge of a record as they are. Raises NetworkError."""
    with Links() as links:
        seen = links.list_links()
    by_name = {link.name: link for link in seen}
    bridge = by_name.get(record.bridge)
    if bridge is not None and not is_bridge_of(record, bridge):
        bridge = None
    ports = () if bridge is None else (link.name for link in seen if link.master == bridge.index)
    return NicLinks(by_name.get(record.nic), bridge, tuple(name for name in ports if name != record.nic))


def put_back(journal: NicJournal, record: NicRecord) -> None:
    """Moves what the record has back to its NIC, and forgets it. Called under both locks. Raises NetworkError."""
    seen = links_of(record)
    if record.phase is NicPhase.FAILED:
        journal.remove(record.bridge)
        return
    # After another boot the NIC has what the host has given it.
    if record.boot == read_boot_id() or seen.joined:
        make_all(plan_back(record, seen))
    journal.remove(record.bridge)


def make_all(steps: Iterable[NicStep]) -> None:
    """Makes the changes, one after the other. Raises NetworkError."""
    with Links() as links, NicEdge() as edge:
        for step in steps:
            make_step(links, edge, step)


def make_step(links: Links, edge: NicEdge, step: NicStep) -> None:
    """Makes one change. Raises NetworkError."""
    match step:
        case GiveAddress(link, address):
            edge.give_address(links.index(link), link, address)
        case TakeAddress(link, address):
            edge.take_address(links.index(link), link, address)
        case LeadRoute(link, route):
            edge.lead_route(links.index(link), link, route)
        case ReleasePort(link):
            edge.release(links.index(link), link)
        case _:
            apply_step(links, step)

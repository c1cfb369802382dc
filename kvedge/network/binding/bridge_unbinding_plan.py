"""Which steps give a Pod's NIC back from a guest that has released it.

Pure; `bridge_unbinding` looks, asks here, and does. As with the binding, the plan is computed from what is there: it
may be asked again after a crash between any two steps, and plans what is left. The NIC gets its name and MAC back, so
that the CNI that made it finds it; its addresses and routes are not put back, as it is about to be taken away.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvedge.network.binding.binding_state import Names, Record, Seen, guards_of
from kvedge.network.link_types import Link
from kvedge.network.nft.nft_tables import Family
from kvedge.network.steps import DeleteLink, DeleteTable, SetLink, Step


def plan_unbinding(record: Record | None, seen: Seen, names: Names) -> list[Step]:
    """The steps that are still missing; none when nothing of ours is left.

    `record` is None where nothing was begun, or it was lost: then the NIC is told by the name that it has while bound.
    """
    steps: list[Step] = [DeleteLink(name) for name in (names.tap, names.bridge) if seen.link(name) is not None]
    nic = _nic(record, seen, names)
    stand_in = seen.link(names.pod)
    if stand_in is not None and nic is not None and stand_in.index == nic.index:
        stand_in = None
    if stand_in is not None and (nic is not None or record is not None):
        # The NIC itself may have gone with its other end: then this is all that is left of it.
        steps.append(DeleteLink(names.pod))
    if nic is not None:
        steps += _give_back(nic, record, stand_in, names)
    # The guard came first and goes last: by it the next binding knows whether one was begun.
    return steps + [DeleteTable(Family.BRIDGE, guard) for guard in guards_of(seen, names)]


def _nic(record: Record | None, seen: Seen, names: Names) -> Link | None:
    if record is None:
        return seen.link(names.nic)
    return next((link for link in seen.links if link.index == record.index), None)


def _give_back(nic: Link, record: Record | None, stand_in: Link | None, names: Names) -> Iterator[Step]:
    mac = record.mac if record is not None else stand_in.mac if stand_in is not None else nic.mac
    if nic.up and (nic.name != names.pod or nic.mac != mac):
        yield SetLink(nic.name, up=False)
    if nic.mac != mac:
        yield SetLink(nic.name, mac=mac)
    if nic.name != names.pod:
        yield SetLink(nic.name, rename=names.pod)

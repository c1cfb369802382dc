"""Which NICs of a guest are prepared, which have gone, and what its user is told of those that do neither.

Called by the sync loop. Pure. A NIC that comes while the guest runs is prepared once its Pod has joined the network,
and one that is to be absent is undone once the guest has released it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from kvedge.resources.types.devices import Interface
from kvedge.resources.types.guest_nics import pod_interfaces
from kvedge.resources.types.pod_networks import absent_interfaces, is_there, lan_interfaces, switched_networks
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import NIC_ACTION_ATTACH, NIC_ACTION_DETACH, NIC_ACTION_SERVE, DomainStatus, NicTrouble

# The NICs that the launcher was told of: name and state of each, and the network that it was taken to, if it was.
ToldNics: TypeAlias = frozenset[tuple[str, str]]


class NicsOfGuest(NamedTuple):
    """The names of interfaces that a guest has, of all that it is to have; and of those that come while it runs."""

    present: frozenset[str]
    coming: frozenset[str]


def summarize_nics(vmi: VirtualMachineInstance, *, joins: bool = False) -> ToldNics:
    """What the launcher would be told of this VMI's NICs: another value means that it is to be told anew.

    `joins`: the handler itself joins the Pod to what is not there yet.
    """
    wanted = {(item.name, item.state) for _, item in pod_interfaces(vmi)}
    wanted |= {
        (item.name, item.state) for _, item, _ in lan_interfaces(vmi) if joins or is_there(vmi.status, item.name)
    }
    # A NIC that was taken to another network has the guest ask for its addresses anew.
    wanted |= set(switched_networks(vmi).items())
    return frozenset(wanted | {(item.name, item.state) for _, item in absent_interfaces(vmi)})


def nics_of_guest(vmi: VirtualMachineInstance, status: DomainStatus, *, joins: bool = False) -> NicsOfGuest:
    """Of a guest that runs; `joins` as in `summarize_nics`.

    A launcher of an earlier version does not tell, and takes none: its guest keeps its own.
    """
    there = {item.name for _, item, _ in lan_interfaces(vmi) if is_there(vmi.status, item.name)}
    first = {item.name for _, item in pod_interfaces(vmi)}
    has = {nic.name for nic in status.nics} if status.follows_nics else there
    joined = {item.name for _, item, _ in lan_interfaces(vmi)} if joins else there
    return NicsOfGuest(frozenset(first | (joined & has)), frozenset(joined - has))


def find_released_nics(vmi: VirtualMachineInstance, status: DomainStatus) -> list[tuple[int, Interface]]:
    """The interfaces that are to be absent, and that the guest does not have (any more), with their place."""
    if not status.follows_nics:
        return []
    has = {nic.name for nic in status.nics}
    return [(index, item) for index, item in absent_interfaces(vmi) if item.name not in has]


def nic_troubles(status: DomainStatus | None) -> Iterator[str]:
    """What is in the way of NICs that come or go, each a sentence."""
    for trouble in status.nic_troubles if status is not None else ():
        if trouble.action != NIC_ACTION_SERVE:
            yield _sentence(trouble)


def unserved_nics(status: DomainStatus | None) -> Iterator[str]:
    """Which NICs nobody serves any more, each a sentence with the remedy."""
    for trouble in status.nic_troubles if status is not None else ():
        if trouble.action == NIC_ACTION_SERVE:
            yield f"interface {trouble.name} has no network: {trouble.message}; restart the VM"


def _sentence(trouble: NicTrouble) -> str:
    if trouble.action == NIC_ACTION_ATTACH:
        return f"interface {trouble.name} cannot be plugged in: {trouble.message}"
    if trouble.action != NIC_ACTION_DETACH:
        return f"the link of interface {trouble.name} cannot be changed: {trouble.message}"
    if trouble.message:
        return f"interface {trouble.name} cannot be unplugged: {trouble.message}"
    return f"interface {trouble.name} is not unplugged: the guest does not release it"

"""Which NICs of a running guest are on another network than they are to be by now, and what is written of that.

Called by the VMI's plan. Pure. A VM's `networkName` has changed. On one box the node agent takes the NIC to its new
network, which the Pod says; elsewhere another Pod is on it, to which the guest is migrated. The annotation on the VMI
tells the guest's launcher when the NIC is there, so that it has the guest ask for its addresses anew.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SWITCHED_NETWORKS, SWITCHES_NETWORKS
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import (
    NETWORK_STATUS,
    attachment_of,
    find_elsewhere,
    lan_interfaces,
    parse_status,
    switched_networks,
)
from kvedge.resources.types.vmi import VirtualMachineInstance


class Elsewhere(Struct, frozen=True):
    """The interfaces that are on another network, with the one where they are to be; `follows`: the Pod's NICs are
    taken there."""

    wanted: tuple[tuple[str, str], ...] = ()
    follows: bool = False


NOWHERE_ELSE: Final = Elsewhere()


def look_elsewhere(vmi: VirtualMachineInstance, pod: Pod) -> Elsewhere:
    """What the Pod of a guest says of it."""
    notes = pod.metadata.annotations
    found = find_elsewhere(vmi, parse_status(notes.get(NETWORK_STATUS, "")))
    return Elsewhere(tuple(found), notes.get(SWITCHES_NETWORKS) == "true")


def mark_switched(vmi: VirtualMachineInstance, elsewhere: Elsewhere) -> JsonObject:
    """What is to be patched of the VMI's metadata; empty when its annotation says all."""
    before = switched_networks(vmi)
    wanted = {name: "" for name, _ in elsewhere.wanted}
    for _, item, network_name in lan_interfaces(vmi):
        if item.name in before and item.name not in wanted:
            wanted[item.name] = before[item.name] or "/".join(attachment_of(network_name, vmi.metadata.namespace))
    if wanted == before:
        return {}
    text = msgspec.json.encode(dict(sorted(wanted.items()))).decode() if wanted else None
    return {"annotations": {SWITCHED_NETWORKS: text}}

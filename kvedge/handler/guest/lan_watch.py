"""Looks whether the networks of guests that run are still there, besides the Pod's, and says which are not.

Used by the sync loop, once per pass. Reads links of the node and of the launcher's Pod; `kvedge.network.insight` judges
them. A box puts a NIC back on its bridge by itself: this tells of it meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kvedge.handler.guest.guest_network import hold_network
from kvedge.handler.guest.pass_events import PassEvents
from kvedge.handler.guest.pass_memory import PassMemory
from kvedge.handler.launchers.domain_outcome import ALIVE
from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError, LauncherConnections
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.network.errors import NetworkError
from kvedge.network.insight.cut_off_reader import NodeLinks, ends_of
from kvedge.resources.types.pod_networks import is_there, lan_interfaces, pod_nic
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

# A bridge that comes back is told of within as many seconds.
LAN_SECONDS: Final = 15.0


@dataclass
class LanWatch:
    """Of all guests of this node."""

    connections: LauncherConnections
    events: PassEvents
    clock: Clock
    links: NodeLinks = field(init=False)

    def __post_init__(self) -> None:
        """Nothing was seen yet."""
        self.links = NodeLinks(self.clock.monotonic)

    def look(self, key: Key, vmi: VirtualMachineInstance, view: LauncherView, memory: PassMemory) -> float | None:
        """Look once in a while; in how many seconds to look again, None for a guest without such networks."""
        nics = {pod_nic(item.name): index for index, item, _ in lan_interfaces(vmi) if is_there(vmi.status, item.name)}
        status = view.status
        if not nics or (status is not None and status.state not in ALIVE):
            memory.cut_off = ()
            return None
        if status is None:
            # The launcher does not say whether the guest runs: the last state holds until it does.
            return None
        now = self.clock.monotonic()
        if now - memory.lan_seen_at < LAN_SECONDS:
            return memory.lan_seen_at + LAN_SECONDS - now
        memory.lan_seen_at = now
        try:
            if memory.lan_nics != nics.keys():
                with self.connections.launcher(key) as launcher, hold_network(launcher) as netns:
                    # A NIC that has gone with its end keeps the end's number, which nothing answers to any more.
                    left = {nic: end for nic, end in memory.lan_ends.items() if nic in nics}
                    memory.lan_ends = left | ends_of(netns, nics)
                memory.lan_nics = frozenset(nics)
            memory.lan_seen = self.links.judge(memory.lan_ends, memory.lan_seen)
            if any(seen.is_gone for seen in memory.lan_seen.values()):
                # Its pair may have been made anew: the next look reads where it leads.
                memory.lan_nics = frozenset()
        except (LauncherCallError, NetworkError):
            # The launcher has just ended, which its connection tells, or the kernel is asked again.
            return LAN_SECONDS
        memory.cut_off = tuple(_sentences(vmi, memory))
        for text in memory.cut_off:
            self.events.tell_once(vmi, memory, "NetworkCutOff", text)
        return LAN_SECONDS


def _sentences(vmi: VirtualMachineInstance, memory: PassMemory) -> list[str]:
    said = []
    for index, network in enumerate(vmi.spec.networks):
        seen = memory.lan_seen.get(pod_nic(network.name)) if network.multus is not None else None
        if seen is not None and seen.trouble:
            said.append(f"spec.networks[{index}] ({network.name}): the guest is cut off: {seen.trouble}")
    return said

"""What an operator is told of the networks besides the Pod network: who is cut off, and what was put back.

Called by `lan_ports`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvedge.network.lan.lan_bridges import LanSeen, bridge_trouble
from kvedge.network.lan.lan_plan import lan_ports_of
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.steps import AddBridge, ReplaceTable, SetLink, Step


def lan_troubles(config: NodeNetworkConfig, seen: LanSeen) -> list[str]:
    """Which networks guests are cut off from, each once, in words for the operator."""
    found: dict[str, int] = {}
    for port in lan_ports_of(config, seen.links).values():
        trouble = bridge_trouble(config, seen, port.network)
        if trouble is not None:
            found[str(trouble)] = found.get(str(trouble), 0) + 1
    return [f"{count} guest NICs are cut off: {trouble}" for trouble, count in sorted(found.items())]


def describe_lan(steps: Iterable[Step]) -> list[str]:
    """In words for the log what :func:`plan_lan_healing` found to do."""
    said = []
    # A port that is up goes down to join a bridge, and to wait for its VLAN.
    taken_down = set()
    for step in steps:
        match step:
            case AddBridge(name):
                said.append(f"{name} was gone")
            case SetLink(name, vlan_filtering=True):
                said.append(f"{name} did not keep VLANs apart")
            case SetLink(name, up=False):
                taken_down.add(name)
            case SetLink(name, master=str(master)) if name in taken_down:
                said.append(f"{name} was not on {master}")
            case SetLink(name, up=True) if name not in taken_down:
                said.append(f"{name} was down")
            case ReplaceTable(table):
                said.append(f"table bridge {table.name} was not whole")
    return said

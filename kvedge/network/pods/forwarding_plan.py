"""What becomes of the host's `ip_forward`: when it is switched on and off, and for whom it forwards meanwhile.

Pure; `pod_network_plan` puts the steps into its own. What the setting was is written on the node bridges, as
their alias.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from kvedge.network.link_types import Link
from kvedge.network.nft.nft_tables import Family, Table
from kvedge.network.node_seen import NodeSeen
from kvedge.network.pods.forward_rules import FENCE, fence_keys, fence_table
from kvedge.network.steps import ChangeElements, DeleteTable, ReplaceTable, SetSysctl, Step

IP_FORWARD: Final = "ipv4/ip_forward"
MARK: Final = "kvedge"


def ip_forward_before(bridge: Link) -> str | None:
    """What the host's setting was before the first of our bridges came, as that bridge's alias tells."""
    return read_note(bridge, "ip_forward")


def read_note(bridge: Link, name: str) -> str | None:
    """Read the note of this name from a node bridge's alias; None when there is none."""
    mark, *notes = bridge.alias.split() or [""]
    found = (value for key, _, value in (note.partition("=") for note in notes) if key == name and value)
    return next(found, None) if mark == MARK else None


def original_ip_forward(bridge: str, seen: NodeSeen) -> str:
    """The host's own setting, for a bridge on which it is not written yet: another instance may have switched it on."""
    # The fence stays when somebody deletes the bridge, and is there only where the host does not forward by itself.
    if seen.fenced:
        return "0"
    others = [ip_forward_before(link) for link in seen.links if link.kind == "bridge" and link.name != bridge]
    # Where one link forwards already, the host is a router: it stays one for all, as the kernel forgets for which.
    own = "1" if seen.forwards else seen.ip_forward
    return next((value for value in others if value is not None), own)


def plan_forwarding_back(bridge: str, seen: NodeSeen, before: str | None) -> list[Step]:
    """Forwarding as the host had it `before`, unless somebody else needs it; then nothing needs a fence."""
    if set(node_bridges(bridge, seen)) != {bridge}:
        return []
    steps: list[Step] = []
    if before is not None and before != seen.ip_forward and not seen.foreign_nat:
        steps.append(SetSysctl(IP_FORWARD, before))
    return [*steps, DeleteTable(Family.IP, FENCE)] if seen.fenced else steps


def node_bridges(bridge: str, seen: NodeSeen) -> list[str]:
    """The names of all instances' node bridges, this one's first."""
    others = (link for link in seen.links if link.kind == "bridge" and link.name != bridge)
    return [bridge, *(link.name for link in others if ip_forward_before(link) is not None)]


def links_kept_apart(bridge: str, seen: NodeSeen) -> tuple[str, ...]:
    """The other links with addresses, when the fence keeps them apart; none when there is only one."""
    ours = node_bridges(bridge, seen)
    addressed = {each.link for each in seen.addresses if each.version == 4}
    names = sorted(link.name for link in seen.links if link.index in addressed and link.name not in ("lo", *ours))
    return tuple(names) if seen.fenced and len(names) > 1 else ()


def fence_steps(bridge: str, seen: NodeSeen, whole: Collection[Table]) -> Iterator[Step]:
    """Where kvedge switched forwarding on, and nobody else needs it by now, only our bridges are forwarded for."""
    link = seen.link(bridge)
    before = ip_forward_before(link) if link is not None else None
    if (before or original_ip_forward(bridge, seen)) == "1" or seen.foreign_nat:
        if seen.fenced:
            yield DeleteTable(Family.IP, FENCE)
        return
    ours = node_bridges(bridge, seen)
    keys = fence_keys(ours, [link.name for link in seen.links if link.kind == "bridge" and link.name not in ours])
    if fence_table() in whole:
        # Bridges of others come and go; adding what is there costs less than asking.
        yield ChangeElements(fence_table(), add=keys)
    else:
        yield ReplaceTable(fence_table(), keys)

"""What becomes of the host's forwarding of IPv6: when it is switched on and off, and for whom it forwards meanwhile.

Pure; `pod_network_plan` puts the steps into its own. Beside what `forwarding_plan` does for IPv4, the host stays a
host on its other links: a link that forwards no longer believes routers (`accept_ra`), and a box would lose its own way
out by IPv6. The kernel forwards by its setting for all links, and takes that of each link for how to behave there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from kvedge.network.link_types import Link
from kvedge.network.nft.nft_tables import Family, Table
from kvedge.network.node_seen import NodeSeen
from kvedge.network.pods.forward_rules import FENCE, fence_keys, fence_table
from kvedge.network.pods.forwarding_plan import read_note
from kvedge.network.steps import ChangeElements, DeleteTable, ReplaceTable, SetSysctl, Step

FORWARDING: Final = "ipv6/conf/all/forwarding"
_NOTE: Final = "ipv6_forwarding"
# Values of accept_ra: routers are believed by hosts; by routers, too.
_BELIEVED, _ALWAYS_BELIEVED = "1", "2"


def forwarding_before(bridge: Link) -> str | None:
    """What the host's setting was before the first of our bridges with IPv6 came."""
    return read_note(bridge, _NOTE)


def note(bridge: str, seen: NodeSeen) -> str:
    """The note that is written on a bridge."""
    return f"{_NOTE}={_original(bridge, seen)}"


def plan_forwarding(bridge: str, seen: NodeSeen) -> Iterator[Step]:
    """Switches forwarding on, for the bridge too, which says of itself that it is a router, and leaves each other link
    what it was; nothing where all is so."""
    known = seen.of_ipv6.links
    wanted = [] if seen.of_ipv6.forwarding == "1" else [SetSysctl(FORWARDING, "1")]
    if wanted or bridge not in known or known[bridge].forwarding != "1":
        others = [name for name, each in known.items() if wanted and each.forwarding == "0" and name != bridge]
        wanted += [_forwarding_of(bridge, "1"), *(_forwarding_of(name, "0", others=True) for name in others)]
        yield from _while_all_believe(seen, wanted)


def plan_forwarding_back(bridge: str, seen: NodeSeen, before: str | None) -> Iterator[Step]:
    """Forwarding as the host had it `before`, unless somebody else needs it; then nothing needs a fence."""
    if set(_node_bridges(bridge, seen)) != {bridge}:
        return
    if before == "0" and seen.of_ipv6.forwarding == "1" and not seen.of_ipv6.foreign_nat:
        others = [name for name, each in seen.of_ipv6.links.items() if each.forwarding == "1" and name != bridge]
        wanted = [SetSysctl(FORWARDING, "0"), *(_forwarding_of(name, "1", others=True) for name in others)]
        yield from _while_all_believe(seen, wanted)
    if seen.of_ipv6.fenced:
        yield DeleteTable(Family.IP6, FENCE)


def _while_all_believe(seen: NodeSeen, steps: Collection[Step]) -> Iterator[Step]:
    """Let links believe routers although they forward, as long as the steps run.

    Otherwise the kernel removes the routes that routers have announced, once any link forwards.
    """
    believing = [name for name, each in seen.of_ipv6.links.items() if each.accept_ra == _BELIEVED]
    yield from (SetSysctl(f"ipv6/conf/{name}/accept_ra", _ALWAYS_BELIEVED, others=True) for name in believing)
    yield from steps
    yield from (SetSysctl(f"ipv6/conf/{name}/accept_ra", _BELIEVED, others=True) for name in believing)


def _forwarding_of(link: str, value: str, *, others: bool = False) -> SetSysctl:
    return SetSysctl(f"ipv6/conf/{link}/forwarding", value, others)


def fence_steps(bridge: str, seen: NodeSeen, whole: Collection[Table]) -> Iterator[Step]:
    """Where kvedge switched forwarding on, and nobody else needs it by now, only our bridges are forwarded for."""
    if _original(bridge, seen) == "1" or seen.of_ipv6.foreign_nat:
        if seen.of_ipv6.fenced:
            yield DeleteTable(Family.IP6, FENCE)
        return
    table, ours = fence_table(Family.IP6), _node_bridges(bridge, seen)
    keys = fence_keys(ours, [link.name for link in seen.links if link.kind == "bridge" and link.name not in ours])
    if table in whole:
        yield ChangeElements(table, add=keys)
    else:
        yield ReplaceTable(table, keys)


def _original(bridge: str, seen: NodeSeen) -> str:
    """The host's own setting; another instance may have switched it on."""
    link = seen.link(bridge)
    if link is not None and (before := forwarding_before(link)) is not None:
        return before
    if seen.of_ipv6.fenced:
        return "0"
    noted = (forwarding_before(each) for each in seen.links if each.kind == "bridge" and each.name != bridge)
    return next((value for value in noted if value is not None), seen.of_ipv6.forwarding or "0")


def _node_bridges(bridge: str, seen: NodeSeen) -> list[str]:
    others = (link for link in seen.links if link.kind == "bridge" and link.name != bridge)
    return [bridge, *(link.name for link in others if forwarding_before(link) is not None)]

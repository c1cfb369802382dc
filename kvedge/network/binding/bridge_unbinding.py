"""Gives a Pod's NIC back that a guest has released: bridge, tap, stand-in and guard go, the NIC gets its name back.

Called by the handler, as root on the host. Touches the links and the `kvedge_guard_*` nftables table of that namespace,
and the record file; decides by `bridge_unbinding_plan`.
"""

from __future__ import annotations

from pathlib import Path

from kvedge.network.apply_step import apply_step, pass_over_gone
from kvedge.network.binding.binding_record import forget_record, read_record
from kvedge.network.binding.binding_state import GUARD_PREFIX, Seen, is_touched, names_for
from kvedge.network.binding.bridge_unbinding_plan import plan_unbinding
from kvedge.network.binding.pod_namespace import pod_namespace
from kvedge.network.links import Links
from kvedge.network.netns import NetnsRef, run_in_netns
from kvedge.network.nft.nft_edge import list_tables
from kvedge.network.nft.nft_tables import Family


def unbind_pod_interface(netns: NetnsRef, *, pod_interface: str, index: int, record: Path) -> None:
    """Undo what `bind_pod_interface` made; nothing when nothing is left of it. Raises NetworkError."""
    names = names_for(pod_interface, index)
    where = pod_namespace(netns)

    def unbind() -> None:
        with Links() as links:
            guards = tuple(list_tables(Family.BRIDGE, GUARD_PREFIX))
            seen = Seen(links=tuple(links.list_links()), addresses=(), routes=(), guards=guards, sysctls={})
            remembered = read_record(record) if is_touched(seen, names) else None
            if remembered is not None and remembered.netns != where:
                remembered = None
            for step in plan_unbinding(remembered, seen, names):
                with pass_over_gone():
                    apply_step(links, step)

    run_in_netns(netns, unbind)
    forget_record(record)

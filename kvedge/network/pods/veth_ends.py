"""Whether a pair's two ends belong together: what the host sees of one, and a namespace of the other.

Called by `pod_network` and `lan_ports` in the host's namespace. Reads only.
"""

from __future__ import annotations

from pathlib import Path

from kvedge.network.link_types import Link
from kvedge.network.links import Links
from kvedge.network.netns import is_netns, run_in_netns


def leads_into(port: Link | None, path: Path) -> bool:
    """Whether the port's other end is in the namespace that is at this path now.

    A name may have been given to a new namespace while processes keep the old one, and its pair, alive.
    """
    if port is None or not is_netns(path):
        return False

    def looks_back() -> bool:
        with Links() as links:
            return any(
                link.index == port.peer_index and link.peer_index == port.index and link.kind == "veth"
                for link in links.list_links()
            )

    return run_in_netns(path, looks_back)

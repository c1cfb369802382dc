"""A network namespace that plays the host: for tests that look at all of a host's network and share it with nobody."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import ParamSpec

from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, list_netns, run_in_netns
from kvedge.network.nft.nft_edge import list_tables
from kvedge.network.nft.nft_tables import Family
from kvedge.network.sysctls import read_sysctl, write_sysctl
from tests.support.pod_world import node_config

P = ParamSpec("P")
UPLINK_NETWORK = "192.0.2.0/24"


def on_a_host_of_its_own(test: Callable[P, None]) -> Callable[P, None]:
    """Runs the test in a fresh namespace with an uplink and a default route, as an edge host has them."""

    @functools.wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        name = f"kvhost{os.getpid()}"
        path = create_netns(name)

        def play() -> None:
            # Whatever the machine has.
            write_sysctl("ipv4/ip_forward", "0")
            with Links() as links:
                links.add("uplink", "bridge", mtu=1400)
                links.add_address("uplink", "192.0.2.2", 24)
                links.set("uplink", state="up")
                links.set("lo", state="up")
                links.add_route("0.0.0.0/0", "192.0.2.1", "uplink")
            test(*arguments, **named)

        try:
            run_in_netns(path, play)
        finally:
            delete_netns(name)

    return run


def host_state() -> dict[str, object]:
    """What of the host's network a test could leave changed; namespaces' names as far as they are this run's."""
    with Links() as links:
        names = sorted(link.name for link in links.list_links())
    return {
        "links": names,
        "namespaces": list_netns(node_config().netns_prefix.rstrip("-")),
        "ip_forward": read_sysctl("ipv4/ip_forward"),
        "tables": [name for family in (Family.IP, Family.BRIDGE) for name in list_tables(family, "kv")],
    }

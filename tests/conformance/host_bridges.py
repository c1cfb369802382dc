"""The bridges that KubeVirt's network specs name, made on this machine for the length of a run.

Called by the conformance run. CNI's plugin makes a bridge that is missing; a box joins those that its operator made,
so the run is that operator. What exists already is somebody else's, and is left alone.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NAMES: Final = ("br10", "br11", "br02", "infosrc", "supadupabr")


@contextlib.contextmanager
def host_bridges() -> Iterator[bool]:
    """The bridges, and whether they can tell VLANs apart; those that were made are removed in the end."""
    made = [name for name in NAMES if not Path("/sys/class/net", name).exists()]
    try:
        for name in made:
            subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=True)
            # Addresses of the host's own have no business among guests.
            Path("/proc/sys/net/ipv6/conf", name, "disable_ipv6").write_text("1")
            subprocess.run(["ip", "link", "set", name, "up"], check=True)
        yield all(_filters_vlans(name) for name in NAMES)
    finally:
        for name in made:
            subprocess.run(["ip", "link", "delete", name], check=False)


def _filters_vlans(bridge: str) -> bool:
    switch = Path("/sys/class/net", bridge, "bridge/vlan_filtering")
    try:
        switch.write_text("1")
    except OSError:
        # A kernel without CONFIG_BRIDGE_VLAN_FILTERING.
        return False
    return True

"""dhcpcd, run in the namespace that stands in for the guest; unpacked and not installed, as it would be started."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.support.pod_world import PodWorld
from tests.support.unpacked_packages import unpack_packages

# Its places for leases and its own user are of this machine's: it gets empty ones, and stays root.
_SCRIPT: Final = """
set -e
mount -t tmpfs none /run
mount -t tmpfs none /var/lib
mkdir -p /var/lib/dhcpcd /run/dhcpcd
%(tree)s/usr/sbin/dhcpcd -4 -1 -w -B -t 30 -f %(directory)s/config -c %(directory)s/hook eth0 > %(directory)s/log 2>&1
ip -o addr show eth0 scope global > %(directory)s/addresses
ip route > %(directory)s/routes
"""
_CONFIG: Final = """
option rapid_commit
option domain_name_servers, domain_name, domain_search, host_name, ntp_servers
option classless_static_routes
option interface_mtu
persistent
noarp
"""
_HOOK: Final = """#!/bin/sh
[ "$reason" != BOUND ] || env > %(directory)s/told
"""


def dhcpcd(world: PodWorld, directory: Path) -> dict[str, str]:
    """`addresses` and `routes` as it left them, and what its hook was `told`."""
    tree = unpack_packages("dhcpcd", "dhcpcd-base")
    directory.mkdir()
    (directory / "config").write_text(_CONFIG)
    hook = directory / "hook"
    hook.write_text(_HOOK % {"directory": directory})
    hook.chmod(0o755)
    command = ["unshare", "--mount", "sh", "-c", _SCRIPT % {"directory": directory, "tree": tree}]
    done = world.in_guest(lambda: subprocess.run(command, capture_output=True, text=True, timeout=60, check=False))
    log = directory / "log"
    assert done.returncode == 0, done.stderr + (log.read_text() if log.exists() else "")
    return {name: (directory / name).read_text() for name in ("addresses", "routes", "told")}

"""The IPv6 responder as the launcher runs it, and clients of a guest that speak to it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kvedge.network.binding.router_socket import hand_router_socket, router_of
from kvedge.network.dhcp.ipv6_plan import Ipv6Lease
from kvedge.network.netns import netns_path
from tests.machine.network.dhcp_clients import background_client, call_client, needs
from tests.support.pod_world import QEMU_USER, PodWorld
from tests.support.waiting import wait_until

SERVE = """
import json, logging, sys
from kvedge.network.dhcp.ipv6_plan import Ipv6Lease
from kvedge.network.dhcp.ipv6_server import Ipv6Server
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
given = {key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(sys.argv[1]).items()}
server = Ipv6Server(sys.argv[2], Ipv6Lease(**given))
server.start()
print("ready", flush=True)
sys.stdin.read()
server.stop()
print("stopped", flush=True)
"""
DNS6 = "fd77::53"


def ipv6_lease(world: PodWorld) -> Ipv6Lease:
    """What the guest is to be told, found as the handler finds it: in the node's own namespace."""
    bound = world.bound
    assert bound.ipv6 is not None
    via = bound.ipv6.gateway
    return Ipv6Lease(
        address=bound.ipv6.address,
        server_mac=bound.bridge_mac,
        router=router_of(via, bound.peer_index),
        is_default=bound.ipv6.is_default,
        subnet=bound.ipv6.subnet,
        routes=bound.ipv6.routes,
        dns=(DNS6,),
        search=("svc.example.com", "example.com"),
        mtu=bound.mtu,
    )


@contextmanager
def ipv6_server(world: PodWorld, lease: Ipv6Lease, *, log: Path, handed: bool = True) -> Iterator[int]:
    """The responder as QEMU's user, without a capability, in the Pod's namespace; its process."""
    command = [sys.executable, "-c", SERVE, json.dumps(msgspec.to_builtins(lease)), world.bound.bridge]
    with log.open("wb") as said:
        server = world.in_pod(
            lambda: subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                user=QEMU_USER,
                group=QEMU_USER,
                extra_groups=[],
                cwd=Path(__file__).resolve().parents[3],
            )
        )
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n", log.read_text()
    try:
        if handed:
            hand_router_socket(netns_path(world.pod), world.bound.bridge, server.pid)
        yield server.pid
    finally:
        rest, _ = server.communicate(timeout=60)
        assert rest.endswith("stopped\n"), rest + log.read_text()


class Dhclient6:
    """ISC's client for IPv6; the kernel of its namespace listens to the router's advertisements."""

    SCRIPT = """#!/bin/sh
env > %(out)s/unfinished
mv %(out)s/unfinished %(out)s/told.$reason
[ -z "$new_ip6_address" ] || ip -6 addr replace $new_ip6_address/128 dev eth0
"""

    def __init__(self, world: PodWorld, directory: Path) -> None:
        self._program = needs("dhclient", "isc-dhcp-client")
        self._world = world
        self._directory = directory
        directory.mkdir()
        script = directory / "script"
        script.write_text(self.SCRIPT % {"out": directory})
        script.chmod(0o755)

    def run(self, *arguments: str) -> dict[str, str]:
        """Runs until it has an address, and ends it there; what it was told."""
        at = self._directory
        wait_until(self._has_own_address, "the guest's own link-local address")
        paths = ["-lf", str(at / "leases"), "-pf", str(at / "pid"), "-sf", str(at / "script")]
        with background_client(
            at / "pid", lambda: call_client(self._world, [self._program, "-6", "-x", *paths, "eth0"])
        ):
            call_client(self._world, [self._program, "-6", "-1", "-v", *arguments, *paths, "eth0"])
        reasons = [name for name in ("BOUND6", "REBIND6", "RENEW6") if (at / f"told.{name}").exists()]
        lines = (at / f"told.{reasons[0]}").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def _has_own_address(self) -> bool:
        command = ["ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "link", "-tentative"]
        done = self._world.in_guest(lambda: subprocess.run(command, capture_output=True, text=True, check=True))
        return "fe80" in done.stdout


NETWORKD = """
set -e
mount -t tmpfs none /run/systemd
mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases
cp %(directory)s/eth0.network /run/systemd/network/
chown -R systemd-network /run/systemd/netif /run/systemd/network
# Without udev, as in a container: a read-only /sys tells networkd so.
mount -t sysfs -o ro none /sys
%(program)s 2> %(directory)s/log &
echo $! > %(directory)s/pid
for try in $(seq 500); do
  if ip -6 addr show dev eth0 scope global | grep -q inet6 && ip -6 route show default | grep -q via; then break; fi
  sleep 0.1
done
ip -6 -o addr show dev eth0 scope global > %(directory)s/addresses
ip -6 route > %(directory)s/routes
cat /run/systemd/netif/links/* > %(directory)s/links || true
kill $(cat %(directory)s/pid)
"""
NETWORK_FILE = """
[Match]
Name=eth0
[Network]
DHCP=yes
IPv6AcceptRA=yes
[IPv6AcceptRA]
UseDomains=yes
"""


def networkd6(world: PodWorld, directory: Path) -> dict[str, str]:
    """systemd-networkd, kept to itself: `addresses`, `routes` and `links` as it left them."""
    program = needs("systemd-networkd", "systemd")
    directory.mkdir()
    (directory / "eth0.network").write_text(NETWORK_FILE)
    script = NETWORKD % {"directory": directory, "program": program}
    command = ["unshare", "--mount", "--uts", "sh", "-c", script]
    done = world.in_guest(lambda: subprocess.run(command, capture_output=True, text=True, timeout=60, check=False))
    assert done.returncode == 0, done.stderr
    return {name: (directory / name).read_text() for name in ("addresses", "routes", "links")}

"""A site without a network: a bundle is brought, installed, run, upgraded and removed, and nothing leaves the host.

The host has an uplink that leads nowhere and a resolver beyond it, so that every attempt becomes a packet, and its
nftables count them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.machine.appliance.test_systemd_host import VERSION_FILE, VM, wait_running
from tests.support.altered_program import alter_program
from tests.support.built_program import built_program
from tests.support.guest import build_guest
from tests.support.systemd_host import SystemdHost, missing

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(missing()), reason=missing() or "everything is there"),
]

# Addresses for documentation; a neighbour that is known makes a packet of the first attempt, and whose address is
# nobody's, so that the other end drops what comes.
UPLINK = (
    "ip link add uplink type veth peer name beyond && ip link set uplink up && ip link set beyond up && "
    "ip addr add 192.0.2.2/24 dev uplink && "
    "ip -6 addr add 2001:db8::2/64 dev uplink nodad && ip route add default via 192.0.2.1 dev uplink && "
    "ip -6 route add default via 2001:db8::1 dev uplink && "
    "ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev uplink && "
    "ip neigh add 2001:db8::1 lladdr 02:00:00:00:00:01 dev uplink"
)
# The kernel's own neighbour and multicast chatter is no attempt of anybody's.
RULES = """
table inet airgap {
  set seen { type inet_proto . inet_service; flags dynamic; }
  chain leaving { type filter hook postrouting priority 300;
    oifname != "uplink" accept
    meta l4proto { icmpv6, igmp } accept
    meta l4proto { tcp, udp } add @seen { meta l4proto . th dport }
    counter
  }
}
"""


@pytest.fixture
def host(tmp_path: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdHost]:
    found = SystemdHost(tmp_path_factory.mktemp("host") / "h", f"kvedge-gap-{id(tmp_path) % 100_000}")
    found.make()
    (found.root / "root/kvedge").write_bytes(built_program().read_bytes())
    (found.root / "root/kvedge").chmod(0o755)
    alter_program(built_program(), found.root / "root/newer", {VERSION_FILE: (b"0.1.0", b"0.1.1")})
    shutil.copyfile(build_guest().disk, found.root / "root/guest:1.qcow2")
    (found.root / "root/vms").mkdir()
    (found.root / "root/vms/web.yaml").write_text(VM)
    resolver = found.root / "etc/resolv.conf"
    resolver.unlink(missing_ok=True)
    resolver.write_text("nameserver 192.0.2.53\noptions timeout:1 attempts:1\n")
    found.boot()
    yield found
    found.remove()


def in_network(host: SystemdHost, *command: str, text: str = "") -> str:
    """A command of this machine in the host's network."""
    inside = ["nsenter", "--target", str(host.leader), "--net", *command]
    return subprocess.run(inside, input=text, capture_output=True, text=True, check=True).stdout


def left(host: SystemdHost) -> tuple[int, list[object]]:
    """How many packets have left the host, and to which protocols and ports."""
    items = json.loads(in_network(host, "nft", "-j", "list", "table", "inet", "airgap"))["nftables"]
    rules = [expression for item in items if "rule" in item for expression in item["rule"]["expr"]]
    seen = [element for item in items if "set" in item for element in item["set"].get("elem", [])]
    return sum(expression["counter"]["packets"] for expression in rules if "counter" in expression), seen


def test_nothing_leaves_the_host_from_a_bundle_to_the_removal(host: SystemdHost) -> None:
    in_network(host, "sh", "-ec", UPLINK)
    in_network(host, "nft", "-f", "-", text=RULES)
    create = ["/root/kvedge", "bundle", "create", "/root/site.kvb"]
    host.run(*create, "--image", "/root/guest:1.qcow2", "--manifest", "/root/vms")
    host.run("/root/kvedge", "bundle", "install", "/root/site.kvb")
    host.run("cmp", "/root/kvedge", "/usr/local/bin/kvedge")
    uid = wait_running(host)
    host.run("kvedge", "doctor", "--no-guest", check=False)
    host.run("kvedge", "report", "/root/report.tar.gz")
    host.run("kvedge", "state", "backup", "/root/state.tar.gz")
    assert "upgraded" in host.out("/root/newer", "upgrade")
    assert wait_running(host) == uid
    host.run("kvedge", "uninstall", "--purge", "--grace", "5")
    assert left(host) == (0, [])
    # The counters do count: a lookup, and a connection.
    host.run("getent", "hosts", "kvedge.invalid", check=False)
    host.run("timeout", "1", "bash", "-c", "exec 3<>/dev/tcp/198.51.100.1/443", check=False)
    packets, seen = left(host)
    assert packets >= 2
    assert {"concat": ["udp", 53]} in seen
    assert {"concat": ["tcp", 443]} in seen

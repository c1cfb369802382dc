"""A neighbour on a LAN, with its DHCP server: what a guest's network is to a box that gives no addresses there.

Used by the machine tests, as root.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from kvedge.network.netns import netns_path, run_in_netns


@dataclass(frozen=True)
class Neighbour:
    """A namespace at the other end of a NIC's cable; what is run there."""

    netns: str
    nic: str

    def page(self, url: str) -> str:
        """A page, as a client there gets it; empty when there is none."""
        return run_in_netns(netns_path(self.netns), lambda: fetch(url))

    def hears(self, mac: str) -> bool:
        """Whether the guest with this MAC answers by IPv6, at the address that follows from it."""
        asks = ["busybox", "ping6", "-c", "1", "-W", "3", "-I", "eth0", link_local(mac)]
        command = ["ip", "netns", "exec", self.netns, *asks]
        return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0


@contextmanager
def neighbour(nic: str, address: str, pool: str, directory: Path) -> Iterator[Neighbour]:
    """A NIC `nic` of the host, and at its other end a host of this address that gives one of `pool`."""
    found = Neighbour(f"{nic}-peer", nic)
    _ip("netns", "add", found.netns)
    try:
        _ip("link", "add", nic, "type", "veth", "peer", "name", "eth0", "netns", found.netns)
        _ip("link", "set", nic, "up")
        for command in (("addr", "add", f"{address}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
            _ip("-n", found.netns, *command)
        with dhcp_server("eth0", pool, directory, ["ip", "netns", "exec", found.netns]):
            yield found
    finally:
        subprocess.run(["ip", "link", "del", nic], check=False)
        _ip("netns", "del", found.netns)


@contextmanager
def dhcp_server(link: str, pool: str, directory: Path, before: Sequence[str] = ()) -> Iterator[None]:
    """A DHCP server on a link, of the one address that ends in 50; `before` is put before its command."""
    directory.mkdir(exist_ok=True)
    leases, settings = directory / f"{pool}.leases", directory / f"{pool}.conf"
    leases.touch()
    settings.write_text(
        f"start {pool}.50\nend {pool}.50\ninterface {link}\nlease_file {leases}\npidfile {directory / pool}.pid\n"
        "option subnet 255.255.255.0\noption lease 3600\n"
    )
    with subprocess.Popen([*before, "busybox", "udhcpd", "-f", str(settings)], stderr=subprocess.DEVNULL) as server:
        try:
            yield
        finally:
            server.terminate()


@contextmanager
def host_bridge(name: str, address: str = "198.51.100.1") -> Iterator[None]:
    """A bridge of the host's own, with this address."""
    for command in (
        ("link", "add", name, "type", "bridge", "mcast_snooping", "0"),
        ("addr", "add", f"{address}/24", "dev", name),
        ("link", "set", name, "up"),
    ):
        subprocess.run(["ip", *command], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "link", "del", name], check=True)


def fetch(url: str) -> str:
    """A page, asked for without a proxy; empty when there is none."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as answer:
            return str(answer.read(65536).decode())
    except OSError:
        return ""


def links_on(nic: str) -> tuple[int, list[str]]:
    """How many need all groups of a NIC, and the namespaces that have links on it."""
    shown = subprocess.run(["ip", "-j", "-d", "link", "show", nic], capture_output=True, text=True, check=True).stdout
    (link,) = json.loads(shown)
    spaces = subprocess.run(["ip", "-j", "netns"], capture_output=True, text=True, check=True).stdout or "[]"
    having = []
    for space in json.loads(spaces):
        command = ["ip", "-n", space["name"], "-j", "-d", "link", "show", "type", "macvtap"]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout or "[]")
        having += [space["name"] for each in found if each and each.get("link_index") == link["ifindex"]]
    return link.get("allmulti", 0), having


def link_local(mac: str) -> str:
    """The IPv6 address that a link of this MAC gives itself."""
    octets = bytes.fromhex(mac.replace(":", ""))
    identifier = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    return str(IPv6Address(b"\xfe\x80" + bytes(6) + identifier))


def _ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True)

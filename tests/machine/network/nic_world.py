"""A host with a NIC that carries its addresses, and the LAN behind it: two namespaces and a veth between them."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, run_in_netns
from kvedge.network.sysctls import write_sysctl
from tests.support.pictures import ip_json

NIC, BRIDGE = "eth0", "kvb-eth0"
HOST, HOST6, SECOND = "192.0.2.2", "2001:db8::2", "192.0.2.3"
GATEWAY, GATEWAY6 = "192.0.2.1", "2001:db8::1"
FAR = "203.0.113.7"


class NicWorld:
    """The two namespaces; `journal` is a directory for records."""

    def __init__(self, host: Path, lan: Path, journal: Path) -> None:
        self.host, self.lan, self.journal = host, lan, journal

    def state(self) -> dict[str, object]:
        """What of the host's network must be as it was after a way there and back."""
        name = self.host.name
        addresses = [
            (link["ifname"], [(a["local"], a["prefixlen"], a["scope"], a.get("label")) for a in link["addr_info"]])
            for link in ip_json(name, "address", "show")
        ]
        routes = [
            sorted(
                (r["dst"], r.get("gateway", ""), r["dev"], r.get("table", ""), r.get("metric", 0), r["protocol"])
                for r in ip_json(name, family, "route", "show", "table", "all")
                if r["type"] == "unicast"
            )
            for family in ("-4", "-6")
        ]
        return {"addresses": addresses, "routes": routes}


@contextmanager
def nic_world(directory: Path) -> Iterator[NicWorld]:
    """Made and removed."""
    names = [f"dnic{letter}{os.getpid()}" for letter in "hl"]
    host, lan = (create_netns(name) for name in names)
    try:
        run_in_netns(lan, lambda: _lan(host))
        run_in_netns(host, _host)
        yield NicWorld(host, lan, directory / "nics")
    finally:
        for name in names:
            delete_netns(name)


def _lan(host: Path) -> None:
    with Links() as links:
        links.set("lo", state="up")
        links.add_address("lo", FAR, 32)
        links.add_veth("lan", NIC, host, peer_mac="52:54:00:00:0d:01", mtu=1450)
        links.add_address("lan", GATEWAY, 24)
        links.set("lan", state="up")
        _at_once("lan", GATEWAY6)


def _host() -> None:
    with Links() as links:
        links.set("lo", state="up")
        links.set(NIC, state="up")
        links.add_address(NIC, HOST, 24)
        links.add_address(NIC, SECOND, 24)
    _at_once(NIC, HOST6)
    write_sysctl(f"ipv4/conf/{NIC}/rp_filter", "1")
    for words in (
        ("route", "add", "default", "via", GATEWAY, "dev", NIC, "metric", "100", "src", HOST),
        ("route", "add", "default", "via", "192.0.2.9", "dev", NIC, "metric", "600"),
        ("route", "add", "198.51.100.0/24", "dev", NIC, "scope", "link"),
        ("route", "add", "10.77.0.0/16", "via", GATEWAY, "dev", NIC, "table", "77", "proto", "boot"),
        ("-6", "route", "add", "default", "via", GATEWAY6, "dev", NIC, "metric", "1024"),
    ):
        subprocess.run(["ip", *words], check=True)


def _at_once(link: str, address: str) -> None:
    """An address of IPv6 that nobody is asked about."""
    subprocess.run(["ip", "address", "add", f"{address}/64", "dev", link, "nodad"], check=True)


class Talk:
    """One TCP connection from the LAN to the host, which echoes; it lives through what happens to the NIC."""

    def __init__(self, world: NicWorld, address: str = HOST) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._server = run_in_netns(world.host, lambda: socket.create_server((address, 0), family=family))
        port = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._echo, name="echo", daemon=True)
        self._thread.start()
        self._client = run_in_netns(world.lan, lambda: socket.create_connection((address, port), 10))
        self._client.settimeout(10)

    def says(self, word: bytes) -> None:
        """A word goes there and comes back."""
        self._client.sendall(word)
        assert self._client.recv(len(word), socket.MSG_WAITALL) == word

    def close(self) -> None:
        """End it."""
        self._client.close()
        self._thread.join(10)
        self._server.close()

    def _echo(self) -> None:
        connection, _ = self._server.accept()
        with connection, suppress(OSError):
            while data := connection.recv(4096):
                connection.sendall(data)

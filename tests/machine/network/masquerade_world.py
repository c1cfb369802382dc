"""A Pod as a CNI leaves it, its neighbour, and a guest that is masqueraded behind it, of real namespaces and links.

The neighbour is the other end of the Pod's link, and so its gateway. The guest is a namespace whose `eth0` hangs on the
bridge under the name of the tap, which QEMU would open: what is heard from it is what would be heard from QEMU. Nothing
of the host's own network is touched.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kvedge.network.binding.bound_interface import BoundInterface
from kvedge.network.binding.masquerade_binding import masquerade_pod_interface
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, netns_path, run_in_netns
from kvedge.network.sysctls import write_sysctl
from kvedge.resources.masquerade import DEFAULT_CIDR, DEFAULT_IPV6_CIDR, parse_guest_subnet

T = TypeVar("T")

GUEST_MAC: Final = "52:54:00:99:00:01"
POD: Final = {4: ("10.203.5.2", 24), 6: ("fd5a:5::2", 64)}
NEIGHBOUR: Final = {4: "10.203.5.1", 6: "fd5a:5::1"}
GUEST: Final = {4: "10.0.2.2", 6: "fd10:0:2::2"}
ROUTER: Final = {4: "10.0.2.1", 6: "fd10:0:2::1"}
LENGTH: Final = {4: 24, 6: 120}
EVERYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}
SUBNETS: Final = {4: parse_guest_subnet(DEFAULT_CIDR, 4), 6: parse_guest_subnet(DEFAULT_IPV6_CIDR, 6)}


@dataclass
class MasqueradeWorld:
    """`neighbour`, `pod` and `guest` name namespaces; `versions` are the IP versions that the Pod has."""

    versions: tuple[int, ...] = (4, 6)
    ports: frozenset[tuple[int, int]] = frozenset()
    ranges: frozenset[tuple[int, int, int]] = frozenset()
    meshed: bool = False
    # Whether the guest has its addresses, as if DHCP had told it.
    told: bool = True
    mtu: int = 1450
    mark: str = field(default_factory=lambda: f"kvq{os.getpid() % 100000}")
    bound: BoundInterface | None = None

    @property
    def neighbour(self) -> str:
        """Who is on the Pod's link."""
        return f"{self.mark}-n"

    @property
    def pod(self) -> str:
        """The Pod's namespace."""
        return f"{self.mark}-p"

    @property
    def guest(self) -> str:
        """The guest's."""
        return f"{self.mark}-g"

    def bind(self) -> BoundInterface:
        """As the handler does at each pass."""
        return masquerade_pod_interface(
            netns_path(self.pod),
            guest_mac=GUEST_MAC,
            subnets=SUBNETS,
            ports=self.ports,
            ranges=self.ranges,
            meshed=self.meshed,
        )

    def inside(self, netns: str, work: Callable[[], T]) -> T:
        """Works in that namespace."""
        return run_in_netns(netns_path(netns), work)

    def run(self, netns: str, *command: str, seconds: float = 30.0) -> subprocess.CompletedProcess[str]:
        """Runs a program there."""
        return self.inside(
            netns,
            lambda: subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds),
        )

    def make_pod(self) -> None:
        """The Pod and its neighbour, and no guest."""
        for name in (self.neighbour, self.pod, self.guest):
            create_netns(name)

        def pair() -> None:
            with Links() as links:
                links.add_veth("eth0", "eth0", netns_path(self.neighbour), peer_mac="52:54:00:99:00:0a", mtu=self.mtu)
                links.set("eth0", address="52:54:00:99:00:0b")

        self.inside(self.pod, pair)
        self.inside(self.neighbour, lambda: _configure({v: (NEIGHBOUR[v], POD[v][1]) for v in self.versions}))
        self.inside(self.pod, lambda: _configure({v: POD[v] for v in self.versions}, NEIGHBOUR))

    def plug_guest(self) -> None:
        """The guest in the place of QEMU."""

        def plug() -> None:
            with Links() as links:
                links.delete("tap0")
                links.add_veth("tap0", "eth0", netns_path(self.guest), peer_mac=GUEST_MAC, mtu=self.mtu)
                links.set("tap0", state="up")
                links.enslave("tap0", "k6t-eth0")
                links.set_port("tap0", learning=0)
            write_sysctl("ipv6/conf/tap0/disable_ipv6", "1")

        self.inside(self.pod, plug)
        addresses = {version: (GUEST[version], LENGTH[version]) for version in self.versions} if self.told else {}
        self.inside(self.guest, lambda: _configure(addresses, ROUTER))


def _configure(addresses: dict[int, tuple[str, int]], gateways: dict[int, str] | None = None) -> None:
    # Nobody else is there: an address is used at once.
    write_sysctl("ipv6/conf/eth0/accept_dad", "0")
    with Links() as links:
        for name in ("lo", "eth0"):
            links.set(name, state="up")
        for version, (address, length) in addresses.items():
            links.add_address("eth0", address, length)
            if gateways is not None:
                links.add_route(EVERYWHERE[version], gateways[version], "eth0")


@contextmanager
def masquerade_world(**given: object) -> Iterator[MasqueradeWorld]:
    """A bound Pod with its guest; nothing of it is left in the end."""
    world = MasqueradeWorld(**given)  # type: ignore[arg-type]
    try:
        world.make_pod()
        world.bound = world.bind()
        world.plug_guest()
        yield world
    finally:
        for name in (world.guest, world.pod, world.neighbour):
            delete_netns(name)

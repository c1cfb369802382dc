"""Where a Pod's router is found, and who is let in at a launcher's door."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress

import pytest

from kvedge.network.binding.router_socket import find_router, passing_only, router_of
from kvedge.network.dhcp import router_door
from kvedge.network.dhcp.router_door import hand_over, open_door, take_over
from kvedge.network.link_types import Address, Link

GATEWAY = "fd00::1"


def link(index: int, master: int = 0) -> Link:
    return Link(index=index, name=f"l{index}", kind="veth", mac="", mtu=1500, up=True, master=master)


def having(index: int, *, gateway: bool = True) -> list[Address]:
    """A link's own address and, perhaps, the gateway's."""
    own = Address(index, f"fe80::{index}", 64, 6)
    return [own, Address(index, GATEWAY, 64, 6)] if gateway else [own]


def test_the_gateway_is_the_bridge_that_the_pods_link_is_a_port_of() -> None:
    links = [link(2), link(5, master=2), link(9)]
    addresses = [*having(2), *having(5, gateway=False), *having(9)]
    assert find_router(GATEWAY, 5, links, addresses) == "fe80::2"


def test_of_many_links_with_one_gateway_the_pods_own_end_is_meant() -> None:
    assert find_router(GATEWAY, 7, [link(3), link(7)], [*having(3), *having(7)]) == "fe80::7"


def test_a_gateway_that_only_one_link_has_is_that_links() -> None:
    assert find_router(GATEWAY, 0, [link(3)], having(3)) == "fe80::3"


def test_a_gateway_elsewhere_is_not_known() -> None:
    assert find_router(GATEWAY, 7, [link(7)], having(7, gateway=False)) == ""
    assert find_router(GATEWAY, 0, [link(3), link(4)], [*having(3), *having(4)]) == ""


@pytest.mark.parametrize("gateway", ["", "fe80::ecee:eeff:feee:eeee"])
def test_a_link_local_gateway_is_itself_the_router(gateway: str) -> None:
    assert router_of(gateway, 7) == gateway


def test_the_filter_passes_one_type_of_message() -> None:
    words = passing_only(133)
    assert [number for number in range(256) if not words[number // 8] & 1 << number % 8] == [133]


@pytest.fixture
def bridge() -> str:
    return f"kvt{os.getpid()}"


def visited(door: socket.socket, bridge: str, given: socket.socket) -> socket.socket | None:
    """What is taken over when the handler comes with that; it may be sent away before it has given it."""

    def visit() -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            hand_over(bridge, given, os.getpid())

    door.setblocking(True)
    visitor = threading.Thread(target=visit)
    visitor.start()
    try:
        return take_over(door)
    finally:
        visitor.join()


def test_only_a_raw_socket_is_taken(bridge: str) -> None:
    with open_door(bridge) as door, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
        assert visited(door, bridge, other) is None


def test_only_root_is_let_in(bridge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_door, "ROOT", os.geteuid() + 1)
    with open_door(bridge) as door, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
        assert visited(door, bridge, other) is None


def test_a_visitor_with_nothing_is_sent_away(bridge: str) -> None:
    with open_door(bridge) as door, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as visitor:
        visitor.connect(router_door.door_name(bridge))
        visitor.close()
        assert take_over(door) is None
        assert take_over(door) is None


def test_nothing_is_handed_to_a_process_that_is_not_the_launcher(bridge: str) -> None:
    with (
        open_door(bridge),
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as given,
        pytest.raises(ConnectionRefusedError),
    ):
        hand_over(bridge, given, os.getpid() + 1)

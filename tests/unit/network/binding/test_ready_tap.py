"""The link that a CNI plugin has made for a guest."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from kvedge.network.binding import ready_tap as module
from kvedge.network.binding.binding_state import names_for
from kvedge.network.binding.ready_tap import find_tap, ready_tap
from kvedge.network.errors import NetworkError, UnsuitablePodError
from kvedge.network.link_types import Address, Link

NAMES = names_for("pod0123456789a", 1)
MAC = "52:54:00:00:00:07"


def link(name: str, kind: str, index: int = 2) -> Link:
    return Link(index=index, name=name, kind=kind, mac="02:00:00:00:00:01", mtu=1450, up=True, carrier=True)


def test_a_tap_of_our_name_is_the_guests_and_the_pods_nic_says_what_it_is_known_by() -> None:
    links = [link("pod0123456789a", "veth"), link("tap0123456789a", "tun", 3)]
    addresses = [Address(2, "10.9.0.7", 24), Address(2, "fe80::7", 64, 6), Address(1, "127.0.0.1", 8)]
    found = find_tap(links, addresses, NAMES, "")
    assert (found.tap, found.bridge, found.mac, found.mtu) == ("tap0123456789a", "", "02:00:00:00:00:01", 1450)
    assert (found.pod_addresses, found.address) == (("10.9.0.7",), "")


def test_without_one_the_pods_nic_is_the_guests_link_itself() -> None:
    found = find_tap([link("pod0123456789a", "macvtap")], [], NAMES, MAC)
    assert (found.tap, found.mac) == ("pod0123456789a", MAC)


def test_a_link_that_qemu_cannot_open_is_refused_with_a_remedy() -> None:
    with pytest.raises(UnsuitablePodError, match=r"it is veth, which QEMU cannot open.*managedTap"):
        find_tap([link("pod0123456789a", "veth")], [], NAMES, MAC)


def test_a_link_that_nobody_has_made_is_waited_for() -> None:
    with pytest.raises(NetworkError, match="no such interface, and no tap0123456789a"):
        find_tap([link("eth0", "veth")], [], NAMES, MAC)


@pytest.mark.parametrize(("asked", "mac"), [(True, MAC), (False, "02:00:00:00:00:01")], ids=["asked for", "the NIC's"])
def test_a_macvtap_its_guard_and_the_guest_have_one_mac(monkeypatch: pytest.MonkeyPatch, asked: bool, mac: str) -> None:
    seen = [link("pod0123456789a", "veth"), Link(3, "tap0123456789a", "macvtap", "02:00:00:00:00:03", 1450, up=False)]
    links = SimpleNamespace(list_links=lambda: seen, list_addresses=list)
    made: list[str] = []
    monkeypatch.setattr(module, "Links", lambda: nullcontext(links))
    monkeypatch.setattr(module, "pod_namespace", lambda netns: None)
    monkeypatch.setattr(module, "run_in_netns", lambda netns, work: work())
    monkeypatch.setattr(module, "prepare_macvtap", lambda _links, _link, guest_mac: made.append(guest_mac))
    bound = ready_tap(7, guest_mac=MAC, asked_mac=asked, pod_interface="pod0123456789a", index=1)
    assert (bound.mac, made) == (mac, [mac])

"""Which binding an interface gets, and what of its VMI that is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.handler.guest import nic_binding
from kvedge.handler.guest.nic_binding import bind_nic
from kvedge.network.binding.bound_interface import BoundInterface
from kvedge.network.errors import UnsuitablePodError
from kvedge.resources.configuration.configuration import BindingPlugin
from kvedge.resources.masquerade import INJECT_SIDECAR, GuestSubnet
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import bridged, vmi_with

BOUND = BoundInterface(tap="tap0", bridge="k6t-eth0", mac="52:54:00:00:00:07", mtu=1500)
TCP, UDP = 6, 17


def masqueraded(network: dict[str, str] | None = None, **interface: object) -> dict[str, Any]:
    nic = {"name": "default", "masquerade": {}, "macAddress": "52:54:00:00:00:07", **interface}
    return {"domain": {"devices": {"interfaces": [nic]}}, "networks": [{"name": "default", "pod": network or {}}]}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the doors of both bindings were told."""
    found: dict[str, Any] = {}

    def door(kind: str) -> Any:
        def bind(netns: int, **given: Any) -> BoundInterface:
            found.update({"kind": kind, "netns": netns, **given})
            return BOUND

        return bind

    monkeypatch.setattr(nic_binding, "bind_pod_interface", door("bridge"))
    monkeypatch.setattr(nic_binding, "ready_tap", door("tap"))
    monkeypatch.setattr(nic_binding, "passt_pod_interface", door("passt"))
    monkeypatch.setattr(nic_binding, "sidecar_pod_interface", door("sidecar"))
    monkeypatch.setattr(nic_binding, "masquerade_pod_interface", door("masquerade"))
    return found


def bind(vmi: VirtualMachineInstance, directory: Path) -> BoundInterface:
    return bind_nic(vmi, (0, vmi.spec.domain.devices.interfaces[0], "eth0"), 7, directory)


def test_a_bridge_is_a_bridge_with_its_record(told: dict[str, Any], tmp_path: Path) -> None:
    assert bind(vmi_with(bridged()), tmp_path) == BOUND
    assert (told["kind"], told["netns"], told["record"]) == ("bridge", 7, tmp_path / "default.json")
    assert told["serves"]


def passed(**interface: object) -> VirtualMachineInstance:
    nic = {"name": "default", "passtBinding": {}, "macAddress": "52:54:00:00:00:07", **interface}
    return vmi_with({"domain": {"devices": {"interfaces": [nic]}}, "networks": [{"name": "default", "pod": {}}]})


def test_passt_speaks_from_the_pods_nic(told: dict[str, Any], tmp_path: Path) -> None:
    assert bind(passed(), tmp_path) == BOUND
    assert told == {"kind": "passt", "netns": 7, "guest_mac": "52:54:00:00:00:07", "pod_interface": "eth0"}


@pytest.mark.parametrize(
    ("ports", "all_ports", "tcp", "udp"),
    [
        ([], True, [], []),
        ([{"port": 80}, {"port": 22, "protocol": "TCP"}, {"port": 80, "name": "again"}], False, [22, 80], []),
        ([{"port": 53, "protocol": "UDP"}], False, [], [53]),
    ],
    ids=["none listed", "TCP", "UDP"],
)
def test_the_launcher_is_told_which_ports_passt_leads_to_the_guest(
    ports: list[dict[str, object]], all_ports: bool, tcp: list[int], udp: list[int]
) -> None:
    vmi = passed(ports=ports)
    asked = nic_binding.passt_message(vmi, vmi.spec.domain.devices.interfaces[0], "eth0")
    assert (asked.nic, asked.all_ports, list(asked.tcp), list(asked.udp)) == ("eth0", all_ports, tcp, udp)
    assert list(asked.kept) == []
    vmi.metadata.annotations[INJECT_SIDECAR] = "true"
    assert 15001 in nic_binding.passt_message(vmi, vmi.spec.domain.devices.interfaces[0], "eth0").kept


def plugged(**interface: object) -> VirtualMachineInstance:
    nic = {"name": "default", "binding": {"name": "site"}, **interface}
    return vmi_with({"domain": {"devices": {"interfaces": [nic]}}, "networks": [{"name": "default", "pod": {}}]})


@pytest.mark.parametrize(
    ("attachment", "mac", "kind", "word"),
    [
        ("managedTap", {}, "bridge", ("serves", False)),
        ("tap", {}, "tap", ("asked_mac", False)),
        ("tap", {"macAddress": "52:54:00:00:00:07"}, "tap", ("asked_mac", True)),
    ],
    ids=["managed tap", "tap", "tap and a MAC"],
)
def test_a_plugin_is_bound_as_the_kubevirt_object_says(
    told: dict[str, Any], tmp_path: Path, attachment: str, mac: dict[str, str], kind: str, word: tuple[str, bool]
) -> None:
    vmi, plugins = plugged(**mac), {"site": BindingPlugin(attachment)}
    assert bind_nic(vmi, (0, vmi.spec.domain.devices.interfaces[0], "eth0"), 7, tmp_path, plugins) == BOUND
    assert (told["kind"], told[word[0]]) == (kind, word[1])


def test_an_interface_that_a_sidecar_makes_is_looked_at_and_left(told: dict[str, Any], tmp_path: Path) -> None:
    vmi, plugins = plugged(macAddress="52:54:00:00:00:07"), {"site": BindingPlugin("", sidecar_image="site:1")}
    assert bind_nic(vmi, (0, vmi.spec.domain.devices.interfaces[0], "eth0"), 7, tmp_path, plugins) == BOUND
    assert told == {"kind": "sidecar", "netns": 7, "guest_mac": "52:54:00:00:00:07", "pod_interface": "eth0"}


def test_a_plugin_that_nobody_has_configured_is_told_with_its_field(told: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UnsuitablePodError, match=r"no network binding plugin site.*configuration\.network\.binding"):
        bind(plugged(), tmp_path)
    assert told == {}


def test_masquerade_is_told_of_the_guests_networks_and_ports(told: dict[str, Any], tmp_path: Path) -> None:
    ports = [{"port": 80}, {"port": 53, "protocol": "UDP"}, {"port": 443, "protocol": "TCP", "name": "https"}]
    assert bind(vmi_with(masqueraded({"vmNetworkCIDR": "10.9.0.0/24"}, ports=ports)), tmp_path) == BOUND
    assert (told["kind"], told["guest_mac"], told["meshed"]) == ("masquerade", "52:54:00:00:00:07", False)
    assert told["ports"] == {(TCP, 80), (UDP, 53), (TCP, 443)}
    assert told["subnets"] == {
        4: GuestSubnet("10.9.0.1", "10.9.0.2", 24),
        6: GuestSubnet("fd10:0:2::1", "fd10:0:2::2", 120),
    }
    assert list(tmp_path.iterdir()) == []


def test_masquerade_is_told_of_a_sidecar(told: dict[str, Any], tmp_path: Path) -> None:
    bind(vmi_with(masqueraded(), annotations={INJECT_SIDECAR: "true"}), tmp_path)
    assert told["meshed"] is True


def test_a_guest_network_that_nobody_refused_ends_the_vmi_with_its_reason(told: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UnsuitablePodError, match="at least 2 host addresses"):
        bind(vmi_with(masqueraded({"vmNetworkCIDR": "10.9.0.0/32"})), tmp_path)
    assert told == {}

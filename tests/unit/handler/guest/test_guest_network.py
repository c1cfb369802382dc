"""What a guest is told of its network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from kvedge.handler.guest.guest_network import (
    LEASE_SECONDS,
    LEASE_SECONDS_WITHOUT_DNS,
    GuestNetwork,
    hostname,
    interface_message,
    parse_resolv_conf,
    search_of,
)
from kvedge.handler.held_process import HeldProcess
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.run.dhcp_responders import ipv6_lease_of
from kvedge.network.binding.bound_interface import BoundInterface, GuestIpv6
from kvedge.network.binding.macvtap_binding import TapDevice
from kvedge.network.dhcp.dhcp_plan import Route
from kvedge.network.dhcp.ipv6_plan import Ipv6Lease
from kvedge.resources.configuration.configuration import BindingPlugin, Configuration
from kvedge.resources.identity import guest_mac
from kvedge.resources.types.devices import EmptyBinding, Interface, PluginBinding
from kvedge.resources.types.guest_nics import interface_mac, pod_interfaces
from kvedge.resources.types.pod_networks import pod_nic
from kvedge.resources.types.vmi import DOMAIN_SOURCE, InterfaceStatus, VirtualMachineInstance
from tests.support.builders import bridged, owned_by, vmi_with


def vmi(interface: dict[str, object] | None = None, owner: str | None = None, **spec: object) -> VirtualMachineInstance:
    owners = [owned_by("VirtualMachine", "web", owner)] if owner else []
    named = {"name": "web.example", "namespace": "", "uid": "vmi-uid"}
    return vmi_with({**bridged(**(interface or {})), **spec}, **named, ownerReferences=owners)


def test_a_mac_that_was_asked_for_is_given() -> None:
    found = vmi({"macAddress": "52-54-00-AA-BB-CC"})
    assert interface_mac(found, found.spec.domain.devices.interfaces[0]) == "52:54:00:aa:bb:cc"


def test_a_mac_belongs_to_the_vm_and_not_to_its_run() -> None:
    found = vmi(owner="vm-uid")
    assert interface_mac(found, found.spec.domain.devices.interfaces[0]) == guest_mac("vm-uid", "default")
    alone = vmi()
    assert interface_mac(alone, alone.spec.domain.devices.interfaces[0]) == guest_mac("vmi-uid", "default")


def test_each_vmi_of_a_replica_set_has_a_mac_of_its_own() -> None:
    owners = [owned_by("VirtualMachineInstanceReplicaSet", "web", "set-uid")]
    found = vmi_with(bridged(), name="web1", namespace="", uid="vmi-uid", ownerReferences=owners)
    assert interface_mac(found, found.spec.domain.devices.interfaces[0]) == guest_mac("vmi-uid", "default")


def test_a_guest_keeps_its_mac_when_a_vm_takes_it_over() -> None:
    alone, taken_over = vmi(), vmi(owner="vm-uid")
    mac = interface_mac(alone, alone.spec.domain.devices.interfaces[0])
    taken_over.status.interfaces = [InterfaceStatus(name="other", mac="52:54:00:00:00:01"), InterfaceStatus(mac=mac)]
    interface = taken_over.spec.domain.devices.interfaces[0]
    assert interface_mac(taken_over, interface) == guest_mac("vm-uid", "default")
    taken_over.status.interfaces.append(InterfaceStatus(name="default", mac=mac))
    assert interface_mac(taken_over, interface) == mac
    interface.mac_address = "52:54:00:AA:BB:CC"
    assert interface_mac(taken_over, interface) == "52:54:00:aa:bb:cc"


def test_the_host_name_is_the_one_asked_for_or_the_first_part_of_the_name() -> None:
    assert hostname(vmi()) == "web"
    assert hostname(vmi(hostname="shop")) == "shop"


def test_only_what_is_on_the_pod_network_is_bound() -> None:
    assert [index for index, _ in pod_interfaces(vmi())] == [0]
    assert pod_interfaces(vmi(networks=[{"name": "default", "multus": {"networkName": "lan"}}])) == []


def test_a_resolver_on_the_loopback_is_of_no_use_to_a_guest() -> None:
    found = parse_resolv_conf(
        "# made by x\nnameserver 127.0.0.53\nnameserver 10.0.0.1\nnameserver ::1\nnameserver fd00::a\n"
        "nameserver fe80::1%eth0\nnameserver fe80::1\nnameserver nonsense\nsearch a.b c.d\n"
    )
    assert (found.nameservers, found.ipv6_nameservers) == (("10.0.0.1",), ("fd00::a",))
    assert found.search == ("a.b", "c.d")


def test_the_lease_carries_what_the_interface_and_the_pod_say() -> None:
    options = {
        "ntpServers": ["010.0.0.09"],
        "bootFileName": "ipxe.efi",
        "tftpServerName": "tftp.example",
        "privateOptions": [{"option": 240, "value": "x"}],
    }
    found = vmi({"dhcpOptions": options})
    bound = BoundInterface(
        tap="tap0",
        bridge="k6t-eth0",
        mac="02:00:00:00:00:01",
        mtu=1400,
        address="10.99.0.5",
        prefix_length=24,
        gateway="10.99.0.1",
        routes=(Route("10.1.0.0/16", "10.99.0.7"),),
        server="169.254.75.10",
    )
    resolver = parse_resolv_conf("nameserver 010.0.0.1\nsearch svc.cluster.local longer.svc.cluster.local\n")
    message = interface_message(found, found.spec.domain.devices.interfaces[0], bound, resolver)
    lease = message.dhcp
    assert (message.tap, message.bridge, message.mtu) == ("tap0", "k6t-eth0", 1400)
    assert (lease.address, lease.prefix_length, lease.gateway, lease.server) == (
        "10.99.0.5",
        24,
        "10.99.0.1",
        "169.254.75.10",
    )
    assert [(route.destination, route.gateway) for route in lease.routes] == [("10.1.0.0/16", "10.99.0.7")]
    assert (list(lease.dns), list(lease.ntp), lease.tftp_server, lease.boot_file) == (
        ["10.0.0.1"],
        ["10.0.0.9"],
        "tftp.example",
        "ipxe.efi",
    )
    assert (dict(lease.private_options), lease.hostname, lease.domain) == (
        {240: "x"},
        "web",
        "longer.svc.cluster.local",
    )


@pytest.mark.parametrize(
    ("subdomain", "search", "expected"),
    [
        ("db", "default.svc.cluster.local svc.cluster.local", "db.default.svc.cluster.local"),
        ("", "default.svc.cluster.local", "default.svc.cluster.local"),
        ("db", "default.svc", "db.default.svc"),
        # Nobody knows names below these.
        ("db", "default.svcs.example lan", "default.svcs.example"),
        ("db", "db.default.svc.x default.svc.x", "db.default.svc.x"),
    ],
    ids=["in a cluster", "without", "without a cluster domain", "no cluster's", "there already"],
)
def test_a_vms_subdomain_is_searched_first(subdomain: str, search: str, expected: str) -> None:
    found = vmi()
    found.metadata.namespace, found.spec.subdomain = "default", subdomain
    resolver = parse_resolv_conf(f"search {search}\n")
    assert search_of(found, resolver)[0] == expected
    assert set(resolver.search) <= set(search_of(found, resolver))
    assert len(search_of(found, resolver)) == len(set(search_of(found, resolver)))


@pytest.mark.parametrize(
    ("resolv_conf", "seconds"),
    [
        ("nameserver 10.0.0.1\n", LEASE_SECONDS),
        ("nameserver fd00::53\n", LEASE_SECONDS),
        ("nameserver 127.0.0.53\n", LEASE_SECONDS_WITHOUT_DNS),
        ("", LEASE_SECONDS_WITHOUT_DNS),
    ],
    ids=["one", "one of IPv6", "the stub of another", "none"],
)
def test_a_guest_that_is_told_no_name_server_asks_again_sooner(resolv_conf: str, seconds: int) -> None:
    found = vmi()
    bound = BoundInterface(tap="tap0", bridge="k6t-eth0", mac="02:00:00:00:00:01", mtu=1500, address="10.99.0.5")
    interface = found.spec.domain.devices.interfaces[0]
    message = interface_message(found, interface, bound, parse_resolv_conf(resolv_conf))
    assert message.dhcp.lease_seconds == seconds


def test_without_an_address_nobody_answers_dhcp() -> None:
    found = vmi()
    bound = BoundInterface(tap="tap0", bridge="k6t-eth0", mac="02:00:00:00:00:01", mtu=1500)
    message = interface_message(found, found.spec.domain.devices.interfaces[0], bound, parse_resolv_conf(""))
    assert not message.HasField("dhcp")


def test_the_guest_is_told_its_pods_ipv6_and_of_its_router() -> None:
    found = vmi()
    bound = BoundInterface(
        tap="tap0",
        bridge="k6t-eth0",
        mac="02:00:00:00:00:01",
        mtu=1400,
        ipv6=GuestIpv6(address="fd00::7", gateway="fd00::1", subnet="fd00::/64", routes=("fd00::/56",)),
        bridge_mac="02:00:00:00:00:02",
    )
    resolver = parse_resolv_conf("nameserver fd00::53\nsearch svc.cluster.local\n")
    interface = found.spec.domain.devices.interfaces[0]
    message = interface_message(found, interface, bound, resolver, "fe80::1")
    assert not message.HasField("dhcp")
    assert ipv6_lease_of(message) == Ipv6Lease(
        address="fd00::7",
        server_mac="02:00:00:00:00:02",
        router="fe80::1",
        subnet="fd00::/64",
        routes=("fd00::/56",),
        dns=("fd00::53",),
        search=("svc.cluster.local",),
        mtu=1400,
    )
    message.ipv6.router = "fd00::1"
    with pytest.raises(BadRequest, match=r"interfaces\[default\].ipv6"):
        ipv6_lease_of(message)


class HeldNetwork:
    """A launcher of which the network's descriptor is held."""

    @contextmanager
    def namespace(self, name: str) -> Iterator[int]:
        assert name == "net"
        yield 7


def test_what_somebody_undid_of_a_translated_interface_is_put_right_and_a_bridge_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bound: list[tuple[int, str, int]] = []

    def bind(_vmi: object, place: tuple[int, Interface, str], netns: int, _directory: Path, _plugins: object) -> None:
        index, interface, _ = place
        bound.append((index, interface.name, netns))

    monkeypatch.setattr("kvedge.handler.guest.guest_network.bind_nic", bind)
    network = GuestNetwork(tmp_path)
    launcher = cast(HeldProcess, HeldNetwork())
    network.keep(vmi(), launcher)
    assert bound == []
    translated = vmi()
    nic = translated.spec.domain.devices.interfaces[0]
    nic.bridge, nic.masquerade = None, EmptyBinding()
    network.keep(translated, launcher)
    assert bound == [(0, "default", 7)]


@pytest.mark.parametrize("refreshes", [True, False])
def test_a_launcher_is_told_whose_link_is_refreshed_after_a_move(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refreshes: bool
) -> None:
    plugin = BindingPlugin("managedTap", migrates=True, refreshes_link=refreshes)
    network = GuestNetwork(tmp_path, lambda: Configuration(bindings={"site": plugin}))
    found = vmi()
    nic = found.spec.domain.devices.interfaces[0]
    nic.bridge, nic.binding = None, PluginBinding(name="site")
    bound = BoundInterface(tap="tap0", bridge="k6t-eth0", mac="52:54:00:00:00:07", mtu=1500)
    monkeypatch.setattr("kvedge.handler.guest.guest_network.bind_nic", lambda *_: bound)
    (made,) = network.prepare(found, cast(HeldProcess, HeldNetwork()), parse_resolv_conf(""))
    assert made.message.refresh_link is refreshes


class Taps:
    """The macvtaps of a Pod, and what its launcher was given of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.steps: list[object] = []
        self.devices = {pod_nic("lan"): TapDevice(3, 5), pod_nic("other"): TapDevice(4, 6), "eth0": TapDevice(2, 7)}
        self.network = GuestNetwork(
            directory,
            lambda: Configuration(bindings={"macvtap": BindingPlugin("tap"), "site": BindingPlugin("managedTap")}),
        )
        self.launcher = cast(HeldProcess, HeldNetwork())
        module = "kvedge.handler.guest.guest_network"
        monkeypatch.setattr(f"{module}.macvtap_devices", lambda netns: self.devices)
        monkeypatch.setattr(f"{module}.keep_tap_nodes", lambda launcher, devices: self.steps.append(list(devices)))
        monkeypatch.setattr(f"{module}.bind_nic", lambda vmi, place, *_: self.steps.append(place[1].name))
        monkeypatch.setattr(f"{module}.unbind_nic", lambda place, *_: self.steps.append(place[1].name))

    def a_vmi(self, plugin: str, state: str = "", source: str = DOMAIN_SOURCE) -> VirtualMachineInstance:
        nics = [{"name": "default", "bridge": {}}, {"name": "lan", "binding": {"name": plugin}, "state": state}]
        networks = [{"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": "lan"}}]
        found = vmi_with({"domain": {"devices": {"interfaces": nics}}, "networks": networks}, uid="vmi-uid")
        found.status.interfaces = [InterfaceStatus(name="lan", info_source=source)]
        return found


@pytest.fixture
def taps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Taps:
    return Taps(monkeypatch, tmp_path)


def test_a_launcher_is_kept_to_the_macvtaps_of_its_guest_before_they_are_put_right(taps: Taps) -> None:
    taps.network.keep(taps.a_vmi("macvtap"), taps.launcher)
    assert taps.steps == [[TapDevice(3, 5)], "lan"]


@pytest.mark.parametrize(("plugin", "source"), [("site", DOMAIN_SOURCE), ("macvtap", "multus-status")])
def test_a_bridged_nic_and_one_that_is_still_to_come_need_nothing(taps: Taps, plugin: str, source: str) -> None:
    taps.network.keep(taps.a_vmi(plugin, source=source), taps.launcher)
    assert taps.steps == []


def test_a_macvtap_that_the_guest_has_released_is_its_launchers_no_more(taps: Taps) -> None:
    found = taps.a_vmi("macvtap", "absent")
    taps.network.release(found, taps.launcher, (1, found.spec.domain.devices.interfaces[1]))
    assert taps.steps == [[]]


def test_a_managed_tap_that_the_guest_has_released_is_unbound(taps: Taps) -> None:
    found = taps.a_vmi("site", "absent")
    taps.network.release(found, taps.launcher, (1, found.spec.domain.devices.interfaces[1]))
    assert taps.steps == ["lan"]

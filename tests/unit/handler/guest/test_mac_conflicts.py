"""Which of two guests with one MAC waits."""

from __future__ import annotations

import pytest

from kvedge.handler.guest.mac_conflicts import check_coming_mac, check_macs
from kvedge.network.errors import MacInUseError
from kvedge.resources.types.devices import EmptyBinding
from kvedge.resources.types.vmi import InterfaceStatus, VirtualMachineInstance
from tests.support.builders import bridged, vmi_with

MAC = "52:54:00:AA:BB:CC"


def vmi(
    name: str, created: str = "2026-01-01T00:00:00Z", phase: str = "Scheduled", mac: str = MAC
) -> VirtualMachineInstance:
    named = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    return vmi_with(bridged(macAddress=mac), {"phase": phase}, **named, creationTimestamp=created)


def test_the_later_of_two_waits_and_says_for_whom() -> None:
    first, second = vmi("first"), vmi("second", "2026-01-01T00:00:01Z", mac="52-54-00-aa-bb-cc")
    with pytest.raises(MacInUseError, match="52:54:00:aa:bb:cc: VMI shop/first of this node has it; give one of them"):
        check_macs(second, [first, second])
    check_macs(first, [first, second])


def test_of_two_of_the_same_second_only_one_waits() -> None:
    check_macs(vmi("a"), [vmi("b")])
    with pytest.raises(MacInUseError):
        check_macs(vmi("b"), [vmi("a")])


def test_a_guest_that_runs_is_the_first_whenever_it_was_made() -> None:
    running, older = vmi("running", "2026-01-02T00:00:00Z", "Running"), vmi("older")
    check_macs(running, [older])
    with pytest.raises(MacInUseError):
        check_macs(older, [running])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_guest_that_has_ended_is_in_nobodys_way(phase: str) -> None:
    check_macs(vmi("second", "2026-01-01T00:00:01Z"), [vmi("first", phase=phase)])


def test_guests_of_their_own_macs_do_not_meet() -> None:
    check_macs(vmi("second", "2026-01-01T00:00:01Z"), [vmi("first", mac="52:54:00:00:00:01")])


def test_a_mac_behind_a_pods_address_is_in_nobodys_way() -> None:
    first, second = vmi("first"), vmi("second", "2026-01-01T00:00:01Z")
    nic = second.spec.domain.devices.interfaces[0]
    nic.bridge, nic.masquerade = None, EmptyBinding()
    check_macs(second, [first, second])


def on_lan(
    name: str, network: str, created: str = "2026-01-01T00:00:00Z", namespace: str = "shop"
) -> VirtualMachineInstance:
    spec = {
        "domain": {"devices": {"interfaces": [{"name": "lan", "bridge": {}, "macAddress": MAC}]}},
        "networks": [{"name": "lan", "multus": {"networkName": network}}],
    }
    named = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return vmi_with(spec, {"phase": "Scheduled"}, **named, creationTimestamp=created)


def test_a_nic_that_comes_waits_for_whatever_guest_has_its_mac_on_that_network() -> None:
    ours, younger = on_lan("ours", "red"), on_lan("younger", "red", "2026-01-02T00:00:00Z")
    check_coming_mac(ours, "lan", [ours, younger])
    younger.status.interfaces = [InterfaceStatus(name="lan", info_source="domain, multus-status")]
    with pytest.raises(MacInUseError, match="VMI shop/younger of this node has it"):
        check_coming_mac(ours, "lan", [ours, younger])
    check_coming_mac(on_lan("ours", "blue"), "lan", [younger])
    younger.status.phase = "Succeeded"
    check_coming_mac(ours, "lan", [younger])


def test_one_mac_on_two_networks_is_nobodys_trouble() -> None:
    later = on_lan("second", "red", "2026-01-01T00:00:01Z")
    check_macs(later, [vmi("first"), on_lan("first", "blue"), on_lan("first", "red", namespace="other")])
    with pytest.raises(MacInUseError, match="VMI other/first"):
        check_macs(later, [on_lan("first", "shop/red", namespace="other")])

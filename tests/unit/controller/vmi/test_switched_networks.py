"""What is written of NICs that are taken to other networks while their guest runs."""

from __future__ import annotations

import json

import pytest

from kvedge.controller.vmi.interface_status import plan_networks
from kvedge.controller.vmi.switched_networks import NOWHERE_ELSE, Elsewhere, look_elsewhere, mark_switched
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_view import PatchPod, PatchVmi, VmiView
from kvedge.resources.names import SWITCHED_NETWORKS, SWITCHES_NETWORKS
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import (
    NETWORK_STATUS,
    NETWORKS,
    JoinedNetwork,
    make_wanted_networks,
    network_status,
    pod_nic,
    switched_networks,
)
from kvedge.resources.types.vmi import InterfaceStatus, VirtualMachineInstance
from tests.support.builders import CONFIG, NOW, a_pod, a_vmi, vmi_with


def a_guest(of: str = "blue", mark: str = "") -> VirtualMachineInstance:
    """One that runs with a NIC that is to be on this network."""
    interfaces = [{"name": "lan", "bridge": {}}]
    networks = [{"name": "lan", "multus": {"networkName": of}}]
    vmi = vmi_with({"domain": {"devices": {"interfaces": interfaces}}, "networks": networks}, {"phase": "Running"})
    vmi.status.interfaces = [
        InterfaceStatus(name="lan", pod_interface_name=pod_nic("lan"), info_source="domain, multus-status")
    ]
    if mark:
        vmi.metadata.annotations[SWITCHED_NETWORKS] = mark
    return vmi


def a_pod_on(network: str, *, follows: bool = True) -> Pod:
    pod = a_pod(a_vmi())
    joined = JoinedNetwork(name=network, interface=pod_nic("lan"))
    pod.metadata.annotations |= {
        NETWORK_STATUS: network_status([joined]),
        NETWORKS: make_wanted_networks(a_guest("red")),
    }
    if follows:
        pod.metadata.annotations[SWITCHES_NETWORKS] = "true"
    return pod


@pytest.mark.parametrize("joined", ["default/blue", "blue"])
def test_a_nic_is_where_it_is_to_be_by_either_name(joined: str) -> None:
    assert look_elsewhere(a_guest(), a_pod_on(joined)) == Elsewhere((), follows=True)


def test_a_nic_on_another_network_is_named_with_the_one_that_is_wanted() -> None:
    assert look_elsewhere(a_guest(), a_pod_on("default/red", follows=False)) == Elsewhere((("lan", "default/blue"),))


def test_the_launcher_is_told_once_the_nic_is_there() -> None:
    vmi = a_guest()
    on_its_way = mark_switched(vmi, Elsewhere((("lan", "default/blue"),)))
    assert on_its_way == {"annotations": {SWITCHED_NETWORKS: '{"lan":""}'}}
    vmi = a_guest(mark='{"lan":""}')
    assert mark_switched(vmi, NOWHERE_ELSE) == {"annotations": {SWITCHED_NETWORKS: '{"lan":"default/blue"}'}}
    there = a_guest(mark='{"lan":"default/blue"}')
    assert mark_switched(there, NOWHERE_ELSE) == {}
    there.spec.domain.devices.interfaces = []
    assert mark_switched(there, NOWHERE_ELSE) == {"annotations": {SWITCHED_NETWORKS: None}}
    assert mark_switched(a_guest(), NOWHERE_ELSE) == {}


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"lan": 1}'])
def test_a_mark_that_somebody_has_spoilt_says_nothing(text: str) -> None:
    assert switched_networks(a_guest(mark=text)) == {}


def test_the_pod_is_ordered_to_the_new_network_only_where_its_nics_follow() -> None:
    vmi = a_guest()
    assert json.loads(plan_networks(vmi, a_pod_on("default/red")) or "")[0]["name"] == "blue"
    # Elsewhere the NIC would be taken away and made anew, and the guest's with it.
    assert plan_networks(vmi, a_pod_on("default/red", follows=False)) is None


def test_the_vmi_is_marked_before_the_pod_is_ordered() -> None:
    vmi, pod = a_guest(), a_pod_on("default/red")
    actions = plan_vmi(VmiView(vmi, (pod,)), CONFIG, NOW).actions
    kinds = [type(each) for each in actions if isinstance(each, (PatchVmi, PatchPod))]
    assert kinds == [PatchVmi, PatchPod]
    (marked,) = [each for each in actions if isinstance(each, PatchVmi)]
    assert marked.body["metadata"]["annotations"] == {SWITCHED_NETWORKS: '{"lan":""}'}

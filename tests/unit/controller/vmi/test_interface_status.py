"""The NICs of a VMI before its guest has any."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.controller.vmi.interface_status import plan_network_info, plan_networks, with_joined_networks
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_view import PatchPod, VmiView
from kvedge.resources.types.core import Pod
from kvedge.resources.types.devices import EmptyBinding, Interface, PluginBinding
from kvedge.resources.types.pod_networks import (
    NETWORK_STATUS,
    NETWORKS,
    JoinedNetwork,
    make_wanted_networks,
    network_status,
    pod_nic,
)
from kvedge.resources.types.sriov_networks import NETWORK_INFO
from kvedge.resources.types.vmi import InterfaceStatus, VirtualMachineInstance
from tests.support.builders import CONFIG, NOW, a_pod, a_vmi, vmi_with
from tests.support.migrating import a_migrating_vmi, a_target_pod


def on_two_networks() -> VirtualMachineInstance:
    interfaces = [{"name": "lan", "bridge": {}}, {"name": "default", "bridge": {}}]
    networks = [{"name": "lan", "multus": {"networkName": "red"}}, {"name": "default", "pod": {}}]
    return vmi_with({"domain": {"devices": {"interfaces": interfaces}}, "networks": networks}, name="web")


def test_a_network_is_shown_once_the_pod_says_that_it_has_joined() -> None:
    vmi, pod = on_two_networks(), a_pod(a_vmi())
    primary = InterfaceStatus(name="default", pod_interface_name="eth0")
    assert with_joined_networks(vmi, pod) == [primary]
    pod.metadata.annotations[NETWORK_STATUS] = network_status([JoinedNetwork(name="red", interface=pod_nic("lan"))])
    joined = InterfaceStatus(name="lan", pod_interface_name=pod_nic("lan"), info_source="multus-status")
    # The Pod network's comes first, wherever the VMI has it.
    assert with_joined_networks(vmi, pod) == [primary, joined]


def test_a_vmi_on_the_pod_network_alone_is_the_handlers() -> None:
    assert with_joined_networks(a_vmi(), a_pod(a_vmi())) == []
    assert with_joined_networks(on_two_networks(), None) == []


def joined(*names: str) -> Pod:
    """The VMI's Pod, which has joined these networks."""
    pod = a_pod(a_vmi())
    pod.metadata.annotations[NETWORK_STATUS] = network_status(
        [JoinedNetwork(name="red", interface=pod_nic(name)) for name in names]
    )
    return pod


def row(name: str, source: str, mac: str = "") -> InterfaceStatus:
    return InterfaceStatus(name=name, pod_interface_name=pod_nic(name) if name else "", info_source=source, mac=mac)


def test_a_network_that_is_joined_or_left_while_the_guest_runs_is_marked_on_its_row() -> None:
    vmi = on_two_networks()
    first, guests_own = InterfaceStatus(name="default", info_source="domain"), row("", "guest-agent", "m")
    vmi.status.interfaces = [first, guests_own]
    assert with_joined_networks(vmi, joined("lan")) == [first, row("lan", "multus-status"), guests_own]
    vmi.status.interfaces = [first, row("lan", "domain"), guests_own]
    assert with_joined_networks(vmi, joined("lan")) == [first, row("lan", "domain, multus-status"), guests_own]
    vmi.status.interfaces = [first, row("lan", "domain, guest-agent, multus-status"), guests_own]
    assert with_joined_networks(vmi, joined()) == [first, row("lan", "domain, guest-agent"), guests_own]


def test_one_that_is_to_be_absent_is_shown_while_the_pod_is_on_its_network() -> None:
    vmi = on_two_networks()
    vmi.spec.domain.devices.interfaces[0].state = "absent"
    vmi.status.interfaces = [InterfaceStatus(name="default", info_source="domain")]
    assert with_joined_networks(vmi, joined("lan"))[1:] == [row("lan", "multus-status")]
    assert with_joined_networks(vmi, joined()) == vmi.status.interfaces


def test_a_pod_leaves_a_network_once_the_guest_has_released_its_nic() -> None:
    vmi, pod = on_two_networks(), joined("lan")
    wanted = plan_networks(vmi, pod)
    assert wanted == make_wanted_networks(vmi)
    assert '"name":"red"' in wanted
    pod.metadata.annotations[NETWORKS] = wanted
    assert plan_networks(vmi, pod) is None
    vmi.spec.domain.devices.interfaces[0].state = "absent"
    vmi.status.interfaces = [row("lan", "domain, multus-status")]
    assert plan_networks(vmi, pod) is None
    vmi.status.interfaces = [row("lan", "multus-status")]
    # What attaches dynamically looks at Pods with the annotation alone.
    assert plan_networks(vmi, pod) == "[]"
    pod.metadata.annotations[NETWORKS] = "[]"
    assert plan_networks(vmi, pod) is None


def test_a_pod_that_ends_is_ordered_nothing_any_more() -> None:
    vmi, pod = on_two_networks(), joined()
    pod.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    assert plan_networks(vmi, pod) is None
    assert plan_networks(a_vmi(), a_pod(a_vmi())) is None


@pytest.mark.parametrize("present", ["istio-cni", '[{"name":"istio-cni","ips":["192.0.2.1"]}]', "", "[]", "no: form"])
def test_what_others_have_written_on_a_pod_without_networks_of_the_guest_stays(present: str) -> None:
    pod = a_pod(a_vmi())
    pod.metadata.annotations[NETWORKS] = present
    assert plan_networks(a_vmi(), pod) is None


def test_what_others_have_added_stays_beside_the_guests_networks() -> None:
    vmi, pod = on_two_networks(), joined("lan")
    ours, theirs = json.loads(make_wanted_networks(vmi)), {"name": "istio-cni", "ips": ["192.0.2.1"]}
    pod.metadata.annotations[NETWORKS] = json.dumps([theirs, *ours])
    assert plan_networks(vmi, pod) is None
    pod.metadata.annotations[NETWORKS] = json.dumps([theirs])
    assert json.loads(plan_networks(vmi, pod) or "") == [*ours, theirs]
    pod.metadata.annotations[NETWORKS] = json.dumps([theirs, *ours])
    vmi.spec.domain.devices.interfaces[0].state = "absent"
    assert json.loads(plan_networks(vmi, pod) or "") == [theirs]


def test_a_plugins_own_network_stays_as_it_was_at_the_pods_start() -> None:
    vmi, pod = on_two_networks(), joined("lan")
    vmi.spec.domain.devices.interfaces[1] = Interface(name="default", binding=PluginBinding(name="site"))
    pod.metadata.annotations[NETWORKS] = make_wanted_networks(vmi, {"site": "kube-system/site"})
    assert "logicNetworkName" in pod.metadata.annotations[NETWORKS]
    assert plan_networks(vmi, pod) is None
    pod.metadata.annotations[NETWORKS] = "written by hand"
    assert plan_networks(vmi, pod) == make_wanted_networks(vmi)


PCI = {"type": "pci", "pci": {"pci-address": "0000:65:02.0"}}


def with_function() -> VirtualMachineInstance:
    vmi = on_two_networks()
    vmi.spec.domain.devices.interfaces[0] = Interface(name="lan", sriov=EmptyBinding())
    return vmi


def given_function(**more: Any) -> Pod:
    """The VMI's Pod, of which Multus has told."""
    pod = a_pod(a_vmi())
    function = JoinedNetwork(name="red", interface=pod_nic("lan"), mac="02:00:00:00:00:09", **more)
    pod.metadata.annotations[NETWORK_STATUS] = network_status([JoinedNetwork(name="net", default=True), function])
    return pod


def test_a_function_is_shown_with_the_mac_that_its_card_has() -> None:
    vmi, pod = with_function(), given_function()
    assert with_joined_networks(vmi, pod)[1] == row("lan", "multus-status", "02:00:00:00:00:09")
    # What the card says is no wish: the Pod's networks stay as they were asked for.
    pod.metadata.annotations[NETWORKS] = make_wanted_networks(vmi)
    vmi.status.interfaces = with_joined_networks(vmi, pod)
    assert plan_networks(vmi, pod) is None


def test_the_launcher_is_told_of_its_functions_once_multus_has_told() -> None:
    vmi, pod = with_function(), given_function(device_info=PCI, mtu=9000)
    told = plan_network_info(vmi, pod)
    assert json.loads(told or "") == {
        "interfaces": [{"network": "lan", "deviceInfo": PCI, "mac": "02:00:00:00:00:09", "mtu": 9000}]
    }
    pod.metadata.annotations[NETWORK_INFO] = told or ""
    assert plan_network_info(vmi, pod) is None
    assert plan_network_info(on_two_networks(), given_function()) is None
    assert plan_network_info(vmi, a_pod(a_vmi())) is None


def test_sidecars_are_told_of_the_devices_of_their_plugins_nics() -> None:
    vmi, pod = with_function(), given_function(device_info=PCI)
    vmi.spec.domain.devices.interfaces[0] = Interface(name="lan", binding=PluginBinding(name="site"))
    (told,) = json.loads(plan_network_info(vmi, pod, {"site"}) or "")["interfaces"]
    assert (told["network"], told["deviceInfo"]) == ("lan", PCI)
    assert plan_network_info(vmi, pod, {"other"}) is None


def test_that_multus_knows_no_device_is_told_too() -> None:
    assert json.loads(plan_network_info(with_function(), joined()) or "") == {"interfaces": [{"network": "lan"}]}


def test_what_a_device_plugin_wrote_keeps_no_network_from_being_seen() -> None:
    vmi, pod = with_function(), given_function(device_info="no object")
    assert with_joined_networks(vmi, pod)[1].name == "lan"
    (told,) = json.loads(plan_network_info(vmi, pod) or "")["interfaces"]
    assert "deviceInfo" not in told


def test_the_pod_that_a_guest_comes_to_is_told_of_its_own_functions() -> None:
    vmi, source, target = a_migrating_vmi(), given_function(device_info=PCI), given_function(device_info=PCI)
    vmi.spec = with_function().spec
    source.metadata.annotations[NETWORKS] = make_wanted_networks(vmi)
    target.metadata = a_target_pod(vmi).metadata
    target.metadata.annotations[NETWORK_STATUS] = source.metadata.annotations[NETWORK_STATUS].replace("65:02", "17:03")
    plan = plan_vmi(VmiView(vmi=vmi, pods=[source, target]), CONFIG, NOW)
    told = {
        action.pod.metadata.name: json.loads(action.body["metadata"]["annotations"][NETWORK_INFO])
        for action in plan.actions
        if isinstance(action, PatchPod)
    }
    assert set(told) == {source.metadata.name, target.metadata.name}
    assert "0000:17:03.0" in str(told[target.metadata.name])
    assert "0000:65:02.0" in str(told[source.metadata.name])

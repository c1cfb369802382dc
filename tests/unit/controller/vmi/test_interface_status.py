"""The NICs of a VMI before its guest has any."""

from __future__ import annotations

from kvedge.controller.vmi.interface_status import with_joined_networks
from kvedge.resources.types.pod_networks import NETWORK_STATUS, JoinedNetwork, network_status, pod_nic
from kvedge.resources.types.vmi import InterfaceStatus, VirtualMachineInstance
from tests.support.builders import a_pod, a_vmi, vmi_with


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

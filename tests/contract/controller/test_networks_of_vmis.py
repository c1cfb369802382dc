"""VMIs on other networks than the Pod's: the controller against both servers.

A network that is not there is named; a function of a NIC is asked for and told. Kubelet, device plugin and Multus are
played.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator

import pytest

from kvedge.kube.errors import AlreadyExists, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.attachment_crd import attachment_crd
from kvedge.resources.meta import ObjectMeta, condition
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import NETWORK_STATUS, NETWORKS, JoinedNetwork, network_status, pod_nic
from kvedge.resources.types.sriov_networks import NETWORK_INFO, RESOURCE_NAME
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import PlayedNode
from tests.support.either_server import REAL, EitherServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("networks")

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEVICE = {"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:65:02.0"}}
VMI: JsonObject = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "web"},
    "spec": {
        "domain": {
            "memory": {"guest": "64Mi"},
            "devices": {"interfaces": [{"name": "default", "masquerade": {}}, {"name": "fast", "sriov": {}}]},
        },
        "networks": [{"name": "default", "pod": {}}, {"name": "fast", "multus": {"networkName": "red"}}],
    },
}


@pytest.fixture
def networks(either_server: EitherServer) -> Iterator[None]:
    """Multus' kind, which one box has by itself."""
    crd = attachment_crd()
    if either_server.kind != REAL:
        yield
        return
    with contextlib.suppress(AlreadyExists):
        either_server.admin.request("POST", _CRDS, crd)
    yield
    place = f"{_CRDS}/{crd['metadata']['name']}"
    either_server.admin.request("DELETE", place)

    def is_gone() -> bool:
        try:
            either_server.admin.request("GET", place)
        except NotFound:
            return True
        return False

    wait_until(is_gone, "the kind is gone, and may come again")


def refusal(node: PlayedNode) -> str:
    """Why the VMI's Pod is not made."""
    found = condition(node.vmi().status.conditions, "Synchronized")
    return found.message if found is not None and found.reason == "FailedCreate" else ""


def make_network(client: KubeClient, namespace: str) -> None:
    meta = ObjectMeta(name="red", namespace=namespace, annotations={RESOURCE_NAME: "vendor.com/fast"})

    def is_made() -> bool:
        try:
            client.create(NetworkAttachmentDefinition(metadata=meta))
        except KubeError:
            # A kind that is new is not served at once.
            return False
        return True

    wait_until(is_made, "the network is made")


def test_a_network_that_is_not_there_is_named_and_the_vmi_starts_once_it_is(
    either_server: EitherServer, node: PlayedNode
) -> None:
    client, namespace = either_server.admin, node.namespace
    vmi = copy.deepcopy(VMI)
    vmi["spec"]["domain"]["devices"]["interfaces"][1] = {"name": "fast", "bridge": {}}
    client.request("POST", VirtualMachineInstance.KIND.path(namespace), vmi)
    said = wait_until(lambda: refusal(node), "the VMI names the network that is not there")
    remedy = f"`kvedge network create red -n {namespace}` makes one"
    assert f"spec.networks[1]: there is no network {namespace}/red: {remedy}" in said
    assert node.pods() == []
    make_network(client, namespace)
    assert pod_nic("fast") in node.pod().metadata.annotations[NETWORKS]


def test_a_launcher_asks_for_its_function_and_is_told_which_one_it_is(
    either_server: EitherServer, node: PlayedNode
) -> None:
    client, namespace = either_server.admin, node.namespace
    client.request("POST", VirtualMachineInstance.KIND.path(namespace), VMI)
    said = wait_until(lambda: refusal(node), "the VMI names the network that is not there")
    assert f"interfaces[1].sriov: there is no NetworkAttachmentDefinition {namespace}/red" in said
    make_network(client, namespace)
    pod = node.pod()
    (compute,) = pod.spec.containers
    assert compute.resources.requests["vendor.com/fast"] == compute.resources.limits["vendor.com/fast"] == "1"
    assert NETWORK_INFO not in pod.metadata.annotations
    joined = JoinedNetwork(name="red", interface=pod_nic("fast"), mac="02:00:00:00:00:09", device_info=DEVICE)
    change: JsonObject = {"metadata": {"annotations": {NETWORK_STATUS: network_status([joined])}}}
    client.patch(Pod, namespace, pod.metadata.name, MergePatch(change))
    told = wait_until(lambda: node.pod().metadata.annotations.get(NETWORK_INFO), "the launcher is told")
    assert json.loads(told) == {"interfaces": [{"network": "fast", "deviceInfo": DEVICE, "mac": "02:00:00:00:00:09"}]}
    node.starts(node.pod())
    vmi = wait_until(lambda: (found := node.vmi()).status.phase == "Scheduled" and found, "the VMI is handed over")
    (row,) = [row for row in vmi.status.interfaces if row.name == "fast"]
    assert (row.mac, row.info_source) == ("02:00:00:00:00:09", "multus-status")

# Tests: kvedge/api/subresources/graphs/graph_calls.py, kvedge/cli/machines/graph_verb.py
"""What belongs to a VM, asked by an unmodified virtctl and by kvedge, of both servers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from kvedge.api.api_service import ApiRole
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SYSTEM_NAMESPACE
from tests.contract.api.conftest import EchoNode, remove
from tests.contract.api.stream_parts import MERGE, PODS, launcher_pod
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.kvedge_cli import KvedgeCli
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
NAMESPACE = "/apis/kubevirt.io/v1/namespaces/default"
VM, VMI = f"{NAMESPACE}/virtualmachines/small", f"{NAMESPACE}/virtualmachineinstances/small"
GRAPH = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/small/objectgraph"
KUBEVIRTS = f"/apis/kubevirt.io/v1/namespaces/{SYSTEM_NAMESPACE}/kubevirts"


@pytest.fixture
def gate(admin: KubeClient, api_role: ApiRole) -> Iterator[None]:
    """The feature is switched on."""
    configuration = {"developerConfiguration": {"featureGates": ["ObjectGraph"]}}
    body = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"}}
    made = admin.request("POST", KUBEVIRTS, {**body, "spec": {"configuration": configuration}})
    generation = made["metadata"]["generation"]
    wait_until(lambda: api_role.configuration.in_force.generation == generation, "the api role follows")
    yield
    admin.request("DELETE", f"{KUBEVIRTS}/kubevirt")


@pytest.fixture
def vm(admin: KubeClient, controller: KubeClient, echo_node: EchoNode) -> Iterator[JsonObject]:
    """A VM that runs, with a claim and a network of the site."""
    vmi = small_vmi(
        networks=[{"name": "default", "multus": {"networkName": "lan"}}],
        volumes=[{"name": "root", "persistentVolumeClaim": {"claimName": "root"}}],
    )
    made = admin.request("POST", VM.rpartition("/")[0], vm_of(vmi, runStrategy="Manual"))
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "small", "uid": made["metadata"]["uid"]}
    vmi["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    controller.request("POST", VMI.rpartition("/")[0], vmi)
    status = {"status": {"phase": "Running", "nodeName": echo_node.name}}
    run = controller.request("PATCH", VMI, status, None, MERGE)
    controller.request("PATCH", f"{VM}/status", {"status": {"created": True}}, None, MERGE)
    pod = admin.request("POST", PODS, launcher_pod(run))
    yield made
    admin.request("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
    remove(admin, VMI)
    remove(admin, VM)


def kinds(node: JsonObject) -> list[str]:
    return [f"{child['objectReference']['kind']} {child['objectReference']['name']}" for child in node["children"]]


@pytest.fixture(params=["virtctl", "kvedge"])
def program(request: pytest.FixtureRequest, server: ApiServerUnderTest) -> Kubectl | KvedgeCli:
    kubeconfig = server.write_kubeconfig("admin", ["system:masters"])
    return Kubectl(kubeconfig, "virtctl") if request.param == "virtctl" else KvedgeCli(kubeconfig)


@pytest.mark.usefixtures("gate", "vm")
def test_a_vm_and_its_run_show_what_they_name(program: Kubectl | KvedgeCli) -> None:
    all_of_vm = json.loads(program.run("objectgraph", "small"))
    assert all_of_vm["objectReference"] == {
        "apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "small", "namespace": "default"
    }  # fmt: skip
    run = "VirtualMachineInstance small"
    assert kinds(all_of_vm) == [run, "PersistentVolumeClaim root", "NetworkAttachmentDefinition lan"]
    assert kinds(all_of_vm["children"][0]) == ["Pod virt-launcher-small"]
    assert all_of_vm["children"][2]["optional"] is True
    least = yaml.safe_load(program.run("objectgraph", "--vmi", "small", "--exclude-optional", "-o", "yaml"))
    assert kinds(least) == ["Pod virt-launcher-small", "PersistentVolumeClaim root"]
    selector = "kubevirt.io/dependency-type=storage"
    storage = json.loads(program.run("objectgraph", "small", "--selector", selector))
    assert kinds(storage) == ["PersistentVolumeClaim root"]
    refused = program.try_run("objectgraph", "nobody")
    assert refused.returncode != 0
    assert "not found" in refused.stderr


@pytest.mark.usefixtures("gate", "vm")
def test_a_selector_that_is_none_is_refused_with_its_field(admin: KubeClient) -> None:
    expression = {"key": "a", "operator": "Like", "values": ["b"]}
    body = {"labelSelector": {"matchExpressions": [expression]}}
    with pytest.raises(KubeError, match=r"labelSelector\.matchExpressions\[0\]") as refused:
        admin.request("GET", GRAPH, body)
    assert refused.value.status == 400


@pytest.mark.usefixtures("vm")
def test_without_the_gate_it_is_refused_in_kubevirts_words(admin: KubeClient) -> None:
    with pytest.raises(KubeError, match="ObjectGraph feature gate not enabled: Unable to return object graph") as no:
        admin.request("GET", GRAPH)
    assert no.value.status == 400

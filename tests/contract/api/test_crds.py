"""The CRDs are accepted by an API server, and what users see of them is right."""

from __future__ import annotations

import json

import pytest

from kvedge.kube.errors import Invalid
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.manifests.crd_manifest import crds
from tests.contract.api.conftest import crd_condition, remove
from tests.support.api_servers import Kubectl
from tests.support.builders import small_vmi, vm_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]


def test_every_schema_is_structural(admin: KubeClient) -> None:
    assert [
        crd["metadata"]["name"]
        for crd in crds()
        if crd_condition(admin, crd["metadata"]["name"], "NonStructuralSchema")
    ] == []


def test_kubectl_explains_a_field(kubectl: Kubectl) -> None:
    # The server publishes a new schema a moment after it has taken it.
    def explained() -> bool:
        answer = kubectl.try_run("explain", "vmi.spec.domain.cpu")
        return "cores" in answer.stdout and "Topology and model" in answer.stdout

    wait_until(explained, "kubectl explains the field")


def test_a_vm_without_status_is_shown_as_stopped(kubectl: Kubectl, admin: KubeClient) -> None:
    vm = vm_of(small_vmi(), runStrategy="Halted")
    vm["spec"]["template"]["metadata"] = {"creationTimestamp": None}
    vm["metadata"]["name"] = "columns"
    kubectl.run("apply", "-f", "-", text=json.dumps(vm))
    listed = kubectl.run("get", "vm", "columns").splitlines()
    remove(admin, "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/columns")
    assert listed[0].split() == ["NAME", "AGE", "STATUS", "READY"]
    assert listed[1].split()[2] == "Stopped"


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
def test_a_field_that_the_schema_lacks_is_refused_whatever_the_client_asks_for(
    admin: KubeClient, validation: str
) -> None:
    vm = vm_of(small_vmi(domain__devices__disk=[1]))
    path = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
    with pytest.raises(Invalid, match='did you mean "disks"'):
        admin.request("POST", path, vm, {"fieldValidation": validation})

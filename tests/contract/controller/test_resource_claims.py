"""A VMI with devices of claims (DRA): the controller against both servers, of which one serves claims."""

from __future__ import annotations

from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import PlayedNode
from tests.support.either_server import REAL, EitherServer
from tests.support.waiting import wait_until

CLAIMED = {"claimName": "cards", "requestName": "gpu"}
VMI: JsonObject = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "web"},
    "spec": {
        "resourceClaims": [{"name": "cards", "resourceClaimTemplateName": "one-gpu"}],
        "domain": {
            "memory": {"guest": "64Mi"},
            "devices": {
                "gpus": [{"name": "g", **CLAIMED}],
                "interfaces": [{"name": "default", "masquerade": {}}, {"name": "fast", "sriov": {}}],
            },
        },
        "networks": [
            {"name": "default", "pod": {}},
            {"name": "fast", "resourceClaim": {"claimName": "cards", "requestName": "port"}},
        ],
    },
}


def test_a_launcher_has_its_claims_where_there_are_any_and_else_the_vmi_says_so(
    either_server: EitherServer, node: PlayedNode
) -> None:
    client, namespace = either_server.admin, node.namespace
    client.request("POST", VirtualMachineInstance.KIND.path(namespace), VMI)
    if either_server.kind != REAL:

        def refusal() -> str:
            found = condition(node.vmi().status.conditions, "Synchronized")
            return found.message if found is not None and found.reason == "FailedCreate" else ""

        said = wait_until(refusal, "the VMI says that there are no claims")
        assert "spec.resourceClaims: this cluster does not serve resource.k8s.io" in said
        assert "permittedHostDevices and deviceName" in said
        return
    pod = node.pod()
    assert [claim.resource_claim_template_name for claim in pod.spec.resource_claims] == ["one-gpu"]
    (compute,) = pod.spec.containers
    assert [(claim.name, claim.request) for claim in compute.resources.claims] == [("cards", "gpu"), ("cards", "port")]
    node.starts(pod)
    wait_until(lambda: node.vmi().status.phase == "Scheduled", "the VMI is handed over without waiting for Multus")

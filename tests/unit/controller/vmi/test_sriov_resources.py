"""What a launcher's Pod asks of SR-IOV device plugins."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.controller.vmi.sriov_resources import FunctionsUnknown, with_functions
from kvedge.kube.errors import Forbidden, KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.core import Container, Pod
from kvedge.resources.types.sriov_networks import RESOURCE_NAME
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG, a_vmi, vmi_with


class PlayedApi:
    """An API with networks, by `namespace/name`, that name a resource; or with an error in their place."""

    def __init__(self, resources: dict[str, str], error: KubeError | None = None) -> None:
        self.resources, self.error = resources, error

    def get(self, kind: Any, namespace: str, name: str) -> NetworkAttachmentDefinition:
        if self.error is not None:
            raise self.error
        resource = self.resources[f"{namespace}/{name}"]
        return NetworkAttachmentDefinition(metadata=ObjectMeta(annotations={RESOURCE_NAME: resource}))


RED = {"shop/red": "vendor.com/fast"}


def guest(**networks: str) -> VirtualMachineInstance:
    """One with a function for each of these networks, by the interface's name."""
    interfaces = [{"name": "default", "masquerade": {}}, *({"name": name, "sriov": {}} for name in networks)]
    joined = [{"name": name, "multus": {"networkName": network}} for name, network in networks.items()]
    spec = {"domain": {"devices": {"interfaces": interfaces}}, "networks": [{"name": "default", "pod": {}}, *joined]}
    return vmi_with(spec, name="web", namespace="shop")


def asked(vmi: VirtualMachineInstance, api: PlayedApi, *, by_others: bool = False) -> tuple[Pod, Container]:
    pod = with_functions(launcher_pod(vmi, CONFIG), vmi, cast(KubeClient, api), by_others=by_others)
    return pod, pod.spec.containers[0]


def test_each_interface_asks_for_one_function_and_those_of_one_resource_add_up() -> None:
    api = PlayedApi({**RED, "cards/blue": "vendor.com/fast", "shop/green": "my-corp.com/slow"})
    vmi = guest(red="red", blue="cards/blue", green="green")
    pod, compute = asked(vmi, api)
    before = launcher_pod(vmi, CONFIG).spec.containers[0]
    more = {"vendor.com/fast": "2", "my-corp.com/slow": "1"}
    assert compute.resources.requests == before.resources.requests | more
    assert compute.resources.limits == before.resources.limits | more
    told = {each.name: each.value for each in compute.env if each.name.startswith("KUBEVIRT_RESOURCE_NAME_")}
    assert told == {
        "KUBEVIRT_RESOURCE_NAME_red": "vendor.com/fast",
        "KUBEVIRT_RESOURCE_NAME_blue": "vendor.com/fast",
        "KUBEVIRT_RESOURCE_NAME_green": "my-corp.com/slow",
    }
    assert len(pod.spec.containers) == 1


def test_a_webhook_of_others_adds_the_requests_where_the_gate_is_named() -> None:
    _, compute = asked(guest(red="red"), PlayedApi(RED), by_others=True)
    assert "vendor.com/fast" not in compute.resources.requests | compute.resources.limits
    assert "vendor.com/fast" in {each.value for each in compute.env}


def test_a_guest_without_functions_has_nothing_asked_for_it() -> None:
    pod = launcher_pod(a_vmi(), CONFIG)
    assert with_functions(pod, a_vmi(), cast(KubeClient, PlayedApi({})), by_others=False) is pod


@pytest.mark.parametrize(
    ("api", "words"),
    [
        (PlayedApi({}, NotFound(404, "NotFound", "gone")), "there is no NetworkAttachmentDefinition shop/red"),
        (PlayedApi({}, Forbidden(403, "Forbidden", "no rights")), "no rights; apply k3s/rbac again"),
        (PlayedApi({"shop/red": ""}), f"shop/red has no annotation {RESOURCE_NAME}; name the resource"),
        (PlayedApi({"shop/red": "fast"}), f"shop/red names 'fast' in annotation {RESOURCE_NAME}"),
        (PlayedApi({"shop/red": "a/b/c"}), "names 'a/b/c' in"),
    ],
    ids=["gone", "no rights", "no resource", "no domain", "no name"],
)
def test_a_network_that_names_no_resource_is_told_by_its_field(api: PlayedApi, words: str) -> None:
    with pytest.raises(FunctionsUnknown) as refused:
        asked(guest(red="red"), api)
    assert str(refused.value).startswith("spec.domain.devices.interfaces[1].sriov: ")
    assert words in str(refused.value)


def test_a_server_that_is_away_is_asked_again() -> None:
    with pytest.raises(Unavailable):
        asked(guest(red="red"), PlayedApi({}, Unavailable(503, "ServiceUnavailable", "later")))

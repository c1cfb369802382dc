"""Presets and ReplicaSets by the webhooks, with kubectl, against a real API server or the embedded one."""

from __future__ import annotations

import json

import pytest

from kvedge.kube.errors import Invalid
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.presets import PRESET_KIND
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.api.conftest import remove
from tests.support.api_servers import Kubectl
from tests.support.builders import replica_set_of, small_vmi
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
VMIS = VirtualMachineInstance.KIND.path("default")
PRESETS = PRESET_KIND.path("default")


def preset(name: str, cores: int) -> dict[str, object]:
    spec = {"selector": {"matchLabels": {"flavor": "many"}}, "domain": {"cpu": {"cores": cores}}}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstancePreset",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_vmi_gets_what_its_preset_brings_and_none_of_two_that_quarrel(kubectl: Kubectl, admin: KubeClient) -> None:
    told = kubectl.try_run("apply", "-f", "-", text=json.dumps(preset("many", 7)))
    assert "now deprecated" in told.stderr
    assert "instance type" in told.stderr
    document = small_vmi()
    document["metadata"] = {"name": "presets", "labels": {"flavor": "many"}}

    def made() -> dict[str, object]:
        found = admin.request("POST", VMIS, document, {"dryRun": "All"})
        return found if found["spec"]["domain"]["cpu"]["cores"] == 7 else {}

    # The role hears of a preset a moment after it was written.
    found = wait_until(made, "the VMI gets its cores")
    assert found["metadata"]["annotations"]["virtualmachinepreset.kubevirt.io/many"] == "kubevirt.io/v1"
    admin.request("POST", PRESETS, preset("more", 8))

    def is_refused() -> bool:
        try:
            admin.request("POST", VMIS, document, {"dryRun": "All"})
        except Invalid as error:
            return "presets 'more' and 'many' conflict: spec.cpu" in str(error)
        return False

    wait_until(is_refused, "the VMI is refused")
    for name in ("many", "more"):
        remove(admin, f"{PRESETS}/{name}")


def test_a_set_whose_vmis_would_be_refused_is_refused(admin: KubeClient) -> None:
    document = replica_set_of(small_vmi(domain__devices__filesystems=[{"name": "f", "virtiofs": {}}]), 0)
    path = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancereplicasets"
    with pytest.raises(Invalid, match="filesystems"):
        admin.request("POST", path, document)
    document["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    with pytest.raises(Invalid, match=r"selector does not match labels\."):
        admin.request("POST", path, document)

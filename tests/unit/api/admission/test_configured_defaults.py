# Tests: kvedge/api/admission/vmi_defaults_plan.py, kvedge/api/admission/admission_plan.py
"""Defaults and rules of VMs under the configuration of a KubeVirt object."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_message import AdmissionRequest, GroupVersionResource
from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.vmi_defaults_plan import with_defaults, with_platform_defaults
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration_reading import read_configuration
from tests.support.builders import small_vmi


def cluster(architecture: str = "amd64", **configuration: Any) -> Cluster:
    reading = read_configuration({"configuration": configuration})
    assert reading.findings == ()
    return Cluster(architecture).with_configuration(reading.configuration)


def spec(**changes: Any) -> JsonObject:
    found: JsonObject = small_vmi(**changes)["spec"]
    return found


def causes(vmi: JsonObject, under: Cluster) -> list[str]:
    resource = GroupVersionResource(group="kubevirt.io", version="v1", resource="virtualmachineinstances")
    request = AdmissionRequest(uid="u", operation="CREATE", resource=resource, object=vmi)
    return [cause.message for cause in plan_verdict(request, under).causes]


def test_a_machine_and_a_cpu_that_a_vm_names_are_its_own() -> None:
    named = spec(domain__machine={"type": "pc-q35-6.0"}, domain__cpu={"model": "Haswell"})
    made = with_defaults(named, cluster(machineType="q35", cpuModel="Nehalem"))
    assert (made["domain"]["machine"]["type"], made["domain"]["cpu"]["model"]) == ("pc-q35-6.0", "Haswell")


def test_each_architecture_has_its_own_defaults() -> None:
    under = cluster(architectureConfiguration={"arm64": {"machineType": "virt-7.2"}}, machineType="pc-q35-7.2")
    assert with_defaults(spec(architecture="arm64"), under)["domain"]["machine"]["type"] == "virt-7.2"
    assert with_defaults(spec(), under)["domain"]["machine"]["type"] == "pc-q35-7.2"
    assert with_defaults(spec(architecture="arm64"), under)["domain"]["cpu"]["model"] == "host-passthrough"


def test_the_architecture_of_vms_that_name_none_can_be_configured() -> None:
    under = cluster(architectureConfiguration={"defaultArchitecture": "arm64"})
    assert with_platform_defaults(spec(), under)["architecture"] == "arm64"


@pytest.mark.parametrize(
    ("cpu_request", "resources", "written"),
    [
        ("300m", {}, "300m"),
        ("100m", {}, None),
        ("300m", {"requests": {"cpu": "2"}}, "2"),
        ("300m", {"limits": {"cpu": "2"}}, "2"),
    ],
    ids=["the configured one", "KubeVirt's default is not written", "the VM's own", "a limit is a request"],
)
def test_a_cpu_request_is_written_where_a_vm_has_none(
    cpu_request: str, resources: JsonObject, written: str | None
) -> None:
    made = with_defaults(spec(domain__resources=resources), cluster(cpuRequest=cpu_request))
    assert made["domain"]["resources"].get("requests", {}).get("cpu") == written


def test_a_serial_log_that_a_vm_asks_for_is_written() -> None:
    under = cluster(virtualMachineOptions={"disableSerialConsoleLog": {}})
    wanted = with_defaults(spec(domain__devices__logSerialConsole=True), under)
    assert wanted["domain"]["devices"]["logSerialConsole"] is True
    assert with_defaults(spec(), under)["domain"]["devices"]["logSerialConsole"] is False
    assert "logSerialConsole" not in with_defaults(spec(), cluster())["domain"]["devices"]


def test_a_bridge_on_the_pod_network_is_refused_where_it_is_not_permitted() -> None:
    under = cluster(network={"permitBridgeInterfaceOnPodNetwork": False})
    assert causes(small_vmi(), under) == ["Bridge on pod network configuration is not enabled under kubevirt-config"]
    assert causes(small_vmi(), cluster()) == []


def test_only_machines_that_the_cluster_permits_may_be_asked_for() -> None:
    under = cluster(emulatedMachines=["pc-q35-7*"], machineType="pc-q35-7.2")
    [message] = causes(small_vmi(domain__machine={"type": "q35"}), under)
    assert message == "spec.domain.machine.type is not supported: q35 (allowed values: [pc-q35-7*])"

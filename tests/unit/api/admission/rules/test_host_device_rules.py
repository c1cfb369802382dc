"""GPUs and host devices of a VMI: what is wrong, where, and in KubeVirt's words."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration_reading import read_configuration
from tests.support.builders import put, small_vmi, vm_of
from tests.support.reviews import request

DEVICES = "spec.domain.devices"
PERMITTED = {
    "pciHostDevices": [{"pciVendorSelector": "10de:1eb8", "resourceName": "n.com/t4"}],
    "mediatedDevices": [{"mdevNameSelector": "GRID_T4-1Q", "resourceName": "n.com/q"}],
    "usb": [{"resourceName": "n.com/usb", "selectors": [{"vendor": "46f4", "product": "0001"}]}],
}


def cluster(*, gate: bool = True, permitted: JsonObject | None = PERMITTED) -> Cluster:
    configuration: JsonObject = {"developerConfiguration": {"featureGates": ["HostDevices"] if gate else []}}
    if permitted is not None:
        configuration["permittedHostDevices"] = permitted
    reading = read_configuration({"configuration": configuration})
    assert reading.findings == ()
    return Cluster("amd64", reading.configuration)


def causes(where: Cluster, **devices: Any) -> list[tuple[str, str]]:
    vmi = small_vmi()
    for name, value in devices.items():
        put(vmi["spec"], f"domain.devices.{name}", value)
    return [(cause.field, cause.message) for cause in plan_verdict(request(vmi), where).causes]


def a_device(resource: str = "n.com/usb", name: str = "d", **rest: Any) -> JsonObject:
    return {"name": name, "deviceName": resource, **rest}


def test_what_is_permitted_enters() -> None:
    gpus = [a_device("n.com/t4", "a"), a_device("n.com/q", "b", virtualGPUOptions={"display": {"enabled": True}})]
    assert causes(cluster(), gpus=gpus, hostDevices=[a_device(), a_device(name="e")]) == []


@pytest.mark.parametrize(
    ("devices", "field", "message"),
    [
        pytest.param(
            {"gpus": [a_device("n.com/a10")]},
            "gpus[0].deviceName",
            "GPU n.com/a10 is not permitted in permittedHostDevices configuration",
            id="a GPU",
        ),
        pytest.param(
            {"hostDevices": [a_device(), a_device("n.com/key", "e")]},
            "hostDevices[1].deviceName",
            "HostDevice n.com/key is not permitted in permittedHostDevices configuration",
            id="a host device",
        ),
        pytest.param({"gpus": [{"name": "g"}]}, "gpus[0].deviceName", "is required: name a resource", id="no device"),
        pytest.param(
            {"hostDevices": [a_device(), a_device()]}, "hostDevices[1].name", "is used by another", id="a name twice"
        ),
        pytest.param(
            {"gpus": [a_device("n.com/t4", "a b")]}, "gpus[0].name", "can only contain 1 to 100 letters", id="a name"
        ),
        pytest.param(
            {"gpus": [a_device("n.com/t4", virtualGPUOptions={"display": {"enabled": True}})]},
            "gpus[0].virtualGPUOptions.display.enabled",
            "only virtual GPUs are shown",
            id="the display of a whole GPU",
        ),
        pytest.param(
            {
                "gpus": [a_device("n.com/q", virtualGPUOptions={"display": {"enabled": True}})],
                "autoattachGraphicsDevice": False,
            },
            "gpus[0].virtualGPUOptions.display.enabled",
            "there is no screen",
            id="a display without a screen",
        ),
        pytest.param(
            {"gpus": [a_device("n.com/q", name, virtualGPUOptions={"display": {}}) for name in ("a", "b")]},
            "gpus",
            "configuring multiple displays with ramfb is not valid ",
            id="two frame buffers",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_field(devices: dict[str, Any], field: str, message: str) -> None:
    ((at, said),) = causes(cluster(), **devices)
    assert at == f"{DEVICES}.{field}"
    assert message in said


def test_host_devices_need_kubevirts_gate_and_gpus_none() -> None:
    ((at, said),) = causes(cluster(gate=False), hostDevices=[a_device()], gpus=[a_device("n.com/t4")])
    assert (at, said) == (f"{DEVICES}.hostDevices", "Host Devices feature gate is not enabled in kubevirt-config")


def test_where_nothing_is_said_of_devices_any_plugins_resource_may_be_named() -> None:
    assert causes(cluster(permitted=None), gpus=[a_device("n.com/any")], hostDevices=[a_device("n.com/other")]) == []
    ((at, said),) = causes(cluster(permitted=None), gpus=[a_device("gpu" * 100)])
    assert at == f"{DEVICES}.gpus[0].deviceName"
    assert "is no name of a resource; give one such as example.com/gpu" in said


def test_the_template_of_a_vm_is_judged_alike() -> None:
    vm = vm_of(small_vmi(domain__devices__gpus=[a_device("n.com/a10")]))
    (cause,) = plan_verdict(request(vm), cluster()).causes
    assert cause.field == "spec.template.spec.domain.devices.gpus[0].deviceName"

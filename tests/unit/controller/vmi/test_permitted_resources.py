"""A launcher's Pod asks for devices, which have to be permitted when it is made."""

from __future__ import annotations

import pytest

from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.controller.vmi.launcher_pod.memory_overhead import VFIO
from kvedge.controller.vmi.permitted_resources import NotPermitted, check_permitted
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.configuration.feature_gates import CONTAINER_PATHS, FeatureGates
from kvedge.resources.host_devices.permitted_devices import PciPermit, PermittedDevices
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import parse_bytes
from tests.support.builders import CONFIG, vmi_with

PERMITTED = PermittedDevices(pci=(PciPermit("n.com/t4", "10de", "1eb8"),))


def guest(*gpus: str) -> VirtualMachineInstance:
    devices = [{"name": f"g{number}", "deviceName": each} for number, each in enumerate(gpus)]
    return vmi_with({"domain": {"devices": {"gpus": devices}, "memory": {"guest": "1Gi"}}})


def test_the_pod_asks_for_each_device_and_for_the_memory_that_they_lock() -> None:
    asked = launcher_pod(guest("n.com/t4", "n.com/t4"), CONFIG).spec.containers[0].resources
    plain = launcher_pod(guest(), CONFIG).spec.containers[0].resources
    assert asked.limits == plain.limits | {"n.com/t4": "2"}
    assert parse_bytes(asked.requests["memory"]) - parse_bytes(plain.requests["memory"]) == VFIO


def test_without_its_gate_no_pod_is_made_for_a_path_of_others() -> None:
    volumes = [{"name": "cloud", "containerPath": {"path": "/var/run/secrets/cloud"}}]
    cloudy = vmi_with({"domain": {"devices": {}}, "volumes": volumes})
    check_permitted(cloudy, CONFIG.with_configuration(Configuration(gates=FeatureGates(frozenset({CONTAINER_PATHS})))))
    with pytest.raises(NotPermitted, match="but the ContainerPathVolumes feature gate is disabled; the VM starts once"):
        check_permitted(cloudy, CONFIG.with_configuration(Configuration()))


def test_a_device_that_is_no_longer_permitted_keeps_the_pod_from_being_made() -> None:
    config = CONFIG.with_configuration(Configuration(permitted_devices=PERMITTED))
    check_permitted(guest("n.com/t4"), config)
    check_permitted(guest("n.com/a10"), CONFIG)
    with pytest.raises(NotPermitted) as refused:
        check_permitted(guest("n.com/t4", "n.com/a10"), config)
    assert str(refused.value) == (
        "spec.domain.devices.gpus[1].deviceName: GPU n.com/a10 is not permitted in permittedHostDevices configuration;"
        " the VM starts once it is there"
    )

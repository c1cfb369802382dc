"""A VM with its types, as its VMI is made: one that only tries a backup takes no hardware from the one that runs."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vm.typed_vm import make_typed
from kvedge.resources.codec import decode, encode
from kvedge.resources.instancetypes.application import VmTypes
from kvedge.resources.types.vm import VirtualMachine

TYPE: dict[str, Any] = {
    "cpu": {"guest": 2},
    "memory": {"guest": "1Gi"},
    "gpus": [{"name": "gpu", "deviceName": "vendor/gpu"}],
    "hostDevices": [{"name": "card", "deviceName": "vendor/card"}],
}
RESTORE = {"apiVersion": "backup.kvedge.io/v1alpha1", "kind": "BackupRestore", "name": "r", "uid": "u"}
POOL = {"apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "p", "uid": "u"}


@pytest.mark.parametrize(
    ("owners", "has_hardware"),
    [
        pytest.param([{**RESTORE, "controller": True}], False, id="a test's"),
        pytest.param([{**POOL, "controller": True}], True, id="a pool's"),
        pytest.param([], True, id="a user's"),
    ],
)
def test_the_vm_of_a_boot_test_gets_no_hardware_of_its_type(owners: list[Any], has_hardware: bool) -> None:
    document = {
        "metadata": {"name": "web", "namespace": "default", "ownerReferences": owners},
        "spec": {"instancetype": {"name": "large"}, "template": {"spec": {"domain": {"devices": {}}}}},
    }
    typed = make_typed(decode(VirtualMachine, document), VmTypes(instancetype=TYPE), "")
    assert typed.template is not None
    domain = encode(typed.template)["spec"]["domain"]
    assert domain["memory"]["guest"] == "1Gi"
    found = [domain.get("devices", {}).get(name) for name in ("gpus", "hostDevices")]
    assert found == ([TYPE["gpus"], TYPE["hostDevices"]] if has_hardware else [None, None])

"""The devices of a VMI that claims have."""

from __future__ import annotations

from kvedge.resources.host_devices.claimed_devices import claimed_devices, claimed_networks, container_claims
from kvedge.resources.host_devices.passed_devices import device_counts, passes_devices
from tests.support.builders import vmi_with

CLAIMED = {"claimName": "cards", "requestName": "gpu"}
VMI = vmi_with(
    {
        "domain": {
            "devices": {
                "gpus": [{"name": "g", **CLAIMED}, {"name": "both", "deviceName": "n.com/t4", **CLAIMED}],
                "hostDevices": [{"name": "plain", "deviceName": "n.com/qat"}, {"name": "h", "claimName": "other"}],
                "interfaces": [{"name": "red", "sriov": {}}],
            }
        },
        "networks": [{"name": "pod", "pod": {}}, {"name": "red", "resourceClaim": {"claimName": "nics"}}],
    }
)


def test_they_are_those_without_a_device_plugins_resource_in_order() -> None:
    found = [(device.key, device.field, device.claim, device.request) for device in claimed_devices(VMI.spec)]
    assert found == [
        ("gpus/g", "spec.domain.devices.gpus[0]", "cards", "gpu"),
        ("hostDevices/h", "spec.domain.devices.hostDevices[1]", "other", ""),
        ("networks/red", "spec.networks[1].resourceClaim", "nics", ""),
    ]
    assert list(claimed_networks(VMI.spec)) == ["red"]
    assert [(claim.name, claim.request) for claim in container_claims(VMI)] == [
        ("cards", "gpu"),
        ("other", ""),
        ("nics", ""),
    ]


def test_no_device_plugin_is_asked_for_them_and_their_memory_is_locked() -> None:
    assert device_counts(VMI) == {"n.com/t4": 1, "n.com/qat": 1}
    for devices in ({"gpus": [{"name": "g", **CLAIMED}]}, {"hostDevices": [{"name": "h", **CLAIMED}]}):
        assert passes_devices(vmi_with({"domain": {"devices": devices}}))

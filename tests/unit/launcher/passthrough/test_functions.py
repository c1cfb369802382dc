"""The functions of a guest, found in its Pod and looked at on a node that is a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.launcher_errors import BadRequest, DeviceUnusable, Unanswered
from kvedge.launcher.passthrough.functions import functions_of
from kvedge.resources.types.sriov_networks import NetworkDevice, network_info, resource_variable
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_vmi, vmi_with
from tests.support.claim_metadata import DRIVER, metadata, pci, tell_device
from tests.support.virtual_functions import ADDRESS, a_function, tell

ENVIRONMENT = {resource_variable("red"): "vendor.com/fast", "PCIDEVICE_VENDOR_COM_FAST": ADDRESS}


def guest() -> VirtualMachineInstance:
    interfaces = [{"name": "default", "masquerade": {}}, {"name": "red", "sriov": {}}]
    networks = [{"name": "default", "pod": {}}, {"name": "red", "multus": {"networkName": "fast"}}]
    return vmi_with({"domain": {"devices": {"interfaces": interfaces}}, "networks": networks})


def test_a_function_is_found_by_what_multus_tells_and_else_by_the_plugins_variable(tmp_path: Path) -> None:
    a_function(tmp_path)
    info = {"type": "pci", "pci": {"pci-address": ADDRESS}}
    tell(tmp_path, network_info([NetworkDevice(network="red", device_info=info)]))
    assert functions_of(guest(), str(tmp_path), {}) == {"red": ADDRESS}
    tell(tmp_path, network_info([NetworkDevice(network="red")]))
    assert functions_of(guest(), str(tmp_path), ENVIRONMENT) == {"red": ADDRESS}


def test_a_guest_without_functions_waits_for_nobody(tmp_path: Path) -> None:
    assert functions_of(a_vmi(), str(tmp_path), ENVIRONMENT) == {}


@pytest.mark.parametrize("text", [None, "", "\n", "[]", '{"interfaces": 3}', "{"])
def test_multus_is_waited_for_by_name(tmp_path: Path, text: str | None) -> None:
    a_function(tmp_path)
    if text is not None:
        tell(tmp_path, text)
    with pytest.raises(Unanswered, match=r"Multus|cannot be read"):
        functions_of(guest(), str(tmp_path), ENVIRONMENT)


def test_a_function_that_the_pod_cannot_use_is_told_with_its_resource(tmp_path: Path) -> None:
    a_function(tmp_path)
    tell(tmp_path, network_info([]))
    (tmp_path / "dev/vfio/42").unlink()
    with pytest.raises(DeviceUnusable, match=r"lacks /dev/vfio/42; the device plugin of vendor\.com/fast"):
        functions_of(guest(), str(tmp_path), ENVIRONMENT)


def test_an_address_that_is_none_leads_nowhere(tmp_path: Path) -> None:
    tell(tmp_path, network_info([]))
    with pytest.raises(BadRequest, match=r"'\.\./\.\./x' is no PCI address"):
        functions_of(guest(), str(tmp_path), {**ENVIRONMENT, "PCIDEVICE_VENDOR_COM_FAST": "../../x"})


def test_the_function_of_a_claim_is_told_by_its_driver_and_multus_is_not_waited_for(tmp_path: Path) -> None:
    a_function(tmp_path)
    interfaces = [{"name": "default", "masquerade": {}}, {"name": "red", "sriov": {}}]
    networks = [
        {"name": "default", "pod": {}},
        {"name": "red", "resourceClaim": {"claimName": "n", "requestName": "port"}},
    ]
    claims = [{"name": "n", "resourceClaimTemplateName": "nics"}]
    vmi = vmi_with({"domain": {"devices": {"interfaces": interfaces}}, "networks": networks, "resourceClaims": claims})
    with pytest.raises(BadRequest, match=r"^spec.networks\[1\].resourceClaim.claimName: request port of claim n"):
        functions_of(vmi, str(tmp_path), {})
    place = "resourceclaimtemplates/n/port"
    tell_device(tmp_path, place, metadata("port", pci(ADDRESS)))
    assert functions_of(vmi, str(tmp_path), {}) == {"red": ADDRESS}
    (tmp_path / "dev/vfio/42").unlink()
    with pytest.raises(DeviceUnusable, match=rf"interfaces\[1\].sriov: .*the DRA driver {DRIVER} gives it"):
        functions_of(vmi, str(tmp_path), {})
    tell_device(tmp_path, place, metadata("port", {}))
    with pytest.raises(BadRequest, match="tells no PCI address"):
        functions_of(vmi, str(tmp_path), {})

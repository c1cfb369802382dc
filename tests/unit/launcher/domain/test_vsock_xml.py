"""The guest's vsock; what libvirt makes of it is tested with the golden domains."""

from __future__ import annotations

from typing import Any

from tests.unit.launcher.domain.vmis import only, rendered, vmi

WANTED: dict[str, Any] = {"devices": {"autoattachVSOCK": True}}
NUMBERED: dict[str, Any] = {"VSOCKCID": 4242}


def test_the_number_is_that_of_the_vmi() -> None:
    element = only(rendered(vmi(WANTED, status=NUMBERED)), "devices/vsock")
    assert element.get("model") == "virtio-non-transitional"
    assert only(element, "cid").attrib == {"auto": "no", "address": "4242"}
    assert element.find("driver") is None


def test_of_an_encrypted_guest_it_asks_for_each_page() -> None:
    sev = {"firmware": {"bootloader": {"efi": {"secureBoot": False}}}, "launchSecurity": {"sev": {}}}
    element = only(rendered(vmi({**WANTED, **sev}, status=NUMBERED), emulation=False), "devices/vsock")
    assert only(element, "driver").attrib == {"iommu": "on"}


def test_a_number_alone_is_no_device() -> None:
    assert rendered(vmi(status=NUMBERED)).find("devices/vsock") is None


def test_it_takes_none_of_the_free_places() -> None:
    def count(status: dict[str, Any], devices: dict[str, Any]) -> int:
        domain = rendered(vmi({"devices": devices}, status=status))
        return len(domain.findall("devices/controller[@model='pcie-root-port']"))

    many = {"inputs": [{"name": f"i{number}", "bus": "virtio"} for number in range(4)]}
    assert count(NUMBERED, {**many, "autoattachVSOCK": True}) == count({}, many) + 1

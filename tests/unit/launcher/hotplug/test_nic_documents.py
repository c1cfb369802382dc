"""Documents of NICs that come while the guest runs: as at a start, each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

from kvedge.launcher.hotplug.document_process import make_documents
from kvedge.launcher.hotplug.nic_documents import nic_documents
from kvedge.resources.types.sriov_networks import NetworkDevice, network_info
from tests.support.virtual_functions import ADDRESS, a_function, tell


def question(*interfaces: dict[str, Any]) -> dict[str, Any]:
    domain = {"devices": {"interfaces": list(interfaces)}, "cpu": {"cores": 2}}
    return {
        "vmi": {"metadata": {"name": "v", "namespace": "n", "uid": "u"}, "spec": {"domain": domain}},
        "nics": {
            item["name"]: {"tap": f"tap{item['name']}", "mac": "02:00:00:00:00:05", "mtu": 1400} for item in interfaces
        },
        "libvirtVersion": 9_000_000,
    }


def test_a_nic_that_comes_is_as_it_would_be_at_a_start() -> None:
    made = nic_documents(question({"name": "lan", "bridge": {}, "state": "down"}))
    nic = fromstring(made["lan"]["xml"])
    assert nic.attrib == {"type": "ethernet"}
    found = {child.tag: dict(child.attrib) for child in nic}
    assert found == {
        "mac": {"address": "02:00:00:00:00:05"},
        "target": {"dev": "taplan", "managed": "no"},
        "model": {"type": "virtio-non-transitional"},
        "link": {"state": "down"},
        "mtu": {"size": "1400"},
        "rom": {"enabled": "no"},
        "alias": {"name": "ua-lan"},
    }


def test_a_nic_that_cannot_be_keeps_no_other_back() -> None:
    made = nic_documents(question({"name": "a", "bridge": {}, "model": "carrier-pigeon"}, {"name": "b", "bridge": {}}))
    assert "carrier-pigeon" in made["a"]["error"]
    assert made["b"]["xml"]


def test_what_is_no_vmi_is_the_error_of_each() -> None:
    asked = question({"name": "a", "bridge": {}})
    asked["vmi"]["spec"]["domain"]["cpu"] = 7
    assert "cpu" in nic_documents(asked)["a"]["error"]


def test_they_are_made_by_a_process_that_ends() -> None:
    made = make_documents(question({"name": "lan", "bridge": {}}))
    assert made["lan"].xml.startswith("<interface")


def of_functions(root: Path, *names: str) -> dict[str, Any]:
    asked = question(*({"name": name, "sriov": {}} for name in names))
    return asked | {"nics": {}, "functions": list(names), "root": str(root)}


def test_a_function_is_the_one_that_the_pod_was_given(tmp_path: Path) -> None:
    a_function(tmp_path)
    tell(
        tmp_path,
        network_info([NetworkDevice(network="fast", device_info={"type": "pci", "pci": {"pci-address": ADDRESS}})]),
    )
    made = nic_documents(of_functions(tmp_path, "fast"))
    device = fromstring(made["fast"]["xml"])
    assert (device.tag, device.get("managed")) == ("hostdev", "no")
    assert device.find("source/address").attrib["bus"] == "0x65"  # type: ignore[union-attr]
    assert device.find("alias").attrib == {"name": "ua-sriov-fast"}  # type: ignore[union-attr]


def test_functions_that_cannot_be_had_are_the_error_of_each(tmp_path: Path) -> None:
    a_function(tmp_path)
    made = nic_documents(of_functions(tmp_path, "fast", "slow"))
    assert set(made) == {"fast", "slow"}
    assert all("Multus" in entry["error"] for entry in made.values())

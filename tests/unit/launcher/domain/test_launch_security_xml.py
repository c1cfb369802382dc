"""How a guest's memory is encrypted; what libvirt makes of it is tested with the golden domains."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.launcher.domain.context import OvmfFiles
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.unit.launcher.domain.vmis import context, only, rendered, vmi

PLAIN = {"bootloader": {"efi": {"secureBoot": False}}}
NEW = 11_006_000


def encrypted(security: dict[str, Any], architecture: str = "amd64") -> VirtualMachineInstance:
    return vmi({"firmware": PLAIN, "launchSecurity": security}, architecture=architecture)


@pytest.mark.parametrize(
    ("security", "kind", "policy"),
    [
        ({"sev": {}}, "sev", "0x0001"),
        ({"sev": {"policy": {"encryptedState": False}}}, "sev", "0x0001"),
        ({"sev": {"policy": {"encryptedState": True}}}, "sev", "0x0005"),
        ({"snp": {}}, "sev-snp", "0x00030000"),
        ({"tdx": {}}, "tdx", None),
    ],
    ids=["SEV", "without its registers", "SEV-ES", "SNP", "TDX"],
)
def test_each_kind_has_kubevirts_policy(security: dict[str, Any], kind: str, policy: str | None) -> None:
    element = only(rendered(encrypted(security), emulation=False, libvirt_version=NEW), "launchSecurity")
    assert (element.get("type"), element.findtext("policy")) == (kind, policy)


def test_a_guest_that_is_not_encrypted_has_devices_without_an_iommu() -> None:
    assert "iommu" not in render_domain(vmi({"firmware": PLAIN, "devices": {"rng": {}}}), context(emulation=False))


@pytest.mark.parametrize(
    ("security", "node", "words"),
    [
        ({"sev": {}}, {}, "needs KVM, and this guest is emulated"),
        ({}, {"emulation": False}, "names no way to encrypt"),
        ({"snp": {}}, {"emulation": False}, "snp: needs libvirt 10.5, and this node has 9.0"),
        ({"tdx": {}}, {"emulation": False}, "tdx: needs libvirt 11.6, and this node has 9.0"),
        ({"snp": {}}, {"emulation": False, "ovmf": None}, "no UEFI firmware for SNP, OVMF.amdsev.fd"),
        ({"tdx": {}}, {"emulation": False, "ovmf": None}, "no UEFI firmware for TDX, OVMF.inteltdx.fd"),
    ],
    ids=["emulated", "no kind", "SNP on Debian 12", "TDX on Debian 12", "no firmware", "no firmware of Intel's"],
)
def test_what_a_node_cannot_do_is_told(security: dict[str, Any], node: dict[str, Any], words: str) -> None:
    with pytest.raises(ConversionError) as caught:
        render_domain(encrypted(security), context(**node))
    assert words in str(caught.value)


def test_arm64_encrypts_nothing() -> None:
    with pytest.raises(ConversionError, match="launchSecurity: is not there on arm64"):
        render_domain(encrypted({"sev": {}}, "arm64"), context(architecture="aarch64", emulation=False))


def test_firmware_that_is_measured_has_no_variables() -> None:
    domain = rendered(
        encrypted({"snp": {}}), emulation=False, libvirt_version=NEW, ovmf=OvmfFiles(code="/amdsev", rom=True)
    )
    assert only(domain, "os/loader").attrib == {"readonly": "yes", "type": "rom"}
    assert domain.find("os/nvram") is None

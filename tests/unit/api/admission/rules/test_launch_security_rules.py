"""Admission of guests whose memory is encrypted, in KubeVirt's words."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.launch_security_rules import is_blob
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.configuration.configuration import DEFAULTS, Configuration
from kvedge.resources.configuration.feature_gates import FeatureGates
from tests.support.builders import put, small_vmi
from tests.support.reviews import request

AT = "spec.domain.launchSecurity"
TDX = Configuration(gates=FeatureGates(enabled=frozenset({"WorkloadEncryptionTDX"})))
NO_SEV = Configuration(gates=FeatureGates(disabled=frozenset({"WorkloadEncryptionSEV"})))
PLAIN = {"domain.firmware.bootloader": {"efi": {"secureBoot": False}}}
SECURE: dict[str, Any] = {"domain.firmware.bootloader": {"efi": {}}}
LASTING = {"domain.firmware.bootloader": {"efi": {"secureBoot": False, "persistent": True}}}
SMM = {"domain.features": {"acpi": {}, "smm": {}}}


def causes(
    security: dict[str, Any], configuration: Configuration = DEFAULTS, architecture: str = "amd64", **spec: Any
) -> list[tuple[str, str]]:
    vmi = small_vmi()
    put(vmi, AT, security)
    for path, value in spec.items():
        put(vmi, f"spec.{path}", value)
    verdict = plan_verdict(request(vmi), Cluster(architecture, configuration))
    return [(str(cause.field), cause.message) for cause in verdict.causes]


@pytest.mark.parametrize(
    ("security", "configuration", "spec"),
    [
        ({"sev": {}}, DEFAULTS, PLAIN),
        ({"sev": {"policy": {"encryptedState": True}}}, DEFAULTS, LASTING),
        ({"sev": {"attestation": {}}}, DEFAULTS, {**PLAIN, "startStrategy": "Paused"}),
        ({"snp": {}}, DEFAULTS, PLAIN),
        ({"tdx": {}}, TDX, PLAIN),
        ({"tdx": {}}, TDX, SECURE),
    ],
    ids=["SEV", "SEV-ES that keeps variables", "attested", "SNP", "TDX", "TDX with secure boot, which needs no SMM"],
)
def test_what_can_be_encrypted_enters(
    security: dict[str, Any], configuration: Configuration, spec: dict[str, Any]
) -> None:
    assert causes(security, configuration, **spec) == []


NIC = {"name": "default", "masquerade": {}, "bootOrder": 1}
REFUSED = [
    pytest.param({}, DEFAULTS, PLAIN, AT, "One and only one launchSecurity type can be set", id="none"),
    pytest.param({"sev": {}, "snp": {}}, DEFAULTS, PLAIN, AT, "One and only one", id="two"),
    pytest.param({"sev": {}}, NO_SEV, PLAIN, AT, "WorkloadEncryptionSEV feature gate is not enabled", id="no SEV"),
    pytest.param({"snp": {}}, NO_SEV, PLAIN, AT, "WorkloadEncryptionSEV feature gate is not enabled", id="no SNP"),
    pytest.param({"tdx": {}}, DEFAULTS, PLAIN, AT, "WorkloadEncryptionTDX feature gate is not", id="no TDX"),
    pytest.param({"sev": {}}, DEFAULTS, {}, AT, "SEV requires OVMF (UEFI)", id="BIOS"),
    pytest.param({"snp": {}}, DEFAULTS, {}, AT, "SNP requires OVMF (UEFI)", id="SNP and BIOS"),
    pytest.param({"tdx": {}}, TDX, {}, AT, "TDX requires OVMF (UEFI)", id="TDX and BIOS"),
    pytest.param({"sev": {}}, DEFAULTS, {**SECURE, **SMM}, AT, "SEV does not work along with SecureBoot", id="secure"),
    pytest.param({"snp": {}}, DEFAULTS, {**SECURE, **SMM}, AT, "SNP does not work along with SecureBoot", id="SNP"),
    pytest.param({"tdx": {}}, TDX, {**SECURE, **SMM}, AT, "TDX does not work along with SMM", id="SMM"),
    pytest.param({"snp": {}}, DEFAULTS, LASTING, AT, "SNP does not work along with Persistent EFI", id="variables"),
    pytest.param({"sev": {"attestation": {}}}, DEFAULTS, PLAIN, AT, "StartStrategy 'Paused'", id="not paused"),
    pytest.param(
        {"sev": {}},
        DEFAULTS,
        {**PLAIN, "domain.devices.interfaces[0]": NIC},
        AT,
        "SEV does not work with bootable NICs: default",
        id="a NIC that boots",
    ),
    pytest.param(
        {"tdx": {}},
        TDX,
        {**PLAIN, "domain.devices.useVirtioTransitional": True},
        "spec.domain.devices.useVirtioTransitional",
        "transitional devices cannot reach encrypted memory",
        id="old virtio",
    ),
    pytest.param({"sev": {"session": "%"}}, DEFAULTS, PLAIN, f"{AT}.sev.session", "must be base64", id="no base64"),
    pytest.param({"sev": {"dhCert": "%"}}, DEFAULTS, PLAIN, f"{AT}.sev.dhCert", "must be base64", id="no certificate"),
]


@pytest.mark.parametrize(("security", "configuration", "spec", "field", "words"), REFUSED)
def test_what_cannot_be_is_refused(
    security: dict[str, Any], configuration: Configuration, spec: dict[str, Any], field: str, words: str
) -> None:
    found = causes(security, configuration, **spec)
    assert [at for at, message in found if words in message] == [field], found


def test_another_architecture_encrypts_nothing() -> None:
    found = causes({"sev": {}}, DEFAULTS, "arm64", **PLAIN)
    assert ("spec.architecture", "No launchSecurity support for architecture: arm64") in found


def test_a_blob_is_base64_of_a_size_that_libvirt_may_be_given() -> None:
    assert is_blob("")
    assert is_blob("c2Vzc2lvbg==")
    assert not is_blob("c2Vzc2lvbg")
    assert not is_blob("A" * (64 * 1024 + 4))

# Tests: kvedge/launcher/run/attestation.py, kvedge/launcher/libvirt/domain_launch_security.py
"""What the owner of an encrypted guest learns of it, and gives it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvedge.launcher.launcher_errors import BadRequest, Unreadable
from kvedge.launcher.run import attestation
from kvedge.launcher.run.attestation import Attestation, hash_loader
from kvedge.rpc.launcher_pb2 import InjectLaunchSecretRequest, LaunchMeasurement, SevInfo
from tests.support.needs import NEEDS_LIBVIRT


class Domain:
    """libvirt's, of a guest that waits on a host with AMD SEV; its words are those of libvirt's binding."""

    def __init__(self, loader: Path) -> None:
        self._loader = loader
        self.secrets: list[dict[str, str]] = []

    def getSEVInfo(self) -> dict[str, Any]:
        return {"pdh": "cGRo", "cert-chain": "Y2hhaW4=", "cbitpos": 51, "reduced-phys-bits": 1}

    def launchSecurityInfo(self) -> dict[str, Any]:
        numbers = {"sev-api-major": 1, "sev-api-minor": 55, "sev-build-id": 21, "sev-policy": 5}
        return {"sev-measurement": "bWVhc3VyZWQ=", **numbers}

    def XMLDesc(self) -> str:
        return f"<domain><os><loader type='pflash'>{self._loader}</loader></os></domain>"

    def setLaunchSecurityState(self, parameters: dict[str, str]) -> None:
        self.secrets.append(parameters)


@pytest.fixture
def domain(tmp_path: Path) -> Domain:
    (tmp_path / "OVMF.fd").write_bytes(b"firmware")
    return Domain(tmp_path / "OVMF.fd")


@pytest.fixture
def asked(domain: Domain) -> Attestation:
    from kvedge.launcher.libvirt.domain_launch_security import DomainLaunchSecurity

    session: Any = SimpleNamespace(launch_security=DomainLaunchSecurity(domain, lambda: domain))
    return Attestation(session)


@NEEDS_LIBVIRT
def test_the_host_is_known_by_its_key_and_certificates(asked: Attestation) -> None:
    assert asked.platform() == SevInfo(pdh="cGRo", cert_chain="Y2hhaW4=")


@NEEDS_LIBVIRT
def test_a_measurement_says_of_what_it_is(asked: Attestation) -> None:
    assert asked.measurement() == LaunchMeasurement(
        measurement="bWVhc3VyZWQ=",
        api_major=1,
        api_minor=55,
        build_id=21,
        policy=5,
        loader_sha256=hashlib.sha256(b"firmware").hexdigest(),
    )


@NEEDS_LIBVIRT
def test_a_secret_goes_to_the_guest_with_its_header(asked: Attestation, domain: Domain) -> None:
    asked.inject(InjectLaunchSecretRequest(header="aGVhZGVy", secret="c2VjcmV0"))
    assert domain.secrets == [{"sev-secret-header": "aGVhZGVy", "sev-secret": "c2VjcmV0"}]


@NEEDS_LIBVIRT
@pytest.mark.parametrize(("header", "secret", "words"), [("", "cw==", "Header is"), ("aA==", "", "Secret is")])
def test_half_a_secret_is_refused(asked: Attestation, domain: Domain, header: str, secret: str, words: str) -> None:
    with pytest.raises(BadRequest, match=f"{words} required"):
        asked.inject(InjectLaunchSecretRequest(header=header, secret=secret))
    assert domain.secrets == []


def test_firmware_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreadable, match="cannot be read"):
        hash_loader(str(tmp_path / "none"))
    (tmp_path / "large").write_bytes(bytes(9))
    monkeypatch.setattr(attestation, "_LARGEST_LOADER", 8)
    with pytest.raises(Unreadable, match="larger than"):
        hash_loader(str(tmp_path / "large"))

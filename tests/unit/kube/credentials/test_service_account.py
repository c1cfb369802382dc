"""A Pod's own credentials, and the token that is replaced while a role runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvedge.kube.credentials import service_account
from kvedge.kube.credentials.connection_settings import from_kubeconfig
from kvedge.kube.credentials.service_account import in_pod
from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError
from kvedge.runtime.tls.certificates import CertificateAuthority
from tests.support.clocks import FakeClock


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As a kubelet makes it, in a Pod of a cluster whose API is at an IPv6 address."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "2001:db8::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_bytes(CertificateAuthority.create("cluster", datetime.now(UTC)).certificate_pem)
    return tmp_path


def test_the_directory_stands_for_a_kubeconfig(directory: Path) -> None:
    found = from_kubeconfig(directory)
    assert found.host == "https://[2001:db8::1]:443"
    assert found.tls is not None
    assert found.authorization() == "Bearer first"


def test_a_token_that_was_replaced_is_used_within_a_minute(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr(service_account.time, "monotonic", clock.monotonic)
    connection = from_kubeconfig(directory)
    (directory / "token").write_text("second")
    clock.seconds += 59
    assert connection.authorization() == "Bearer first"
    clock.seconds += 1
    assert connection.authorization() == "Bearer second"


def test_a_token_that_cannot_be_read_for_a_moment_leaves_the_one_before(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(service_account.time, "monotonic", clock.monotonic)
    connection = from_kubeconfig(directory)
    (directory / "token").unlink()
    clock.seconds += 61
    assert connection.authorization() == "Bearer first"
    (directory / "token").write_bytes(b"\xff\xfe")
    assert connection.authorization() == "Bearer first"
    (directory / "token").write_text("second")
    assert connection.authorization() == "Bearer second"


def test_what_is_missing_is_named(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_pod({"KUBERNETES_SERVICE_HOST": "192.0.2.1"}, directory)
    assert not in_pod({}, directory)
    assert not in_pod({"KUBERNETES_SERVICE_HOST": "192.0.2.1"}, directory / "nowhere")
    (directory / "token").write_text("")
    with pytest.raises(KubeconfigError, match="token is empty"):
        from_kubeconfig(directory)
    (directory / "ca.crt").unlink()
    with pytest.raises(KubeconfigError, match=r"ca\.crt does not exist"):
        from_kubeconfig(directory)

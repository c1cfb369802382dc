"""Kubeconfigs as k3s, kubectl and we write them."""

from __future__ import annotations

import base64
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvedge.kube.credentials.connection_settings import from_kubeconfig, from_service_account
from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError
from tests.support.certificate_files import FileAuthority


def write(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", **cluster}}],
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return path


def embedded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.fixture
def authority(tmp_path: Path) -> FileAuthority:
    return FileAuthority(tmp_path, "ca")


def test_embedded_certificates_are_used_and_never_written_down(tmp_path, authority, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    pair = authority.issue("admin")
    path = write(
        tmp_path / "kubeconfig",
        {"certificate-authority-data": embedded(authority.ca)},
        {"client-certificate-data": embedded(pair.cert), "client-key-data": embedded(pair.key)},
    )
    open_before = len(os.listdir("/proc/self/fd"))
    made = from_kubeconfig(path)
    assert made.tls is not None
    assert made.tls.verify_mode == ssl.CERT_REQUIRED
    assert len(made.tls.get_ca_certs()) == 1
    assert list(scratch.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_file_names_count_from_the_kubeconfigs_directory(tmp_path, authority):
    pair = authority.issue("admin")
    path = write(
        tmp_path / "kubeconfig",
        {"certificate-authority": authority.ca.name},
        {"client-certificate": pair.cert.name, "client-key": pair.key.name},
    )
    assert from_kubeconfig(path).tls is not None


def test_the_server_is_checked_unless_the_kubeconfig_says_otherwise(tmp_path, authority):
    path = write(tmp_path / "kubeconfig", {"insecure-skip-tls-verify": True}, {"token": "t"})
    made = from_kubeconfig(path)
    assert made.tls is not None
    assert made.tls.verify_mode == ssl.CERT_NONE


def test_the_file_itself_is_left_as_it_is(tmp_path, authority):
    path = write(tmp_path / "kubeconfig", {"certificate-authority-data": embedded(authority.ca)}, {"token": "t"})
    before = path.read_bytes()
    from_kubeconfig(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a kubeconfig"),
        ("- a\n- b\n", "is not a kubeconfig"),
        ("{a: [", "is not YAML"),
        ("clusters: []\ncontexts: []\nusers: []\ncurrent-context: x\n", "x"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused_by_name(tmp_path, text, said):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(KubeconfigError, match=said) as caught:
        from_kubeconfig(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"\xff\xfe\x00\xd8", "UTF-8 text"), (b"a: \xe9", "UTF-8 text"), (b"a: 2001-99-99", "YAML")],
    ids=["utf-16", "latin-1", "date"],
)
def test_bytes_that_are_no_text_are_refused_by_name(tmp_path, content, what):
    path = tmp_path / "kubeconfig"
    path.write_bytes(content)
    with pytest.raises(KubeconfigError, match=f"{path}: is not {what}"):
        from_kubeconfig(path)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(KubeconfigError, match="no-such-file: cannot be read: No such file or directory"):
        from_kubeconfig(tmp_path / "no-such-file")


@pytest.mark.parametrize("data", ["%%%", "Zür", base64.b64encode(b"no certificate").decode()])
def test_broken_certificates_are_refused(tmp_path, data):
    path = write(tmp_path / "kubeconfig", {"certificate-authority-data": data}, {"token": "t"})
    with pytest.raises(KubeconfigError):
        from_kubeconfig(path)


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("https://127.0.0.1:6443", ""),
        ("https://[::1]:6443", ""),
        ("https://localhost:6443", ""),
        ("https://192.0.2.1:6443", "http://proxy.example:3128"),
        ("https://k8s.example:6443", "http://proxy.example:3128"),
    ],
)
def test_the_environments_proxy_is_asked_for_other_hosts_only(tmp_path, monkeypatch, server, proxy):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    path = write(tmp_path / "kubeconfig", {"server": server}, {"token": "t"})
    assert from_kubeconfig(path).proxy == proxy


def test_a_proxy_that_the_kubeconfig_names_is_asked_for_any_host(tmp_path):
    path = write(tmp_path / "kubeconfig", {"proxy-url": "http://proxy.example:3128"}, {"token": "t"})
    assert from_kubeconfig(path).proxy == "http://proxy.example:3128"


def test_outside_of_a_cluster_there_is_no_service_account(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"):
        from_service_account()

"""Where the API server is that a console asks."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault
from kvedge.web.on_box.api_address import read_api_address

_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: one, user: me}}]
clusters: [{name: one, cluster: {server: "https://192.0.2.1:6443", %s}}]
users: [{name: me, user: {token: secret}}]
"""


def kubeconfig(directory: Path, authority: str) -> Path:
    path = directory / "kubeconfig"
    path.write_text(_KUBECONFIG % authority)
    return path


def test_address_and_authority_are_taken_and_no_credential(tmp_path: Path) -> None:
    found = read_api_address(kubeconfig(tmp_path, "certificate-authority-data: YWJj"))
    assert found == {"server": "https://192.0.2.1:6443", "certificate-authority-data": "YWJj"}


def test_how_it_is_reached_goes_along(tmp_path: Path) -> None:
    found = read_api_address(kubeconfig(tmp_path, 'tls-server-name: api.example, proxy-url: "http://192.0.2.9:3128"'))
    assert (found["tls-server-name"], found["proxy-url"]) == ("api.example", "http://192.0.2.9:3128")


def test_an_authority_in_a_file_beside_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("abc")
    found = read_api_address(kubeconfig(tmp_path, "certificate-authority: ca.pem"))
    assert found["certificate-authority-data"] == base64.b64encode(b"abc").decode()
    with pytest.raises(KubeconfigFault, match="cannot be read"):
        read_api_address(kubeconfig(tmp_path, "certificate-authority: gone.pem"))


def test_a_pod_asks_the_server_of_its_account(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("abc")
    (tmp_path / "token").write_text("secret")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = read_api_address(tmp_path, environment)
    assert found == {"server": "https://[fd00::1]:443", "certificate-authority-data": "YWJj"}
    with pytest.raises(KubeconfigFault, match="not set"):
        read_api_address(tmp_path, {})

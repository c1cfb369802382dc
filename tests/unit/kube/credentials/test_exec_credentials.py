"""Credential plugins: programs that a kubeconfig names, run as client.authentication.k8s.io says."""

from __future__ import annotations

import base64
import json
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.credentials.connection_settings import Connection, KubeconfigError, from_document
from kvedge.kube.credentials.exec_credentials import ExecPlugin
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.rest_edge import RestEdge
from kvedge.resources.types.core import ConfigMap
from kvedge.runtime.clock import rfc3339
from tests.support.certificate_files import FileAuthority
from tests.support.scripted_api import scripted_api

V1 = "client.authentication.k8s.io/v1"
VERSIONS = [V1, "client.authentication.k8s.io/v1beta1"]


class Plugin:
    """A program that keeps what it was told, and prints what the test has laid out."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "plugin"
        self.path.write_text(
            f'#!/bin/sh\ncd {directory}\nprintf "%s" "$KUBERNETES_EXEC_INFO" >info\n'
            'printf "%s\\n" "$*" "${REGION-}" >told\necho run >>runs\n[ ! -e fails ] || { cat fails >&2; exit 3; }\n'
            "cat answer\n"
        )
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def answers(self, status: dict[str, Any], version: str = V1) -> None:
        document = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        (self.directory / "answer").write_text(json.dumps(document))

    @property
    def runs(self) -> int:
        path = self.directory / "runs"
        return len(path.read_text().split()) if path.exists() else 0

    @property
    def info(self) -> Any:
        return json.loads((self.directory / "info").read_text())

    def connect(self, server: str = "https://10.0.0.1:6443", **entry: Any) -> Connection:
        cluster = entry.pop("cluster", {})
        used = {"apiVersion": V1, "command": str(self.path), "interactiveMode": "Never", **entry}
        document = {
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"exec": used}}],
        }
        return from_document(document, self.directory / "kubeconfig")


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plugin_gives_a_token(plugin: Plugin, version: str) -> None:
    plugin.answers({"token": "t1"}, version)
    made = plugin.connect(apiVersion=version, args=["get-token", "a b"], env=[{"name": "REGION", "value": "eu"}])
    assert made.authorization() == "Bearer t1"
    assert (plugin.directory / "told").read_text() == "get-token a b\neu\n"
    assert plugin.info == {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert plugin.runs == 1


def test_its_token_goes_with_each_request(plugin: Plugin) -> None:
    plugin.answers({"token": "t1"})
    with scripted_api(lambda exchange: exchange.answer(200, {"kind": "ConfigMap", "metadata": {"name": "a"}})) as api:
        KubeClient(RestEdge(plugin.connect(api.url))).get(ConfigMap, "default", "a")
        assert api.requests[0].headers["Authorization"] == "Bearer t1"


def test_a_token_is_asked_for_again_when_it_ends(plugin: Plugin) -> None:
    plugin.answers({"token": "t1", "expirationTimestamp": rfc3339(datetime.now(UTC) - timedelta(seconds=1))})
    made = plugin.connect()
    plugin.answers({"token": "t2", "expirationTimestamp": rfc3339(datetime.now(UTC) + timedelta(hours=1))})
    assert [made.authorization(), made.authorization()] == ["Bearer t2", "Bearer t2"]
    assert plugin.runs == 2


def test_a_plugin_gives_a_certificate_that_is_never_written_down(
    plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    pair = FileAuthority(tmp_path, "ca").issue("plugins-user")
    plugin.answers({"clientCertificateData": pair.cert.read_text(), "clientKeyData": pair.key.read_text()})
    made = plugin.connect()
    assert made.authorization() == ""
    assert isinstance(made.tls, ssl.SSLContext)
    assert made.certificate is not None
    assert made.certificate.pem in pair.cert.read_bytes()
    assert list(scratch.iterdir()) == []


def test_a_plugin_is_told_of_the_cluster_when_it_asks(plugin: Plugin, tmp_path: Path) -> None:
    authority = FileAuthority(tmp_path, "ca")
    plugin.answers({"token": "t"})
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    plugin.connect(
        provideClusterInfo=True,
        cluster={"certificate-authority": "ca.crt", "tls-server-name": "n", "extensions": [extension]},
    )
    assert plugin.info["spec"]["cluster"] == {
        "server": "https://10.0.0.1:6443",
        "tls-server-name": "n",
        "certificate-authority-data": base64.b64encode(authority.ca.read_bytes()).decode(),
        "config": {"audience": "x"},
    }


def test_a_relative_program_counts_from_the_kubeconfig(plugin: Plugin) -> None:
    plugin.answers({"token": "t"})
    assert plugin.connect(command="./plugin").authorization() == "Bearer t"


def test_a_kubeconfig_with_a_relative_name_counts_from_here(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin.answers({"token": "t"})
    monkeypatch.chdir(plugin.directory)
    made = ExecPlugin({"apiVersion": V1, "command": "./plugin"}, {}, "", Path("."))
    assert made.run().token == "t"


def test_a_plugin_that_fails_is_told_in_its_own_words(plugin: Plugin) -> None:
    (plugin.directory / "fails").write_text("log in first\n")
    with pytest.raises(KubeconfigError, match=r"/kubeconfig: exec: .*/plugin ended with 3\. log in first"):
        plugin.connect()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"command": "no-such-plugin", "installHint": "get it"}, "there is no program no-such-plugin; get it"),
        ({"command": ""}, "it needs a command"),
        ({"apiVersion": "v1"}, "an apiVersion of client.authentication.k8s.io/v1 or v1beta1"),
        ({"interactiveMode": "Always"}, "needs a terminal"),
        ({"args": "x"}, "args is not a list"),
    ],
)
def test_a_plugin_that_cannot_be_run_is_refused(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    # A directory of PATH that this user may not search is another error than a program that is nowhere.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(KubeconfigError, match=said):
        plugin.connect(**entry)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "neither a token nor a certificate with its key"),
        ({"clientCertificateData": "c"}, "neither a token nor a certificate with its key"),
        ({"token": 5}, "token is not a text"),
        ({"token": "t", "expirationTimestamp": "soon"}, "expirationTimestamp"),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(plugin: Plugin, status: dict[str, Any], said: str) -> None:
    plugin.answers(status)
    with pytest.raises(KubeconfigError, match=said):
        plugin.connect()


def test_an_answer_of_another_version_is_refused(plugin: Plugin) -> None:
    plugin.answers({"token": "t"}, VERSIONS[1])
    with pytest.raises(KubeconfigError, match=f"has not answered by {V1}"):
        plugin.connect()
    (plugin.directory / "answer").write_text("no JSON")
    with pytest.raises(KubeconfigError, match="has not printed JSON"):
        plugin.connect()

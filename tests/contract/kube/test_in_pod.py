"""Roles that run as Pods, on both servers: they speak as their account, and leave their Service to the cluster."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from kvedge.api.registration.admission_manifest import mutating_webhooks, validating_webhooks
from kvedge.api.registration.registration_loop import Registration
from kvedge.api.registration.registration_manifest import SLICES, Endpoint, service
from kvedge.kube.credentials import service_account
from kvedge.kube.errors import AlreadyExists, Forbidden, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import SYSTEM_NAMESPACE, VERSION
from kvedge.resources.types.core import Namespace, Pod
from kvedge.runtime.tls.certificates import CertificateAuthority
from tests.support.edits import edit
from tests.support.either_server import EitherServer

AUTHORITY = CertificateAuthority.create("kvedge", datetime.now(UTC)).certificate_pem
ENDPOINT = Endpoint("192.0.2.7", 8443, "pod-1")
LABELS = {"app": "kvedge-api"}
NEWER = "99.0.0"
SECRET = "5ec2e7"


def token(server: EitherServer, namespace: str, name: str) -> str:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    server.admin.request("POST", accounts, {"metadata": {"name": name}})
    answer = server.admin.request("POST", f"{accounts}/{name}/token", {"spec": {}})
    return str(answer["status"]["token"])


def test_a_role_speaks_as_its_pods_account_also_after_the_token_was_replaced(
    either_server: EitherServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = either_server.new_namespace()
    cluster = yaml.safe_load(either_server.kubeconfig.read_text())["clusters"][0]["cluster"]
    address = urlsplit(cluster["server"])
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    authority = service_authority(cluster, either_server.kubeconfig.parent)
    (tmp_path / "ca.crt").write_bytes(authority)
    (tmp_path / "token").write_text(token(either_server, namespace, "first"))
    monkeypatch.setattr(service_account, "_AGAIN_SECONDS", 0.0)
    client = KubeClient.from_kubeconfig(tmp_path)
    try:
        for name in ("first", "second"):
            if name == "second":
                (tmp_path / "token").write_text(token(either_server, namespace, name))
            with pytest.raises(Forbidden, match=f"system:serviceaccount:{namespace}:{name}"):
                client.list(Pod, namespace)
    finally:
        client.close()


def service_authority(cluster: dict[str, str], directory: Path) -> bytes:
    if data := cluster.get("certificate-authority-data"):
        return base64.b64decode(data)
    return (directory / cluster["certificate-authority"]).read_bytes()


@pytest.fixture
def admin(either_server: EitherServer) -> Iterator[KubeClient]:
    """The administrator of a cluster whose Service kvedge-api selects Pods."""
    admin, wanted = either_server.admin, service()
    with contextlib.suppress(AlreadyExists):
        admin.create(Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE)))
    admin.request("POST", wanted.collection, {**wanted.body, "spec": {**wanted.body["spec"], "selector": LABELS}})
    yield admin
    webhooks = (validating_webhooks(b"", SECRET), mutating_webhooks(b"", SECRET))
    for path in (wanted.path, *(document.path for document in webhooks)):
        with contextlib.suppress(NotFound):
            admin.request("DELETE", path)


def test_a_service_that_selects_pods_keeps_the_endpoints_that_the_cluster_finds(admin: KubeClient) -> None:
    registration, path = Registration(admin, ENDPOINT), service().path
    registration.write(AUTHORITY, SECRET)
    assert admin.request("GET", path)["spec"]["selector"] == LABELS
    assert "kvedge-api-pod-1-ipv4" not in [item["metadata"]["name"] for item in admin.request("GET", SLICES)["items"]]
    # One that selects nobody is ours to fill.
    admin.request("DELETE", path)
    registration.write(AUTHORITY, SECRET)
    assert "kvedge-api-pod-1-ipv4" in [item["metadata"]["name"] for item in admin.request("GET", SLICES)["items"]]


def test_a_role_in_a_pod_leaves_webhooks_to_a_newer_one_as_long_as_that_is_ready(admin: KubeClient) -> None:
    registration, path = Registration(admin, ENDPOINT), validating_webhooks(b"", SECRET).path
    pods = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods"
    versions = {"older": "0.0.1", "newer": NEWER}
    for name, version in versions.items():
        metadata = {"name": name, "labels": LABELS, "annotations": {VERSION: version}}
        spec = {"containers": [{"name": "api", "image": "x"}]}
        admin.request("POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def report(name: str, ready: str) -> None:
        body = {"status": {"conditions": [{"type": "Ready", "status": ready}]}}
        admin.request("PATCH", f"{pods}/{name}/status", body, None, "application/merge-patch+json")

    def seconds_after_a_round() -> int:
        """What the newer one has changed, once ours has looked at it."""

        def change(there: Any) -> None:
            there["webhooks"][0]["timeoutSeconds"] = 7
            there["metadata"]["annotations"][VERSION] = NEWER

        edit(admin, path, change)
        registration.write(AUTHORITY, SECRET)
        return int(admin.request("GET", path)["webhooks"][0]["timeoutSeconds"])

    try:
        registration.write(AUTHORITY, SECRET)
        report("older", "True")
        assert seconds_after_a_round() == 10
        report("newer", "True")
        assert seconds_after_a_round() == 7
        # The upgrade is taken back.
        report("newer", "False")
        assert seconds_after_a_round() == 10
    finally:
        for name in versions:
            admin.request("DELETE", f"{pods}/{name}", {"gracePeriodSeconds": 0})

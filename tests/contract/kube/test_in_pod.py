"""Roles that run as Pods, on both servers: they speak as their account, and leave their Service to the cluster."""

from __future__ import annotations

import base64
import contextlib
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from kvedge.api.registration_loop import Registration
from kvedge.api.registration_manifest import Endpoint, service
from kvedge.kube import service_account
from kvedge.kube.errors import AlreadyExists, Forbidden, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.core import Namespace, Pod
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.runtime.certificates import CertificateAuthority
from tests.support.either_server import EitherServer


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


def test_a_service_that_selects_pods_keeps_the_endpoints_that_the_cluster_finds(either_server: EitherServer) -> None:
    admin, endpoint = either_server.admin, Endpoint("192.0.2.7", 8443, "pod-1")
    with contextlib.suppress(AlreadyExists):
        admin.create(Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE)))
    wanted = service()
    body = {**wanted.body, "spec": {**wanted.body["spec"], "selector": {"app": "kvedge-api"}}}
    admin.request("POST", wanted.collection, body)
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/endpointslices"
    authority = CertificateAuthority.create("kvedge", datetime.now(UTC)).certificate_pem
    try:
        registration = Registration(admin, endpoint)
        registration.write(authority)
        assert admin.request("GET", wanted.path)["spec"]["selector"] == {"app": "kvedge-api"}
        names = [item["metadata"]["name"] for item in admin.request("GET", slices)["items"]]
        assert "kvedge-api-pod-1-ipv4" not in names
        # One that selects nobody is ours to fill.
        admin.request("DELETE", wanted.path)
        registration.write(authority)
        names = [item["metadata"]["name"] for item in admin.request("GET", slices)["items"]]
        assert "kvedge-api-pod-1-ipv4" in names
    finally:
        for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            with contextlib.suppress(NotFound):
                admin.request("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}/kvedge")

"""Users and rights by what people type: an unmodified kubectl, against both servers."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest

from kvedge.runtime.tls.certificate_requests import new_request
from tests.contract.apiserver.conftest import Server
from tests.contract.apiserver.test_kubectl import PROGRAMS, Kubectl
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract


@pytest.fixture
def kubectl(api_server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    """The newest one; older ones know the same requests."""
    return Kubectl(PROGRAMS[-1], api_server, namespace, tmp_path / "cache")


def can(kubectl: Kubectl, user: str, *question: str) -> bool:
    """What `auth can-i` says for a user."""
    command = [*kubectl.command, "auth", "can-i", *question, f"--as={user}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    # "no" comes with exit code 1, and at times with a reason behind it.
    word = done.stdout.partition(" ")[0].strip()
    assert word in ("yes", "no"), done.stdout + done.stderr
    return word == "yes"


def test_a_role_and_its_binding_give_what_they_say(kubectl: Kubectl, namespace: str) -> None:
    user = f"joe-{namespace}"
    kubectl.run("create", "role", "pods", "--verb=get,list", "--resource=pods,pods/log")
    kubectl.run("create", "role", "one", "--verb=get", "--resource=secrets", "--resource-name=mine")
    kubectl.run("create", "rolebinding", "pods", "--role=pods", f"--user={user}")
    kubectl.run("create", "rolebinding", "one", "--role=one", f"--user={user}")
    wait_until(lambda: can(kubectl, user, "list", "pods"), "the binding counts")
    assert can(kubectl, user, "get", "pods/log")
    assert not can(kubectl, user, "delete", "pods")
    assert not can(kubectl, user, "list", "pods", "--all-namespaces")
    assert can(kubectl, user, "get", "secrets/mine")
    assert not can(kubectl, user, "get", "secrets/yours")
    listed = kubectl.run("auth", "can-i", "--list", f"--as={user}")
    assert [line.split() for line in listed.splitlines() if line.startswith("secrets")] == [
        ["secrets", "[]", "[mine]", "[get]"]
    ]
    assert "pods/log" in listed
    kubectl.run("delete", "rolebinding", "pods")
    wait_until(lambda: not can(kubectl, user, "list", "pods"), "the right has ended")


def test_one_sees_who_one_is(kubectl: Kubectl) -> None:
    found = json.loads(kubectl.run("auth", "whoami", "-o", "json"))
    assert found["status"]["userInfo"]["username"] == "admin"
    as_joe = json.loads(kubectl.run("auth", "whoami", "-o", "json", "--as=joe", "--as-group=friends"))
    assert as_joe["status"]["userInfo"]["username"] == "joe"
    assert set(as_joe["status"]["userInfo"]["groups"]) == {"friends", "system:authenticated"}


def test_cluster_roles_are_made_described_and_reconciled(kubectl: Kubectl, namespace: str) -> None:
    kubectl.run("create", "clusterrole", namespace, "--verb=get", "--non-resource-url=/metrics")
    kubectl.run("create", "clusterrolebinding", namespace, f"--clusterrole={namespace}", "--group=watchers")
    assert "/metrics" in kubectl.run("describe", "clusterrole", namespace)
    assert "watchers" in kubectl.run("describe", "clusterrolebinding", namespace)
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": namespace},
        "rules": [{"verbs": ["get"], "nonResourceURLs": ["/logs"]}],
    }
    kubectl.run("auth", "reconcile", "-f", "-", text=json.dumps(role))
    described = kubectl.run("describe", "clusterrole", namespace)
    assert "/logs" in described
    assert "/metrics" in described
    kubectl.run("delete", "clusterrole,clusterrolebinding", namespace)


def test_a_certificate_is_requested_approved_and_denied(kubectl: Kubectl, namespace: str) -> None:
    for name in ("good", "bad"):
        request = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": f"{namespace}-{name}"},
            "spec": {
                "request": base64.b64encode(new_request("ann").request).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "expirationSeconds": 86400,
                "usages": ["client auth"],
            },
        }
        kubectl.run("apply", "-f", "-", text=json.dumps(request))
    row = kubectl.run("get", "csr", f"{namespace}-good", "--no-headers").split()
    assert row[2:] == ["kubernetes.io/kube-apiserver-client", "admin", "24h", "Pending"]
    assert "approved" in kubectl.run("certificate", "approve", f"{namespace}-good")
    assert "denied" in kubectl.run("certificate", "deny", f"{namespace}-bad")
    assert "Approved" in kubectl.run("get", "csr", f"{namespace}-good", "--no-headers").split()[-1]
    assert kubectl.run("get", "csr", f"{namespace}-bad", "--no-headers").split()[-1] == "Denied"
    assert "ann" in kubectl.run("describe", "csr", f"{namespace}-good")
    kubectl.run("delete", "csr", f"{namespace}-good", f"{namespace}-bad")


def test_an_account_gets_a_token(kubectl: Kubectl, namespace: str) -> None:
    kubectl.run("create", "serviceaccount", "robot")
    token = kubectl.run("create", "token", "robot", "--duration=15m", "--audience=vault").strip()
    claims = token.split(".")[1]
    found = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert found["sub"] == f"system:serviceaccount:{namespace}:robot"
    assert found["aud"] == ["vault"]
    assert found["exp"] - found["iat"] == 900
    assert found["kubernetes.io"]["serviceaccount"]["name"] == "robot"

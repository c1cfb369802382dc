"""`kvedge user create` against both servers: the file that it writes is a user with just the rights that were given."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kvedge.cli.exits import Exit
from kvedge.kube.errors import Forbidden
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.role_users import UserInfo
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.cluster_signer import ClusterSigner
from tests.support.either_server import EMBEDDED, REAL, EitherServer, running
from tests.support.kube_apiserver import RealApiServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module", params=[EMBEDDED, REAL])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EitherServer]:
    with running(request.param, tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture(scope="module")
def signing(server: EitherServer) -> Iterator[None]:
    """In a cluster the controller manager signs; where there is none, its part is played."""
    if not isinstance(server.server, RealApiServer):
        yield
        return
    with ClusterSigner(server.admin, server.server.authority):
        yield


@pytest.fixture
def namespace(server: EitherServer) -> str:
    return server.new_namespace()


def kvedge(server: EitherServer, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program as an administrator, in a directory of its own."""
    command = [sys.executable, "-m", "kvedge", "user", *arguments, "--kubeconfig", str(server.kubeconfig)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=90
    )


def test_the_file_is_a_user_with_the_given_role_in_the_given_namespace(
    server: EitherServer, signing: None, namespace: str, tmp_path: Path
) -> None:
    done = kvedge(server, tmp_path, "create", "ann", "--group", "ops", "--role", "kubevirt.io:view", "-n", namespace)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "ann.kubeconfig"
    assert done.stdout == f"user ann was made, with kubevirt.io:view in namespace {namespace}: ann.kubeconfig\n"
    assert path.stat().st_mode & 0o777 == 0o600
    ann = KubeClient.from_kubeconfig(path)
    who = ann.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})["status"]["userInfo"]
    assert who["username"] == "ann"
    assert set(who["groups"]) == {"ops", "system:authenticated"}
    assert ann.list(VirtualMachine, namespace) == []
    with pytest.raises(Forbidden):
        ann.list(VirtualMachine, "default")
    with pytest.raises(Forbidden):
        ann.request("GET", f"/api/v1/namespaces/{namespace}/secrets")
    ann.close()
    assert yaml.safe_load(path.read_text())["contexts"][0]["context"]["namespace"] == namespace


def test_with_all_namespaces_a_role_counts_everywhere(server: EitherServer, signing: None, tmp_path: Path) -> None:
    arguments = ("bob", "--role", "kubevirt.io:view", "--role", "kubevirt.io:migrate", "-A", "-o", "b.yaml")
    done = kvedge(server, tmp_path, "create", *arguments, "--days", "1")
    assert done.returncode == 0, done.stderr
    bob = KubeClient.from_kubeconfig(tmp_path / "b.yaml")
    assert bob.list(VirtualMachine) == []
    bob.close()
    # Once more, for a new certificate: the bindings are there already.
    assert kvedge(server, tmp_path, "create", *arguments).returncode == Exit.FAILED
    assert kvedge(server, tmp_path, "create", *arguments, "--force").returncode == 0


def test_a_role_that_is_not_there_makes_no_user(server: EitherServer, namespace: str, tmp_path: Path) -> None:
    done = kvedge(server, tmp_path, "create", "carl", "--role", "kubevirt.io:wiev", "-n", namespace)
    assert done.returncode == Exit.NOT_FOUND
    assert 'clusterroles.rbac.authorization.k8s.io "kubevirt.io:wiev" not found' in done.stderr
    assert not list(tmp_path.glob("*.kubeconfig"))
    found = server.admin.request("GET", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings")
    assert found["items"] == []


def test_a_file_that_is_there_is_left_alone(server: EitherServer, tmp_path: Path) -> None:
    path = tmp_path / "eve.kubeconfig"
    path.write_text("mine")
    done = kvedge(server, tmp_path, "create", "eve")
    assert done.returncode == Exit.FAILED
    assert "is there already" in done.stderr
    assert path.read_text() == "mine"


def test_the_key_is_in_the_file_alone(server: EitherServer, signing: None, tmp_path: Path) -> None:
    assert kvedge(server, tmp_path, "create", "fay").returncode == 0
    user = yaml.safe_load((tmp_path / "fay.kubeconfig").read_text())["users"][0]["user"]
    assert b"PRIVATE KEY" in base64.b64decode(user["client-key-data"])
    assert [path.name for path in tmp_path.iterdir()] == ["fay.kubeconfig"]
    requests = server.admin.request("GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests")
    assert "PRIVATE KEY" not in str(requests)


def test_a_handlers_kubeconfig_is_of_its_node_alone(server: EitherServer, signing: None, tmp_path: Path) -> None:
    done = kvedge(server, tmp_path, "role", "handler", "--node", "n1")
    assert done.returncode == 0, done.stderr
    handler = KubeClient.from_kubeconfig(tmp_path / "kvedge-handler-n1.kubeconfig")
    who = handler.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})["status"]["userInfo"]
    assert UserInfo(who["username"], who["groups"]).node == "n1"
    assert handler.list(VirtualMachineInstance) == []
    with pytest.raises(Forbidden):
        handler.list(VirtualMachine)
    handler.close()


def test_a_user_is_listed_and_loses_what_was_given(
    server: EitherServer, signing: None, namespace: str, tmp_path: Path
) -> None:
    arguments = ("gus@example.com", "--role", "kubevirt.io:view", "-o", "gus")
    assert kvedge(server, tmp_path, "create", *arguments, "-n", namespace).returncode == 0
    assert kvedge(server, tmp_path, "create", *arguments, "-A", "--force").returncode == 0
    rows = [line.split() for line in kvedge(server, tmp_path, "list").stdout.splitlines()]
    assert ["gus@example.com", "kubevirt.io:view", namespace] in rows
    assert ["gus@example.com", "kubevirt.io:view", "(everywhere)"] in rows
    done = kvedge(server, tmp_path, "delete", "gus@example.com")
    assert done.stdout.splitlines() == [
        "user gus@example.com has lost kubevirt.io:view everywhere",
        f"user gus@example.com has lost kubevirt.io:view in namespace {namespace}",
    ]
    gus = KubeClient.from_kubeconfig(tmp_path / "gus")
    wait_until(lambda: _is_refused(gus, namespace), "the rights have ended")
    gus.close()
    assert kvedge(server, tmp_path, "delete", "gus@example.com").returncode == Exit.NOT_FOUND


def _is_refused(client: KubeClient, namespace: str) -> bool:
    try:
        client.list(VirtualMachine, namespace)
    except Forbidden:
        return True
    return False

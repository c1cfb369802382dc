"""`kvedge web` before an embedded API with the api role, and a node whose guests echo: as contract tests have them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.browser.accessibility import fetch_axe
from tests.support.api_role_fixtures import (
    admin,
    api_role,
    controller,
    crds_installed,
    echo_node,
    guest,
    remove,
    role_clock,
    subresources_answer,
    webhooks_are_called,
)
from tests.support.api_servers import ApiServerUnderTest, EmbeddedServer
from tests.support.builders import small_vmi, vm_of

_VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
# Fixtures of this tier.
__all__ = [
    "admin",
    "api_role",
    "controller",
    "crds_installed",
    "echo_node",
    "guest",
    "role_clock",
    "subresources_answer",
    "webhooks_are_called",
]


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerUnderTest]:
    """The embedded one: the pages do not differ by server."""
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium")
    server = EmbeddedServer(tmp_path_factory.mktemp("embedded"))
    server.start()
    yield server
    server.stop()


@contextlib.contextmanager
def console(kubeconfig: Path) -> Iterator[str]:
    """A console for a user; its link."""
    command = [sys.executable, "-m", "kvedge", "web", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        assert process.wait(20) == 0


@pytest.fixture
def link(server: ApiServerUnderTest, subresources_answer: None) -> Iterator[str]:
    """What `kvedge web` prints."""
    with console(server.write_kubeconfig("admin", ["system:masters"])) as printed:
        yield printed


@pytest.fixture
def viewer_link(server: ApiServerUnderTest, admin: KubeClient, subresources_answer: None) -> Iterator[str]:
    """The same for somebody who may read and nothing else."""
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "browser-viewer"}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "browser-viewer"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}
    admin.request("POST", f"{_RBAC}/clusterroles", {**about, "kind": "ClusterRole", "rules": rules})
    binding = {**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]}
    admin.request("POST", f"{_RBAC}/clusterrolebindings", binding)
    with console(server.write_kubeconfig("viewer")) as printed:
        yield printed
    for kind in ("clusterrolebindings", "clusterroles"):
        admin.request("DELETE", f"{_RBAC}/{kind}/browser-viewer")


@pytest.fixture
def vm(admin: KubeClient, subresources_answer: None) -> Iterator[JsonObject]:
    """A VM that does not run; a test may have deleted it."""
    document = vm_of(small_vmi())
    document["metadata"]["name"] = "shown"
    document["spec"] |= {"runStrategy": "Halted"}
    yield admin.request("POST", _VMS, document)
    with contextlib.suppress(NotFound):
        remove(admin, f"{_VMS}/shown")


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """axe-core."""
    text = fetch_axe(tmp_path_factory.mktemp("axe"))
    if text is None:
        pytest.skip("needs npm, or KVEDGE_TEST_AXE with the path of axe.min.js")
    return text

"""The server whose costs are measured: the embedded API in a process of its own, and its users by their roles."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvedge.resources.manifests.crd_manifest import crds
from kvedge.standalone.apiserver.access.pki import Subject
from kvedge.standalone.apiserver.access.server_certificate import BoxPki
from tests.contract.apiserver.conftest import load_pair
from tests.support.api_client import ApiClient, eventually
from tests.support.api_nursery import ApiProcess
from tests.support.widgets import WIDGET_CRD

NAMESPACE = "budget"
ROLES = ("admin", "edit", "view")
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass
class MeasuredServer:
    """The server, and a client of each role in one namespace; `master` may do everything everywhere."""

    process: ApiProcess
    master: ApiClient
    users: dict[str, ApiClient] = field(default_factory=dict)

    def cpu_seconds(self) -> float:
        """What all threads of the process have had so far, to the nanosecond."""
        # The clock id of another process's CPU time, as clock_getcpuclockid(3) makes it.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def forget_peak(self) -> int:
        """Start to measure the peak of memory anew; the present size in bytes."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self.peak()

    def peak(self) -> int:
        """The largest resident size in bytes since `forget_peak`."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def measured(process: ApiProcess) -> MeasuredServer:
    """Give a new server its users, a namespace and kinds."""
    server = MeasuredServer(process, process.client())
    master = server.master
    master.made("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for crd in (WIDGET_CRD, *crds()):
        master.made(_CRDS, crd)
    eventually(lambda: master.get(f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/virtualmachines").status == 200)
    _let_edit_write_widgets(master)
    for role in ROLES:
        server.users[role] = _user(process, f"{role}-user")
        master.made(f"{_RBAC}/namespaces/{NAMESPACE}/rolebindings", _binding(role))
    # What an aggregated role gathers, it has a moment later.
    for role, path in (("admin", "roles"), ("edit", "widgets"), ("view", "virtualmachines")):
        eventually(lambda role=role, path=path: _may_list(server.users[role], path))
    return server


def _may_list(client: ApiClient, plural: str) -> bool:
    group = {"roles": "rbac.authorization.k8s.io", "widgets": "example.com"}.get(plural, "kubevirt.io")
    return client.get(f"/apis/{group}/v1/namespaces/{NAMESPACE}/{plural}").status == 200


def _user(process: ApiProcess, name: str) -> ApiClient:
    clients = BoxPki(process.directory / "state" / "pki").clients
    pair = clients.issue_client(Subject(name, ()))
    context = ssl.create_default_context(cafile=str(process.directory / "state" / "pki" / "server-ca.crt"))
    load_pair(context, process.directory, pair.certificate, pair.key)
    client = ApiClient(process.url, context)
    client.pool.connection_pool_kw["timeout"] = 120.0
    return client


def _binding(role: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": role},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": f"{role}-user"}],
    }


def _let_edit_write_widgets(master: ApiClient) -> None:
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("edit", "admin")}
    rule = {"apiGroups": ["example.com"], "resources": ["widgets", "widgets/status"], "verbs": ["*"]}
    master.made(f"{_RBAC}/clusterroles", {"metadata": {"name": "widget-editor", "labels": labels}, "rules": [rule]})

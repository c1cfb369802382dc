"""The API servers that kvedge's roles may meet: the embedded one always, a kube-apiserver where there is one.

Contract tests of clients and roles take `either_server` and run on both, with kvedge's kinds installed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.manifests.crd_manifest import crds
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Namespace, Pod
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from tests.support.kube_apiserver import RealApiServer
from tests.support.role_rights import give_roles_their_rights
from tests.support.waiting import wait_until

EMBEDDED, REAL = "embedded", "kube-apiserver"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = itertools.count(1)


@dataclass
class EitherServer:
    """A running server; `admin` may do everything."""

    kind: str
    directory: Path
    kubeconfig: Path
    admin: KubeClient
    server: EmbeddedApi | RealApiServer

    @property
    def collects_garbage(self) -> bool:
        """Whether owners' dependents go by themselves: a kube-apiserver alone has no controllers."""
        return self.kind == EMBEDDED

    def kubeconfig_of(self, user: str, *groups: str) -> Path:
        """A kubeconfig of another user."""
        if isinstance(self.server, RealApiServer):
            return self.server.write_kubeconfig(user, list(groups))
        path = self.directory / f"{user.replace(':', '-')}.kubeconfig"
        self.server.write_kubeconfig(path, user, groups)
        return path

    def new_namespace(self) -> str:
        """A namespace that nobody else uses."""
        name = f"test-{next(_numbers)}"
        self.admin.create(Namespace(metadata=ObjectMeta(name=name)))
        return name

    def bind(self, pod: Pod, node: str) -> None:
        """Play the scheduler."""
        meta = pod.metadata
        if self.kind == EMBEDDED:
            self.admin.patch(Pod, meta.namespace, meta.name, MergePatch({"spec": {"nodeName": node}}))
            return
        binding = {"metadata": {"name": meta.name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        self.admin.request("POST", f"{Pod.KIND.path(meta.namespace, meta.name)}/binding", binding)


@contextmanager
def running(kind: str, directory: Path, *options: str) -> Iterator[EitherServer]:
    """Run one of the two, with kvedge's kinds; `options` are more ones of a real server."""
    server: EmbeddedApi | RealApiServer
    if kind == REAL:
        server = RealApiServer(directory, more_options=options)
        server.start()
        kubeconfig = server.kubeconfig
    else:
        server = EmbeddedApi(ApiServerConfig(directory, port=0, node_name="box"))
        server.start()
        kubeconfig = directory / "kubeconfig"
        server.write_kubeconfig(kubeconfig, "admin", ["system:masters"])
    admin = KubeClient.from_kubeconfig(kubeconfig)
    try:
        install_kinds(admin)
        if kind == REAL:
            give_roles_their_rights(admin)
        yield EitherServer(kind, directory, kubeconfig, admin, server)
    finally:
        admin.close()
        server.stop()


@contextmanager
def lone_server(directory: Path, *options: str) -> Iterator[tuple[RealApiServer, KubeClient]]:
    """A kube-apiserver that has nothing of kvedge's, and a client that may do everything."""
    server = RealApiServer(directory, more_options=options)
    server.start()
    admin = KubeClient.from_kubeconfig(server.kubeconfig)
    try:
        yield server, admin
    finally:
        admin.close()
        server.stop()


def install_kinds(admin: KubeClient) -> None:
    """Have the server serve kvedge's kinds."""
    names = []
    for document in crds():
        admin.request("POST", _CRDS, document)
        names.append(document["metadata"]["name"])
    wait_until(lambda: all(_is_established(admin, name) for name in names), "kvedge's kinds are served")


def _is_established(admin: KubeClient, name: str) -> bool:
    status = admin.request("GET", f"{_CRDS}/{name}").get("status") or {}
    return any(item["type"] == "Established" and item["status"] == "True" for item in status.get("conditions") or ())

"""A cluster's own policy about the controller, for contract tests of what the controller role writes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from kvedge.api.registration.controller_restriction_manifest import controller_restriction
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.storage import PersistentVolumeClaim
from tests.support.either_server import REAL, EitherServer
from tests.support.waiting import wait_until

_STRANGE: Final[JsonObject] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "strange"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""},
}


@contextlib.contextmanager
def restricted_controller(server: EitherServer, namespace: str) -> Iterator[None]:
    """The policy is in force on a real server; one box has none."""
    if server.kind != REAL:
        yield
        return
    controller = KubeClient.from_kubeconfig(server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP))
    documents = controller_restriction()

    def is_judged() -> bool:
        try:
            controller.request("POST", PersistentVolumeClaim.KIND.path(namespace), _STRANGE, {"dryRun": "All"})
        except Forbidden as error:
            return "Controller restriction" in str(error)
        return False

    try:
        for document in documents:
            server.admin.request("POST", document.collection, document.body)
        wait_until(is_judged, "the policy is in force")
        yield
    finally:
        for document in reversed(documents):
            with contextlib.suppress(NotFound):
                server.admin.request("DELETE", document.path)
        controller.close()

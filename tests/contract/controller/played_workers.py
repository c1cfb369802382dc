"""The test plays what binds claims, and the workers that fill them."""

from __future__ import annotations

import json
from typing import Any

from kvedge.kube.errors import NotFound
from kvedge.kube.patches import MergePatch, StrategicPatch
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until


def bound_claim(server: EitherServer, namespace: str, name: str) -> PersistentVolumeClaim:
    def there() -> PersistentVolumeClaim | None:
        try:
            return server.admin.get(PersistentVolumeClaim, namespace, name)
        except NotFound:
            return None

    claim = wait_until(there, "the claim is made")
    bound = MergePatch({"status": {"phase": "Bound"}})
    server.admin.patch(PersistentVolumeClaim, namespace, name, bound, "status")
    return claim


def worker_of(server: EitherServer, namespace: str, name: str, but: str = "") -> Pod:
    def there() -> Pod | None:
        found = [pod for pod in server.admin.list(Pod, namespace) if pod.metadata.name == f"importer-{name}"]
        return found[0] if found and found[0].metadata.uid != but else None

    return wait_until(there, "the worker is made")


def play(server: EitherServer, pod: Pod, phase: str, outcome: dict[str, Any] | None = None) -> None:
    status: dict[str, Any] = {"phase": phase}
    if outcome is not None:
        terminated = {
            "exitCode": int(phase == "Failed"),
            "message": json.dumps(outcome),
            "finishedAt": "2026-01-01T00:00:00Z",
        }
        status["containerStatuses"] = [
            {"name": "importer", "ready": False, "restartCount": 0, "image": "", "imageID": "",
             "state": {"terminated": terminated}}
        ]  # fmt: skip
    meta = pod.metadata
    server.admin.patch(Pod, meta.namespace, meta.name, StrategicPatch({"status": status}), "status")

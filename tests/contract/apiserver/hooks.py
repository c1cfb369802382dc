"""Webhooks for tests: real HTTPS servers that decide what the test says, and their registration."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support.api_client import ApiClient, eventually
from tests.support.https_backend import HttpsBackend
from tests.support.kube_apiserver import reachable_address
from tests.support.widgets import config_map, config_maps

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_counter = itertools.count(1)
Decide = Callable[[dict[str, Any]], dict[str, Any]]


class Hook:
    """A webhook: `decide` makes the response of a request, `reviews` are the requests that came."""

    def __init__(self, directory: Path) -> None:
        self.decide: Decide = lambda request: {"allowed": True}
        self.reviews: list[dict[str, Any]] = []
        # Sent instead of a review, when there is something.
        self.raw: bytes | None = None
        # Seconds before an answer.
        self.delay = 0.0
        address = reachable_address()
        hosts = ["127.0.0.1", address, "hook.default.svc"]
        self.backend = HttpsBackend(directory, self._serve, "0.0.0.0", hosts)
        self.port = self.backend.start()
        self.address = address

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/"

    async def _decided(self, review: dict[str, Any]) -> dict[str, Any]:
        if self.delay:
            await asyncio.sleep(self.delay)
        return self.decide(review)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = (await request.text()).encode()
        review = json.loads(asked)["request"]
        # Which of several entries asks is told by the path.
        review["path"] = request.path.strip("/")
        self.reviews.append(review)
        if self.raw is not None:
            return web.Response(body=self.raw, content_type="application/json")
        response = {"uid": review["uid"], **await self._decided(review)}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def denies(reason: str) -> Decide:
    """A decision against everything."""
    return lambda request: {"allowed": False, "status": {"message": reason, "code": 403}}


def patches(*steps: dict[str, Any]) -> dict[str, Any]:
    """The response of a mutating webhook with these steps."""
    encoded = base64.b64encode(json.dumps(steps).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


class Registrar:
    """Registers webhooks for one namespace and waits until the server asks them; takes them back at the end."""

    def __init__(self, admin: ApiClient, hook: Hook, namespace: str) -> None:
        self._admin = admin
        self._hook = hook
        self._namespace = namespace
        self._made: list[str] = []

    def entry(self, path: str = "", **changes: Any) -> dict[str, Any]:
        """One webhook of a configuration; `path` is what the hook sees of its URL."""
        return {
            "name": "hook.example.com",
            "clientConfig": {"url": self._hook.url + path, "caBundle": self._hook.backend.ca_bundle},
            "rules": [
                {
                    "operations": ["*"],
                    "apiGroups": ["example.com", ""],
                    "apiVersions": ["v1"],
                    "resources": ["widgets", "configmaps"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 10,
            **changes,
        }

    def __call__(self, kind: str = "Validating", **changes: Any) -> None:
        """Register one webhook."""
        self.put(kind, [self.entry(**changes)])
        if "clientConfig" not in changes and "objectSelector" not in changes:
            self.wait()

    def put(self, kind: str, webhooks: list[dict[str, Any]], name: str = "") -> None:
        """Make a configuration."""
        name = name or f"hook-{next(_counter)}"
        path = f"{ADMISSION}/{kind.lower()}webhookconfigurations"
        self._admin.made(
            path,
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": f"{kind}WebhookConfiguration",
                "metadata": {"name": name},
                "webhooks": webhooks,
            },
        )
        self._made.append(f"{path}/{name}")

    def wait(self, count: int = 1) -> None:
        """Wait until so many webhooks are asked about a write."""

        def asked() -> bool:
            self._hook.reviews.clear()
            self._admin.post(config_maps(self._namespace), config_map("probe"), dryRun="All")
            return len(self._hook.reviews) >= count

        eventually(asked)
        self._hook.reviews.clear()

    def remove(self) -> None:
        """Take them all back."""
        for path in self._made:
            self._admin.delete(path)

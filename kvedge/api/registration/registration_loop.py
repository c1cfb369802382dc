"""Keeps the api role known to the API server: CRDs, Service, endpoints, webhooks, APIServices, and trust in both ways.

Run by api_service.py in a thread of its own: once before the role is ready, then every few seconds. Level-triggered:
each round compares all that should be with what is there, so that a deleted webhook or a moved port heals by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from kvedge import __version__
from kvedge.api.registration.clone_manifest import clone_webhooks
from kvedge.api.registration.controller_restriction_manifest import controller_restriction
from kvedge.api.registration.crd_versions import CRDS, read_crd_versions
from kvedge.api.registration.document import Document
from kvedge.api.registration.node_restriction_manifest import node_restriction
from kvedge.api.registration.policy_manifest import GROUP_VERSION
from kvedge.api.registration.policy_rules import judges_by_policies, without_policies
from kvedge.api.registration.presence_loop import Presence
from kvedge.api.registration.registration_manifest import Endpoint, documents, endpoint_slice, service
from kvedge.api.registration.registration_plan import (
    Plan,
    is_ready,
    newer_serves,
    plan_beside_newer,
    plan_forward,
    plan_write,
)
from kvedge.api.registration.upload_manifest import (
    SERVICE_URL,
    endpoint_url,
    plan_upload_api,
    plan_upload_proxy,
    slice_urls,
    upload_api_service,
    upload_proxy_config,
)
from kvedge.api.subresources.front_proxy_rules import FrontProxy, front_proxy_of
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.crd_manifest import crds
from kvedge.resources.manifests.data_volume_kinds import DATA_VOLUME_CRDS, cdi_serves
from kvedge.resources.names import SYSTEM_NAMESPACE, VERSION
from kvedge.resources.types.core import ConfigMap
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_PODS: Final = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods"

# How often one document is tried while others write it too; the next round tries again.
_WRITES: Final = 4


class UploadFront(Struct, frozen=True):
    """A server that hands uploads on to the api role: its URL and the authority of its certificate, as PEM."""

    url: str
    ca: bytes


class Registration:
    """One api role's registration with one API server; `presence` is its place among the endpoints."""

    def __init__(
        self, client: KubeClient, endpoint: Endpoint, clock: Clock | None = None, front: UploadFront | None = None
    ) -> None:
        """`front` is where clients upload to, where that is not the endpoint itself."""
        self._client = client
        self._front = front
        self.endpoint = endpoint
        # Unless the API server turns out to be the embedded one, whose own authorizer keeps each handler to its node.
        self._needs_policies = True
        self.presence = Presence(client, endpoint, clock)
        # With these all CRDs were as they should be.
        self._crd_versions: Mapping[str, str] | None = None

    def check_server(self) -> None:
        """See that the API server can keep each handler to its node.

        Raises:
            KubeError: when it cannot, or does not answer.
        """
        if self._needs_policies and not judges_by_policies(self._read(f"/apis/{GROUP_VERSION}")):
            version = self._read("/version")
            if "+kvedge" not in str((version or {}).get("gitVersion", "")):
                raise KubeError(0, "PoliciesMissing", without_policies(version))
            self._needs_policies = False

    def front_proxy(self) -> FrontProxy:
        """Read the front proxy that the API server lets speak for users.

        Raises:
            KubeError: when the ConfigMap cannot be read.
            FrontProxyError: when it does not say it.
        """
        return front_proxy_of(self._client.get(ConfigMap, "kube-system", "extension-apiserver-authentication").data)

    def write_crds(self) -> None:
        """Our kinds, unless a later release has written them: while a cluster is upgraded, both are there.

        CDI's kinds stay CDI's where it is installed.

        Raises:
            KubeError: when the API server refuses or does not answer.
        """
        versions = read_crd_versions(self._client)
        if versions is not None and versions == self._crd_versions:
            return
        cdi_is_there = self._cdi_serves()
        for document in crds():
            if cdi_is_there and document["metadata"]["name"] in DATA_VOLUME_CRDS:
                continue
            document["metadata"]["annotations"] = {VERSION: __version__}
            self._write(Document(CRDS, document), plan_forward)
        # Those from before the writes: what was written, or changed meanwhile, is looked at once more.
        self._crd_versions = versions

    def write(self, ca_bundle: bytes, secret: str) -> None:
        """Everything else; `secret` is the part of secret_paths.py.

        Raises:
            KubeError: when the API server refuses or does not answer.
        """
        ours, own_slice = service(), endpoint_slice(self.endpoint)
        # With a selector, roles run as Pods, and the cluster knows better than they which of them serve.
        selector = (self._read(ours.path) or {}).get("spec", {}).get("selector") or {}
        is_older = bool(selector) and newer_serves(self._ready_pods(selector), own_slice.body)
        others: Sequence[JsonObject] = ()
        serves_data_volumes = not self._cdi_serves()
        wanted = documents(
            self.endpoint,
            ca_bundle,
            secret,
            judges_data_volumes=serves_data_volumes,
            joins_all_networks=not self._needs_policies,
        )
        for document in wanted:
            if selector and document.path in (ours.path, own_slice.path):
                self.presence.stay_away()
            elif document.path == own_slice.path:
                others = self.presence.appear()
                is_older = newer_serves(others, own_slice.body)
            else:
                self._write_released(document, is_older=is_older)
        self._write_released(clone_webhooks(ca_bundle, secret, serves=serves_data_volumes), is_older=is_older)
        self._write(upload_api_service(ca_bundle), plan_upload_api)
        self._write_upload_proxy(
            UploadFront(SERVICE_URL if selector else endpoint_url(self.endpoint), ca_bundle), others
        )
        # Not before: what can be kept true is, also with a server that has lost its policies meanwhile.
        self.check_server()
        for document in [*node_restriction(), *controller_restriction()] if self._needs_policies else ():
            self._write_released(document, is_older=is_older)

    def _write_upload_proxy(self, own: UploadFront, others: Sequence[JsonObject]) -> None:
        front = self._front or own
        plan = partial(plan_upload_proxy, others=frozenset() if self._front else slice_urls(others))
        self._write(upload_proxy_config(front.url, front.ca), plan)

    def _cdi_serves(self) -> bool:
        return cdi_serves(lambda name: self._read(f"{CRDS}/{name}"))

    def _ready_pods(self, selector: Mapping[str, str]) -> list[JsonObject]:
        labels = ",".join(f"{key}={value}" for key, value in selector.items())
        found = self._client.request("GET", _PODS, query={"labelSelector": labels})
        return [pod for pod in found.get("items") or () if is_ready(pod)]

    def _write_released(self, document: Document, *, is_older: bool) -> None:
        beside_newer = is_older and VERSION in (document.body["metadata"].get("annotations") or {})
        self._write(document, plan_beside_newer if beside_newer else plan_write)

    def _read(self, path: str) -> JsonObject | None:
        try:
            found: JsonObject = self._client.request("GET", path)
        except NotFound:
            return None
        return found

    def _write(self, document: Document, plan: Plan) -> None:
        for attempt in range(1, _WRITES + 1):
            there = self._read(document.path)
            planned = plan(document.body, there)
            if planned is None:
                return
            try:
                self._send(document, there, planned)
            except (AlreadyExists, Conflict, NotFound):
                # Another instance, or the API server, which writes to what it serves, was faster: compare once more.
                if attempt == _WRITES:
                    raise
            else:
                log.info("registered", extra={"facts": {"kind": document.body["kind"], "name": document.name}})
                return

    def _send(self, document: Document, there: JsonObject | None, planned: JsonObject) -> None:
        if there is None:
            self._client.request("POST", document.collection, planned)
        else:
            self._client.request("PUT", document.path, planned)

"""Keeps the api role known to the API server: CRDs, Service, endpoints, webhooks, APIServices, and trust in both ways.

Run by api_service.py in a thread of its own: once before the role is ready, then every few seconds. Level-triggered:
each round compares all that should be with what is there, so that a deleted webhook or a moved port heals by itself.
"""

from __future__ import annotations

import logging

from kvedge import __version__
from kvedge.api.controller_restriction_manifest import controller_restriction
from kvedge.api.front_proxy_rules import FrontProxy, front_proxy_of
from kvedge.api.node_restriction_manifest import node_restriction
from kvedge.api.policy_manifest import GROUP_VERSION, POLICIES
from kvedge.api.registration_manifest import (
    Document,
    Endpoint,
    documents,
    endpoint_slice,
    endpoints,
    service,
    slices_selector,
)
from kvedge.api.registration_plan import newer_serves, plan_beside_newer, plan_write, release_of
from kvedge.kube.errors import AlreadyExists, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.core import ConfigMap
from kvedge.resources.crd_manifest import crds
from kvedge.resources.names import VERSION

log = logging.getLogger(__name__)

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Registration:
    """One api role's registration with one API server."""

    def __init__(self, client: KubeClient, endpoint: Endpoint) -> None:
        self._client = client
        self._endpoint = endpoint

    def front_proxy(self) -> FrontProxy:
        """Whom the API server lets speak for users.

        Raises:
            KubeError: when the ConfigMap cannot be read.
            FrontProxyError: when it does not say it.
        """
        return front_proxy_of(self._client.get(ConfigMap, "kube-system", "extension-apiserver-authentication").data)

    def write_crds(self) -> None:
        """Our kinds, unless a later release has written them: while a cluster is upgraded, both are there.

        Raises:
            KubeError: when the API server refuses or does not answer.
        """
        for document in crds():
            document["metadata"]["annotations"] = {VERSION: __version__}
            there = self._read(f"{_CRDS}/{document['metadata']['name']}")
            if there is None or release_of(there) <= release_of(document):
                self._write(Document(_CRDS, document), there)

    def write(self, ca_bundle: bytes) -> None:
        """Everything else.

        Raises:
            KubeError: when the API server refuses or does not answer.
        """
        policies = [*node_restriction(), *controller_restriction()] if self._has_policies() else []
        known = [*documents(self._endpoint, ca_bundle), *policies]
        ours = service(self._endpoint)
        there = self._read(ours.path) or {}
        # With a selector, roles run as Pods, and the cluster knows better than they which of them serve.
        is_selected = bool(there.get("spec", {}).get("selector"))
        own_slice = endpoint_slice(self._endpoint)
        is_older = False
        for document in known:
            if document.collection == own_slice.collection and is_selected:
                continue
            self._write(
                document, self._read(document.path), beside_newer=is_older and VERSION in _annotations(document)
            )
            if document.collection == own_slice.collection:
                slices = self._slices(document.collection)
                wanted = endpoints(slices)
                self._write(wanted, self._read(wanted.path))
                is_older = newer_serves(slices, own_slice.body)

    def _has_policies(self) -> bool:
        """Whether this API server judges by policies; one that does not looks after its nodes in another way."""
        found = self._read(f"/apis/{GROUP_VERSION}") or {}
        return any(resource["name"] == POLICIES for resource in found.get("resources") or ())

    def _slices(self, collection: str) -> list[JsonObject]:
        """Those of all instances."""
        found = self._client.request("GET", collection, query={"labelSelector": slices_selector()})
        return list(found.get("items") or ())

    def _read(self, path: str) -> JsonObject | None:
        try:
            found: JsonObject = self._client.request("GET", path)
        except NotFound:
            return None
        return found

    def _write(self, document: Document, there: JsonObject | None, *, beside_newer: bool = False) -> None:
        planned = (plan_beside_newer if beside_newer else plan_write)(document.body, there)
        if planned is None:
            return
        log.info("registered", extra={"facts": {"kind": document.body["kind"], "name": document.name}})
        if there is not None:
            self._client.request("PUT", document.path, planned)
            return
        try:
            self._client.request("POST", document.collection, planned)
        except AlreadyExists:
            # Another instance was faster; what it wrote is compared in the next round.
            return


def _annotations(document: Document) -> JsonObject:
    return document.body["metadata"].get("annotations") or {}

"""The documents by which an API server learns of the api role: Service, endpoints, APIServices, and all in order.

Called by registration_loop.py. Touches nothing. Everything that the server would fill in is spelled out, so that what
is there can be compared with what should be.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kvedge.api.registration.admission_manifest import mutating_webhooks, validating_webhooks
from kvedge.api.registration.document import OURS, RELEASE, SERVICE_PORT, Document, encode_bundle
from kvedge.api.served_paths import SERVICE, SUBRESOURCE_GROUP, SUBRESOURCE_VERSIONS
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.role_rights import CA_BUNDLE_KEY, CA_BUNDLE_NAME
from kvedge.resources.names import SYSTEM_NAMESPACE

_PORT_NAME: Final = "https"
_SERVICE_LABEL: Final = "kubernetes.io/service-name"
# By which Kubernetes knows that a slice is nobody's but ours.
SLICES_KEEPER: Final = {"endpointslice.kubernetes.io/managed-by": "kvedge"}
# Where the slices of all instances are.
SLICES: Final = f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/endpointslices"
_FAMILIES: Final = (4, 6)
_LONGEST_INSTANCE: Final = 40


class Endpoint(Struct, frozen=True):
    """Where one api role is reached by the API server; `instance` tells several apart."""

    address: str
    port: int
    instance: str


def instance_name(name: str) -> str:
    """A node's or a host's name as it may stand in an object's name: two of them never become one."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if text == name.lower() and len(text) <= _LONGEST_INSTANCE:
        return text
    digest = hashlib.sha256(name.lower().encode()).hexdigest()[:8]
    return f"{text[: _LONGEST_INSTANCE - len(digest) - 1].strip('-') or 'kvedge'}-{digest}"


def server_names() -> list[str]:
    """The names under which an API server connects to the Service."""
    short = f"{SERVICE}.{SYSTEM_NAMESPACE}"
    return [f"{short}.svc", f"{short}.svc.cluster.local", short]


def documents(
    endpoint: Endpoint,
    ca_bundle: bytes,
    secret: str,
    *,
    judges_data_volumes: bool = True,
    joins_all_networks: bool = False,
) -> list[Document]:
    """All documents but the Endpoints, in the order in which they are written.

    `secret` is the part of secret_paths.py. `judges_data_volumes` says that kvedge serves CDI's kinds: those of CDI
    itself are CDI's to judge.
    `joins_all_networks`: it is one box, where nobody else joins Pods to networks.
    """
    return [
        namespace(),
        service(),
        endpoint_slice(endpoint),
        bundle(ca_bundle),
        *(api_service(version, ca_bundle) for version in SUBRESOURCE_VERSIONS),
        # Last: from here on, writes depend on us.
        mutating_webhooks(ca_bundle, secret),
        validating_webhooks(
            ca_bundle, secret, judges_data_volumes=judges_data_volumes, joins_all_networks=joins_all_networks
        ),
    ]


def namespace() -> Document:
    """Where the Service is."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
    return Document("/api/v1/namespaces", body)


def bundle(ca_bundle: bytes) -> Document:
    """The authority that handlers trust; they read it, and only the api role writes it."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CA_BUNDLE_NAME, "namespace": SYSTEM_NAMESPACE, "labels": dict(OURS)},
        "data": {CA_BUNDLE_KEY: ca_bundle.decode()},
    }
    return Document(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps", body)


def service() -> Document:
    """A Service without a selector: no Pod stands behind it, we write its endpoints ourselves, each with its port."""
    port = {"name": _PORT_NAME, "port": SERVICE_PORT, "protocol": "TCP"}
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": SYSTEM_NAMESPACE, "labels": dict(OURS)},
        "spec": {"type": "ClusterIP", "ports": [port]},
    }
    return Document(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/services", body)


def endpoint_slice(endpoint: Endpoint) -> Document:
    """Our own address; each instance has a slice of its own, so that none overwrites another's."""
    version = ipaddress.ip_address(endpoint.address).version
    body = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": _slice_name(endpoint.instance, version),
            "namespace": SYSTEM_NAMESPACE,
            "labels": {**OURS, _SERVICE_LABEL: SERVICE, **SLICES_KEEPER},
            "annotations": dict(RELEASE),
        },
        "addressType": f"IPv{version}",
        "endpoints": [{"addresses": [endpoint.address], "conditions": {"ready": True}}],
        "ports": [{"name": _PORT_NAME, "port": endpoint.port, "protocol": "TCP"}],
    }
    return Document(SLICES, body)


def slices_selector() -> str:
    """The label selector of all instances' slices."""
    return f"{_SERVICE_LABEL}={SERVICE}"


def slice_names(instance: str) -> frozenset[str]:
    """What an instance's slice may be called, as its address is of the one family or of the other."""
    return frozenset(_slice_name(instance, version) for version in _FAMILIES)


def instance_of(slice_name: str) -> str:
    """The instance whose EndpointSlice has this name."""
    head, tails = f"{SERVICE}-", tuple(f"-ipv{version}" for version in _FAMILIES)
    name = slice_name.removeprefix(head)
    return next((name.removesuffix(tail) for tail in tails if name.endswith(tail)), name)


def _slice_name(instance: str, version: int) -> str:
    return f"{SERVICE}-{instance}-ipv{version}"


def endpoints(slices: Sequence[JsonObject]) -> Document:
    """The same addresses as core/v1 Endpoints, which older API servers resolve a Service by."""
    subsets = []
    for item in sorted(slices, key=lambda item: str(item["metadata"]["name"])):
        addresses = [{"ip": ip} for entry in item.get("endpoints") or () for ip in entry["addresses"]]
        if addresses:
            subsets.append({"addresses": addresses, "ports": [dict(port) for port in item["ports"]]})
    # Kubernetes would otherwise make slices of it, beside ours.
    labels = {**OURS, "endpointslice.kubernetes.io/skip-mirror": "true"}
    body = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": SERVICE, "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "subsets": subsets,
    }
    return Document(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/endpoints", body)


def api_service(version: str, ca_bundle: bytes) -> Document:
    """The aggregated API of subresources in one version."""
    return api_service_document(SUBRESOURCE_GROUP, version, ca_bundle)


def api_service_document(group: str, version: str, ca_bundle: bytes) -> Document:
    """An aggregated API that the role serves."""
    body = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": f"{version}.{group}",
            "labels": dict(OURS),
            "annotations": dict(RELEASE),
        },
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "service": {"namespace": SYSTEM_NAMESPACE, "name": SERVICE, "port": SERVICE_PORT},
            "caBundle": encode_bundle(ca_bundle),
        },
    }
    return Document("/apis/apiregistration.k8s.io/v1/apiservices", body)

"""From a Service to an address that answers: what kube-proxy and the cluster's DNS would do.

Used for webhooks and aggregated API servers. Reads the cache only.
"""

from __future__ import annotations

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.host_ports import join_address
from kvedge.standalone.apiserver.store.object_cache import ObjectCache
from kvedge.standalone.apiserver.store.stored import ObjectKey

_SLICES = "endpointslices.discovery.k8s.io"
_SERVICE_LABEL = "kubernetes.io/service-name"


class Backend(Struct, frozen=True):
    """Where to connect, and the name that the server's certificate must be for."""

    host: str
    port: int
    server_name: str

    @property
    def authority(self) -> str:
        """Host and port as a URL has them."""
        return join_address(self.host, self.port)


class NoBackend(Exception):
    """The Service cannot be reached; the message says why."""


def resolve(cache: ObjectCache, namespace: str, name: str, port: int) -> Backend:
    """An address of a Service's port.

    Raises:
        NoBackend: there is no such Service or port, or nothing is behind it.
    """
    stored = cache.get(ObjectKey("services", namespace, name))
    if stored is None:
        raise NoBackend(f'service "{name}" not found')
    spec = stored.load().get("spec") or {}
    server_name = f"{name}.{namespace}.svc"
    if spec.get("type") == "ExternalName":
        return Backend(str(spec.get("externalName")), port, server_name)
    entry = next((item for item in spec.get("ports") or [] if item.get("port") == port), None)
    if entry is None:
        raise NoBackend(f'service port {port} not found on service "{name}"')
    found = _from_endpoints(cache, namespace, name, entry) or _from_slices(cache, namespace, name, entry)
    if found is None:
        raise NoBackend(f'no endpoints available for service "{name}"')
    return Backend(found[0], found[1], server_name)


def _from_endpoints(cache: ObjectCache, namespace: str, name: str, entry: JsonObject) -> tuple[str, int] | None:
    stored = cache.get(ObjectKey("endpoints", namespace, name))
    for subset in (stored.load().get("subsets") or []) if stored else []:
        addresses = [item["ip"] for item in subset.get("addresses") or [] if item.get("ip")]
        port = _port(subset.get("ports") or [], entry)
        if addresses and port:
            return addresses[0], port
    return None


def _from_slices(cache: ObjectCache, namespace: str, name: str, entry: JsonObject) -> tuple[str, int] | None:
    for stored in cache.in_namespace(_SLICES, namespace):
        if (stored.meta.labels or {}).get(_SERVICE_LABEL) != name:
            continue
        document = stored.load()
        port = _port(document.get("ports") or [], entry)
        for endpoint in document.get("endpoints") or []:
            ready = (endpoint.get("conditions") or {}).get("ready", True)
            if port and ready and endpoint.get("addresses"):
                return endpoint["addresses"][0], port
    return None


def _port(ports: list[JsonObject], entry: JsonObject) -> int | None:
    """The endpoints' port of the same name; the only one may leave its name out."""
    wanted = entry.get("name") or ""
    chosen = next((item for item in ports if (item.get("name") or "") == wanted), None)
    if chosen is None and len(ports) == 1 and not wanted:
        chosen = ports[0]
    return chosen.get("port") if chosen else None

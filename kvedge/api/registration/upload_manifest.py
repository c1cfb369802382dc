"""How an API server and clients learn where uploads go: the APIService of upload tokens, and the proxy's URL.

Called by registration_loop.py. Pure. Where CDI is installed, the APIService is CDI's, and ours steps back: an
APIService that leads to another Service is never touched. The URL stands in a ConfigMap, of which the controller makes
CDIConfig's status.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kvedge.api.registration.document import Document
from kvedge.api.registration.registration_manifest import Endpoint, api_service_document
from kvedge.api.registration.registration_plan import plan_write
from kvedge.api.served_paths import SERVICE
from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import UPLOAD_GROUP
from kvedge.resources.disks.uploads import (
    UPLOAD_PROXY_CA_KEY,
    UPLOAD_PROXY_CONFIG,
    UPLOAD_PROXY_URL_KEY,
    UPLOAD_VERSION,
)
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.values.host_ports import join_address

# Where roles are Pods, this name leads to one of them, inside the cluster; an administrator names another way in.
SERVICE_URL = f"https://{SERVICE}.{SYSTEM_NAMESPACE}.svc"


def upload_api_service(ca_bundle: bytes) -> Document:
    """The aggregated API of upload tokens."""
    return api_service_document(UPLOAD_GROUP, UPLOAD_VERSION, ca_bundle)


def plan_upload_api(wanted: JsonObject, there: JsonObject | None) -> JsonObject | None:
    """As `plan_write`; nothing is done where another server answers for upload tokens, which is CDI."""
    if there is not None and not is_our_upload_api(there):
        return None
    return plan_write(wanted, there)


def is_our_upload_api(there: JsonObject) -> bool:
    """Whether an APIService that answers for upload tokens leads to kvedge, and not to CDI."""
    service, ours = (there.get("spec") or {}).get("service") or {}, upload_api_service(b"").body["spec"]["service"]
    return all(service.get(key) == ours[key] for key in ("namespace", "name"))


def upload_proxy_config(url: str, ca: bytes) -> Document:
    """Where clients upload to, and whom they are to trust there."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": UPLOAD_PROXY_CONFIG,
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "kvedge"},
        },
        "data": {UPLOAD_PROXY_URL_KEY: url, UPLOAD_PROXY_CA_KEY: ca.decode()},
    }
    return Document(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps", body)


def plan_upload_proxy(wanted: JsonObject, there: JsonObject | None, others: Collection[str]) -> JsonObject | None:
    """As `plan_write`; the URL of another api role stays for as long as that role serves, or they would quarrel.

    Args:
        wanted: the ConfigMap with our URL.
        there: the one that there is.
        others: the URLs of the other api roles that serve.
    """
    found = ((there or {}).get("data") or {}).get(UPLOAD_PROXY_URL_KEY, "")
    if found in others:
        wanted = {**wanted, "data": {**wanted["data"], UPLOAD_PROXY_URL_KEY: found}}
    return plan_write(wanted, there)


def endpoint_url(endpoint: Endpoint) -> str:
    """The URL at which clients on the network of the nodes reach an api role."""
    return _url(endpoint.address, endpoint.port)


def slice_urls(slices: Sequence[JsonObject]) -> frozenset[str]:
    """The URLs of the api roles that have written these EndpointSlices."""
    return frozenset(
        _url(str(address), int(port["port"]))
        for item in slices
        for entry in item.get("endpoints") or ()
        for address in entry.get("addresses") or ()
        for port in item.get("ports") or ()
        if port.get("port")
    )


def _url(host: str, port: int) -> str:
    return f"https://{join_address(host, port)}"

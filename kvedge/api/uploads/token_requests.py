"""The aggregated API upload.cdi.kubevirt.io/v1beta1: UploadTokenRequests, which are answered and never stored.

Mounted by api_run.py on the role's server. The API server has asked its authorizer whether the caller may create
them in this namespace before the call comes here; only what the front proxy hands on is believed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import web

from kvedge.api.admission.rules.dns_names import dns_subdomain_complaints
from kvedge.api.subresources.call_options import parse_document
from kvedge.api.subresources.front_proxy_rules import FrontProxy, caller_of
from kvedge.api.subresources.status_message import Refusal, bad_request
from kvedge.api.uploads.upload_token import UploadGrant, sign_token
from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import UPLOAD_GROUP
from kvedge.resources.disks.uploads import TOKEN_REQUEST_KIND, TOKEN_REQUESTS, UPLOAD_VERSION
from kvedge.runtime.clock import Clock, rfc3339
from kvedge.runtime.tls.tls_contexts import peer_common_name

log = logging.getLogger(__name__)

_GROUP_VERSION: Final = f"{UPLOAD_GROUP}/{UPLOAD_VERSION}"
_BASE: Final = f"/apis/{_GROUP_VERSION}"
# A request names one claim. The rest of a client's metadata is handed back, up to this size.
_LARGEST: Final = 64 << 10


def upload_group() -> JsonObject:
    """/apis/upload.cdi.kubevirt.io."""
    version = {"groupVersion": _GROUP_VERSION, "version": UPLOAD_VERSION}
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": UPLOAD_GROUP,
        "versions": [version],
        "preferredVersion": version,
    }


def upload_resources() -> JsonObject:
    """/apis/upload.cdi.kubevirt.io/v1beta1."""
    resource = {
        "name": TOKEN_REQUESTS,
        "singularName": "uploadtokenrequest",
        "namespaced": True,
        "kind": TOKEN_REQUEST_KIND,
        "shortNames": ["utr", "utrs"],
        "verbs": ["create"],
    }
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _GROUP_VERSION, "resources": [resource]}


def read_requested_grant(document: JsonObject, namespace: str) -> UploadGrant:
    """The claim that a request asks a token for; it may not be there yet.

    Raises:
        Refusal: 400, with the field.
    """
    kind, version = document.get("kind"), document.get("apiVersion")
    if (kind or TOKEN_REQUEST_KIND) != TOKEN_REQUEST_KIND or (version or _GROUP_VERSION) != _GROUP_VERSION:
        raise bad_request(f"the body must be an {TOKEN_REQUEST_KIND} of {_GROUP_VERSION}")
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise bad_request("metadata: must be an object, or be left out")
    given = (metadata or {}).get("namespace")
    if given not in (None, "", namespace):
        raise bad_request(f"metadata.namespace: the request goes to the namespace {namespace}")
    spec = document.get("spec")
    name = spec.get("pvcName") if isinstance(spec, dict) else None
    if not isinstance(name, str) or not name:
        raise bad_request("spec.pvcName: missing; name the PersistentVolumeClaim to upload into")
    if dns_subdomain_complaints(name):
        raise bad_request(f"spec.pvcName: {name[:64]!r} is no name of a PersistentVolumeClaim")
    return UploadGrant(namespace, name)


class TokenRequests:
    """The calls; made and used in one event loop."""

    def __init__(self, proxy: Callable[[], FrontProxy | None], signing_key: Callable[[], bytes], clock: Clock) -> None:
        """`proxy` says whom to believe now, `signing_key` what tokens are signed with now."""
        self._proxy = proxy
        self._signing_key = signing_key
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        """Everything that is served."""
        return [
            web.get(f"/apis/{UPLOAD_GROUP}", _document(upload_group)),
            web.get(_BASE, _document(upload_resources)),
            web.post(f"{_BASE}/namespaces/{{namespace}}/{TOKEN_REQUESTS}", self._create),
        ]

    async def _create(self, request: web.Request) -> web.StreamResponse:
        try:
            return web.json_response(await self._answer(request), status=201)
        except Refusal as error:
            return web.json_response(error.document(), status=error.code)

    async def _answer(self, request: web.Request) -> JsonObject:
        proxy = self._proxy()
        peer = peer_common_name(request.transport.get_extra_info("peercert") if request.transport is not None else None)
        user = caller_of(proxy, peer, request.headers.items()) if proxy is not None else None
        if user is None:
            raise Refusal(401, "Unauthorized")
        if (request.content_length or 0) > _LARGEST:
            raise Refusal(413, f"the body is larger than {_LARGEST} bytes")
        document = parse_document(await _read_bounded(request))
        grant = read_requested_grant(document, request.match_info["namespace"])
        now = self._clock.now()
        # A dry run is told what a run would be told, and gets nothing that opens anything.
        is_dry = "dryRun" in request.query
        token = "" if is_dry else sign_token(self._signing_key(), grant, now)
        log.info("upload token", extra={"facts": {"user": user.username, "claim": f"{grant.namespace}/{grant.name}"}})
        given = document.get("metadata") or {}
        metadata = {**given, "namespace": grant.namespace, "creationTimestamp": rfc3339(now)}
        return {
            "kind": TOKEN_REQUEST_KIND,
            "apiVersion": _GROUP_VERSION,
            "metadata": metadata,
            "spec": {"pvcName": grant.name},
            "status": {"token": token},
        }


async def _read_bounded(request: web.Request) -> bytes:
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        if len(body) > _LARGEST:
            raise Refusal(413, f"the body is larger than {_LARGEST} bytes")
    return bytes(body)


def _document(make: Callable[[], JsonObject]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    body = msgspec.json.encode(make())

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json")

    return handle

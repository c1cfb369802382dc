"""The paths that are not resources: discovery, version, health, OpenAPI.

Called by the dispatcher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from aiohttp import web

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.aggregation.aggregation_proxy import AggregationProxy
from kvedge.standalone.apiserver.aggregation.aggregation_rules import merge_groups
from kvedge.standalone.apiserver.kinds import discovery_manifest
from kvedge.standalone.apiserver.kinds.discovery_manifest import AggregatedVersion
from kvedge.standalone.apiserver.requests.request_target import RequestTarget
from kvedge.standalone.apiserver.routes.openapi_routes import OpenApiRoutes
from kvedge.standalone.apiserver.routes.resource_routes import json_response
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.wire.api_errors import MethodNotAllowed, PathNotFound
from kvedge.standalone.apiserver.wire.media_types import JSON, parse_accept

_HEALTH: Final = frozenset({"healthz", "readyz", "livez"})
_DISCOVERY: Final = "apidiscovery.k8s.io"


class DiscoveryRoutes:
    """Serves what clients ask before they ask for objects."""

    def __init__(
        self, hub: ObjectHub, address: str, proxy: AggregationProxy, known: Callable[[], Sequence[AggregatedVersion]]
    ) -> None:
        self._hub = hub
        self._address = address
        self._proxy = proxy
        self._known = known
        self._openapi = OpenApiRoutes(hub, proxy, known)

    def stop(self) -> None:
        """Let go of what is kept for clients."""
        self._openapi.stop()

    async def serve(self, request: web.BaseRequest, target: RequestTarget) -> web.StreamResponse:
        """Answer a request that names no resource.

        Raises:
            PathNotFound: there is nothing at this path.
        """
        if request.method not in ("GET", "HEAD"):
            # Below the API roots a path without this method and a path that is not there get the same answer.
            below_api = _parts(request)[:1] in (["api"], ["apis"])
            raise MethodNotAllowed() if below_api or self._document(request, _parts(request)) else PathNotFound()
        parts = _parts(request)
        if parts and parts[0] in _HEALTH:
            return web.Response(text="ok")
        if parts and parts[0] == "openapi":
            return await self._openapi.serve(request)
        document = self._document(request, parts)
        if document is None:
            raise PathNotFound()
        response = json_response(msgspec.json.encode(document))
        if document.get("kind") == "APIGroupDiscoveryList":
            version = str(document["apiVersion"]).rpartition("/")[2]
            response.headers["Content-Type"] = f"{JSON};g={_DISCOVERY};v={version};as=APIGroupDiscoveryList"
        return response

    def _document(self, request: web.BaseRequest, parts: list[str]) -> JsonObject | None:
        match parts:
            case []:
                return {"paths": self._paths()}
            case ["version"]:
                return discovery_manifest.version_info()
            case ["api"]:
                return self._aggregate(request, {"": ["v1"]}) or discovery_manifest.core_versions(self._address)
            case ["apis"]:
                groups = self._groups()
                return self._aggregate(request, groups) or discovery_manifest.group_list(groups)
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group]:
                versions = self._groups().get(group)
                return discovery_manifest.group(group, versions) if versions else None
            case ["apis", group, version]:
                return self._resources(group, version)
        return None

    def _groups(self) -> Mapping[str, Sequence[str]]:
        return merge_groups(self._hub.kinds.group_versions(), self._proxy.apis())

    def _resources(self, group: str, version: str) -> JsonObject | None:
        kinds = [kind for kind in self._hub.kinds.kinds if (kind.group, kind.version) == (group, version)]
        if not kinds:
            return None
        return discovery_manifest.resource_list(kinds[0].api_version, kinds)

    def _aggregate(self, request: web.BaseRequest, groups: Mapping[str, Sequence[str]]) -> JsonObject | None:
        """All in one document, for clients that prefer that."""
        for entry in parse_accept(request.headers.get("Accept", "")):
            if entry.name == JSON and entry.parameter("g") == _DISCOVERY and entry.parameter("v") in ("v2", "v2beta1"):
                return discovery_manifest.discovery_document(
                    groups, self._hub.kinds.kinds, self._known(), entry.parameter("v")
                )
            if entry.name in (JSON, "*/*"):
                return None
        return None

    def _paths(self) -> list[str]:
        groups = [f"/apis/{group}/{version}" for group, versions in self._groups().items() for version in versions]
        return [
            "/api",
            "/api/v1",
            "/apis",
            *groups,
            *(f"/{name}" for name in sorted(_HEALTH)),
            "/openapi/v2",
            "/openapi/v3",
            "/version",
        ]


def _parts(request: web.BaseRequest) -> list[str]:
    return [part for part in request.path.split("/") if part]

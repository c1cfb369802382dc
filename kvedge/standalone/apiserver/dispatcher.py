"""Every request comes in here: authentication, the request's target, authorization, and the route that serves it.

One instance per server, in its event loop. What is refused anywhere behind it becomes a Status here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from msgspec.structs import replace

from kvedge.standalone.apiserver.access.authorizer_rules import OWN_GROUPS, Authorizer
from kvedge.standalone.apiserver.access.identity import Authenticator
from kvedge.standalone.apiserver.aggregation.aggregation_proxy import AggregationProxy
from kvedge.standalone.apiserver.aggregation.upgrade_tunnel import wants_upgrade
from kvedge.standalone.apiserver.audit_log import AuditLog
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.requests.audit_entry import AUDITED, new_entry
from kvedge.standalone.apiserver.requests.bytes_in_flight import FLIGHT, payer
from kvedge.standalone.apiserver.requests.request_body import count_announced_bytes
from kvedge.standalone.apiserver.requests.request_context import Caller, RequestContext, WriteOptions, write_options
from kvedge.standalone.apiserver.requests.request_target import (
    READING,
    RequestTarget,
    is_plain,
    is_true,
    request_target,
)
from kvedge.standalone.apiserver.routes.discovery_routes import DiscoveryRoutes
from kvedge.standalone.apiserver.routes.resource_routes import ResourceRoutes, status_response
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.wire.api_errors import (
    ApiError,
    Forbidden,
    InternalError,
    MethodNotAllowed,
    PathNotFound,
    Target,
)
from kvedge.standalone.apiserver.wire.large_work import Lane, LargeWork
from kvedge.standalone.apiserver.wire.media_types import APPLY_PATCH
from kvedge.standalone.apiserver.wire.spdy_carriers import wants_spdy

log = logging.getLogger(__name__)

_REFUSED: Final = 403
_OPTIONS_KINDS: Final = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}

# The request body is the whole object; the write path decides which fields of it may change.
_PLAIN_SUBRESOURCES: Final = {
    "status": ("get", "update", "patch"),
    "approval": ("get", "update", "patch"),
    "finalize": ("update",),
    "resize": ("get", "update", "patch"),
}

# Serves a subresource, or a kind that is not stored. Found by (storage or "*", subresource or "").
Route = Callable[[web.BaseRequest, RequestContext], Awaitable[web.StreamResponse]]


class Dispatcher:
    """The handler of the HTTP server.

    Args:
        special: routes by stored resource ("*" for all) and subresource ("" for the kind itself).
    """

    def __init__(
        self,
        hub: ObjectHub,
        resources: ResourceRoutes,
        discovery: DiscoveryRoutes,
        proxy: AggregationProxy,
        authorizer: Authorizer,
        authenticator: Authenticator,
        special: dict[tuple[str, str], Route],
        work: LargeWork,
        audit: AuditLog,
    ) -> None:
        self._hub = hub
        self._resources = resources
        self._discovery = discovery
        self._proxy = proxy
        self._authorizer = authorizer
        self._authenticator = authenticator
        self._special = special
        self._work = work
        self._audit = audit

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request, and have it written down who it was; never raises for what a client did."""
        status: int | None = None
        try:
            response = await self._answer_or_refuse(request)
            status = response.status
            return response
        finally:
            entry = request.get(AUDITED)
            if entry is not None and (entry.counts or status == _REFUSED):
                self._audit.note(entry, "ResponseComplete", status)

    async def _answer_or_refuse(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except ApiError as error:
            return status_response(error)
        except ConnectionResetError:
            # The client left; there is nobody to answer.
            raise
        except Exception as error:
            log.exception("%s %s failed", request.method, request.path)
            return status_response(InternalError(type(error).__name__))

    def lasts(self, request: web.BaseRequest) -> bool:
        """Whether a request is meant to go on: a watch, a log that is followed, a stream of a Pod or another server.

        The verb and the route decide. What a client adds to any other request (`?watch=1`, `Upgrade:`) changes nothing.
        """
        if not is_plain(request.raw_path):
            return False
        if self._proxy.upload_api(request.raw_path) is not None:
            return True
        target = request_target(request.method, request.path, request.query)
        if target.verb == "watch":
            return True
        if target.subresource and self._proxy.api_of(target.group, target.version) is not None:
            return wants_upgrade(request)
        if (target.group, target.resource) != ("", "pods"):
            return False
        if target.subresource in ("exec", "attach", "portforward"):
            return wants_upgrade(request) or wants_spdy(request)
        return target.subresource == "log" and target.verb == "get" and is_true(request.query.get("follow", ""))

    def _charge(self, request: web.BaseRequest, caller: Caller) -> None:
        flight = request[FLIGHT]
        flight.user = payer(caller.user)
        if request.method not in READING:
            flight.check_room()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        uploads = self._proxy.upload_api(request.raw_path)
        if uploads is not None:
            return await self._proxy.serve_upload(request, uploads)
        caller = self._authenticator.caller_of(request)
        if FLIGHT in request:
            self._charge(request, caller)
        if not is_plain(request.raw_path):
            raise PathNotFound()
        target = request_target(request.method, request.path, request.query)
        self._begin_audit(request, caller, target)
        api = self._proxy.api_of(target.group, target.version) if target.group else None
        if not self._authorizer.allows(caller, target) and not (api and self._may_enter(caller, target)):
            raise forbidden(caller, target)
        if api is not None:
            return await self._proxy.serve(request, caller, api)
        if not target.is_resource:
            return await self._discovery.serve(request, target)
        if request.method == "HEAD":
            # Authorized as the read that it is, and served nowhere.
            raise MethodNotAllowed()
        kind = self._hub.kinds.at(target.group, target.version, target.resource)
        if kind is None or (target.namespace and not kind.namespaced and kind.plural != "namespaces"):
            raise PathNotFound()
        return await self._serve_target(request, target, kind, caller)

    def _begin_audit(self, request: web.BaseRequest, caller: Caller, target: RequestTarget) -> None:
        """Kvedge's own parts write all the time; what they do follows from what is written down of others."""
        if not OWN_GROUPS.isdisjoint(caller.groups):
            return
        entry = request[AUDITED] = new_entry(request, caller, target)
        if entry.counts and target.verb != "watch" and self.lasts(request):
            # A console may be open for days.
            self._audit.note(entry, "ResponseStarted", None)

    def _may_enter(self, caller: Caller, target: RequestTarget) -> bool:
        """Whether a call goes to another server, which knows what in its path is a name and what a subresource.

        It is asked here, as in Kubernetes, for the first word of the subresource (`portforward` of
        `portforward/22/tcp`); the other server asks for what it really is (`vnc/screenshot`).
        """
        first = target.subresource.partition("/")[0]
        return first != target.subresource and self._authorizer.allows(caller, replace(target, subresource=first))

    async def _serve_target(
        self, request: web.BaseRequest, target: RequestTarget, kind: ServedKind, caller: Caller
    ) -> web.StreamResponse:
        options = WriteOptions()
        if target.verb in _OPTIONS_KINDS:
            agent = request.headers.get("User-Agent", "")
            applies = request.headers.get("Content-Type", "").startswith(APPLY_PATCH)
            options = write_options(request.query, agent, _OPTIONS_KINDS[target.verb], applies=applies)
        size = count_announced_bytes(request)
        context = RequestContext(target, kind, caller, options, lane=self._lane_of(caller), size=size)
        if kind.deprecation:
            context.warn(kind.deprecation)
        if target.subresource and target.subresource not in kind.subresources:
            raise PathNotFound()
        if not target.subresource and target.verb not in kind.verbs:
            raise MethodNotAllowed()
        route = self._special.get((kind.storage, target.subresource)) or self._special.get(("*", target.subresource))
        if route is not None:
            return await route(request, context)
        if target.subresource and target.verb not in _PLAIN_SUBRESOURCES.get(target.subresource, ()):
            raise MethodNotAllowed()
        if kind.namespaced and not target.namespace and target.verb not in ("list", "watch"):
            raise MethodNotAllowed()
        return await self._resources.serve(request, context)

    def _lane_of(self, caller: Caller) -> Lane:
        """By payer: a client that may speak as any number of a namespace's service accounts has one turn for all of
        them.
        """
        return self._work.lane(payer(caller.user), own=not OWN_GROUPS.isdisjoint(caller.groups))


def forbidden(caller: Caller, target: RequestTarget) -> Forbidden:
    """The refusal of something that this caller may not do."""
    if not target.is_resource:
        return Forbidden(None, f'User "{caller.user}" cannot {target.verb} path "{target.path}"')
    resource = f"{target.resource}/{target.subresource}" if target.subresource else target.resource
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    why = f'User "{caller.user}" cannot {target.verb} resource "{resource}" in API group "{target.group}" {where}'
    return Forbidden(Target(target.resource, target.name, target.group), why)

"""The aggregated API subresources.kubevirt.io over HTTPS.

Mounted by api_service.py on the role's one server. A call passes three checks: the front proxy's certificate and name,
the user in the proxy's headers, and a SubjectAccessReview of the exact subresource. Then it runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aiohttp import web

from kvedge.api.admission.rules.dns_names import dns_subdomain_complaints
from kvedge.api.open_api_manifest import open_api_index, open_api_v2, open_api_v3
from kvedge.api.served_paths import SUBRESOURCE_GROUP, SUBRESOURCE_VERSIONS
from kvedge.api.subresources import discovery_manifest as discovery
from kvedge.api.subresources.attestation.attestation_calls import AttestationCalls
from kvedge.api.subresources.call_options import parse_document
from kvedge.api.subresources.caller_rules import Asked
from kvedge.api.subresources.cluster_reader import ClusterReader
from kvedge.api.subresources.evacuation_calls import EvacuationCalls
from kvedge.api.subresources.expand_calls import ExpandCalls
from kvedge.api.subresources.front_proxy_rules import FrontProxy, caller_of
from kvedge.api.subresources.graphs.graph_calls import GraphCalls
from kvedge.api.subresources.guest_calls import GuestCalls, Handler, flags_for_relay
from kvedge.api.subresources.guest_rules import check_guest
from kvedge.api.subresources.health_check import HealthCheck
from kvedge.api.subresources.memory_dump_calls import MemoryDumpCalls
from kvedge.api.subresources.migration_calls import MigrationCalls
from kvedge.api.subresources.power_calls import PowerCalls
from kvedge.api.subresources.relay_client import RelayClient
from kvedge.api.subresources.status_message import Refusal, bad_request, forbidden, internal
from kvedge.api.subresources.stream_calls import StreamCalls
from kvedge.api.subresources.stream_watch import StreamWatch
from kvedge.api.subresources.volume_calls import VolumeCalls
from kvedge.kube.errors import KubeError
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.feature_gates import FeatureGates
from kvedge.resources.guest_verbs import GUEST_VERBS, VM_PLURAL, GuestVerb, Way
from kvedge.resources.names import GUESTFS_IMAGE
from kvedge.resources.relay_protocol import VSOCK_PORT, VSOCK_TLS
from kvedge.resources.role_users import UserInfo
from kvedge.resources.values.whole_numbers import whole_number
from kvedge.runtime.serving.warning_header import WARNING, warning_value
from kvedge.runtime.tls.tls_contexts import peer_common_name

log = logging.getLogger(__name__)

_BASE: Final = f"/apis/{SUBRESOURCE_GROUP}"
_PROTOCOLS: Final = ("tcp", "udp")
NO_GUESTFS: Final = (
    "no node has libguestfs for virtctl guestfs. On one box install it (Debian: libguestfs-tools), run"
    " libguestfs-make-fixed-appliance /usr/local/lib/guestfs/appliance as root, and restart kvedge; in a cluster name"
    " an image that has it by --image"
)


class SubresourceServer:
    """All calls of the aggregated API; made and used in one event loop."""

    def __init__(
        self,
        cluster: ClusterReader,
        power: PowerCalls,
        volumes: VolumeCalls,
        evacuations: EvacuationCalls,
        migrations: MigrationCalls,
        dumps: MemoryDumpCalls,
        expansion: ExpandCalls,
        graphs: GraphCalls,
        attestation: AttestationCalls,
        relay: RelayClient,
        proxy: Callable[[], FrontProxy | None],
        gates: Callable[[], FeatureGates],
    ) -> None:
        """`proxy` gives the front proxy to trust; None, while it is not known, trusts nobody. `gates` are those in
        force.
        """
        self._gates = gates
        self._cluster = cluster
        self._expansion = expansion
        self._relay = relay
        self._proxy = proxy
        self._guests = guests = GuestCalls(cluster, relay)
        self._health = HealthCheck(cluster.version)
        self.streams = StreamCalls(relay)
        # The implementation of each way that the table of guest verbs knows, for a verb in a version of the API.
        self._ways: Mapping[Way, Callable[[GuestVerb, str], Handler]] = {
            "power": lambda verb, version: _accept(power.call, verb),
            "volume": lambda verb, version: _accept(volumes.call, verb),
            "evacuation": lambda verb, version: _accept(evacuations.call, verb, 200),
            "migration": lambda verb, version: _accept_with_warnings(migrations.call, verb),
            "memory": lambda verb, version: _accept(dumps.call, verb),
            "session": lambda verb, version: _accept(attestation.call, verb),
            "document": lambda verb, version: self._expand_spec,
            "graph": lambda verb, version: _tell(graphs.call, verb),
            "change": lambda verb, version: guests.change(verb),
            "command": lambda verb, version: guests.change(verb),
            "facts": lambda verb, version: guests.facts(verb),
            "node": lambda verb, version: guests.of_node(verb),
            "usage": lambda verb, version: guests.usage(verb),
            "capture": lambda verb, version: guests.capture(verb),
            "picture": lambda verb, version: guests.picture(verb),
            "log": lambda verb, version: guests.console_log(verb),
            "stream": self._stream_handler,
            "vsock": self._vsock_handler,
            "forward": self._port_forward_handler,
            "later": lambda verb, version: guests.later(verb),
        }

    def routes(self) -> list[web.RouteDef]:
        """All routes of the API."""
        routes = [
            _document("/", discovery.root_paths),
            _document("/apis", discovery.api_group_list),
            _document(_BASE, discovery.api_group),
            _document("/openapi/v2", open_api_v2),
            _document("/openapi/v3", open_api_index),
            web.get("/healthz", self._answer_healthz),
        ]
        for version in SUBRESOURCE_VERSIONS:
            routes += self._version_routes(version)
        return routes

    def _version_routes(self, version: str) -> list[web.RouteDef]:
        base = f"{_BASE}/{version}"
        namespaced = f"{base}/namespaces/{{namespace}}"
        routes = [
            _document(base, lambda: discovery.api_resource_list(version)),
            _document(f"/openapi/v3{base}", lambda: open_api_v3(version)),
            _document(f"{base}/version", discovery.version_info),
            web.get(f"{base}/healthz", self._answer_healthz),
            web.get(f"{base}/guestfs", _answer(self._answer_guestfs)),
            web.put(f"{namespaced}/expand-vm-spec", _answer(self._guard(version, "expand-vm-spec", self._expand_sent))),
        ]
        for verb in GUEST_VERBS:
            way = self._behind_gate(verb, self._ways[verb.way](verb, version))
            handler = _answer(self._guard(version, verb.asked, way))
            path = f"{namespaced}/{verb.resource}/{{name}}/{verb.route}"
            routes.append(web.route(verb.method, path, handler))
        return routes

    def _guard(self, version: str, resource: str, handler: Handler) -> Handler:
        """Let a call through when its user has the right to it."""

        async def guard(request: web.Request) -> web.StreamResponse:
            user = self._caller(request)
            where = request.match_info
            for part in (where["namespace"], where.get("name", "")):
                # The name becomes part of a path that this role asks for with its own rights.
                if part and dns_subdomain_complaints(part):
                    raise bad_request(f"invalid name {part!r}: it must be a DNS name")
            asked = _read_asked(request, version, resource)
            if not await self._cluster.may(user, asked):
                raise forbidden(user, asked.verb, resource, asked.namespace, asked.name)
            facts = {"user": user.username, "call": resource, "object": f"{asked.namespace}/{asked.name}"}
            log.info("call", extra={"facts": facts})
            return await handler(request)

        return guard

    def _behind_gate(self, verb: GuestVerb, handler: Handler) -> Handler:
        """Let a call through while its feature gate is on."""

        async def guard(request: web.Request) -> web.StreamResponse:
            if not self._gates().is_on(verb.gate):
                raise bad_request(f"'{verb.gate}' feature gate is not enabled")
            return await handler(request)

        return guard if verb.gate else handler

    def _caller(self, request: web.Request) -> UserInfo:
        proxy = self._proxy()
        peer = peer_common_name(request.transport.get_extra_info("peercert") if request.transport is not None else None)
        user = caller_of(proxy, peer, request.headers.items()) if proxy is not None else None
        if user is None:
            raise Refusal(401, "Unauthorized")
        return user

    def _stream_handler(self, verb: GuestVerb, version: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self._guests.check_call(request, verb)
            watch = StreamWatch(self._cluster, self._caller(request), _read_asked(request, version, verb.asked), vmi)
            return await self.streams.relay(request, watch, verb.name, flags_for_relay(request, verb))

        return handle

    def _vsock_handler(self, verb: GuestVerb, version: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self._guests.check_call(request, verb)
            watch = StreamWatch(self._cluster, self._caller(request), _read_asked(request, version, verb.asked), vmi)
            query = {key: request.query[key] for key in (VSOCK_PORT, VSOCK_TLS) if request.query.get(key)}
            return await self.streams.relay(request, watch, verb.name, query)

        return handle

    def _port_forward_handler(self, verb: GuestVerb, version: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            where = request.match_info
            port, protocol = _port(where["port"]), where.get("protocol", "tcp").lower()
            if protocol not in _PROTOCOLS:
                raise bad_request(f"protocol {protocol} is not supported, use tcp or udp")
            find = self._cluster.vmi_of_vm if verb.resource == VM_PLURAL else self._cluster.vmi
            vmi = await find(where["namespace"], where["name"])
            check_guest(vmi, verb.checks)
            address = await self._cluster.pod_address(vmi)
            asked = _read_asked(request, version, verb.asked)
            watch = StreamWatch(self._cluster, self._caller(request), asked, vmi, address)
            return await self.streams.forward(request, watch, port, protocol)

        return handle

    async def _expand_spec(self, request: web.Request) -> web.StreamResponse:
        where = request.match_info
        return web.json_response(
            await asyncio.to_thread(self._expansion.expand_stored, where["namespace"], where["name"])
        )

    async def _expand_sent(self, request: web.Request) -> web.StreamResponse:
        document = await asyncio.to_thread(parse_document, await request.read())
        namespace = request.match_info["namespace"]
        return web.json_response(await asyncio.to_thread(self._expansion.expand_sent, document, namespace))

    async def _answer_guestfs(self, request: web.Request) -> web.StreamResponse:
        if not await self._cluster.has_guestfs():
            # virtctl shows a text alone.
            raise Refusal(501, NO_GUESTFS, plain=True)
        return web.json_response({"gsImage": GUESTFS_IMAGE})

    async def _answer_healthz(self, request: web.Request) -> web.StreamResponse:
        status, document = await self._health.answer()
        return web.json_response(document, status=status)


def _accept(call: Callable[[GuestVerb, str, str, bytes], None], verb: GuestVerb, status: int = 202) -> Handler:
    """Handle a verb that only writes: the answer is empty, and by default says that the controller acts on it."""

    async def handle(request: web.Request) -> web.StreamResponse:
        where = request.match_info
        body = await request.read()
        await asyncio.to_thread(call, verb, where["namespace"], where["name"], body)
        return web.Response(status=status)

    return handle


def _tell(call: Callable[[GuestVerb, str, str, bytes], JsonObject], verb: GuestVerb) -> Handler:
    """Handle a verb that is answered with an object."""

    async def handle(request: web.Request) -> web.StreamResponse:
        where = request.match_info
        body = await request.read()
        return web.json_response(await asyncio.to_thread(call, verb, where["namespace"], where["name"], body))

    return handle


def _accept_with_warnings(call: Callable[[GuestVerb, str, str, bytes], Sequence[str]], verb: GuestVerb) -> Handler:
    """As _accept; the answer says what the caller should know."""

    async def handle(request: web.Request) -> web.StreamResponse:
        where = request.match_info
        body = await request.read()
        response = web.Response(status=202)
        for text in await asyncio.to_thread(call, verb, where["namespace"], where["name"], body):
            response.headers.add(WARNING, warning_value(text))
        return response

    return handle


def _read_asked(request: web.Request, version: str, resource: str) -> Asked:
    where = request.match_info
    return Asked(request.method, version, where["namespace"], resource, where.get("name", ""))


def _document(path: str, make: Callable[[], object]) -> web.RouteDef:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response(make())

    return web.get(path, handle)


def _answer(handler: Handler) -> Handler:
    """Answer a call, or render its refusal."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refusal as error:
            return _render_refusal(error)
        except KubeError as error:
            # No call foresees these: the API server does not answer, or this role lacks a right.
            log.warning("call failed", extra={"facts": {"path": request.path, "reason": str(error)}})
            return _render_refusal(internal(f"the API server: {error.message or error}"))

    return handle


def _render_refusal(error: Refusal) -> web.Response:
    if error.plain:
        return web.Response(status=error.code, text=error.message)
    return web.json_response(error.document(), status=error.code)


def _port(text: str) -> int:
    port = whole_number(text, (1, 65535))
    if port is None:
        raise bad_request(f"port {text[:64]} is not between 1 and 65535")
    return port

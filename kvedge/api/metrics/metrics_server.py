"""`…/metrics` of the aggregated API: the figures of all guests, asked of their nodes when somebody scrapes.

Mounted by api_run.py on the role's server. Only what the front proxy hands on is believed, and only users with the
right to list `metrics.subresources.kubevirt.io` are served. All who scrape share one collection. `?roles=true` has the
series of kvedge's own processes instead, and `?guests=true` what guests use alone: for graphs, which then have no
object followed but the places of guests.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from typing import Final, Protocol

from aiohttp import web

from kvedge.api.metrics.exposition import CONTENT_TYPE, Metric, render
from kvedge.api.metrics.followed_objects import Homes
from kvedge.api.metrics.guest_series import build_guest_metrics
from kvedge.api.metrics.object_series import build_object_metrics
from kvedge.api.metrics.role_collector import RoleCollector
from kvedge.api.metrics.seen_objects import SeenObjects
from kvedge.api.metrics.shared_answer import SharedAnswer
from kvedge.api.served_paths import SUBRESOURCE_GROUP, SUBRESOURCE_VERSIONS
from kvedge.api.subresources.front_proxy_rules import FrontProxy, caller_of
from kvedge.api.subresources.status_message import Refusal
from kvedge.resources.codec import DecodeError, decode_json
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.role_users import UserInfo
from kvedge.resources.usage.guest_stats import GuestStats, NodeStats
from kvedge.runtime.tls.tls_contexts import peer_common_name

log = logging.getLogger(__name__)

METRICS: Final = "metrics"
# A node's handler waits a second for its launchers. Prometheus gives up after ten.
NODE_SECONDS: Final = 3.0
_Found = tuple[str, NodeStats | None]


class MetricsReader(Protocol):
    """What is asked of the API server."""

    async def relays(self) -> dict[str, str]:
        """Where the relays of nodes listen, by node. Raises Refusal."""

    async def may_list(self, user: UserInfo, resource: str) -> bool:
        """Whether the user may list this resource of the aggregated API. Raises Refusal."""


AskNode = Callable[[str, str], Awaitable[bytes]]
ReadObjects = Callable[[], Awaitable[SeenObjects]]
ReadHomes = Callable[[], Awaitable[Homes]]


class MetricsServer:
    """The call; made and used in one event loop."""

    def __init__(
        self,
        cluster: MetricsReader,
        read_objects: ReadObjects,
        read_homes: ReadHomes,
        ask_node: AskNode,
        roles: RoleCollector,
        proxy: Callable[[], FrontProxy | None],
        configuration: Callable[[], Configuration],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ask_node` asks a node's relay, by node and address, for its `NodeStats`; it raises Refusal."""
        self._cluster = cluster
        self._read_objects = read_objects
        self._read_homes = read_homes
        self._ask_node = ask_node
        self._proxy = proxy
        self._configuration = configuration
        self._all = SharedAnswer(self._collect, monotonic)
        self._guests = SharedAnswer(self._collect_guests, monotonic)
        self._roles = SharedAnswer(roles.collect, monotonic)

    def routes(self) -> list[web.RouteDef]:
        """The route in each version of the API."""
        return [
            web.get(f"/apis/{SUBRESOURCE_GROUP}/{version}/{METRICS}", self._answer) for version in SUBRESOURCE_VERSIONS
        ]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            await self._check_caller(request)
            what = [each for each in ("roles", "guests") if request.query.get(each) == "true"]
            if len(what) > 1:
                raise Refusal(400, "roles and guests: ask for one of them")
            text = await self.collect(*what)
        except Refusal as error:
            return web.json_response(error.document(), status=error.code)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    async def _check_caller(self, request: web.Request) -> None:
        proxy = self._proxy()
        peer = peer_common_name(request.transport.get_extra_info("peercert") if request.transport is not None else None)
        user = caller_of(proxy, peer, request.headers.items()) if proxy is not None else None
        if user is None:
            raise Refusal(401, "Unauthorized")
        if not await self._cluster.may_list(user, METRICS):
            subject = f'{METRICS}.{SUBRESOURCE_GROUP} is forbidden: User "{user.username}"'
            raise Refusal(403, f'{subject} cannot list resource "{METRICS}" in API group "{SUBRESOURCE_GROUP}"')

    async def collect(self, what: str = "") -> bytes:
        """All metrics of guests and objects, those of `guests` or of `roles`; at most a second old. Raises Refusal."""
        return await {"": self._all, "guests": self._guests, "roles": self._roles}[what].get()

    async def _collect(self) -> bytes:
        seen, relays = await asyncio.gather(self._read_objects(), self._cluster.relays())
        homes = {
            (vmi.metadata.namespace, vmi.metadata.name): vmi.status.node_name
            for vmi in seen.vmis
            if vmi.status.node_name and not vmi.is_final
        }
        found = await self._ask_nodes(homes, relays)
        return await asyncio.to_thread(_render, homes, found, seen, self._configuration())

    async def _collect_guests(self) -> bytes:
        homes, relays = await asyncio.gather(self._read_homes(), self._cluster.relays())
        return await asyncio.to_thread(_render, homes, await self._ask_nodes(homes, relays))

    async def _ask_nodes(self, homes: Homes, relays: Mapping[str, str]) -> list[_Found]:
        # Only nodes that have guests are asked. A node without a relay is one that does not answer.
        asked = [self._find_node(node, relays.get(node, "")) for node in sorted(set(homes.values()))]
        return await asyncio.gather(*asked)

    async def _find_node(self, node: str, address: str) -> _Found:
        if not address:
            return node, None
        try:
            answer = await asyncio.wait_for(self._ask_node(node, address), NODE_SECONDS)
            return node, await asyncio.to_thread(decode_json, NodeStats, answer)
        except (Refusal, DecodeError, TimeoutError) as error:
            # Told by a series, which somebody watches; not by a line in the log for each scrape.
            log.debug("a node does not tell of its guests", extra={"facts": {"node": node, "reason": str(error)}})
            return node, None


def _render(
    homes: Homes,
    found: Sequence[_Found],
    seen: SeenObjects | None = None,
    configuration: Configuration | None = None,
) -> bytes:
    up = Metric("kvedge_node_stats_up", "gauge", "Whether the handler of a node with guests told of them.")
    guests: list[tuple[str, GuestStats]] = []
    for node, stats in found:
        up.add({"node": node}, int(stats is not None))
        # A node may tell of its own guests alone.
        told = stats.guests if stats is not None else []
        guests += [(node, guest) for guest in told if homes.get((guest.namespace, guest.name)) == node]
    objects = () if seen is None or configuration is None else build_object_metrics(seen, configuration)
    # One after the other, as each has many samples.
    return render(chain(objects, build_guest_metrics(guests), [up])).encode()

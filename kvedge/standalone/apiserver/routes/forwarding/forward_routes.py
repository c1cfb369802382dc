"""pods/portforward: connections of a client to ports of a Pod, by SPDY in a websocket or on the connection itself.

Called by the dispatcher. The node agent makes sockets in the Pod's network (`ForwardSource`); they are connected, and
bytes moved, in the event loop (`forward_tunnel`).
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiohttp import web

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.access.authorizer_rules import Authorizer
from kvedge.standalone.apiserver.requests.fair_places import FairPlaces
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.routes.exec_routes import find_pod
from kvedge.standalone.apiserver.routes.forwarding.forward_source import ForwardSource, NoForward
from kvedge.standalone.apiserver.routes.forwarding.forward_tunnel import ForwardTunnel
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.wire.api_errors import BadRequest
from kvedge.standalone.apiserver.wire.outlasting import outlast
from kvedge.standalone.apiserver.wire.spdy_carriers import (
    Carrier,
    WebSocketCarrier,
    switch_to_spdy,
    wants_spdy,
)

STREAMS: Final = "portforward.k8s.io"
PROTOCOL: Final = f"SPDY/3.1+{STREAMS}"
# A piece of kubectl's has 32 KiB. Each frame of a message costs its time in the event loop.
_LARGEST_MESSAGE: Final = 128 << 10
# Each may have MOST_CONNECTIONS.
_MOST_OF_ONE: Final = 8
_MOST: Final = 32
_SOCKETS_AT_ONCE: Final = 4
_CONNECT_SECONDS: Final = 10.0
_NO_STREAM: Final = (
    "port forwarding needs a connection that is upgraded, to a websocket or SPDY/3.1: kubectl port-forward asks for one"
)
# As kubelets do: what listens in the Pod for its own is meant, and a guest behind masquerade.
_PLACES: Final = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


class ForwardRoutes:
    """Serves pods/portforward."""

    def __init__(self, hub: ObjectHub, authorizer: Authorizer, source: ForwardSource | None) -> None:
        self._hub = hub
        self._authorizer = authorizer
        self._source = source
        self._threads = ThreadPoolExecutor(_SOCKETS_AT_ONCE, "kvedge-forward")
        self._places = FairPlaces("too many ports are forwarded")
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End what runs, so that nobody waits for it."""
        self._stopping.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def forward(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        """Serve one client."""
        pod = find_pod(self._hub, self._authorizer, context)
        _check(pod)
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        with self._places.take(context.caller.user, most=_MOST, of_one=_MOST_OF_ONE):
            carrier = await _accept(request)
            return await ForwardTunnel(carrier, lambda port: self._connect(uid, port), name).serve(self._stopping)

    async def _connect(self, uid: str, port: int) -> socket.socket:
        """A socket that is connected with a port of a Pod.

        Raises:
            NoForward: the Pod has no network here.
            OSError: nobody listens there.
        """
        refused: OSError | None = None
        for family, address in _PLACES:
            try:
                return await self._connect_with(uid, family, (address, port))
            except OSError as error:
                # What IPv4 says is what the user looks for.
                refused = refused or error
        raise refused or NoForward("nobody listens there")

    async def _connect_with(self, uid: str, family: socket.AddressFamily, place: tuple[str, int]) -> socket.socket:
        made = await self._open(uid, family)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(made, place)
        except BaseException:
            made.close()
            raise
        return made

    async def _open(self, uid: str, family: socket.AddressFamily) -> socket.socket:
        if self._source is None:
            raise NoForward("no node agent runs here")
        try:
            job = self._threads.submit(self._source.open_socket, uid, family)
        except RuntimeError:
            raise NoForward("this server stops") from None
        opening = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # Its client has gone meanwhile.
            if not job.cancel():
                await outlast(opening)
            if not job.cancelled() and job.exception() is None:
                job.result().close()
            raise


def _check(pod: JsonObject) -> None:
    phase = (pod.get("status") or {}).get("phase")
    if phase != "Running":
        raise BadRequest(f"unable to forward port because pod is not running. Current status={phase}")
    if (pod.get("spec") or {}).get("hostNetwork"):
        raise BadRequest("spec.hostNetwork: the pod has this box's own network, of which no port is forwarded")


async def _accept(request: web.BaseRequest) -> Carrier:
    """What carries a client's streams.

    Raises:
        BadRequest: the client speaks something else.
    """
    if wants_spdy(request):
        return await switch_to_spdy(request, STREAMS)
    websocket = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=_LARGEST_MESSAGE, compress=False)
    found = websocket.can_prepare(request)
    if not found.ok or found.protocol is None:
        raise BadRequest(_NO_STREAM)
    await websocket.prepare(request)
    return WebSocketCarrier(websocket)

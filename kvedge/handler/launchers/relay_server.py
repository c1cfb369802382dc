"""The relay of one node: the api role's way to the launchers here, over mutual TLS.

Started by relay_service.py, in an event loop of its own thread. Believes nobody but the api role's certificate, and of
other handlers' one thing: that they send a guest that is expected from their node. Most streams have one viewer; a
second one takes it over and the first is told. Others take a number of connections, and then no more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec
from aiohttp import web

from kvedge.handler.launchers.console_log import BadLogRequest, log_request
from kvedge.handler.launchers.relay_core import (
    SLOTS_ARE_BUSY,
    DoorError,
    LauncherDoor,
    MigrationDoor,
    build_full_refusal,
    build_takeover_farewell,
)
from kvedge.handler.launchers.vsock_request import BadVsockRequest, vsock_request
from kvedge.kube.figures.process_figures import tell_process
from kvedge.network.insight.capture import BadCaptureRequest, capture_request
from kvedge.resources.codec import DecodeError, JsonObject, decode_json, encode_json
from kvedge.resources.guest_verbs import RELAYED_VERBS, GuestVerb, Way
from kvedge.resources.moves.crossing import LONGEST_WORDS, SourceWords
from kvedge.resources.relay_protocol import (
    CROSSING_ROUTE,
    MIGRATION_ROUTE,
    MOVE_CURSOR,
    NO_UPGRADE,
    PRESERVE_SESSION,
    REASON_HEADER,
    RELAY_PREFIX,
    ROLE_STATS_ROUTE,
    SPICE_IS_BUSY,
    STATS_ROUTE,
    VNC_IS_BUSY,
)
from kvedge.resources.usage.guest_history import DEFAULT_RANGE, RANGE, SPANS
from kvedge.runtime.serving.stream_core import SharedDesk, ViewerDesk
from kvedge.runtime.serving.stream_pump import GOING_DOWN, ConnectionSource, Farewell, pump
from kvedge.runtime.serving.websocket_viewer import WebSocketViewer, nobody_there, wants_websocket
from kvedge.runtime.tls.certificates import API_NAME, MIGRATION_NAME
from kvedge.runtime.tls.tls_contexts import peer_common_name, peer_hosts

log = logging.getLogger(__name__)

_MIGRATION: Final = "migration"
_CROSSING: Final = "crossing"
_LONGEST_REASON: Final = 1000
_HANDOVER_SECONDS: Final = 10.0
# Pictures of screens, and records of frames, that are in memory at the same time.
_PICTURES: Final = 2
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Session:
    """One viewer at one stream."""

    def __init__(self) -> None:
        self.sent_away: asyncio.Future[Farewell] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()

    def send_away(self, farewell: Farewell) -> None:
        """End it, once."""
        if not self.sent_away.done():
            self.sent_away.set_result(farewell)


class GuestEnd(ConnectionSource):
    """A launcher's socket; once it is closed the next viewer may come, whether or not this one takes its farewell."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: Session) -> None:
        super().__init__(reader, writer)
        self._session = session

    async def close(self) -> None:
        """Close it now."""
        await super().close()
        self._session.gone.set()


class RelayServer:
    """The relay's routes; made and used in one event loop."""

    def __init__(self, door: LauncherDoor, migrations: MigrationDoor | None = None) -> None:
        """Without `migrations` no guest comes to this node."""
        self._door = door
        self._migrations = migrations
        self._moving: set[Session] = set()
        self._desk: ViewerDesk[Session] = ViewerDesk()
        self._shared: SharedDesk[Session] = SharedDesk()
        self._pictures = asyncio.Semaphore(_PICTURES)
        self._captures = asyncio.Semaphore(_PICTURES)

    @property
    def viewers(self) -> int:
        """How many look at something now."""
        return len(self._desk) + len(self._shared)

    def application(self, *, only_migrations: bool = False) -> web.Application:
        """The server's application, whole or only what guests come by."""
        application = web.Application(middlewares=[_only_the_right_role, _answer_errors], client_max_size=64 * 1024)
        if not only_migrations:
            self._add_verbs(application)
            application.router.add_get(STATS_ROUTE, self._answer_stats)
            application.router.add_get(ROLE_STATS_ROUTE, _answer_role_stats)
        application.router.add_get(MIGRATION_ROUTE, self._migration, name=_MIGRATION)
        application.router.add_post(CROSSING_ROUTE, self._take_words, name=_CROSSING)
        application.on_shutdown.append(self._send_all_away)
        return application

    def _add_verbs(self, application: web.Application) -> None:
        ways: Mapping[Way, Callable[[GuestVerb], Handler]] = {
            "change": self._call_handler,
            "command": self._call_handler,
            "facts": self._call_handler,
            "node": lambda _: self._answer_network,
            "usage": lambda _: self._answer_usage,
            "capture": lambda _: self._capture,
            "picture": self._picture_handler,
            "log": lambda _: self._answer_console_log,
            "stream": self._stream_handler,
            "vsock": self._vsock_handler,
        }
        for verb in RELAYED_VERBS.values():
            application.router.add_route(verb.method, f"{RELAY_PREFIX}/{verb.name}", ways[verb.way](verb))

    def _call_handler(self, verb: GuestVerb) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            where = request.match_info
            options = _options(await request.read())
            return web.json_response(await self._door.call(where["namespace"], where["name"], verb, options))

        return handle

    def _picture_handler(self, verb: GuestVerb) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            where, move = request.match_info, request.query.get(MOVE_CURSOR) == "true"
            async with self._pictures:
                picture = await self._door.screenshot(where["namespace"], where["name"], verb, move_cursor=move)
            return web.Response(body=picture, content_type="image/png")

        return handle

    async def _answer_stats(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=await self._door.stats(), content_type="application/json")

    async def _answer_network(self, request: web.Request) -> web.StreamResponse:
        where = request.match_info
        return web.json_response(await self._door.network(where["namespace"], where["name"]))

    async def _answer_usage(self, request: web.Request) -> web.StreamResponse:
        where, span = request.match_info, request.query.get(RANGE, DEFAULT_RANGE)
        if span not in SPANS:
            raise DoorError(400, f"{RANGE}: {span[:64]!r} is none of {', '.join(SPANS)}")
        return web.Response(
            body=await self._door.usage(where["namespace"], where["name"], span), content_type="application/json"
        )

    async def _capture(self, request: web.Request) -> web.StreamResponse:
        try:
            wanted = capture_request(request.query)
        except BadCaptureRequest as error:
            raise DoorError(400, str(error)) from error
        where = request.match_info
        async with self._captures:
            frames = await self._door.capture(where["namespace"], where["name"], wanted)
        return web.Response(body=frames, content_type="application/octet-stream")

    async def _answer_console_log(self, request: web.Request) -> web.StreamResponse:
        try:
            wanted = log_request(request.query)
        except BadLogRequest as error:
            raise DoorError(400, str(error)) from error
        text = await self._door.console_log(request.match_info["namespace"], request.match_info["name"], wanted)
        return web.Response(body=text, content_type="application/octet-stream")

    def _stream_handler(self, verb: GuestVerb) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            namespace, name = request.match_info["namespace"], request.match_info["name"]
            if verb.viewers > 1:
                return await self._share(request, namespace, name, verb)
            return await self._stream(request, namespace, name, verb)

        return handle

    async def _stream(self, request: web.Request, namespace: str, name: str, verb: GuestVerb) -> web.StreamResponse:
        if verb.slots:
            return await self._stream_to_slot(request, namespace, name, verb)
        stream = (namespace, name, verb.name)
        preserve = request.query.get(PRESERVE_SESSION) == "true"
        if not wants_websocket(request):
            # A client whose handshake was refused asks like this for the reason: nobody has to go for that.
            self._door.check_stream(namespace, name, verb)
            busy = preserve and self._desk.is_taken(stream)
            raise DoorError(503, VNC_IS_BUSY) if busy else DoorError(400, NO_UPGRADE)
        session = Session()
        seat = self._desk.take(stream, session, preserve=preserve)
        if seat.refused:
            raise DoorError(503, VNC_IS_BUSY)
        try:
            if seat.evicts is not None:
                # QEMU's socket has room for one: the other must be out before we go in.
                seat.evicts.send_away(build_takeover_farewell(verb.name))
                await asyncio.wait_for(seat.evicts.gone.wait(), _HANDOVER_SECONDS)
            reader, writer = await self._door.open_stream(namespace, name, verb)
            return await self._serve(request, GuestEnd(reader, writer, session), session, stream)
        except TimeoutError as error:
            raise DoorError(503, f"the viewer before you did not leave the {verb.name}; try again") from error
        finally:
            self._desk.leave(stream, session)
            session.gone.set()

    async def _stream_to_slot(
        self, request: web.Request, namespace: str, name: str, verb: GuestVerb
    ) -> web.StreamResponse:
        """One of several ends, of which each is its viewer's until that goes."""
        streams = [(namespace, name, f"{verb.name} {number}") for number in range(verb.slots)]
        number = next((number for number, stream in enumerate(streams) if not self._desk.is_taken(stream)), None)
        if not wants_websocket(request):
            self._door.check_stream(namespace, name, verb.at_slot(number or 0))
        if number is None:
            raise DoorError(503, SLOTS_ARE_BUSY)
        if not wants_websocket(request):
            raise DoorError(400, NO_UPGRADE)
        stream, session = streams[number], Session()
        # Nothing waits between the look for a free one and this.
        self._desk.take(stream, session)
        try:
            reader, writer = await self._door.open_stream(namespace, name, verb.at_slot(number))
            return await self._serve(request, GuestEnd(reader, writer, session), session, stream)
        finally:
            self._desk.leave(stream, session)
            session.gone.set()

    def _vsock_handler(self, verb: GuestVerb) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                wanted = vsock_request(request.query)
            except BadVsockRequest as error:
                raise DoorError(400, str(error)) from error
            door, guest = self._door, (request.match_info["namespace"], request.match_info["name"])
            return await self._admit(
                request, guest, verb, lambda: door.check_vsock(*guest), lambda: door.open_vsock(*guest, wanted)
            )

        return handle

    async def _share(self, request: web.Request, namespace: str, name: str, verb: GuestVerb) -> web.StreamResponse:
        """One of several connections to a server of the guest's that tells its clients apart itself."""
        door, guest = self._door, (namespace, name)
        return await self._admit(
            request, guest, verb, lambda: door.check_stream(*guest, verb), lambda: door.open_stream(*guest, verb)
        )

    async def _admit(
        self,
        request: web.Request,
        guest: tuple[str, str],
        verb: GuestVerb,
        check: Callable[[], object],
        connect: Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]],
    ) -> web.StreamResponse:
        """Let one more connection in, of which a guest has so many; one that keeps those that are there comes alone."""
        stream, session = (*guest, verb.name), Session()
        keeps_others = PRESERVE_SESSION in verb.flags and request.query.get(PRESERVE_SESSION) == "true"
        most = 1 if keeps_others else verb.viewers
        full = DoorError(503, SPICE_IS_BUSY if keeps_others else build_full_refusal(verb))
        if not wants_websocket(request):
            check()
            raise full if self._shared.is_full(stream, most) else DoorError(400, NO_UPGRADE)
        if not self._shared.take(stream, session, most):
            raise full
        try:
            reader, writer = await connect()
            return await self._serve(request, GuestEnd(reader, writer, session), session, stream)
        finally:
            self._shared.leave(stream, session)

    async def _serve(
        self, request: web.Request, source: GuestEnd, session: Session, stream: tuple[str, str, str]
    ) -> web.StreamResponse:
        viewer = WebSocketViewer()
        try:
            await viewer.accept(request)
        except ConnectionError:
            await source.close()
            return nobody_there()
        except BaseException:
            await source.close()
            raise
        facts = {"vmi": f"{stream[0]}/{stream[1]}", "stream": stream[2]}
        log.info("viewer came", extra={"facts": facts})
        farewell = await pump(viewer, source, session.sent_away)
        log.info("viewer left", extra={"facts": facts | {"reason": farewell.reason}})
        return viewer.socket

    async def _migration(self, request: web.Request) -> web.StreamResponse:
        if self._migrations is None:
            raise DoorError(501, "no guest moves to this node")
        if not wants_websocket(request):
            raise DoorError(400, NO_UPGRADE)
        where, session = request.match_info, Session()
        hosts = peer_hosts(_peer_certificate(request))
        reader, writer = await self._migrations.open_channel(
            where["namespace"], where["name"], where["uid"], where["channel"], hosts
        )
        self._moving.add(session)
        try:
            stream = (where["namespace"], where["name"], f"migration {where['channel']}")
            return await self._serve(request, GuestEnd(reader, writer, session), session, stream)
        finally:
            self._moving.discard(session)
            self._migrations.release_channel(where["uid"])

    async def _take_words(self, request: web.Request) -> web.StreamResponse:
        """Another box speaks of the guest that it sends; the desk answers from memory."""
        if self._migrations is None:
            raise DoorError(501, "no guest moves to this node")
        where, body = request.match_info, await request.read()
        if len(body) > LONGEST_WORDS:
            raise DoorError(413, "that is too long")
        try:
            words = decode_json(SourceWords, body)
        except DecodeError as error:
            raise DoorError(400, f"these are no words of a source: {error}") from error
        hosts = peer_hosts(_peer_certificate(request))
        answer = self._migrations.take_words((where["namespace"], where["name"]), where["uid"], hosts, words)
        return web.Response(body=encode_json(answer), content_type="application/json")

    async def _send_all_away(self, application: web.Application) -> None:
        sessions = [*self._desk.viewers(), *self._shared.viewers(), *self._moving]
        for session in sessions:
            session.send_away(GOING_DOWN)


async def _answer_role_stats(request: web.Request) -> web.StreamResponse:
    return web.Response(body=encode_json(tell_process()), content_type="application/json")


def _options(body: bytes) -> JsonObject:
    try:
        return msgspec.json.decode(body, type=dict) if body else {}
    except msgspec.DecodeError as error:
        raise DoorError(400, f"the options are no object: {error}") from error


def _peer_certificate(request: web.Request) -> object:
    return request.transport.get_extra_info("peercert") if request.transport is not None else None


@web.middleware
async def _only_the_right_role(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """TLS has checked the authority; here the role is checked, as handlers have certificates of it, too."""
    peer = peer_common_name(_peer_certificate(request))
    # Guests come from other handlers; all else is for the api role.
    wanted = MIGRATION_NAME if request.match_info.route.name in (_MIGRATION, _CROSSING) else API_NAME
    if peer != wanted:
        log.warning("refused", extra={"facts": {"peer": peer or "unknown", "path": request.path}})
        return web.json_response({"message": f"only {wanted} may ask here"}, status=403)
    return await handler(request)


@web.middleware
async def _answer_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except DoorError as error:
        reason = (
            error.message.encode("ascii", "replace").decode().replace("\r", " ").replace("\n", " ")[:_LONGEST_REASON]
        )
        return web.json_response({"message": error.message}, status=error.status, headers={REASON_HEADER: reason})

"""The console's paths: pages, sign-in, the list's websocket, one VM, and streams by ticket.

Made by `console_server`. The same for a console on the user's own machine and for one on a box: it acts as the user of
the session, and has no rights of its own. Every request passes `judge_request` first.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from aiohttp import WSCloseCode, web

from kvedge.client.errors import ClientError, TakenError
from kvedge.kube.errors import KubeError
from kvedge.resources.relay_protocol import VNC_IS_BUSY
from kvedge.runtime.serving.connection_bounds import KNOWS
from kvedge.web.images.image_calls import open_target
from kvedge.web.images.upload_body import part_of, send_part
from kvedge.web.live_feed import feed
from kvedge.web.page_calls import READS, WRITES, Read, Write
from kvedge.web.page_files import PageFile, read_page_files
from kvedge.web.page_headers import page_headers
from kvedge.web.request_rules import UPLOADED_DATA, UPLOADS, judge_request
from kvedge.web.sign_in import SignInDesk, SignInRefused, StreamTarget, TicketDesk, WebSession
from kvedge.web.spice_door import SpiceDoor, SpiceDoors, keep_spice_door
from kvedge.web.stream_bridge import LONGEST_REASON, TAKEN_BY_OTHER, stream_to
from kvedge.web.texts.shown_text import showable
from kvedge.web.texts.yaml_text import LONGEST
from kvedge.web.user_shares import TooManyPages, UserShares
from kvedge.web.vms.vm_calls import ACTIONS, act, find_run
from kvedge.web.web_failures import failure_document, failure_of
from kvedge.web.web_user import WebUser

log = logging.getLogger(__name__)

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

STREAMS: Final = ("console", "vnc")
_TICKET_PREFIX: Final = "ticket.kvedge.io."
_STREAM_PROTOCOL: Final = "plain.kubevirt.io"
_LARGEST_BODY: Final = 64 * 1024
# Of calls that carry a manifest: as JSON it has escapes.
_LARGEST_MANIFEST: Final = 2 * LONGEST
# What a page sends at once: a pasted text; noVNC's are far smaller.
_LARGEST_MESSAGE: Final = 1 << 20
_PING_SECONDS: Final = 30.0
_END_LOOK_SECONDS: Final = 5.0


class Strangers(Protocol):
    """How those come in who have no link."""

    async def sign_in(self, desk: SignInDesk[WebUser], address: str, credential: str) -> str:
        """The cookie of a new session. Raises SignInRefused and KubeError."""

    def end(self, user: WebUser) -> None:
        """A session of the user has ended."""


class ConsoleApp:
    """The paths, and who has signed in."""

    def __init__(
        self,
        own_origins: Mapping[str, str],
        cookie: str,
        clock: Callable[[], float] = time.monotonic,
        strangers: Strangers | None = None,
    ) -> None:
        """Each Host that is ours with its pages' origin; the cookie's name. Without `strangers` links alone work."""
        self.desk: SignInDesk[WebUser] = SignInDesk(clock, strangers.end if strangers else lambda user: None)
        self._strangers = strangers
        self._tickets: TicketDesk[WebUser] = TicketDesk(clock)
        self._own_origins = own_origins
        self._cookie = cookie
        self._is_secure = all(origin.startswith("https:") for origin in own_origins.values())
        self._files = read_page_files()
        self._shares = UserShares(is_of_many=strangers is not None)
        self._doors: SpiceDoors[WebSession[WebUser]] = SpiceDoors(self._keep_door)

    def application(self) -> web.Application:
        """For a server."""
        app = web.Application(middlewares=[self._guard], client_max_size=_LARGEST_BODY)
        app[KNOWS] = lambda request: self._find_session(request) is not None
        app.router.add_get("/", self._page, allow_head=False)
        app.router.add_get("/static/{path:.+}", self._file, allow_head=False)
        app.router.add_get("/ways", self._ways, allow_head=False)
        app.router.add_post("/sign-in", self._sign_in)
        app.router.add_post("/sign-out", self._sign_out)
        app.router.add_get("/who", self._who, allow_head=False)
        app.router.add_get("/live", self._live, allow_head=False)
        for path, read in READS.items():
            app.router.add_get(path, self._reader(read), allow_head=False)
        for path, write in WRITES.items():
            app.router.add_post(path, self._writer(write))
        if self._strangers is None:
            # On a computer of others, a socket there would help nobody.
            app.router.add_post("/vms/{namespace}/{name}/spice", self._open_spice)
            app.on_shutdown.append(self._end_doors)
        app.router.add_post("/vms/{namespace}/{name}/{action}", self._act)
        app.router.add_post(f"{UPLOADS}{{namespace}}/{{name}}{UPLOADED_DATA}", self._take_data)
        app.router.add_post("/tickets", self._ticket)
        app.router.add_get("/stream", self._stream, allow_head=False)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = judge_request(request.method, request.path, request.headers, self._own_origins)
        if refused is not None:
            return _failure(refused.status, refused.text)
        try:
            answer = await handler(request)
        except web.HTTPException as error:
            return _failure(error.status, error.reason)
        except SignInRefused as error:
            return _failure(403, str(error))
        except TooManyPages as error:
            return _failure(503, str(error))
        except (KubeError, ClientError) as error:
            failure = failure_of(error)
            return web.json_response(failure.document, status=failure.status, headers=page_headers())
        except Exception as error:
            if request.writer.output_size:
                # The answer has begun, and no second one fits into it: the server logs this and hangs up.
                raise
            if isinstance(error, ConnectionError) and _has_left(request):
                # The page went while the API server was being asked: no failure. The server drops the answer.
                return _failure(503, "nobody waits for this any more")
            log.exception("a page's request failed", extra={"facts": {"path": showable(request.path)}})
            return _failure(500, "the console failed at this; its log tells why")
        # A websocket's headers were sent long ago.
        if not answer.prepared:
            for name, value in page_headers().items():
                answer.headers.setdefault(name, value)
        return answer

    async def _page(self, request: web.Request) -> web.StreamResponse:
        nonce = secrets.token_urlsafe(16)
        return _file_answer(self._files["index.html"], nonce)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        found = self._files.get(request.match_info["path"])
        if found is None or found.media_type == "text/html":
            raise web.HTTPNotFound
        return _file_answer(found)

    def end_all(self) -> None:
        """End all sessions, and with them their streams."""
        for session in self.desk.sessions():
            self.desk.sign_out(session)

    async def _ways(self, request: web.Request) -> web.StreamResponse:
        """How one comes in here; told to everybody."""
        return web.json_response({"credential": self._strangers is not None})

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        if self._strangers is not None and "credential" in body:
            cookie = await self._strangers.sign_in(self.desk, request.remote or "", _text(body, "credential"))
        else:
            cookie = self.desk.sign_in(_text(body, "secret"))
        answer = web.json_response({})
        answer.set_cookie(self._cookie, cookie, path="/", httponly=True, samesite="Strict", secure=self._is_secure)
        return answer

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        self.desk.sign_out(self._session(request))
        answer = web.json_response({})
        answer.del_cookie(self._cookie, path="/", httponly=True, samesite="Strict", secure=self._is_secure)
        return answer

    async def _who(self, request: web.Request) -> web.StreamResponse:
        session = self._session(request).user.session
        return web.json_response({"server": showable(session.client.host)})

    async def _live(self, request: web.Request) -> web.StreamResponse:
        session = self._session(request)
        with self._shares.page("feed", session.owner):
            socket = web.WebSocketResponse(heartbeat=_PING_SECONDS, max_msg_size=1024, compress=False)
            await socket.prepare(request)
            await self._while_signed_in(
                session, socket, _first_of(feed(socket, session.user.rows), _until_left(socket))
            )
            return socket

    def _reader(self, read: Read) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            session = self._session(request)
            return web.json_response(await self._run(session, read, session.user, dict(request.match_info)))

        return answer

    def _writer(self, write: Write) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            session = self._session(request)
            body = await _manifest_body(request)
            return web.json_response(await self._run(session, write, session.user, dict(request.match_info), body))

        return answer

    async def _act(self, request: web.Request) -> web.StreamResponse:
        namespace, name = _place(request)
        action = request.match_info["action"]
        if action not in ACTIONS:
            raise web.HTTPNotFound
        await self._ask(act, self._session(request), namespace, name, action)
        return web.json_response({})

    async def _ticket(self, request: web.Request) -> web.StreamResponse:
        session = self._session(request)
        body = await _body(request)
        namespace, name, stream = (_text(body, key) for key in ("namespace", "name", "stream"))
        if stream not in STREAMS:
            raise web.HTTPBadRequest(reason=f"stream: use {' or '.join(STREAMS)}")
        takes_over = _takes_over(body)
        uid = await self._ask(find_run, session, namespace, name)
        target = StreamTarget(namespace, name, uid, stream, takes_over)
        return web.json_response({"ticket": self._tickets.issue(session, target)})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        session = self._session(request)
        target = self._tickets.redeem(session, _ticket_of(request))
        if await self._ask(find_run, session, target.namespace, target.name) != target.uid:
            raise SignInRefused("the VM was started anew since: open the stream again")
        with self._shares.page("stream", session.owner):
            socket = web.WebSocketResponse(
                heartbeat=_PING_SECONDS, max_msg_size=_LARGEST_MESSAGE, protocols=(_STREAM_PROTOCOL,), compress=False
            )
            await socket.prepare(request)
            await self._while_signed_in(session, socket, stream_to(socket, session.user.session, target))
            return socket

    async def _open_spice(self, request: web.Request) -> web.StreamResponse:
        """The file for a viewer; what stands behind it goes on when this is answered."""
        session = self._session(request)
        door = SpiceDoor(*_place(request), takes_over=_takes_over(await _body(request)))
        try:
            file = await self._doors.open(session, door)
        except TakenError:
            # Nothing failed: the page asks its user.
            return web.json_response({"taken": True})
        if file is None:
            raise web.HTTPUnauthorized(reason="the session has ended")
        return web.json_response({"file": file})

    async def _keep_door(self, session: WebSession[WebUser], door: SpiceDoor) -> str:
        with self._shares.page("stream", session.owner):
            work = asyncio.ensure_future(keep_spice_door(session.user.session, door))
            try:
                await self._until_over(session, work)
                return work.result() if work.done() else "the session has ended"
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    async def _end_doors(self, _: web.Application) -> None:
        await self._doors.end_all()

    async def _take_data(self, request: web.Request) -> web.StreamResponse:
        session = self._session(request)
        part = part_of(request)
        with self._shares.page("upload", session.owner):
            target = await self._ask(open_target, session, *_place(request))
            task = asyncio.ensure_future(send_part(request, target, part))
            try:
                await self._until_over(session, task)
                if not task.done():
                    raise web.HTTPUnauthorized(reason="the session has ended")
                task.result()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        return web.json_response({})

    async def _ask(self, call: Callable[..., T], session: WebSession[WebUser], *arguments: Any) -> T:
        return await self._run(session, call, session.user.session, *arguments)

    async def _run(self, session: WebSession[WebUser], call: Callable[..., T], *arguments: Any) -> T:
        async with self._shares.call(session.owner):
            return await asyncio.to_thread(call, *arguments)

    def _session(self, request: web.Request) -> WebSession[WebUser]:
        found = self._find_session(request)
        if found is None:
            way = "sign in" if self._strangers else "run `kvedge web` and open the link that it prints"
            raise web.HTTPUnauthorized(reason=f"not signed in: {way}")
        return found

    def _find_session(self, request: web.Request) -> WebSession[WebUser] | None:
        return self.desk.find(request.cookies.get(self._cookie, ""))

    async def _while_signed_in(
        self, session: WebSession[WebUser], socket: web.WebSocketResponse, work: Awaitable[str]
    ) -> None:
        """Do the work until it is done or the session ends; then close the websocket with the reason."""
        task = asyncio.ensure_future(work)
        reason = "the session has ended"
        try:
            await self._until_over(session, task)
            if task.done():
                reason = _outcome(task)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        code = TAKEN_BY_OTHER if reason == VNC_IS_BUSY else WSCloseCode.OK
        await socket.close(code=code, message=reason.encode()[:LONGEST_REASON])

    async def _until_over(self, session: WebSession[WebUser], task: asyncio.Future[Any]) -> None:
        """Until the task or the session ends."""
        while not task.done() and not self.desk.is_over(session):
            self.desk.touch(session)
            await asyncio.wait({task}, timeout=_END_LOOK_SECONDS)


async def _until_left(socket: web.WebSocketResponse) -> str:
    """Read, so that the page's end is noticed; nothing that it sends means anything."""
    async for _ in socket:
        continue
    return "the viewer left"


async def _first_of(sending: Any, leaving: Any) -> str:
    tasks = [asyncio.ensure_future(sending), asyncio.ensure_future(leaving)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next((_outcome(task) for task in tasks if task.done()), "")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _outcome(task: asyncio.Future[Any]) -> str:
    """How it ended; a connection that breaks, or a page that takes nothing, is an end like any other."""
    error = task.exception()
    if error is None:
        return task.result() or ""
    if isinstance(error, OSError):
        return "the page took nothing any more"
    raise error


def _has_left(request: web.Request) -> bool:
    """Whether nobody is there any more to take an answer."""
    return request.transport is None or request.transport.is_closing()


def _file_answer(file: PageFile, nonce: str = "") -> web.Response:
    body = file.with_nonce(nonce) if nonce else file.content
    return web.Response(body=body, content_type=file.media_type, charset="utf-8", headers=page_headers(nonce))


def _failure(status: int, text: str) -> web.Response:
    return web.json_response(failure_document(text), status=status, headers=page_headers())


def _place(request: web.Request) -> tuple[str, str]:
    return request.match_info["namespace"], request.match_info["name"]


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        document = await request.json()
    except ValueError as error:
        raise web.HTTPBadRequest(reason="the body is not JSON") from error
    if not isinstance(document, dict):
        raise web.HTTPBadRequest(reason="the body is not a JSON object")
    return document


async def _manifest_body(request: web.Request) -> dict[str, Any]:
    try:
        return await _body(request.clone(client_max_size=_LARGEST_MANIFEST))
    except web.HTTPRequestEntityTooLarge as error:
        # Bytes are counted here, and characters where manifests are read: one of many wide ones comes to its end here.
        reason = "this manifest is too long for the console: apply it with kubectl"
        raise web.HTTPRequestEntityTooLarge(_LARGEST_MANIFEST, reason=reason) from error


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise web.HTTPBadRequest(reason=f"{key}: must be a text")
    return value


def _takes_over(body: Mapping[str, Any]) -> bool:
    value = body.get("takesOver", False)
    if not isinstance(value, bool):
        raise web.HTTPBadRequest(reason="takesOver: must be true or false")
    return value


def _ticket_of(request: web.Request) -> str:
    """Among the subprotocols: never in the URL, which logs and histories keep."""
    for offered in request.headers.get("Sec-WebSocket-Protocol", "").split(","):
        if offered.strip().startswith(_TICKET_PREFIX):
            return offered.strip().removeprefix(_TICKET_PREFIX)
    raise SignInRefused("no ticket")

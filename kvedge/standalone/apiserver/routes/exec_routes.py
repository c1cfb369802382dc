"""pods/exec and pods/attach: a command in a container, or what a container prints, over a websocket or SPDY.

Called by the dispatcher. The node agent starts the command (`ExecSource`); the bytes are moved here, in the event loop,
by descriptors that do not block (`remote_streams`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Final

from aiohttp import web
from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.names import GUESTFS_ENTRY, GUESTFS_IMAGE, GUESTFS_SHELL
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.standalone.apiserver.access.authorizer_rules import Authorizer
from kvedge.standalone.apiserver.requests.fair_places import FairPlaces
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.requests.request_target import RequestTarget, is_true
from kvedge.standalone.apiserver.routes import remote_command as words
from kvedge.standalone.apiserver.routes.exec_source import ExecRequest, ExecSession, ExecSource, NoExec
from kvedge.standalone.apiserver.routes.log_pieces import LogPieces
from kvedge.standalone.apiserver.routes.log_source import LogRequest, LogSource
from kvedge.standalone.apiserver.routes.pod_routes import choose_container
from kvedge.standalone.apiserver.routes.remote_streams import AttachStream, Channels, ExecStream, say_farewell
from kvedge.standalone.apiserver.routes.spdy_channels import CHANNELS, SpdyChannels
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.wire.api_errors import (
    BadRequest,
    Forbidden,
    MethodNotAllowed,
    NotFound,
)
from kvedge.standalone.apiserver.wire.outlasting import outlast
from kvedge.standalone.apiserver.wire.spdy_carriers import switch_to_spdy, wants_spdy
from kvedge.standalone.apiserver.wire.spdy_frames import SpdyError

_LARGEST_MESSAGE: Final = 1 << 20
# A command line of the kernel's own largest size.
_LONGEST_COMMAND: Final = 128 << 10
# Each is a process and a handful of descriptors.
_MOST_OF_ONE: Final = 32
_MOST: Final = 128
# To begin one takes the node agent a moment; others' commands do not wait for one that takes longer.
_BEGIN_AT_ONCE: Final = 8
_NO_STREAM: Final = (
    f"exec and attach need a connection that is upgraded, to a websocket with {' or '.join(words.PROTOCOLS)} or to"
    f" SPDY/3.1 with {words.V4}: kubectl asks for one"
)
_FAREWELL_SECONDS: Final = 10.0


class ExecRoutes:
    """Serves pods/exec and pods/attach."""

    def __init__(
        self, hub: ObjectHub, authorizer: Authorizer, exec_source: ExecSource | None, log_source: LogSource | None
    ) -> None:
        self._hub = hub
        self._authorizer = authorizer
        self._exec_source = exec_source
        self._log_source = log_source
        self._begin_threads = ThreadPoolExecutor(_BEGIN_AT_ONCE, "kvedge-exec")
        self._places = FairPlaces("too many commands run in containers")
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End what runs, so that nobody waits for it."""
        self._stopping.set()
        self._begin_threads.shutdown(wait=False, cancel_futures=True)

    async def exec(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        """Run a command."""
        pod, container = self._find_addressed(request, context)
        wanted = exec_request(pod, container, request)
        with self._take_place(context):
            return await self._run(request, wanted)

    async def _run(self, request: web.BaseRequest, wanted: ExecRequest) -> web.StreamResponse:
        async with _accept(request, tty=wanted.terminal) as accepted:
            await self._serve_command(accepted.channels, request, wanted)
        return accepted.response

    async def _serve_command(self, channels: Channels, request: web.BaseRequest, wanted: ExecRequest) -> None:
        if self._exec_source is None:
            return await say_farewell(channels, words.failure_message("no node agent runs here"))
        try:
            session = await _begin_session(self._begin_threads, self._exec_source, wanted)
        except NoExec as error:
            return await say_farewell(channels, words.failure_message(str(error)))
        try:
            await ExecStream(channels, session, request).serve(self._stopping)
        finally:
            session.close()

    async def attach(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        """Show what a container prints from now on; give a shell in one that `virtctl guestfs` has made for that."""
        pod, container = self._find_addressed(request, context)
        if is_true(request.query.get("stdin", "")) and _has_shell(pod, container):
            with self._take_place(context):
                return await self._run(request, exec_request(pod, container, request, (GUESTFS_ENTRY, GUESTFS_SHELL)))
        if is_true(request.query.get("stdin", "")):
            raise BadRequest(
                f"container {container} has no standard input: containers of one box never have one."
                " Use kubectl exec for a shell beside it, or virtctl console for a guest's console"
            )
        if self._log_source is None:
            raise BadRequest("no node agent runs here that could give out what containers print")
        metadata = pod["metadata"]
        wanted = LogRequest(
            metadata["namespace"], metadata["name"], metadata["uid"], container, follow=True, tail_lines=0
        )
        with self._take_place(context):
            async with _accept(request) as accepted:
                await AttachStream(accepted.channels, LogPieces(self._log_source, wanted)).serve(self._stopping)
            return accepted.response

    def _take_place(self, context: RequestContext) -> AbstractContextManager[None]:
        return self._places.take(context.caller.user, most=_MOST, of_one=_MOST_OF_ONE)

    def _find_addressed(self, request: web.BaseRequest, context: RequestContext) -> tuple[JsonObject, str]:
        """The Pod and its container."""
        pod = find_pod(self._hub, self._authorizer, context)
        container = choose_container(pod, request.query.get("container", ""))
        if (pod.get("status") or {}).get("phase") in FINAL_POD_PHASES:
            phase = pod["status"]["phase"]
            raise BadRequest(f"cannot exec into a container in a completed pod; current phase is {phase}")
        return pod, container


def find_pod(hub: ObjectHub, authorizer: Authorizer, context: RequestContext) -> JsonObject:
    """The Pod of a stream; a client with read access alone does not get here.

    Raises:
        MethodNotAllowed: for what begins no stream.
        Forbidden: when the client may not create it.
        NotFound: when there is no such Pod.
    """
    target = context.target
    if target.verb not in ("get", "create"):
        raise MethodNotAllowed()
    # A websocket begins with a GET, whatever it does: as in Kubernetes, the right to create counts.
    create = RequestTarget("create", "", "", "v1", target.namespace, "pods", target.name, target.subresource)
    if not authorizer.allows(context.caller, create):
        resource = f"pods/{target.subresource}"
        why = (
            f'User "{context.caller.user}" cannot create resource "{resource}" in API group ""'
            f' in the namespace "{target.namespace}"'
        )
        raise Forbidden(context.error_target, why)
    stored = hub.get(context.key)
    if stored is None:
        raise NotFound(context.error_target)
    return stored.load()


def _has_shell(pod: JsonObject, container: str) -> bool:
    """Whether a container has the image whose own process waits beside the shell that its user is given."""
    found = (each for each in pod["spec"]["containers"] if each.get("name") == container)
    return any(each.get("image") == GUESTFS_IMAGE for each in found)


def exec_request(pod: JsonObject, container: str, request: web.BaseRequest, instead: Sequence[str] = ()) -> ExecRequest:
    """What a request wants run; `instead` is run whatever it says.

    Raises:
        BadRequest: no command, one that cannot be, or no stream.
    """
    query, metadata = request.query, pod["metadata"]
    command = list(instead) or query.getall("command", [])
    if not command or not command[0]:
        raise BadRequest("you must specify at least one command for the container")
    if any("\0" in word for word in command) or sum(len(word.encode()) + 1 for word in command) > _LONGEST_COMMAND:
        raise BadRequest("the command is too long, or has a null byte in it")
    if not any(is_true(query.get(stream, "")) for stream in ("stdin", "stdout", "stderr")):
        raise BadRequest("you must specify at least one of stdin, stdout, stderr")
    return ExecRequest(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        container,
        tuple(command),
        stdin=is_true(query.get("stdin", "")),
        terminal=is_true(query.get("tty", "")),
    )


class _Accepted(Struct, frozen=True):
    """A client whose channels are open, and the answer to its request."""

    channels: Channels
    response: web.StreamResponse


@asynccontextmanager
async def _accept(request: web.BaseRequest, *, tty: bool = False) -> AsyncIterator[_Accepted]:
    """A client's channels, for as long as they are used.

    Raises:
        BadRequest: the client speaks something else.
        ConnectionError: it has gone before they were open.
    """
    if not wants_spdy(request):
        socket = await _accept_websocket(request)
        yield _Accepted(socket, socket)
        return
    carrier = await switch_to_spdy(request, words.V4)
    try:
        channels = SpdyChannels(carrier, _find_channels(request, tty=tty))
        try:
            await channels.open()
        except SpdyError as error:
            raise ConnectionResetError(str(error)) from error
        yield _Accepted(channels, carrier.response)
    finally:
        await carrier.close(_FAREWELL_SECONDS)


def _find_channels(request: web.BaseRequest, *, tty: bool) -> set[int]:
    """The channels that a client opens for what it asks for, as in Kubernetes: a terminal has no errors of its own."""
    asked = {name for name in ("stdin", "stdout", "stderr") if is_true(request.query.get(name, ""))}
    if tty:
        asked = asked - {"stderr"} | {"resize"}
    return {CHANNELS[name] for name in (*asked, "error")}


async def _accept_websocket(request: web.BaseRequest) -> web.WebSocketResponse:
    """The websocket of a request. Raises BadRequest when the client speaks something else."""
    socket = web.WebSocketResponse(protocols=words.PROTOCOLS, max_msg_size=_LARGEST_MESSAGE, compress=False)
    found = socket.can_prepare(request)
    if not found.ok or found.protocol is None:
        raise BadRequest(_NO_STREAM)
    await socket.prepare(request)
    # An empty message, by which clients know that the channels are there.
    await socket.send_bytes(bytes([words.STDOUT]))
    return socket


async def _begin_session(threads: ThreadPoolExecutor, source: ExecSource, wanted: ExecRequest) -> ExecSession:
    """Begin a session, and close it again when its client has gone meanwhile. It counts until then.

    Raises:
        NoExec: the command cannot be run.
    """
    try:
        job = threads.submit(source.begin_exec, wanted)
    except RuntimeError:
        raise NoExec("this server stops") from None
    beginning = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        if not job.cancel():
            await outlast(beginning)
        if not job.cancelled() and job.exception() is None:
            job.result().close()
        raise

"""pods/exec and pods/attach: a command in a container, or what a container prints, over a websocket.

Called by the dispatcher. The node agent starts the command (`ExecSource`); the bytes are moved here, in the event loop,
by descriptors that do not block (`remote_streams`). SPDY, which older clients speak, is not served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Final

from aiohttp import web

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
from kvedge.standalone.apiserver.routes.remote_streams import AttachStream, ExecStream, say_farewell
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.wire.api_errors import (
    BadRequest,
    Forbidden,
    MethodNotAllowed,
    NotFound,
)
from kvedge.standalone.apiserver.wire.outlasting import outlast

_LARGEST_MESSAGE: Final = 1 << 20
# A command line of the kernel's own largest size.
_LONGEST_COMMAND: Final = 128 << 10
# Each is a process and a handful of descriptors.
_MOST_OF_ONE: Final = 32
_MOST: Final = 128
# To begin one takes the node agent a moment; others' commands do not wait for one that takes longer.
_BEGIN_AT_ONCE: Final = 8
_NO_SPDY: Final = (
    "exec and attach are served over WebSockets: use kubectl 1.31 or newer,"
    " or set KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true for 1.29 and 1.30"
)


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
        socket = await _accept(request)
        if self._exec_source is None:
            return await say_farewell(socket, words.failure_message("no node agent runs here"))
        try:
            session = await _begin_session(self._begin_threads, self._exec_source, wanted)
        except NoExec as error:
            return await say_farewell(socket, words.failure_message(str(error)))
        try:
            return await ExecStream(socket, session, request).serve(self._stopping)
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
            socket = await _accept(request)
            return await AttachStream(socket, LogPieces(self._log_source, wanted)).serve(self._stopping)

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


async def _accept(request: web.BaseRequest) -> web.WebSocketResponse:
    """The websocket of a request.

    Raises:
        BadRequest: the client speaks something else.
    """
    socket = web.WebSocketResponse(protocols=words.PROTOCOLS, max_msg_size=_LARGEST_MESSAGE, compress=False)
    found = socket.can_prepare(request)
    if not found.ok or found.protocol is None:
        raise BadRequest(_NO_SPDY)
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

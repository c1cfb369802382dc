"""One connection to each launcher of this node, and what its domain is.

Called by the sync loop (from its worker threads) and by the relay. Opens sockets beneath the kubelet's directory and
runs one event loop in a thread of its own: a hundred launchers cost a hundred tasks, not threads. A launcher is known
by its channel: the socket in the volume of the Pod that the VMI names, answering with the VMI's UID.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from msgspec import Struct, field

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.launchers.launcher_socket import (
    NotThere,
    Unexpected,
    hold_listener,
    launcher_socket_path,
    open_socket,
)
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.resources.relay_protocol import PROTOCOL
from kvedge.rpc import launcher_pb2, launcher_pb2_grpc
from kvedge.runtime.background_tasks import background_task
from kvedge.runtime.heartbeat import Heartbeat, LoopPulse
from kvedge.runtime.milestones import LAUNCHER_CONNECTED, POD_SEEN, SYNC_DONE, Milestones

log = logging.getLogger(__name__)

# A launcher that starts is looked for often, as each millisecond is one of the VM's start, and then ever less often: a
# tenth more is what waiting for it may cost, and a hundred that start at once do not keep this process busy.
_EAGER_SECONDS: Final = 0.01
_SHARE: Final = 0.1
_PATIENT_SECONDS: Final = 1.0
_PING_SECONDS: Final = 5.0
# A launcher's status holds a few addresses and disks: more is an attack.
_LARGEST_MESSAGE: Final = 1 << 20
CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
    ("grpc.enable_retries", 0),
    # A channel's address is the number of a descriptor. gRPC lets channels to one address share a connection: with a
    # number that is used again, a launcher would be called over the connection to the one before.
    ("grpc.use_local_subchannel_pool", 1),
)

Key = tuple[str, str]


class LauncherCallError(Exception):
    """A launcher refused or did not answer; `code` is the gRPC status code, `detail` its words."""

    def __init__(self, code: grpc.StatusCode, detail: str) -> None:
        super().__init__(f"{code.name}: {detail}")
        self.code = code
        self.detail = detail


class _Malformed(Exception):
    """A launcher's message is none. gRPC hands out None for it, with a line in the log, and raises nothing."""


def _bad_answer(method: str) -> LauncherCallError:
    return LauncherCallError(grpc.StatusCode.INTERNAL, f"the launcher's answer to {method} cannot be read")


def _not_connected_error() -> LauncherCallError:
    return LauncherCallError(grpc.StatusCode.UNAVAILABLE, "the launcher is not connected")


def _choose_error(cancelled: asyncio.CancelledError) -> BaseException:
    """The error to raise for a call that was cancelled.

    gRPC cancels the calls of a channel that is closed because its VMI has gone: the caller is told that the launcher is
    not connected. When somebody cancelled the calling task itself, the cancellation goes on.
    """
    task = asyncio.current_task()
    return cancelled if task is not None and task.cancelling() else _not_connected_error()


class _Connection(Struct):
    key: Key
    vmi_uid: str
    pod_uid: str
    began: float = field(default_factory=time.monotonic)
    down_since: float = field(default_factory=time.monotonic)
    stub: Any = None
    # The process that listens, held from before it is asked who it is; closed when it is no longer connected.
    launcher: HeldProcess | None = None
    version: str = ""
    synced: bool = False
    status: launcher_pb2.DomainStatus | None = None
    signalled: float | None = None
    # The last obstacle. It is logged once, as each second finds the same one again.
    trouble: str = ""
    task: asyncio.Task[None] | None = None
    milestones: Milestones = field(default_factory=Milestones)


class LauncherConnections:
    """All launchers of this node."""

    name = "launcher connections"

    def __init__(self, kubelet: Path, on_change: Callable[[Key], None]) -> None:
        self._kubelet = kubelet
        self._on_change = on_change
        self._lock = threading.Lock()
        self._connections: dict[Key, _Connection] = {}
        self.loop = asyncio.new_event_loop()
        self._heartbeat = Heartbeat("the event loop of the launcher connections")
        self._thread = threading.Thread(target=self._run, name="handler-launchers", daemon=True)

    def start(self) -> None:
        """Start the event loop's thread."""
        self._thread.start()

    def stop(self) -> None:
        """Drop all connections; launchers and their guests go on."""
        with self._lock:
            keys = list(self._connections)
        for key in keys:
            self.drop(key)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=5)

    def failure(self) -> str | None:
        """The event loop's end, which nobody asked for, or that it turns no more."""
        return self._heartbeat.failure() if self._thread.is_alive() else "its event loop has ended"

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        pulse = LoopPulse(self._heartbeat, self.loop)
        pulse.start()
        self.loop.run_forever()
        pulse.stop()
        pending = asyncio.all_tasks(self.loop)
        for task in pending:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self.loop.close()

    def ensure(self, key: Key, vmi_uid: str, pod_uid: str) -> None:
        """Connect, and stay connected, to the launcher of that VMI in that Pod."""
        with self._lock:
            present = self._connections.get(key)
            if present is not None and (present.vmi_uid, present.pod_uid) == (vmi_uid, pod_uid):
                return
        self.drop(key)
        connection = _Connection(key, vmi_uid, pod_uid)
        connection.milestones.note(POD_SEEN)
        with self._lock:
            self._connections[key] = connection
        self.loop.call_soon_threadsafe(self._begin, connection)

    def _begin(self, connection: _Connection) -> None:
        connection.task = background_task(f"launcher {'/'.join(connection.key)}", partial(self._keep, connection))

    def drop(self, key: Key) -> None:
        """Forget a launcher."""
        with self._lock:
            connection = self._connections.pop(key, None)
        if connection is not None:
            self.loop.call_soon_threadsafe(self._cancel, connection)

    def _cancel(self, connection: _Connection) -> None:
        if connection.task is not None:
            connection.task.cancel()

    def view(self, key: Key) -> LauncherView:
        """What is known of a launcher now."""
        now = time.monotonic()
        with self._lock:
            connection = self._connections.get(key)
            if connection is None:
                return LauncherView()
            return LauncherView(
                connected=connection.stub is not None,
                synced=connection.synced,
                version=connection.version,
                status=connection.status,
                down_seconds=0.0 if connection.stub is not None else now - connection.down_since,
                signalled_seconds=None if connection.signalled is None else now - connection.signalled,
            )

    @contextlib.contextmanager
    def launcher(self, key: Key) -> Iterator[HeldProcess]:
        """The launcher's process for a `with` block, held whatever becomes of the connection meanwhile.

        Raises:
            LauncherCallError: UNAVAILABLE when there is no connection.
        """
        with self._lock:
            connection = self._connections.get(key)
            if connection is None or connection.stub is None or connection.launcher is None:
                raise _not_connected_error()
            held = connection.launcher.copy()
        with held:
            yield held

    def pod_uid(self, key: Key) -> str | None:
        """The Pod whose launcher is connected, or None."""
        with self._lock:
            connection = self._connections.get(key)
            return None if connection is None else connection.pod_uid

    def note(self, key: Key, step: str) -> None:
        """Keep that a step of the guest's start is reached now, if it is for the first time."""
        with self._lock:
            connection = self._connections.get(key)
        if connection is not None:
            connection.milestones.note(step)

    def milestones(self, key: Key) -> dict[str, int]:
        """What this handler has noted since it knows of the launcher."""
        with self._lock:
            connection = self._connections.get(key)
        return {} if connection is None else connection.milestones.times()

    def known_keys(self) -> list[Key]:
        """All VMIs whose launcher has answered once, whether or not it is connected now."""
        with self._lock:
            return [key for key, connection in self._connections.items() if connection.version]

    def _connection_to(self, key: Key) -> _Connection:
        with self._lock:
            connection = self._connections.get(key)
            if connection is None or connection.stub is None:
                raise _not_connected_error()
            return connection

    def call(self, key: Key, method: str, request: Any, seconds: float) -> Any:
        """Call a method of the launcher's service from a worker thread.

        Raises:
            LauncherCallError: with the launcher's status code.
        """
        future = asyncio.run_coroutine_threadsafe(self.call_async(key, method, request, seconds), self.loop)
        try:
            return future.result(seconds + 1)
        except concurrent.futures.TimeoutError as error:
            future.cancel()
            raise LauncherCallError(
                grpc.StatusCode.DEADLINE_EXCEEDED, f"{method} took longer than {seconds} s"
            ) from error
        except concurrent.futures.CancelledError as error:
            # The event loop ends.
            raise _not_connected_error() from error

    async def call_async(self, key: Key, method: str, request: Any, seconds: float) -> Any:
        """As :meth:`call`, inside the event loop."""
        connection = self._connection_to(key)
        try:
            reply = await getattr(connection.stub, method)(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            raise LauncherCallError(error.code(), error.details() or "") from error
        except asyncio.CancelledError as error:
            raise _choose_error(error) from error
        if reply is None:
            raise _bad_answer(method)
        with self._lock:
            if method == "Sync":
                connection.synced = True
                connection.milestones.note(SYNC_DONE)
            if method == "Shutdown":
                connection.signalled = time.monotonic()
        if isinstance(reply, launcher_pb2.DomainStatus):
            self._take(connection, reply)
        return reply

    async def collect_async(self, key: Key, method: str, request: Any, seconds: float, most: int) -> bytes:
        """All data of a method that streams it, at most `most` bytes; inside the event loop. Raises as :meth:`call`."""
        stub = self._connection_to(key).stub
        found = bytearray()
        try:
            answers = getattr(stub, method)(request, timeout=seconds)
            async for answer in answers:
                if answer is None:
                    answers.cancel()
                    raise _bad_answer(method)
                found += answer.data
                if len(found) > most:
                    answers.cancel()
                    raise LauncherCallError(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{method} gave more than {most} bytes")
        except grpc.aio.AioRpcError as error:
            raise LauncherCallError(error.code(), error.details() or "") from error
        except asyncio.CancelledError as error:
            raise _choose_error(error) from error
        return bytes(found)

    async def _keep(self, connection: _Connection) -> None:
        while True:
            try:
                await self._serve(connection)
            except NotThere:
                pass
            except Unexpected as error:
                self._tell(connection, "launcher socket refused", str(error))
            except _Malformed as error:
                # A guest that broke out of QEMU may say anything. It is a launcher again once it speaks as one.
                self._tell(connection, "launcher speaks no protocol of ours", str(error))
            except grpc.aio.AioRpcError as error:
                log.info("launcher gone", extra={"facts": self._facts(connection) | {"code": error.code().name}})
            except OSError as error:
                self._tell(connection, "launcher not reached", str(error))
            finally:
                self._mark_down(connection)
            waited = time.monotonic() - connection.down_since
            await asyncio.sleep(min(max(_EAGER_SECONDS, waited * _SHARE), _PATIENT_SECONDS))

    def _tell(self, connection: _Connection, what: str, found: str) -> None:
        """Log what is in the way, unless it has been since the last time that all was well."""
        if connection.trouble != f"{what}: {found}":
            connection.trouble = f"{what}: {found}"
            log.error(what, extra={"facts": self._facts(connection) | {"found": found}})

    def _facts(self, connection: _Connection) -> dict[str, str]:
        return {"vmi": "/".join(connection.key), "pod": connection.pod_uid}

    def _mark_down(self, connection: _Connection) -> None:
        with self._lock:
            was_up = connection.stub is not None
            if connection.launcher is not None:
                connection.launcher.close()
                connection.launcher = None
            connection.stub = None
            connection.synced = False
            connection.status = None
            if was_up:
                connection.down_since = time.monotonic()
        if was_up:
            self._on_change(connection.key)

    async def _serve(self, connection: _Connection) -> None:
        root, name = launcher_socket_path(self._kubelet, connection.pod_uid)
        descriptor = open_socket(root, name)
        try:
            connection.launcher = hold_listener(descriptor, root)
            async with grpc.aio.insecure_channel(
                f"unix:/proc/self/fd/{descriptor}", options=CHANNEL_OPTIONS
            ) as channel:
                stub: Any = launcher_pb2_grpc.LauncherStub(channel)  # type: ignore[no-untyped-call]  # generated
                await self._check_peer(connection, stub)
                await self._watch(connection, stub)
        finally:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    async def _check_peer(self, connection: _Connection, stub: Any) -> None:
        reply = await stub.Ping(launcher_pb2.PingRequest(), timeout=_PING_SECONDS)
        if reply is None:
            raise _Malformed("its answer to Ping cannot be read")
        if reply.vmi_uid != connection.vmi_uid:
            raise Unexpected(connection.pod_uid, f"the launcher of VMI {reply.vmi_uid}")
        if reply.protocol > PROTOCOL:
            raise Unexpected(
                connection.pod_uid, f"a launcher of protocol {reply.protocol}, newer than this handler's {PROTOCOL}"
            )
        connection.version = reply.version

    async def _watch(self, connection: _Connection, stub: Any) -> None:
        async for status in stub.WatchDomain(launcher_pb2.WatchDomainRequest()):
            if status is None:
                raise _Malformed("its status cannot be read")
            with self._lock:
                connection.stub, connection.trouble = stub, ""
            connection.milestones.note(LAUNCHER_CONNECTED)
            self._take(connection, status)

    def _take(self, connection: _Connection, status: launcher_pb2.DomainStatus) -> None:
        with self._lock:
            known = connection.status
            # An answer to a call may overtake or trail the stream: the newer one counts.
            if known is not None and status.sequence < known.sequence:
                return
            connection.status = status
        self._on_change(connection.key)

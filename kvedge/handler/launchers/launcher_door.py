"""The relay's way to the launchers of this node: consoles by their sockets, verbs and pictures by gRPC.

Called by the relay in its event loop. gRPC calls run in the launcher connections' own loop; sockets and logs are opened
beneath the Pod's volumes, without following links.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from kvedge.handler.launchers.console_log import LogRequest, read_console_log
from kvedge.handler.launchers.guest_answer_message import guest_answer, trace_answer
from kvedge.handler.launchers.launcher_connections import LauncherCallError, LauncherConnections
from kvedge.handler.launchers.launcher_socket import NotThere, Unexpected, open_socket, volume_directory
from kvedge.handler.launchers.node_stats import StatsReader
from kvedge.handler.launchers.relay_core import DoorError
from kvedge.handler.launchers.vsock_dial import dial_vsock
from kvedge.handler.launchers.vsock_request import VsockRequest
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.network.binding.binding_state import names_for
from kvedge.network.errors import NetworkError
from kvedge.network.insight.capture import CaptureRequest, capture
from kvedge.network.insight.way_reader import read_ways
from kvedge.resources.codec import JsonObject, encode, encode_json
from kvedge.resources.guest_verbs import TRACE, GuestVerb
from kvedge.resources.relay_protocol import LARGEST_PICTURE, LONGEST_FREEZE_SECONDS, UNFREEZE_SECONDS
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.guest_nics import POD_NIC, pod_interfaces
from kvedge.resources.types.pod_networks import lan_interfaces, pod_nic
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.usage.guest_history import GuestHistory
from kvedge.rpc import launcher_pb2

T = TypeVar("T")

_CONNECT_SECONDS: Final = 5.0
# The most bytes that a slow viewer may leave in memory.
_BUFFER: Final = 64 * 1024
_STATUS: Final = {
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}


class NodeLaunchers:
    """Implements the relay's `LauncherDoor`."""

    def __init__(
        self,
        vmis: Informer[VirtualMachineInstance],
        connections: LauncherConnections,
        events: EventRecorder,
        kubelet: Path,
        node: str,
        stats: StatsReader,
        tell_usage: Callable[[VirtualMachineInstance, str], GuestHistory],
    ) -> None:
        """`tell_usage` tells what a guest has used over one of `SPANS`; it may read a file."""
        self._vmis = vmis
        self._connections = connections
        self._events = events
        self._kubelet = kubelet
        self._node = node
        self._stats = stats
        self._tell_usage = tell_usage

    async def open_stream(
        self, namespace: str, name: str, stream: GuestVerb
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the guest's serial console or display.

        Raises:
            DoorError: when the VMI does not run here, or has no such device.
        """
        descriptor = self._open(namespace, name, stream)
        try:
            opening = asyncio.open_unix_connection(f"/proc/self/fd/{descriptor}", limit=_BUFFER)
            return await asyncio.wait_for(opening, _CONNECT_SECONDS)
        except (OSError, TimeoutError) as error:
            raise DoorError(503, f"the {stream.name} of VMI {namespace}/{name} does not answer: {error}") from error
        finally:
            os.close(descriptor)

    def check_stream(self, namespace: str, name: str, stream: GuestVerb) -> None:
        """Whether there is such a connection to be had, without disturbing its viewer. Raises DoorError."""
        os.close(self._open(namespace, name, stream))

    def _open(self, namespace: str, name: str, stream: GuestVerb) -> int:
        vmi, pod_uid = self._find_running(namespace, name)
        root = volume_directory(self._kubelet, pod_uid, "private")
        try:
            return open_socket(root, f"{vmi.metadata.uid}/{stream.socket}")
        except NotThere as error:
            raise DoorError(400, f"VMI {namespace}/{name} has no {stream.name}") from error
        except Unexpected as error:
            detail = f"the {stream.name} of VMI {namespace}/{name} is not what a launcher makes: {error}"
            raise DoorError(500, detail) from error

    async def open_vsock(
        self, namespace: str, name: str, wanted: VsockRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of the guest's vsock.

        Raises:
            DoorError: when the VMI does not run here, has none, or does not answer there.
        """
        return await dial_vsock((self.check_vsock(namespace, name), wanted.port), tls=wanted.tls)

    def check_vsock(self, namespace: str, name: str) -> int:
        """The CID by which the guest is reached. Raises DoorError."""
        vmi, _ = self._find_running(namespace, name)
        if not vmi.spec.domain.devices.autoattach_vsock:
            raise DoorError(400, "VM doesn't have VSOCK enabled")
        if vmi.status.vsock_cid is None:
            raise DoorError(500, "VSOCK CID is nil")
        return vmi.status.vsock_cid

    async def call(self, namespace: str, name: str, verb: GuestVerb, options: JsonObject) -> JsonObject:
        """Do it; what a verb of facts found, else an empty object.

        Raises:
            DoorError: when the launcher refuses or does not answer.
        """
        vmi, _ = self._find_running(namespace, name)
        request = launcher_request(verb, options)
        calling = self._connections.call_async((namespace, name), verb.rpc, request, verb.seconds)
        try:
            reply = await self._await_answer(calling)
        except DoorError as error:
            if verb.name == TRACE and error.status == _STATUS[grpc.StatusCode.UNIMPLEMENTED]:
                # A launcher of an earlier version. What this handler knows is still worth telling.
                return trace_answer({}, self._connections.milestones((namespace, name)))
            if verb.failure_event:
                text = f"Failed to {verb.name} VMI: {error.message}"
                self._events.record(vmi, "Warning", verb.failure_event, text)
            raise
        if verb.name == TRACE:
            return trace_answer(reply.unix_ms, self._connections.milestones((namespace, name)))
        # What was done needs no words.
        return guest_answer(reply) if verb.way == "facts" else {}

    async def stats(self) -> bytes:
        """What the guests of this node have used, as JSON of `NodeStats`."""
        return await self._stats.read()

    async def usage(self, namespace: str, name: str, span: str) -> bytes:
        """What the guest has used over one of `SPANS`, as JSON of `GuestHistory`; also of one that has ended.

        Raises:
            DoorError: when the VMI is not on this node.
        """
        vmi = self._find_here(namespace, name)
        return await asyncio.to_thread(lambda: encode_json(self._tell_usage(vmi, span)))

    async def network(self, namespace: str, name: str) -> JsonObject:
        """The way of the guest's packets, of each of its interfaces.

        Raises:
            DoorError: when the VMI does not run here, or its links cannot be read.
        """
        vmi, _ = self._find_running(namespace, name)
        try:
            return await asyncio.to_thread(self._network, (namespace, name), vmi)
        except LauncherCallError as error:
            raise DoorError(_STATUS.get(error.code, 500), error.detail) from error
        except (NetworkError, OSError) as error:
            raise DoorError(503, f"the links of VMI {namespace}/{name} cannot be read: {error}") from error

    def _network(self, key: tuple[str, str], vmi: VirtualMachineInstance) -> JsonObject:
        nics = nics_of(vmi)
        rows = {row.name: row for row in vmi.status.interfaces}
        addresses = {nic: rows[item.name].ip_addresses for item, _, nic in nics if item.name in rows}
        with self._connections.launcher(key) as launcher, launcher.namespace("net") as netns:
            ways = read_ways(netns, {nic: index for _, index, nic in nics}, addresses)
        return {
            "node": self._node,
            "interfaces": [
                {
                    "name": item.name,
                    "binding": _binding_of(item),
                    "status": encode(rows[item.name]) if item.name in rows else {},
                    "way": [hop.document() for hop in ways[nic]],
                }
                for item, _, nic in nics
            ],
        }

    async def capture(self, namespace: str, name: str, wanted: CaptureRequest) -> bytes:
        """Frames of one of the guest's NICs, as a pcap file.

        Raises:
            DoorError: when it has no such interface, or nobody can listen there.
        """
        vmi, _ = self._find_running(namespace, name)
        nics = nics_of(vmi)
        interfaces = vmi.spec.domain.devices.interfaces
        if any(item.name == wanted.interface and item.sriov is not None for item in interfaces):
            text = f"interface {wanted.interface} of VMI {namespace}/{name} is a function of its node's NIC"
            raise DoorError(400, f"{text}: only the guest sees its frames, capture them there")
        found = next((each for each in nics if wanted.interface in ("", each[0].name)), None)
        if found is None:
            names = ", ".join(item.name for item, _, _ in nics) or "none"
            raise DoorError(404, f"VMI {namespace}/{name} has no interface {wanted.interface[:64]!r}; it has {names}")
        left = threading.Event()
        try:
            return await asyncio.to_thread(self._capture, (namespace, name), found, wanted, left)
        except LauncherCallError as error:
            raise DoorError(_STATUS.get(error.code, 500), error.detail) from error
        except (NetworkError, OSError) as error:
            raise DoorError(503, f"interface {found[0].name} cannot be listened on: {error}") from error
        finally:
            # The caller may have gone.
            left.set()

    def _capture(
        self,
        key: tuple[str, str],
        found: tuple[Interface, int, str],
        wanted: CaptureRequest,
        left: threading.Event,
    ) -> bytes:
        item, index, nic = found
        tap = names_for(nic, index).tap
        # A plugin may join a guest to the Pod's NIC itself, and passt speaks there for its guest.
        has_nic = item.binding is not None or item.passt_binding is not None
        links = (tap, nic) if has_nic else (tap,)
        with self._connections.launcher(key) as launcher, launcher.namespace("net") as netns:
            return capture(netns, links, wanted, left.is_set)

    async def screenshot(self, namespace: str, name: str, verb: GuestVerb, *, move_cursor: bool) -> bytes:
        """The guest's screen as a PNG file.

        Raises:
            DoorError: when it has none, or when the launcher does not answer.
        """
        self._find_running(namespace, name)
        request = launcher_pb2.ScreenshotRequest(move_cursor=move_cursor)
        collecting = self._connections.collect_async(
            (namespace, name), verb.rpc, request, verb.seconds, LARGEST_PICTURE
        )
        return await self._await_answer(collecting)

    async def console_log(self, namespace: str, name: str, wanted: LogRequest) -> bytes:
        """What the guest has written to its serial console, also of one that has ended.

        Raises:
            DoorError: when nothing is kept of it.
        """
        vmi = self._find_here(namespace, name)
        # The Pod of a guest that has ended is no longer connected.
        pod_uid = self._connections.pod_uid((namespace, name)) or _pod_on(vmi, self._node)
        if pod_uid is None:
            raise DoorError(404, f"VMI {namespace}/{name} has no Pod on node {self._node}")
        volume = volume_directory(self._kubelet, pod_uid, "private")
        try:
            return await asyncio.to_thread(read_console_log, volume, vmi.metadata.uid, wanted)
        except NotThere as error:
            what = "no older log" if wanted.previous else "no log"
            raise DoorError(404, f"there is {what} of the serial console of VMI {namespace}/{name}") from error
        except (Unexpected, OSError) as error:
            detail = f"the log of the serial console of VMI {namespace}/{name} cannot be read: {error}"
            raise DoorError(500, detail) from error

    async def _await_answer(self, calling: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(calling, self._connections.loop)
        try:
            return await asyncio.wrap_future(future)
        except LauncherCallError as error:
            raise DoorError(_STATUS.get(error.code, 500), error.detail) from error

    def _find_here(self, namespace: str, name: str) -> VirtualMachineInstance:
        vmi = self._vmis.get(namespace, name)
        if vmi is None or vmi.status.node_name != self._node:
            raise DoorError(404, f"VMI {namespace}/{name} is not on node {self._node}")
        return vmi

    def _find_running(self, namespace: str, name: str) -> tuple[VirtualMachineInstance, str]:
        vmi = self._find_here(namespace, name)
        pod_uid = self._connections.pod_uid((namespace, name))
        if pod_uid is None or vmi.is_final:
            raise DoorError(400, "VMI is not running")
        return vmi, pod_uid


def nics_of(vmi: VirtualMachineInstance) -> list[tuple[Interface, int, str]]:
    """The interfaces that are the handler's to bind, with their place in the VMI and the Pod's NIC of each."""
    first = [(item, index, POD_NIC) for index, item in pod_interfaces(vmi)]
    return first + [(item, index, pod_nic(item.name)) for index, item, _ in lan_interfaces(vmi)]


def _binding_of(interface: Interface) -> str:
    if interface.binding is not None:
        return interface.binding.name
    if interface.passt_binding is not None:
        return "passt"
    return "masquerade" if interface.masquerade is not None else "bridge"


def _pod_on(vmi: VirtualMachineInstance, node: str) -> str | None:
    return next((pod for pod, place in vmi.status.active_pods.items() if place == node and "/" not in pod), None)


def launcher_request(verb: GuestVerb, options: JsonObject) -> Message:
    """The request of a verb's gRPC method. Raises DoorError for options that make no sense."""
    if verb.rpc == "Freeze":
        return freeze_request(options)
    if verb.rpc == "InjectLaunchSecret":
        return secret_request(options)
    made: Message = getattr(launcher_pb2, f"{verb.rpc}Request")()
    return made


def freeze_request(options: JsonObject) -> launcher_pb2.FreezeRequest:
    """The request for a freeze.

    Raises:
        DoorError: 400 when it does not say for how long, or for too long.
    """
    seconds = options.get(UNFREEZE_SECONDS)
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 <= seconds <= LONGEST_FREEZE_SECONDS:
        raise DoorError(400, f"unfreezeTimeout: it has to be between 0s and {LONGEST_FREEZE_SECONDS}s")
    return launcher_pb2.FreezeRequest(unfreeze_seconds=seconds)


def secret_request(options: JsonObject) -> launcher_pb2.InjectLaunchSecretRequest:
    """The request for a secret, which the launcher judges. Raises DoorError for what is no text."""
    parts = {name: options.get(name, "") for name in ("header", "secret")}
    if not all(isinstance(part, str) for part in parts.values()):
        raise DoorError(400, "header and secret have to be texts")
    return launcher_pb2.InjectLaunchSecretRequest(**parts)

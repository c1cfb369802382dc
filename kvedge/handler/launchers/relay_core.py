"""What the relay offers, without I/O: its door to launchers, its errors, and its farewell to a viewer that has to go.

Used by relay_server.py and by the door to launchers. Touches nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final, Protocol

from kvedge.handler.launchers.console_log import LogRequest
from kvedge.handler.launchers.vsock_request import VsockRequest
from kvedge.network.insight.capture import CaptureRequest
from kvedge.resources.codec import JsonObject
from kvedge.resources.guest_verbs import GuestVerb
from kvedge.resources.moves.crossing import SourceWords, TargetWords
from kvedge.runtime.serving.stream_pump import Farewell

# As KubeVirt's handler logs it, and as its clients hear of it.
SLOTS_ARE_BUSY: Final = "All USB devices are in use (websocket: bad handshake)."


class DoorError(Exception):
    """A launcher refused or did not answer: an HTTP status, and words for the user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class LauncherDoor(Protocol):
    """The way to the launchers of this node; called in the relay's event loop."""

    async def open_stream(
        self, namespace: str, name: str, stream: GuestVerb
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the guest's serial console or display.

        Raises:
            DoorError: when there is none.
        """

    def check_stream(self, namespace: str, name: str, stream: GuestVerb) -> None:
        """Whether there is such a connection to be had, without disturbing its viewer. Raises DoorError."""

    async def open_vsock(
        self, namespace: str, name: str, wanted: VsockRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of the guest's vsock. Raises DoorError."""

    def check_vsock(self, namespace: str, name: str) -> int:
        """The CID by which the guest is reached. Raises DoorError."""

    async def call(self, namespace: str, name: str, verb: GuestVerb, options: JsonObject) -> JsonObject:
        """Do it; what a verb of facts found in the shape of KubeVirt's answer, else an empty object.

        `options` came with the call: for freeze `unfreezeSeconds`, 0 for not by itself.

        Raises:
            DoorError: when the launcher refuses or does not answer.
        """

    async def stats(self) -> bytes:
        """What the guests of this node have used, as JSON of `NodeStats`."""

    async def network(self, namespace: str, name: str) -> JsonObject:
        """The way of the guest's packets, of each of its interfaces. Raises DoorError."""

    async def usage(self, namespace: str, name: str, span: str) -> bytes:
        """What the guest has used over one of `SPANS`, as JSON of `GuestHistory`. Raises DoorError."""

    async def capture(self, namespace: str, name: str, wanted: CaptureRequest) -> bytes:
        """Frames of one of the guest's NICs as a pcap file. Raises DoorError."""

    async def screenshot(self, namespace: str, name: str, verb: GuestVerb, *, move_cursor: bool) -> bytes:
        """The guest's screen as a PNG file. Raises DoorError."""

    async def console_log(self, namespace: str, name: str, wanted: LogRequest) -> bytes:
        """What the guest has written to its serial console, also of one that has ended. Raises DoorError."""


class MigrationDoor(Protocol):
    """The way to the launchers of this node that await a guest; called in the relay's event loop."""

    async def open_channel(
        self, namespace: str, name: str, uid: str, channel: str, peer_hosts: Collection[str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection for the handler whose certificate has these names; as `incoming_channels` has it."""

    def release_channel(self, uid: str) -> None:
        """A connection has ended."""

    def take_words(
        self, key: tuple[str, str], uid: str, peer_hosts: Collection[str], words: SourceWords
    ) -> TargetWords:
        """What is answered to another box that speaks of its guest; as `crossing_desk` has it. Raises DoorError."""


def build_takeover_farewell(kind: str) -> Farewell:
    """What a viewer is told when another one comes; a terminal also shows it, a display cannot."""
    reason = f"another viewer has opened this {kind}"
    words = f"\r\n*** disconnected: {reason} ***\r\n".encode() if kind == "console" else b""
    return Farewell(1000, reason, words)


def build_full_refusal(verb: GuestVerb) -> str:
    """What is said to a connection for which there is no room."""
    return f"{verb.viewers} connections are at the guest's {verb.name} already; close a viewer, and try again"

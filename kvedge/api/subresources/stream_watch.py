"""Whether a stream that is open may stay so: its user still may, and its guest is still the one it was opened to.

Used by stream_calls.py, once in a while for each stream. A datagram has no connection that would end with its guest,
and an address belongs to somebody else afterwards. An API server that cannot be asked ends no stream.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from msgspec import Struct

from kvedge.api.subresources.caller_rules import Asked
from kvedge.api.subresources.status_message import Refusal
from kvedge.resources.role_users import UserInfo
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.serving.stream_pump import Farewell

log = logging.getLogger(__name__)

# Less than it takes to make another VM, wait for its address and have a guest listen there.
LOOK_SECONDS: Final = 15.0
_POLICY_VIOLATION: Final = 1008
NOT_ALLOWED: Final = Farewell(_POLICY_VIOLATION, "you are no longer allowed to use this stream")
GUEST_GONE: Final = Farewell(1000, "the guest is gone")
_UNANSWERED: Final = 500


class Knowing(Protocol):
    """What is asked: a ClusterReader."""

    async def may(self, user: UserInfo, asked: Asked) -> bool:
        """Whether the user may do that. Raises Refusal."""

    async def vmi(self, namespace: str, name: str) -> VirtualMachineInstance:
        """The VMI. Raises Refusal."""

    async def pod_address(self, vmi: VirtualMachineInstance) -> str:
        """The guest's address. Raises Refusal."""


class StreamWatch(Struct, frozen=True):
    """One stream: its user, the call that opened it, and its target; without an address a node's relay knows that."""

    cluster: Knowing
    user: UserInfo
    asked: Asked
    vmi: VirtualMachineInstance
    address: str = ""

    async def end(self, look_seconds: float) -> Farewell:
        """Look every so many seconds; return when the stream has to end, with the reason."""
        while True:
            await asyncio.sleep(look_seconds)
            try:
                farewell = await self._find_objection()
            except Refusal as error:
                facts = {"vmi": self.vmi.metadata.name, "reason": error.message}
                log.warning("cannot look whether a stream may stay", extra={"facts": facts})
                continue
            if farewell is not None:
                return farewell

    async def _find_objection(self) -> Farewell | None:
        if not await self.cluster.may(self.user, self.asked):
            return NOT_ALLOWED
        return None if await self._is_there() else GUEST_GONE

    async def _is_there(self) -> bool:
        """Whether the guest is the one that it was. Raises Refusal when nobody knows."""
        known = self.vmi.metadata
        try:
            now = await self.cluster.vmi(known.namespace, known.name)
            if now.metadata.uid != known.uid:
                return False
            return not self.address or await self.cluster.pod_address(now) == self.address
        except Refusal as error:
            if error.code >= _UNANSWERED:
                raise
            return False

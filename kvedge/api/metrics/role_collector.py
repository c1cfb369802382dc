"""What kvedge's processes count of themselves: this one, and those of all nodes' handlers, which are asked.

Used by metrics_server.py, in its event loop. Where `kvedge node` runs, controller, api role and handler are one
process, so that asking the handlers asks all of them. The way is the relay's: mutual TLS, for the api role alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from kvedge.api.metrics.exposition import render
from kvedge.api.metrics.role_series import build_role_metrics
from kvedge.api.subresources.status_message import Refusal
from kvedge.kube.figures.process_figures import tell_process
from kvedge.resources.codec import DecodeError, decode_json
from kvedge.resources.usage.role_stats import RoleStats

log = logging.getLogger(__name__)

_NODE_SECONDS: Final = 3.0
AskNode = Callable[[str, str], Awaitable[bytes]]


class RoleCollector:
    """Asks; `instance` is what this process is called where no handler is in it."""

    def __init__(self, relays: Callable[[], Awaitable[dict[str, str]]], ask_node: AskNode, instance: str) -> None:
        self._relays = relays
        self._ask_node = ask_node
        self._instance = instance

    async def collect(self) -> bytes:
        """The metrics of all processes. Raises Refusal when the nodes are not to be had."""
        relays = sorted((await self._relays()).items())
        answers = await asyncio.gather(*(self._find(node, address) for node, address in relays))
        return await asyncio.to_thread(self._render, [node for node, _ in relays], answers)

    def _render(self, nodes: list[str], answers: list[RoleStats | None]) -> bytes:
        handlers = {node: stats is not None for node, stats in zip(nodes, answers, strict=True)}
        found = [(node, stats) for node, stats in zip(nodes, answers, strict=True) if stats is not None]
        return render(build_role_metrics([*found, (self._instance, tell_process())], handlers)).encode()

    async def _find(self, node: str, address: str) -> RoleStats | None:
        try:
            answer = await asyncio.wait_for(self._ask_node(node, address), _NODE_SECONDS)
            return await asyncio.to_thread(decode_json, RoleStats, answer)
        except (Refusal, DecodeError, TimeoutError) as error:
            # Told by a series, as what guests use.
            log.debug("a node does not tell of itself", extra={"facts": {"node": node, "reason": str(error)}})
            return None

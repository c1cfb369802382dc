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
from kvedge.api.metrics.seen_objects import SeenObjects
from kvedge.api.metrics.stream_series import build_stream_metrics
from kvedge.api.subresources.status_message import Refusal
from kvedge.kube.figures.process_figures import tell_process
from kvedge.resources.codec import DecodeError, decode_json
from kvedge.resources.usage.role_stats import RoleStats

log = logging.getLogger(__name__)

_NODE_SECONDS: Final = 3.0
AskNode = Callable[[str, str], Awaitable[bytes]]
ReadObjects = Callable[[], Awaitable[SeenObjects]]


class RoleCollector:
    """Asks; `instance` is what this process is called where no handler is in it."""

    def __init__(
        self,
        relays: Callable[[], Awaitable[dict[str, str]]],
        ask_node: AskNode,
        instance: str,
        read_objects: ReadObjects,
    ) -> None:
        """`read_objects` is called when a process tells of streams: only VMIs that are there have series of them."""
        self._relays = relays
        self._ask_node = ask_node
        self._instance = instance
        self._read_objects = read_objects

    async def collect(self) -> bytes:
        """The metrics of all processes. Raises Refusal when the nodes are not to be had."""
        relays = sorted((await self._relays()).items())
        answers = await asyncio.gather(*(self._find(node, address) for node, address in relays))
        told = list(zip((node for node, _ in relays), answers, strict=True))
        found = [(node, stats) for node, stats in told if stats is not None]
        found.append((self._instance, await asyncio.to_thread(tell_process)))
        seen = await self._read_objects() if any(stats.streams for _, stats in found) else SeenObjects()
        return await asyncio.to_thread(_render, found, {node: stats is not None for node, stats in told}, seen)

    async def _find(self, node: str, address: str) -> RoleStats | None:
        try:
            answer = await asyncio.wait_for(self._ask_node(node, address), _NODE_SECONDS)
            return await asyncio.to_thread(decode_json, RoleStats, answer)
        except (Refusal, DecodeError, TimeoutError) as error:
            # Told by a series, as what guests use.
            log.debug("a node does not tell of itself", extra={"facts": {"node": node, "reason": str(error)}})
            return None


def _render(found: list[tuple[str, RoleStats]], handlers: dict[str, bool], seen: SeenObjects) -> bytes:
    return render([*build_role_metrics(found, handlers), *build_stream_metrics(found, seen.vmis)]).encode()

"""Keeps this node's labels, heartbeat and addresses true.

Called by the handler role. Writes its own Node only.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Final

from kvedge.handler.node.node_manifest import node_patch
from kvedge.handler.node.node_platform import NodePlatform
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.kube.told_refusals import ToldRefusals
from kvedge.resources.types.core import Node
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

# KubeVirt's heartbeat: a minute, spread so that many nodes do not write at once.
_HEARTBEAT_SECONDS: Final = 60.0
_JITTER: Final = 1.2
# The Node may be made a moment after us, and an API may be away: try soon.
_RETRY_SECONDS: Final = 1.0


class NodeLoop:
    """A service of the handler role."""

    name = "node labels"

    def __init__(
        self,
        client: KubeClient,
        node: str,
        platform: NodePlatform,
        relay_address: Callable[[], str],
        refusal: Callable[[], str],
        clock: Clock,
    ) -> None:
        self._client = client
        self._node = node
        self._platform = platform
        self._relay_address = relay_address
        self._refusal = refusal
        self._clock = clock
        self._told = ToldRefusals()
        self._stopping = False
        self._wake = threading.Event()
        self._thread = BackgroundThread("node-loop", self._run)

    def start(self) -> None:
        """Write the labels once, so that the scheduler finds them, then keep them true."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and say that no VM should come here any more."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
            self._write(schedulable=False)

    def refresh(self) -> None:
        """Write soon: something that the Node says has changed."""
        self._wake.set()

    def failure(self) -> str | None:
        """Retried for ever, unless a write hangs."""
        return self._thread.failure()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            self._thread.heartbeat.beat()
            written = self._write(schedulable=True)
            pause = _HEARTBEAT_SECONDS * (1 + random.random() * _JITTER) if written else _RETRY_SECONDS
            if not self._stopping:
                self._wake.wait(pause)

    def _write(self, *, schedulable: bool) -> bool:
        try:
            node = self._client.get(Node, "", self._node)
            patch = node_patch(
                node.metadata.labels,
                self._platform.capabilities,
                self._platform.accelerator,
                self._relay_address(),
                self._clock.now(),
                schedulable=schedulable,
                refusal=self._refusal(),
            )
            self._client.patch(Node, "", self._node, MergePatch(patch))
        except NotFound:
            return False
        except KubeError as error:
            if self._told.is_news(error):
                log.warning("node not written", extra={"facts": {"node": self._node, "error": str(error)}})
            return False
        self._told.clear()
        return True

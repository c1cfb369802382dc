"""Keeps this node's labels, heartbeat and addresses true.

Called by the handler role. Writes its own Node only.
"""

from __future__ import annotations

import logging
import random
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from kvedge.handler.node.node_manifest import node_patch
from kvedge.handler.node.node_platform import NodePlatform
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.kube.told_refusals import ToldRefusals
from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Link
from kvedge.network.links import Links
from kvedge.network.nics.nic_plan import is_nic_bridge
from kvedge.resources.alarms.node_health import NodeHealth
from kvedge.resources.lan_bridges import BRIDGE_PREFIX
from kvedge.resources.names import HOST_MODEL_OBSOLETE
from kvedge.resources.types.core import Node
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

# The beginnings of our bridges' aliases, and of the names of Docker's bridges.
_OURS: Final = "kvedge"
_DOCKERS: Final = re.compile(r"docker0|br-[0-9a-f]{12}")
# KubeVirt's heartbeat: a minute, spread so that many nodes do not write at once.
_HEARTBEAT_SECONDS: Final = 60.0
_JITTER: Final = 1.2
# The Node may be made a moment after us, and an API may be away: try soon.
_RETRY_SECONDS: Final = 1.0


def host_bridges() -> tuple[str, ...]:
    """The bridges of this host that last: the operator's, and those of NICs. Raises NetworkError."""
    with Links() as links:
        return lasting_bridges(links.list_links())


def lasting_bridges(links: Iterable[Link]) -> tuple[str, ...]:
    """Those of the links that are bridges and last."""
    found = [link for link in links if link.kind == "bridge"]
    # Ours and Docker's come and go with what is on them.
    passing = {link.name for link in found if link.alias.startswith(_OURS) or _DOCKERS.fullmatch(link.name)}
    return tuple(link.name for link in found if link.name not in passing or is_nic_bridge(link))


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
        events: EventRecorder,
        bridges: Callable[[], Collection[str]] = host_bridges,
        health: Callable[[], NodeHealth | None] = lambda: None,
        devices: Callable[[], str] = lambda: "",
        cpus: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._events = events
        self._bridges = bridges
        self._health = health
        self._devices = devices
        self._cpus = cpus
        self._client = client
        self._node = node
        self._platform = platform
        self._relay_address = relay_address
        self._refusal = refusal
        self._clock = clock
        self._told = ToldRefusals()
        # The last message on unreadable bridges, so that it is not repeated.
        self._bridge_error = ""
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

    def _tell_gone(self, node: Node, bridges: Collection[str]) -> None:
        """Guests that are on a bridge that has gone hear nothing of the LAN, and no new ones come here."""
        # Of very many bridges not all have a label: one without is here all the same.
        for name in sorted(_find_labelled_bridges(node) - set(bridges)):
            text = f"bridge {name} is no longer on this node: guests of its networks are cut off, and no new ones come"
            self._events.record(node, "Warning", "BridgeGone", text)

    def _tell_obsolete(self, node: Node) -> None:
        """Guests that have this node's CPU come here no more: the cluster means to give up its model."""
        found = self._platform.capabilities
        if found.is_obsolete and HOST_MODEL_OBSOLETE not in node.metadata.labels:
            # KubeVirt's words, which go on with all models that are given up.
            text = (
                f"This node has {found.host_cpu_model} host-model cpu that is included in ObsoleteCPUModels: new guests"
                " with the CPU model host-model go to other nodes"
            )
            self._events.record(node, "Warning", "HostModelIsObsolete", text)

    def _read_bridges(self) -> Collection[str] | None:
        """None when they cannot be read."""
        try:
            bridges = self._bridges()
        except NetworkError as error:
            if str(error) != self._bridge_error:
                log.warning("this node's bridges cannot be read", extra={"facts": {"error": str(error)}})
            self._bridge_error = str(error)
            return None
        self._bridge_error = ""
        return bridges

    def _write(self, *, schedulable: bool) -> bool:
        bridges = self._read_bridges()
        try:
            node = self._client.get(Node, "", self._node)
            if bridges is None:
                # The Node goes on to say what it said; all else it says is true without them.
                bridges = _find_labelled_bridges(node)
            else:
                self._tell_gone(node, bridges)
            self._tell_obsolete(node)
            patch = node_patch(
                node.metadata,
                self._platform.capabilities,
                self._platform.accelerator,
                self._relay_address(),
                self._clock.now(),
                schedulable=schedulable,
                refusal=self._refusal(),
                bridges=bridges,
                health=self._health(),
                devices=self._devices(),
                cpus=self._cpus(),
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


def _find_labelled_bridges(node: Node) -> set[str]:
    """The bridges that a Node has labels of."""
    return {key.removeprefix(BRIDGE_PREFIX) for key in node.metadata.labels if key.startswith(BRIDGE_PREFIX)}

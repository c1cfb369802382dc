"""Both handlers' part of one migration between two launcher Pods of this machine, on a VMI in memory.

For the machine tests of migration; needs root. The steps, connections, ways, relay and certificates are the handlers'
own; a test makes the passes, and is the controller.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from kvedge.handler.guest.last_word import read_last_word
from kvedge.handler.launchers.launcher_connections import LauncherConnections
from kvedge.handler.launchers.relay_server import RelayServer
from kvedge.handler.migration.incoming_channels import IncomingChannels
from kvedge.handler.migration.outgoing_service import OutgoingService
from kvedge.handler.migration.source_steps import SourceSteps
from kvedge.handler.migration.target_steps import PodOfGuest, TargetSteps
from kvedge.kube.errors import Conflict
from kvedge.resources.types.migrations import MigrationState
from kvedge.runtime.clock import SystemClock
from kvedge.runtime.serving.https_server import HttpsServer
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest, TlsMaterial, handler_server_name
from kvedge.runtime.tls.rotating_tls import RotatingTls
from tests.support.echo_door import EchoDoor
from tests.support.launcher_pod import LauncherPod
from tests.support.migration_world import HERE, KEY, THERE, Cache, Events, Server, copying_vmi


class MovingHandlers:
    """The handlers of the nodes that a guest leaves and comes to."""

    def __init__(
        self,
        kubelet: Path,
        uid: str,
        pods: tuple[LauncherPod, LauncherPod],
        prepare: Callable[[], object],
        connections: Sequence[LauncherConnections] = (),
        **state: Any,
    ) -> None:
        """`kubelet` is a directory to make; `pods` are source and target; `prepare()` has the target listen; `state` is
        of the migration. `connections` are those of both handlers to launchers of this kubelet, where they last longer
        than this migration.
        """
        for pod, of in zip(("pod-a", "pod-b"), pods, strict=True):
            volumes = kubelet / "pods" / pod / "volumes"
            volumes.mkdir(parents=True)
            (volumes / "kubernetes.io~empty-dir").symlink_to(of.directory)
        self._authority = CertificateAuthority.create("kvedge-ca", datetime.now(UTC))
        self._incoming = IncomingChannels(kubelet)
        self._relay = HttpsServer("127.0.0.1", 0, "relay")
        self._outgoing = OutgoingService(MagicMock(), HERE, kubelet)
        signer = MagicMock(keep_fresh=lambda known: known or self._certificate("kvedge-migration", HERE))
        self._outgoing._certificate = signer
        vmi = copying_vmi(migrationUid=uid, **state)
        vmi.metadata.uid = pods[0].uid
        self.server, self._caches, self.events = Server(vmi), (Cache(vmi), Cache(vmi)), Events()
        self._own = [] if connections else [LauncherConnections(kubelet, lambda _: None) for _ in range(2)]
        self._connections = connections or self._own
        common: Any = {"client": self.server, "events": self.events, "clock": SystemClock()}
        here: Any = {"vmis": self._caches[0], "connections": self._connections[0], "outgoing": self._outgoing}
        self.source = SourceSteps(node=HERE, **here, **common)
        there: Any = {"coming": self._caches[1], "vmis": Cache(), "connections": self._connections[1]}
        self.target = TargetSteps(
            node=THERE,
            incoming=self._incoming,
            pod=PodOfGuest(lambda *_: prepare(), partial(read_last_word, kubelet), lambda _: None),
            address=lambda: f"127.0.0.1:{self._relay.port}",
            **there,
            **common,
        )

    @property
    def state(self) -> MigrationState:
        """The migration, as the server has it."""
        state = self.server.vmi.status.migration_state
        assert state is not None
        return state

    def start(self) -> None:
        """Be connected, and serve."""
        for connections in self._own:
            connections.start()
        self._outgoing.start()
        tls = RotatingTls(
            self._certificate("kvedge-handler", THERE), self._authority.certificate_pem, require_client=True
        )
        self._relay.start(tls, lambda: RelayServer(EchoDoor(), self._incoming).application())
        self._connections[0].ensure(KEY, self.server.vmi.metadata.uid, "pod-a")

    def close(self) -> None:
        """End all of it; launchers and guests go on."""
        self._outgoing.stop()
        for connections in self._connections:
            connections.drop(KEY)
        for connections in self._own:
            connections.stop()
        self._relay.stop()

    def turn(self) -> None:
        """One pass of each handler, over what the server has now; what came in between is for the next one."""
        for cache, look in zip(self._caches, (self._look_source, self._look_target), strict=True):
            cache.vmi = self.server.vmi
            with contextlib.suppress(Conflict):
                look()

    def _look_source(self) -> None:
        if self.server.vmi.status.node_name == HERE:
            self.source.look(KEY, self.server.vmi, self._connections[0].view(KEY))
        else:
            # As for each VMI that is another node's.
            self.source.forget(KEY)

    def _look_target(self) -> None:
        self.target.reconcile(KEY, self.server.vmi)

    def _certificate(self, name: str, node: str) -> TlsMaterial:
        return self._authority.issue(LeafRequest(name, hosts=[handler_server_name(node)]), datetime.now(UTC))

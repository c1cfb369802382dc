"""The way of a guest's data as handlers have it: sockets in one Pod, mutual TLS to a relay, sockets in the other Pod.

For the machine tests of migration; needs root. Both nodes are this machine; the channels, the relay and the
certificates are the handlers' own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kvedge.handler.launchers.relay_server import RelayServer
from kvedge.handler.migration.incoming_channels import ExpectedGuest, IncomingChannels
from kvedge.handler.migration.outgoing_channels import LeavingGuest, OutgoingChannels
from kvedge.runtime.serving.https_server import HttpsServer
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest, TlsMaterial, handler_server_name
from kvedge.runtime.tls.rotating_tls import RotatingTls
from kvedge.runtime.tls.tls_contexts import client_context
from tests.support.echo_door import EchoDoor


class MigrationRelays:
    """The handlers' part of one migration of the VMI default/web."""

    def __init__(self, kubelet: Path, uid: str, source: Path, target: Path) -> None:
        """`kubelet` is a directory to make; `source` and `target` are those of Pods, with a volume `public` each."""
        self._kubelet = kubelet
        self._uid = uid
        for pod, directory in (("source", source), ("target", target)):
            volumes = kubelet / "pods" / pod / "volumes"
            volumes.mkdir(parents=True)
            (volumes / "kubernetes.io~empty-dir").symlink_to(directory)
        now = datetime.now(UTC)
        self._authority = CertificateAuthority.create("kvedge-ca", now)
        self._relay = HttpsServer("127.0.0.1", 0, "relay")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        context = client_context(self._certificate("kvedge-migration", "node-a"))
        self._leaving = OutgoingChannels(kubelet, lambda: context)

    def start(self) -> None:
        """Serve on both nodes."""
        incoming = IncomingChannels(self._kubelet)
        incoming.expect(self._uid, ExpectedGuest("default", "web", "node-a", "target"))
        material = self._certificate("kvedge-handler", "node-b")
        tls = RotatingTls(material, self._authority.certificate_pem, require_client=True)
        self._relay.start(tls, lambda: RelayServer(EchoDoor(), incoming).application())
        self._thread.start()
        address = f"127.0.0.1:{self._relay.port}"
        guest = LeavingGuest("default", "web", "source", "node-b", address)
        self._run(self._leaving.open(self._uid, guest))

    def close(self) -> None:
        """End all of it."""
        self._run(self._leaving.close_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._relay.stop()

    def _certificate(self, name: str, node: str) -> TlsMaterial:
        return self._authority.issue(LeafRequest(name, hosts=[handler_server_name(node)]), datetime.now(UTC))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

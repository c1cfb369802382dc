"""The objects that series are made of, followed while somebody scrapes.

Made by api_run.py. The first scrape begins to follow them: a role that nobody scrapes pays nothing. When nobody has
scraped for a while, the role's next round ends it. Asks one API server.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kvedge.api.metrics.label_choice import CONFIG_MAP, NOTHING, LabelChoice, read_choice
from kvedge.api.metrics.seen_objects import SeenObjects
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)

# How long the first scrape waits for all kinds: Prometheus gives up after ten seconds, and nodes are asked afterwards.
_FIRST_SECONDS: Final = 3.0
# The server says something to a watch each minute. One that has said nothing for longer may have other objects.
_STALE_SECONDS: Final = 180.0
# A scrape each minute or two, as Prometheus has it, finds them followed.
IDLE_SECONDS: Final = 600.0
# A site chooses labels once.
_CHOICE_SECONDS: Final = 15.0
_CHOICE_PATH: Final = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/{CONFIG_MAP}"


class _Following:
    """One informer for each kind."""

    def __init__(self, client: KubeClient) -> None:
        self.vms = Informer(client, VirtualMachine)
        self.vmis = Informer(client, VirtualMachineInstance)
        self.migrations = Informer(client, VirtualMachineInstanceMigration)
        self.snapshots = Informer(client, VirtualMachineSnapshot)
        self.claims = Informer(client, PersistentVolumeClaim)
        self._by_kind: dict[str, Informer[Any]] = {
            VirtualMachine.KIND.plural: self.vms,
            VirtualMachineInstance.KIND.plural: self.vmis,
            VirtualMachineInstanceMigration.KIND.plural: self.migrations,
            VirtualMachineSnapshot.KIND.plural: self.snapshots,
            PersistentVolumeClaim.KIND.plural: self.claims,
        }
        self._deadline = time.monotonic() + _FIRST_SECONDS
        for informer in self._by_kind.values():
            informer.start()

    def wait(self) -> None:
        # A kind that is not served delays the first scrape, and no other one.
        for informer in self._by_kind.values():
            informer.wait_synced(max(0.0, self._deadline - time.monotonic()))

    def see(self, labels: LabelChoice) -> SeenObjects:
        known = {kind: _is_known(informer) for kind, informer in self._by_kind.items()}
        return SeenObjects(
            self.vms.list(),
            self.vmis.list(),
            self.migrations.list(),
            self.snapshots.list(),
            self.claims.list(),
            labels,
            known,
        )

    def stop(self) -> None:
        for informer in self._by_kind.values():
            informer.stop()

    def failure(self) -> str | None:
        return next((text for informer in self._by_kind.values() if (text := informer.failure()) is not None), None)


class FollowedObjects:
    """What is followed now; from any thread."""

    name = "metrics-objects"

    def __init__(self, client: KubeClient, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._following: _Following | None = None
        self._asked = 0.0
        self._choice = NOTHING
        self._choice_read = -math.inf
        self._stopped = False

    async def read(self) -> SeenObjects:
        """All objects; a kind that the server has not listed within seconds is empty, and not known."""
        return await asyncio.to_thread(self._read)

    def rest(self) -> None:
        """End following when nobody has asked for a while."""
        with self._lock:
            following = self._following
            if following is None or self._monotonic() - self._asked < IDLE_SECONDS:
                return
            self._following = None
        following.stop()

    def start(self) -> None:
        """Nothing is followed before somebody asks."""
        self._stopped = False

    def stop(self) -> None:
        """End following for good."""
        with self._lock:
            self._stopped, following, self._following = True, self._following, None
        if following is not None:
            following.stop()

    def failure(self) -> str | None:
        """Why something is no longer followed, or None."""
        with self._lock:
            return self._following.failure() if self._following is not None else None

    def _read(self) -> SeenObjects:
        with self._lock:
            self._asked = self._monotonic()
            if self._stopped:
                return SeenObjects()
            if self._following is None:
                self._following = _Following(self._client)
            following = self._following
        following.wait()
        return following.see(self._read_choice())

    def _read_choice(self) -> LabelChoice:
        """Which labels the site wants, read now and then; after an error as it was."""
        with self._lock:
            if self._monotonic() - self._choice_read < _CHOICE_SECONDS:
                return self._choice
            self._choice_read = self._monotonic()
        try:
            choice = read_choice(self._client.request("GET", _CHOICE_PATH))
        except NotFound:
            choice = LabelChoice()
        except KubeError as error:
            log.debug("which labels of VMs are wanted is not known", extra={"facts": {"why": str(error)}})
            return self._choice
        self._choice = choice
        return choice


def _is_known(informer: Informer[Any]) -> bool:
    return informer.wait_synced(0) and not (informer.trouble and informer.silent_seconds() > _STALE_SECONDS)

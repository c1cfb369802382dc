"""The objects that series are made of, followed while somebody scrapes; and where guests run, for who asks that alone.

Made by api_run.py. The first scrape begins to follow them: a role that nobody scrapes pays nothing. When nobody has
scraped for a while, the role's next round ends it. Asks one API server.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, cast

from msgspec import field

from kvedge.api.metrics.label_choice import CONFIG_MAP, NOTHING, LabelChoice, read_choice
from kvedge.api.metrics.seen_objects import SeenObjects
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import BriefMeta
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.phases import FINAL_PHASES
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
# The node of each guest that runs, by namespace and name.
Homes: TypeAlias = Mapping[tuple[str, str], str]


class _Following:
    """Informers, which begin at once."""

    def __init__(self, informers: Iterable[Informer[Any]]) -> None:
        self._informers = tuple(informers)
        self._deadline = time.monotonic() + _FIRST_SECONDS
        for informer in self._informers:
            informer.start()

    def wait(self) -> None:
        # A kind that is not served delays the first scrape, and no other one.
        for informer in self._informers:
            informer.wait_synced(max(0.0, self._deadline - time.monotonic()))

    def stop(self) -> None:
        for informer in self._informers:
            informer.stop()

    def failure(self) -> str | None:
        return next((text for informer in self._informers if (text := informer.failure()) is not None), None)


class _FollowingObjects(_Following):
    """One informer for each kind."""

    def __init__(self, client: KubeClient) -> None:
        self._vms = Informer(client, VirtualMachine)
        self._vmis = Informer(client, VirtualMachineInstance)
        self._migrations = Informer(client, VirtualMachineInstanceMigration)
        self._snapshots = Informer(client, VirtualMachineSnapshot)
        self._claims = Informer(client, PersistentVolumeClaim)
        self._by_kind: dict[str, Informer[Any]] = {
            VirtualMachine.KIND.plural: self._vms,
            VirtualMachineInstance.KIND.plural: self._vmis,
            VirtualMachineInstanceMigration.KIND.plural: self._migrations,
            VirtualMachineSnapshot.KIND.plural: self._snapshots,
            PersistentVolumeClaim.KIND.plural: self._claims,
        }
        super().__init__(self._by_kind.values())

    def see(self, labels: LabelChoice) -> SeenObjects:
        known = {kind: _is_known(informer) for kind, informer in self._by_kind.items()}
        return SeenObjects(
            self._vms.list(),
            self._vmis.list(),
            self._migrations.list(),
            self._snapshots.list(),
            self._claims.list(),
            labels,
            known,
        )


class _PlacedStatus(KubeStruct, kw_only=True):
    phase: str = ""
    node_name: str = ""


class _PlacedVmi(KubeStruct, kw_only=True):
    """Of a VMI where it runs: of a thousand of them a tenth is kept of what they are."""

    KIND: ClassVar[Kind] = VirtualMachineInstance.KIND
    metadata: BriefMeta = field(default_factory=BriefMeta)
    status: _PlacedStatus = field(default_factory=_PlacedStatus)


class _FollowingHomes(_Following):
    """One informer."""

    def __init__(self, client: KubeClient) -> None:
        # Any: their metadata has what an informer reads, and is no whole ObjectMeta.
        self._vmis: Informer[Any] = Informer(client, cast(Any, _PlacedVmi))
        super().__init__([self._vmis])

    def see(self) -> Homes:
        return {
            (vmi.metadata.namespace, vmi.metadata.name): vmi.status.node_name
            for vmi in self._vmis.list()
            if vmi.status.node_name and vmi.status.phase not in FINAL_PHASES
        }


F = TypeVar("F", bound=_Following)


class _FollowedWhileAsked(Generic[F]):
    """What is followed now; from any thread."""

    name = ""

    def __init__(self, follow: Callable[[], F], monotonic: Callable[[], float]) -> None:
        self._follow = follow
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._following: F | None = None
        self._asked = 0.0
        self._stopped = False

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

    def _find(self) -> F | None:
        """What follows them, once it has them; None after the end."""
        with self._lock:
            self._asked = self._monotonic()
            if self._stopped:
                return None
            if self._following is None:
                self._following = self._follow()
            following = self._following
        following.wait()
        return following


class GuestHomes(_FollowedWhileAsked[_FollowingHomes]):
    """On which nodes guests run."""

    name = "metrics-homes"

    def __init__(self, client: KubeClient, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(lambda: _FollowingHomes(client), monotonic)

    async def read(self) -> Homes:
        """Of all guests, by namespace and name; none where the server has not listed them within seconds."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> Homes:
        following = self._find()
        return {} if following is None else following.see()


class FollowedObjects(_FollowedWhileAsked[_FollowingObjects]):
    """All objects of the kinds that have series."""

    name = "metrics-objects"

    def __init__(self, client: KubeClient, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(lambda: _FollowingObjects(client), monotonic)
        self._client = client
        self._choice = NOTHING
        self._choice_read = -math.inf

    async def read(self) -> SeenObjects:
        """All objects; a kind that the server has not listed within seconds is empty, and not known."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> SeenObjects:
        following = self._find()
        return SeenObjects() if following is None else following.see(self._read_choice())

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

"""All of the controller's work for DataVolumes: it is done while kvedge serves them, and rests while CDI does.

Started by controller_service.py. Looks every few seconds whose the kinds are; VMs do not wait for it: without the kinds
there are no DataVolumes, and everything else works. Objects are followed also while CDI serves them, as VMs tell of
theirs.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kvedge.controller.datavolumes.crons.cron_loop import CronLoop, CronSources
from kvedge.controller.datavolumes.data_volume_loop import DataVolumeLoop, DataVolumeSources
from kvedge.controller.datavolumes.storage_facts.storage_facts_loop import StorageFactsLoop, StorageFactsSources
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import APP, APP_LABEL
from kvedge.resources.manifests.data_volume_kinds import cdi_serves
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_import_cron import DataImportCron
from kvedge.resources.types.data_volumes import CONFIG_NAME, CdiConfig, DataSource, DataVolume, StorageProfile
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 5.0
_FIRST_LOOK_SECONDS: Final = 0.5
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_STOP_SECONDS: Final = 2.0


class DataVolumeWork:
    """The loops for DataVolumes, which work while the kinds are kvedge's, and their informers."""

    def __init__(
        self,
        client: KubeClient,
        shared: tuple[Informer[PersistentVolumeClaim], Informer[VirtualMachineInstance], Informer[VirtualMachine]],
        events: EventRecorder,
        clock: Clock,
        cluster: Callable[[], ClusterConfig],
    ) -> None:
        """`shared` are the informers of claims, VMIs and VMs, which somebody else starts."""
        self._client = client
        claims, vmis, vms = shared
        self.data_volumes = Informer(client, DataVolume)
        self.data_sources = Informer(client, DataSource)
        profiles, configs = Informer(client, StorageProfile), Informer(client, CdiConfig)
        self._configs = configs
        # Whether a look at the server found the kinds; None before the first that was answered.
        self._is_served: bool | None = None
        classes = Informer(client, StorageClass)
        workers = Informer(client, Pod, label_selector=f"{APP_LABEL}={APP}")
        crons = Informer(client, DataImportCron)
        self._informers: tuple[Informer[Any], ...] = (
            self.data_volumes, self.data_sources, profiles, configs, classes, workers, crons,
        )  # fmt: skip
        self._shared: tuple[Informer[Any], ...] = shared
        self._loop = DataVolumeLoop(
            DataVolumeSources(
                client=client,
                data_volumes=self.data_volumes,
                claims=claims,
                workers=workers,
                classes=classes,
                profiles=profiles,
                configs=configs,
                data_sources=self.data_sources,
                vmis=vmis,
                events=events,
                clock=clock,
            ),
            cluster,
        )
        self._facts = StorageFactsLoop(
            StorageFactsSources(client, classes, profiles, configs, self.data_sources, claims, clock)
        )
        self._crons = CronLoop(
            CronSources(
                client, crons, self.data_volumes, self.data_sources, workers, configs, vms, vmis, events, clock
            ),
            cluster,
        )
        # The loops that do not hear of changes yet.
        self._to_start: deque[StorageFactsLoop | DataVolumeLoop | CronLoop] = deque(
            (self._facts, self._loop, self._crons)
        )
        self._stopped = threading.Event()
        self._works = False
        self._begun = False
        self._thread = BackgroundThread("datavolume-work", self._run)

    def start(self) -> None:
        """Begin to look whose the kinds are."""
        self._thread.start()

    def stop(self) -> None:
        """End all threads."""
        self._stopped.set()
        self._thread.join(_STOP_SECONDS)
        self._end()

    def cdi_config(self) -> CdiConfig | None:
        """The CDIConfig, empty where there is none; None while that is not known yet."""
        if self._is_served is False:
            return CdiConfig()
        if not self._configs.wait_synced(0.0):
            return None
        return self._configs.get("", CONFIG_NAME) or CdiConfig()

    def on_cdi_config(self, callback: Callable[[], None]) -> None:
        """Call `callback` for each change of the CDIConfig."""
        self._configs.on_change(lambda old, new: callback())

    def failure(self) -> str | None:
        """Why it no longer works, or None."""
        loops = self._loops() if self._begun else ()
        parts: tuple[Informer[Any] | ReconcileLoop, ...] = (*self._informers, *loops)
        return next((why for each in parts if (why := each.failure()) is not None), None)

    @property
    def trouble(self) -> str:
        """With what its beginning fails again and again; empty when it does not, and once it has begun."""
        return "" if self._begun else self._thread.trouble

    def _loops(self) -> tuple[ReconcileLoop, ...]:
        return (self._loop.loop, self._facts.loop, self._crons.loop)

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS if self._begun else _FIRST_LOOK_SECONDS):
            owner = self._is_ours()
            if owner is None:
                continue
            if not self._begun and not self._begin():
                return
            if owner and not self._works:
                for loop in self._loops():
                    loop.resume()
                log.info("DataVolumes are filled", extra={"facts": {"dataVolumes": len(self.data_volumes.list())}})
            elif not owner and self._works:
                for loop in self._loops():
                    loop.pause()
                log.warning("CDI is installed: DataVolumes are its own from now on")
            self._works = owner

    def _is_ours(self) -> bool | None:
        """Whether kvedge serves the kinds; None while nobody does, or the server does not answer."""
        try:
            if cdi_serves(self._crd):
                self._is_served = True
                return False
            self._is_served = self._crd(DataVolume.KIND.qualified_plural) is not None
        except KubeError:
            return None
        return True if self._is_served else None

    def _crd(self, name: str) -> JsonObject | None:
        try:
            found: JsonObject = self._client.request("GET", f"{_CRDS}/{name}")
        except NotFound:
            return None
        return found

    def _begin(self) -> bool:
        """Follow all objects, with loops that rest; whether that was not stopped meanwhile."""
        for informer in self._informers:
            informer.start()
        waiting = (*self._informers, *self._shared)
        while not all(informer.wait_synced(0.0) for informer in waiting):
            if self._stopped.wait(_FIRST_LOOK_SECONDS):
                return False
        for loop in self._loops():
            loop.pause()
        while self._to_start:
            # Off the list first: a second start would have the loop told of each change twice.
            self._to_start.popleft().start()
        for loop in self._loops():
            # Of one that could not begin its workers.
            loop.start()
        self._begun = True
        return True

    def _end(self) -> None:
        self._crons.stop()
        self._loop.stop()
        self._facts.stop()
        for informer in self._informers:
            informer.stop()

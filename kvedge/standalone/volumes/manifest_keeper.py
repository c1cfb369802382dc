"""Writes down beside the disks of one box what they belong to, whenever that changes.

Made by the volumes' service. Reads informers, writes the notes of places through their drivers. A note goes when its
object is seen to go, and only then: a box whose store was lost must find them.
"""

from __future__ import annotations

import logging
from typing import Final

from kvedge.kube.informer import Informer
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.standalone.volumes.box_places import BoxPlaces
from kvedge.standalone.volumes.kept_manifests import (
    claim_note_name,
    claims_of_vm,
    make_claim_note,
    make_vm_note,
    vm_note_name,
)
from kvedge.standalone.volumes.volume_manifest import DEFAULT_NAME, driver_name
from kvedge.standalone.volumes.volume_plan import is_ours
from kvedge.storage.volumes.volume_driver import VolumeDriver, VolumeDriverError

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 60.0
_BY_CLAIM: Final = "vms-by-claim"
# In front of the name in a key: which kind it is of.
_CLAIM, _VM = "claim/", "vm/"


class ManifestKeeper:
    """One loop over all claims and VMs; the informers are started and stopped by others."""

    def __init__(
        self,
        places: BoxPlaces,
        claims: Informer[PersistentVolumeClaim],
        volumes: Informer[PersistentVolume],
        vms: Informer[VirtualMachine],
    ) -> None:
        self._places = places
        self._claims, self._volumes, self._vms = claims, volumes, vms
        # The notes of objects that are gone.
        self._gone: dict[Key, str] = {}
        self.loop = ReconcileLoop("manifests", self.reconcile)
        vms.add_index(
            _BY_CLAIM, lambda vm: tuple(f"{vm.metadata.namespace}/{claim}" for claim in sorted(claims_of_vm(vm)))
        )

    def start(self) -> None:
        """Follow what changes."""
        self._claims.on_change(self._on_claim)
        self._vms.on_change(self._on_vm)
        self.loop.start()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one claim or VM; a place that is away is tried again."""
        try:
            if (note := self._gone.pop(key, "")) and not self._drop(note, key):
                return Again(_RETRY_SECONDS)
            self._write(key)
        except VolumeDriverError as error:
            log.warning("a manifest is not kept", extra={"facts": {"of": "/".join(key), "why": str(error)}})
            return Again(_RETRY_SECONDS)
        return None

    def _write(self, key: Key) -> None:
        kind, _, name = key.name.partition("/")
        if kind == _CLAIM.rstrip("/"):
            claim = self._claims.get(key.namespace, name)
            volume = self._volume_of(claim)
            if claim is not None and volume is not None:
                note = make_claim_note(claim, volume, driver_name(volume))
                self._places.of_volume(volume).write_note(claim_note_name(claim.metadata.uid), note)
            return
        vm = self._vms.get(key.namespace, name)
        if vm is None:
            return
        wanted = self._drivers_of(vm)
        for driver in wanted:
            driver.write_note(vm_note_name(vm.metadata.uid), make_vm_note(vm))

    def _drop(self, note: str, key: Key) -> bool:
        is_done = True
        for driver in self._places.drivers.values():
            try:
                driver.drop_note(note)
            except VolumeDriverError:
                # Its disk is away: the note is there when it comes back.
                self._gone[key] = note
                is_done = False
        return is_done

    def _volume_of(self, claim: PersistentVolumeClaim | None) -> PersistentVolume | None:
        """The volume of ours that a claim has."""
        name = None if claim is None else claim.spec.volume_name
        volume = self._volumes.get("", name) if name else None
        return volume if volume is not None and is_ours(volume) else None

    def _drivers_of(self, vm: VirtualMachine) -> list[VolumeDriver]:
        """Where a VM's disks lie; a VM without any is noted in the box's own place."""
        namespace = vm.metadata.namespace
        volumes = (self._volume_of(self._claims.get(namespace, name)) for name in sorted(claims_of_vm(vm)))
        names = {self._places.place_of(volume) for volume in volumes if volume is not None}
        return [driver for name, driver in self._places.drivers.items() if name in (names or {DEFAULT_NAME})]

    def _on_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        item = new or old
        assert item is not None
        meta = item.metadata
        if new is None:
            self._gone[Key(meta.namespace, f"{_CLAIM}{meta.name}")] = claim_note_name(meta.uid)
        self.loop.add(Key(meta.namespace, f"{_CLAIM}{meta.name}"))
        if old is None or new is None or old.spec.volume_name != new.spec.volume_name:
            for vm in self._vms.find_indexed(_BY_CLAIM, f"{meta.namespace}/{meta.name}"):
                self.loop.add(Key(vm.metadata.namespace, f"{_VM}{vm.metadata.name}"))

    def _on_vm(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        item = new or old
        assert item is not None
        key = Key(item.metadata.namespace, f"{_VM}{item.metadata.name}")
        if new is None:
            self._gone[key] = vm_note_name(item.metadata.uid)
        elif old is not None and _is_as_kept(old, new):
            # Its status alone has changed.
            return
        self.loop.add(key)


def _is_as_kept(old: VirtualMachine, new: VirtualMachine) -> bool:
    was, now = old.metadata, new.metadata
    return old.spec == new.spec and was.labels == now.labels and was.annotations == now.annotations

"""Writes down beside the disks of one box what they belong to, whenever that changes.

Made by the volumes' service. Reads informers, writes the notes of places through their drivers. A note goes when its
object is seen to go, or lies with all the disks of a VM that are elsewhere now, and only then: a box whose store was
lost must find them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
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
            if not self._write(key):
                return Again(_RETRY_SECONDS)
        except VolumeDriverError as error:
            log.warning("a manifest is not kept", extra={"facts": {"of": "/".join(key), "why": str(error)}})
            return Again(_RETRY_SECONDS)
        return None

    def _write(self, key: Key) -> bool:
        """Write the note; False where one could not be dropped that lies with other disks."""
        kind, _, name = key.name.partition("/")
        if kind == _CLAIM.rstrip("/"):
            claim = self._claims.get(key.namespace, name)
            volume = self._volume_of(claim)
            if claim is not None and volume is not None:
                note = make_claim_note(claim, volume, driver_name(volume))
                self._places.of_volume(volume).write_note(claim_note_name(claim.metadata.uid), note)
            return True
        vm = self._vms.get(key.namespace, name)
        if vm is None:
            return True
        places, is_sure = self._places_of(vm)
        drivers, kept = self._places.drivers, vm_note_name(vm.metadata.uid)
        for place in sorted(places & drivers.keys()):
            drivers[place].write_note(kept, make_vm_note(vm))
        # Another one would stay as it is while the VM changes.
        others = sorted(drivers.keys() - places) if is_sure and places <= drivers.keys() else []
        return self._drop_in((drivers[place] for place in others), kept)

    def _drop(self, note: str, key: Key) -> bool:
        is_done = self._drop_in(self._places.drivers.values(), note)
        if not is_done:
            self._gone[key] = note
        return is_done

    def _drop_in(self, drivers: Iterable[VolumeDriver], note: str) -> bool:
        is_done = True
        for driver in drivers:
            try:
                driver.drop_note(note)
            except VolumeDriverError:
                # Its disk is away: the note is there when it comes back.
                is_done = False
        return is_done

    def _volume_of(self, claim: PersistentVolumeClaim | None) -> PersistentVolume | None:
        """The volume of ours that a claim has."""
        name = None if claim is None else claim.spec.volume_name
        volume = self._volumes.get("", name) if name else None
        return volume if volume is not None and is_ours(volume) else None

    def _places_of(self, vm: VirtualMachine) -> tuple[set[str], bool]:
        """Where a VM's disks lie, and whether that is known of all of them; a VM without any is noted in the box's own
        place.
        """
        claims = [self._claims.get(vm.metadata.namespace, name) for name in sorted(claims_of_vm(vm))]
        names = [claim.spec.volume_name or "" if claim is not None else "" for claim in claims]
        is_sure = all(name and self._volumes.get("", name) is not None for name in names)
        volumes = (self._volume_of(claim) for claim in claims)
        places = {self._places.place_of(volume) for volume in volumes if volume is not None}
        return places or {DEFAULT_NAME}, is_sure

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

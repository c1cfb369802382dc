"""The DataVolumes of VMs as the VM's loop meets them: those of templates are made, and failures told once.

Called by vm_loop.py. Reads an informer, writes DataVolumes and events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kvedge.controller.vm.create_refusal import is_passing
from kvedge.controller.vm.data_volume_states import FAILED_IMPORT, find_named_data_volumes, tell_failures
from kvedge.controller.vm.data_volume_templates import (
    CREATED,
    NOT_CREATED,
    UNAUTHORIZED,
    Adopt,
    Blocked,
    make_wanted_data_volumes,
    plan_taking,
)
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.work_queue import Key
from kvedge.resources.disks.clone_grants import CLONE_FIELD
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.vm import VirtualMachine

_INDEX: Final = "data-volume"


class Making(Struct, frozen=True):
    """Whether a DataVolume is not there yet, and is to be tried again; why the VM does not start with one, or ""."""

    unmade: bool = False
    blocked: str = ""


class VmDataVolumes:
    """Makes and watches over the DataVolumes of VMs."""

    def __init__(
        self,
        client: KubeClient,
        vms: Informer[VirtualMachine],
        data_volumes: Informer[DataVolume],
        events: EventRecorder,
    ) -> None:
        """The informers have not been started yet."""
        self._client = client
        self._vms = vms
        self._vms.add_index(_INDEX, _names_of)
        self._data_volumes = data_volumes
        self._events = events
        # The news already told of each VM, by its key: a DataVolume's name or UID, and the text.
        self._told: dict[Key, dict[str, str]] = {}

    def make(self, key: Key, vm: VirtualMachine) -> Making:
        """Make those that are not there, and own those again that the VM's pool has kept."""
        unmade, blocked = False, ""
        for dv in make_wanted_data_volumes(vm):
            name = dv.metadata.name
            there = self._data_volumes.get(key.namespace, name)
            try:
                if there is None:
                    self._data_volumes.observe(self._client.create(dv))
            except AlreadyExists:
                # Where CDI fills claims nobody watches its objects for us.
                there = self._read(key.namespace, name)
                unmade = unmade or there is None
            except KubeError as error:
                unmade = True
                if any(cause.field == CLONE_FIELD for cause in error.causes):
                    self._tell(key, vm, name, UNAUTHORIZED, f"Not authorized to create DataVolume {name}: {error}")
                elif not is_passing(error):
                    self._tell(key, vm, name, NOT_CREATED, f"Error creating DataVolume {name}: {error}")
            else:
                if there is None:
                    self._told.get(key, {}).pop(name, None)
                    self._events.record(vm, "Normal", CREATED, f"Created DataVolume {name}")
            if there is not None:
                blocked = blocked or self._take(vm, there)
        return Making(unmade or bool(blocked), blocked)

    def _read(self, namespace: str, name: str) -> DataVolume | None:
        try:
            return self._client.get(DataVolume, namespace, name)
        except NotFound:
            return None

    def _take(self, vm: VirtualMachine, there: DataVolume) -> str:
        """Why the VM does not start with a DataVolume that is there; "" when it may."""
        taking = plan_taking(vm, there)
        if isinstance(taking, Blocked):
            return taking.why
        if isinstance(taking, Adopt):
            meta = there.metadata
            # A pool takes a VM from its DataVolumes once the VM is being deleted, which the cache may not know.
            live = self._client.get(VirtualMachine, vm.metadata.namespace, vm.metadata.name)
            if live.metadata.uid != vm.metadata.uid or live.metadata.deletion_timestamp is not None:
                return f"DataVolume {meta.name} is not owned by a VM that goes"
            patch = at_version(taking.body, meta.resource_version)
            try:
                self._data_volumes.observe(self._client.patch(DataVolume, meta.namespace, meta.name, patch))
            except (Conflict, NotFound):
                return f"DataVolume {meta.name} has changed while it was to be owned again"
        return ""

    def of(self, key: Key, vm: VirtualMachine) -> Sequence[DataVolume]:
        """The DataVolumes that a VM's volumes name and that there are; those that have failed are told of."""
        found = [self._data_volumes.get(key.namespace, name) for name in sorted(find_named_data_volumes(vm))]
        there = [dv for dv in found if dv is not None]
        for uid, text in tell_failures(there):
            self._tell(key, vm, uid, FAILED_IMPORT, text)
        return there

    def users_of(self, dv: DataVolume) -> set[Key]:
        """The VMs that a DataVolume is made for, or a volume of."""
        meta = dv.metadata
        keys = {
            Key(vm.metadata.namespace, vm.metadata.name)
            for vm in self._vms.find_indexed(_INDEX, f"{meta.namespace}/{meta.name}")
        }
        owner = meta.controller_reference()
        if owner is not None and owner.kind == VirtualMachine.KIND.kind:
            keys.add(Key(meta.namespace, owner.name))
        return keys

    def forget(self, key: Key) -> None:
        """A VM is gone."""
        self._told.pop(key, None)

    def _tell(self, key: Key, vm: VirtualMachine, about: str, reason: str, text: str) -> None:
        told = self._told.setdefault(key, {})
        if told.get(about) != text:
            told[about] = text
            self._events.record(vm, "Warning", reason, text)


def _names_of(vm: VirtualMachine) -> tuple[str, ...]:
    return tuple(f"{vm.metadata.namespace}/{name}" for name in find_named_data_volumes(vm))

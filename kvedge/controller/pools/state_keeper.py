"""Keeps the disks of VMs of a pool that go: their DataVolumes are owned no more, and are marked for the pool.

Used by the pool's writer, for a VM that is being deleted and that the pool's finalizer still holds: one that is not
would own them again. The namespace is listed once for all VMs of a pass, by what is owned and not by names: a VM's spec
no longer names what was taken out of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.watches import KubeObject
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.data_volume_names import KEPT_FOR_POOL
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine

T = TypeVar("T", bound=KubeObject)


class NotDoneError(Exception):
    """What a plan wants is not done, and the reason is for the user: state would be lost, or a name is taken."""


class StateKeeper:
    """What VMs of a namespace own, as the server has it; made anew for each pass."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        """Nothing is asked of the server before the first VM."""
        self._client = client
        self._namespace = namespace
        self._volumes: dict[str, list[DataVolume]] | None = None
        self._claims: dict[str, list[PersistentVolumeClaim]] | None = None

    def check(self, vm: VirtualMachine) -> None:
        """Refuse the end of a VM with which more would go than what can be kept.

        Raises:
            NotDoneError: when the VM itself owns a claim, which the controller has no right to change.
        """
        if self._claims is None:
            self._claims = _by_owner(self._client.list(PersistentVolumeClaim, self._namespace))
        names = sorted(claim.metadata.name for claim in self._claims.get(vm.metadata.uid, ()))
        if names:
            raise NotDoneError(
                f"VM {vm.metadata.name} owns PersistentVolumeClaim {names[0]}, which would go with it:"
                " remove the VM from the claim's ownerReferences, or set statePreservation to Disabled"
            )

    def keep(self, vm: VirtualMachine, pool: str) -> None:
        """Take a VM from its DataVolumes, whose claims belong to them and stay with them.

        Raises:
            NotDoneError: as :meth:`check` does.
            KubeError: when the server refuses.
        """
        self.check(vm)
        if self._volumes is None:
            try:
                self._volumes = _by_owner(self._client.list(DataVolume, self._namespace))
            except NotFound:
                # The server does not have the kind.
                self._volumes = {}
        for volume in self._volumes.get(vm.metadata.uid, ()):
            meta = volume.metadata
            others: list[JsonObject] = [
                encode(owner) for owner in meta.owner_references if owner.uid != vm.metadata.uid
            ]
            body: JsonObject = {"metadata": {"ownerReferences": others, "annotations": {KEPT_FOR_POOL: pool}}}
            try:
                self._client.patch(DataVolume, meta.namespace, meta.name, at_version(body, meta.resource_version))
            except NotFound:
                continue


def _by_owner(items: Iterable[T]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = defaultdict(list)
    for item in items:
        for owner in item.metadata.owner_references:
            found[owner.uid].append(item)
    return found

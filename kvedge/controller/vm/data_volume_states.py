"""What the DataVolumes of a VM's volumes mean for the VM: its word in `kubectl get vm`, and what its user is told.

Called by the VM's status and by vm_data_volumes.py. Pure. Words and their conditions are KubeVirt's,
for claims that kvedge fills as for those of CDI.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kvedge.resources.types.data_volumes import DataVolume, data_volume_condition
from kvedge.resources.types.vm import VirtualMachine

FAILED_IMPORT: Final = "FailedDataVolumeImport"
_WAITS: Final = "WaitForFirstConsumer"
# PendingPopulation: the launcher itself is the consumer for which CDI waits.
_READY: Final = frozenset({"Succeeded", "PendingPopulation"})
_STOPPED: Final = frozenset({"Error", "ImagePullFailed"})


def find_named_data_volumes(vm: VirtualMachine) -> frozenset[str]:
    """The names of the DataVolumes that the volumes of a VM's template are."""
    if vm.spec.template is None:
        return frozenset()
    named = (volume.data_volume for volume in vm.spec.template.spec.volumes)
    return frozenset(source.name for source in named if source is not None)


def have_failed(data_volumes: Iterable[DataVolume]) -> bool:
    """Whether one has failed for good, or its worker has stopped and says why."""
    return any(dv.status.phase == "Failed" or _has_stopped(dv) for dv in data_volumes)


def are_being_filled(data_volumes: Iterable[DataVolume]) -> bool:
    """Whether one is not full yet and does not just wait for somebody who uses it."""
    return any(dv.status.phase not in _READY and (dv.status.phase != _WAITS or _is_bound(dv)) for dv in data_volumes)


def wait_for_consumer(data_volumes: Iterable[DataVolume]) -> bool:
    """Whether the claim of one is bound as soon as a guest uses it, and not before."""
    return any(dv.status.phase in (_WAITS, "PendingPopulation") and not _is_bound(dv) for dv in data_volumes)


def tell_failures(data_volumes: Iterable[DataVolume]) -> Iterator[tuple[str, str]]:
    """What is worth a warning: the DataVolume's UID, and the text."""
    for dv in data_volumes:
        if dv.status.phase == "Failed":
            yield dv.metadata.uid, f"DataVolume {dv.metadata.name} failed to import disk image"
        bound = data_volume_condition(dv.status.conditions, "Bound")
        if bound is not None and bound.status != "True" and bound.reason == "ErrExceededQuota":
            yield dv.metadata.uid, f"DataVolume {dv.metadata.name} exceeds quota limits"


def _has_stopped(dv: DataVolume) -> bool:
    running = data_volume_condition(dv.status.conditions, "Running")
    return running is not None and running.status == "False" and running.reason in _STOPPED


def _is_bound(dv: DataVolume) -> bool:
    bound = data_volume_condition(dv.status.conditions, "Bound")
    return bound is not None and bound.status == "True"

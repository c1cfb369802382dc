"""Which VolumeSnapshotClass takes the snapshots of a claim, as KubeVirt chooses it.

Called by `snapshot_loop` while a snapshot has not begun. Reads the API server, anew each time: a driver may have been
installed meanwhile, and where none is, the server does not know the kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from kvedge.controller.snapshots.snapshot_view import DriverClasses
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.disks.snapshot_names import SNAPSHOTS_AT_ONCE
from kvedge.resources.types.data_volumes import StorageProfile
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshotClass
from kvedge.resources.types.storage import BOX_PROVISIONER, PersistentVolume, PersistentVolumeClaim, StorageClass

K = TypeVar("K", PersistentVolume, StorageClass, StorageProfile)

_DEFAULT: Final = "snapshot.storage.kubernetes.io/is-default-class"


def choose_class(
    storage_class: StorageClass, profile: StorageProfile | None, classes: Sequence[VolumeSnapshotClass]
) -> str | None:
    """The class for claims of a StorageClass: that of its profile, the only one of its driver, or the default one.

    None where its driver takes no snapshots.

    Raises:
        ValueError: there are several, and none is the default.
    """
    of_driver = sorted(each.metadata.name for each in classes if each.driver == storage_class.provisioner)
    named = None if profile is None else profile.status.snapshot_class or profile.spec.snapshot_class
    if named is not None and named in of_driver:
        return named
    if len(of_driver) <= 1:
        return of_driver[0] if of_driver else None
    marked = [each.metadata.name for each in classes if _is_default(each) and each.metadata.name in of_driver]
    if not marked:
        raise ValueError(
            f"{len(of_driver)} matching VolumeSnapshotClasses for {storage_class.metadata.name}: annotate one of"
            f" {', '.join(of_driver)} with {_DEFAULT}=true"
        )
    return min(marked)


def read_classes(client: KubeClient, claims: Iterable[PersistentVolumeClaim]) -> DriverClasses:
    """The classes for these claims, or why none of several is chosen; claims without any are left out.

    So are claims of one box whose place would copy them, or could not while their guest runs: there the launcher has
    one moment for all disks.

    Raises:
        KubeError: when the server does not answer.
    """
    try:
        classes = client.list(VolumeSnapshotClass)
    except (NotFound, Forbidden):
        # No driver has brought the kind; or a cluster that is being upgraded has not given the right yet.
        return DriverClasses()
    if not classes:
        return DriverClasses()
    chosen: dict[str, str | None] = {}
    unclear: dict[str, str] = {}
    found: dict[str, str] = {}
    doubts: dict[str, str] = {}
    of_box: dict[str, bool] = {}
    for claim in claims:
        name = claim.spec.storage_class_name or ""
        if name not in chosen:
            storage_class = _get(client, StorageClass, name)
            try:
                chosen[name] = (
                    None
                    if storage_class is None
                    else choose_class(storage_class, _get(client, StorageProfile, name), classes)
                )
            except ValueError as error:
                chosen[name], unclear[name] = None, str(error)
            of_box[name] = storage_class is not None and storage_class.provisioner == BOX_PROVISIONER
        if of_box[name] and not _is_at_once(client, claim):
            continue
        if name in unclear:
            doubts[claim.metadata.name] = unclear[name]
        elif (of_claim := chosen[name]) is not None:
            found[claim.metadata.name] = of_claim
    return DriverClasses(found, doubts)


def _is_default(item: VolumeSnapshotClass) -> bool:
    return item.metadata.annotations.get(_DEFAULT) == "true"


def _is_at_once(client: KubeClient, claim: PersistentVolumeClaim) -> bool:
    """Whether the place of a claim of one box says that it snapshots at one moment and without a copy."""
    volume = _get(client, PersistentVolume, claim.spec.volume_name or "-")
    return volume is not None and volume.metadata.annotations.get(SNAPSHOTS_AT_ONCE) == "true"


def _get(client: KubeClient, cls: type[K], name: str) -> K | None:
    try:
        return client.get(cls, "", name)
    except NotFound:
        return None

"""What has to be made in the Pod before a VMI's disks can be attached.

Called by `disks`. Pure: paths and sizes only, no file is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kvedge.launcher.launcher_errors import BadRequest, ClaimUnusable
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.access_credentials import CONFIG_DRIVE, NO_CLOUD, credential_volume, key_secrets
from kvedge.resources.disks.config_disks import config_disk
from kvedge.resources.disks.metrics_disk import METRICS_IMAGE
from kvedge.resources.disks.volume_facts import (
    IMAGE_FILE,
    claim_directory,
    claim_of,
    device_path,
    host_place,
    is_hotpluggable,
)
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.storage import BLOCK
from kvedge.resources.types.vmi import ClaimInfo, VirtualMachineInstance
from kvedge.resources.types.volumes import CloudInit, HostDisk, Volume
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_bytes

MEBIBYTE: Final = 1 << 20
# Disks have whole ones.
SECTOR: Final = 512


class OverlayPlan(Struct, frozen=True):
    """A copy-on-write layer over the disk in an image that is mounted at `tree`; `inner` is the disk's path in it."""

    volume: str
    field: str
    tree: str
    inner: str
    path: str


class EmptyDiskPlan(Struct, frozen=True):
    """A new qcow2 of `size` bytes, made once."""

    volume: str
    path: str
    size: int


class CloudInitPlan(Struct, frozen=True):
    """An ISO from a volume's documents; `secrets` are directories of mounted Secrets whose keys may be asked for.

    `ssh_keys` are directories whose every file is a public key for the guest's user.
    """

    volume: Volume
    path: str
    secrets: tuple[str, ...]
    ssh_keys: tuple[str, ...] = ()


class ClaimPlan(Struct, frozen=True, kw_only=True):
    """The disk on a claim or of a hostDisk: a file in the file system at `directory`, or the device node at `path` when
    `block`.

    `size` is that of an image that has to be made, in bytes, 0 when the claim does not say; `run` names this run of the
    VMI, `incoming` the migration by which its guest comes; `copied` is the size of a disk that comes with the guest, in
    bytes, 0 for one that is here. `thick` says that its blocks were allocated on purpose, `writes` that the guest can
    write it, `exclusive` that nobody else may have it open then, except the launcher that the guest leaves.
    """

    volume: str
    field: str
    claim: str
    block: bool
    directory: str
    path: str
    size: int
    run: str
    read_only: bool = False
    thick: bool = False
    writes: bool = True
    exclusive: bool = True
    incoming: str = ""
    copied: int = 0
    # Of a hostDisk: the file beneath the directory, which has no claim and is not made here.
    host_file: str = ""

    @property
    def comes(self) -> bool:
        """Whether the guest is on its way here."""
        return bool(self.incoming)

    @property
    def file(self) -> str:
        """The image's name in the directory."""
        return self.host_file or IMAGE_FILE


class EphemeralPlan(Struct, frozen=True):
    """A layer of this Pod's own at `path` over the disk on a claim, which is only read."""

    base: ClaimPlan
    path: str


class ConfigDiskPlan(Struct, frozen=True, kw_only=True):
    """An ISO from the files at `directory`, labelled `label`; `private` files are the guest's root's."""

    volume: str
    field: str
    directory: str
    path: str
    label: str
    private: bool
    needs_answer_file: bool


class MetricsDiskPlan(Struct, frozen=True):
    """The disk by which the guest reads metrics of its host."""

    volume: str
    path: str


VolumePlan: TypeAlias = (
    OverlayPlan | EmptyDiskPlan | CloudInitPlan | ClaimPlan | EphemeralPlan | ConfigDiskPlan | MetricsDiskPlan
)


def plan_volumes(
    vmi: VirtualMachineInstance, options: LauncherOptions, copied: Mapping[str, int] | None = None
) -> list[VolumePlan]:
    """What to make, for each volume that a disk uses; `copied` are the sizes of disks on claims that come with a guest.

    Raises:
        BadRequest: for a volume of a kind that is not supported, or that cannot be copied.
    """
    copied = copied or {}
    used = {disk.name for disk in vmi.spec.domain.devices.disks}
    plans = [
        _plan_volume(vmi, index, volume, options)
        for index, volume in enumerate(vmi.spec.volumes)
        # A volume that comes while the guest runs is not prepared for its start.
        if volume.name in used and not is_hotpluggable(volume)
    ]
    if copied:
        return _plan_copies(plans, copied)
    return plans


def _plan_copies(plans: list[VolumePlan], copied: Mapping[str, int]) -> list[VolumePlan]:
    found: list[VolumePlan] = []
    left = dict(copied)
    for plan in plans:
        size = left.pop(plan.volume, 0) if isinstance(plan, ClaimPlan) else 0
        if not size:
            found.append(plan)
            continue
        assert isinstance(plan, ClaimPlan)
        if size % SECTOR or size < 0:
            raise BadRequest(f"copied_disk_bytes[{plan.volume}]", f"{size} is no size of a disk")
        if not plan.writes or not plan.comes or not plan.claim:
            raise BadRequest(plan.field, "a disk that its guest cannot write is not copied", "leave its claim as it is")
        found.append(replace(plan, copied=size))
    if left:
        raise BadRequest(f"copied_disk_bytes[{min(left)}]", "it is no disk on a claim, which alone are copied")
    return found


def _plan_volume(vmi: VirtualMachineInstance, index: int, volume: Volume, options: LauncherOptions) -> VolumePlan:
    field = f"spec.volumes[{index}]"
    if "/" in volume.name or volume.name.startswith("."):
        raise BadRequest(f"{field}.name", f"{volume.name!r} is no name of a volume")
    if volume.container_disk is not None:
        return OverlayPlan(
            volume=volume.name,
            field=f"{field}.containerDisk",
            tree=f"{options.image_volumes_directory}/disk_{index}",
            inner=volume.container_disk.path,
            path=f"{options.ephemeral_directory}/disk-data/{volume.name}/disk.qcow2",
        )
    if volume.empty_disk is not None:
        size = _size(volume.empty_disk.capacity, f"{field}.emptyDisk.capacity")
        return EmptyDiskPlan(volume.name, f"{options.runtime_directory}/empty-disks/{volume.name}.qcow2", size)
    if volume.persistent_volume_claim is not None or volume.data_volume is not None:
        return _plan_claim(vmi, volume, field, options)
    if volume.host_disk is not None:
        return _plan_host_disk(vmi, volume, volume.host_disk, f"{field}.hostDisk", options)
    if volume.ephemeral is not None and claim_of(volume) is not None:
        layer = f"{options.ephemeral_directory}/disk-data/{volume.name}/disk.qcow2"
        return EphemeralPlan(_plan_claim(vmi, volume, field, options), layer)
    cloud_init = volume.cloud_init_no_cloud or volume.cloud_init_config_drive
    if cloud_init is not None:
        file = "noCloud.iso" if volume.cloud_init_no_cloud is not None else "configdrive.iso"
        # KubeVirt's place for it, which its users' tools know.
        directory = f"{options.ephemeral_directory}/cloud-init-data/{vmi.metadata.namespace}/{vmi.metadata.name}"
        way = NO_CLOUD if volume.cloud_init_no_cloud is not None else CONFIG_DRIVE
        ssh_keys = (f"{options.secret_directory}/{credential_volume(name)}" for name in key_secrets(vmi, way))
        return CloudInitPlan(volume, f"{directory}/{file}", _secrets(volume, cloud_init, options), tuple(ssh_keys))
    if volume.downward_metrics is not None:
        return MetricsDiskPlan(volume.name, options.root + METRICS_IMAGE)
    config = config_disk(volume)
    if config is not None:
        return ConfigDiskPlan(
            volume=volume.name,
            field=f"{field}.{config.source}",
            directory=options.root + config.directory,
            path=options.root + config.image,
            label=config.label,
            private=config.private,
            needs_answer_file=volume.sysprep is not None,
        )
    raise BadRequest(
        field,
        "this kind of volume is not supported by kvedge",
        "use persistentVolumeClaim, containerDisk, emptyDisk, cloudInitNoCloud or cloudInitConfigDrive",
    )


def _plan_claim(vmi: VirtualMachineInstance, volume: Volume, field: str, options: LauncherOptions) -> ClaimPlan:
    """From the copy of the claim in the VMI's status, which the controller has made."""
    source = volume.persistent_volume_claim
    if volume.ephemeral is not None:
        field = f"{field}.ephemeral.persistentVolumeClaim"
    else:
        field = f"{field}.persistentVolumeClaim" if source is not None else f"{field}.dataVolume"
    name = claim_of(volume) or ""
    entry = next((entry for entry in vmi.status.volume_status if entry.name == volume.name), None)
    info = None if entry is None else entry.persistent_volume_claim_info
    if info is None:
        raise ClaimUnusable(field, name, f"missing volume status for volume {volume.name}")
    block = info.volume_mode == BLOCK
    disk = next(disk for disk in vmi.spec.domain.devices.disks if disk.name == volume.name)
    read_only = volume.ephemeral is not None or (source is not None and source.read_only)
    directory = options.root + claim_directory(volume.name)
    return ClaimPlan(
        volume=volume.name,
        field=field,
        claim=name,
        block=block,
        directory=directory,
        path=options.root + device_path(volume.name) if block else f"{directory}/{IMAGE_FILE}",
        size=_claim_size(info, field),
        run=vmi.metadata.uid,
        read_only=read_only,
        thick=info.preallocated,
        writes=not (read_only or only_reads(disk)),
        exclusive=not disk.shareable,
        incoming=options.incoming,
    )


def _plan_host_disk(
    vmi: VirtualMachineInstance, volume: Volume, source: HostDisk, field: str, options: LauncherOptions
) -> ClaimPlan:
    _, file = host_place(source)
    if not file or file in (".", ".."):
        raise BadRequest(f"{field}.path", f"{source.path!r} is no path of a file")
    disk = next(disk for disk in vmi.spec.domain.devices.disks if disk.name == volume.name)
    directory = options.root + claim_directory(volume.name)
    return ClaimPlan(
        volume=volume.name,
        field=field,
        claim="",
        block=False,
        directory=directory,
        path=f"{directory}/{file}",
        size=0,
        run=vmi.metadata.uid,
        writes=not only_reads(disk),
        exclusive=not disk.shareable,
        incoming=options.incoming,
        host_file=file,
    )


def only_reads(disk: Disk) -> bool:
    """Whether the guest cannot write a disk, whatever its claim allows."""
    target = disk.disk or disk.lun
    return disk.cdrom is not None or (target is not None and target.readonly)


def _claim_size(info: ClaimInfo, field: str) -> int:
    """The smaller of what was asked for and what there is, in whole mebibytes; 0 when neither is known."""
    try:
        sizes = [parse_bytes(found["storage"]) for found in (info.requests, info.capacity) if "storage" in found]
    except QuantityError as error:
        raise ClaimUnusable(field, info.claim_name, str(error)) from error
    return min(sizes, default=0) // MEBIBYTE * MEBIBYTE


def _size(capacity: Quantity, field: str) -> int:
    try:
        size = parse_bytes(capacity) // MEBIBYTE * MEBIBYTE
    except QuantityError as error:
        raise BadRequest(field, str(error)) from error
    if size < MEBIBYTE:
        raise BadRequest(field, f"{capacity} is less than the smallest disk", "use at least 1Mi")
    return size


def _secrets(volume: Volume, source: CloudInit, options: LauncherOptions) -> tuple[str, ...]:
    """The Pod mounts user data and network data each in a volume of its own, as KubeVirt's does."""
    found = []
    if source.secret_ref is not None:
        found.append(f"{options.secret_directory}/{volume.name}-udata")
    if source.network_data_secret_ref is not None:
        found.append(f"{options.secret_directory}/{volume.name}-ndata")
    return tuple(found)

"""Rules for volumes and cloud-init, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing. Sources that kvedge does not have yet are refused by not_yet_rules.py.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

import msgspec

from kvedge.api.admission.rules.causes import (
    Cause,
    Field,
    duplicate,
    not_found_cause,
    required_cause,
    unsupported_cause,
)
from kvedge.api.admission.rules.platform_rules import path_in_image
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.feature_gates import HOST_DISK
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.metrics_disk import GATE
from kvedge.resources.disks.snapshot_names import is_volume_copy
from kvedge.resources.disks.volume_facts import DISK, DISK_OR_CREATE, claim_of, is_memory_dump
from kvedge.resources.types.volumes import CloudInit, HostDisk, Volume
from kvedge.resources.values.name_grammar import is_label
from kvedge.resources.values.quantities import QuantityError, parse_quantity
from kvedge.resources.values.saved_memory import MEMORY_VOLUME

_PULL_POLICIES: Final = ("", "Always", "IfNotPresent", "Never")
_MOST_VOLUMES: Final = 256
# Launchers and snapshots have these beside those of the VM.
_OWN_NAMES: Final = (STATE_VOLUME, MEMORY_VOLUME)
# As much as fits into an object that is read often; larger data goes into a Secret.
_INLINE_BYTES: Final = 2048
# Asked for once: msgspec works them out anew each time.
_SOURCES: Final = tuple(field.name for field in msgspec.structs.fields(Volume) if field.name != "name")


def volumes_have_one_name_and_source(subject: Subject) -> Iterator[Cause]:
    """Names are DNS labels and unique; each volume has exactly one source."""
    volumes, at = subject.spec.volumes, subject.at.at("volumes")
    if len(volumes) > _MOST_VOLUMES:
        yield Cause(at, f"{at} list exceeds the {_MOST_VOLUMES} element limit in length")
    seen: dict[str, int] = {}
    for index, volume in enumerate(volumes):
        here = at.item(index)
        if volume.name in seen:
            yield duplicate(here.at("name"), f"{at.item(seen[volume.name])} and {here} must not have the same Name.")
        seen.setdefault(volume.name, index)
        if not is_label(volume.name):
            text = f"{here.at('name')} '{volume.name}' must consist of lower case letters, digits and '-', at most 63"
            yield Cause(here.at("name"), text)
        if volume.name in _OWN_NAMES:
            text = f"{here.at('name')} '{volume.name}' is that of a volume of kvedge's own: use another name"
            yield unsupported_cause(here.at("name"), text)
        if len(_sources(volume)) != 1:
            yield Cause(here, f"{here} must have exactly one source type set")


def claims_are_named(subject: Subject) -> Iterator[Cause]:
    """A claim or a DataVolume by its name."""
    for index, volume in enumerate(subject.spec.volumes):
        at = subject.at.at("volumes").item(index)
        if volume.data_volume is not None and not volume.data_volume.name:
            yield required_cause(at.at("dataVolume", "name"), "DataVolume 'name' must be set")
        if volume.persistent_volume_claim is not None and not volume.persistent_volume_claim.claim_name:
            here = at.at("persistentVolumeClaim", "claimName")
            yield required_cause(here, f"{here} is a required field")
        if volume.memory_dump is not None and not volume.memory_dump.claim_name:
            here = at.at("memoryDump", "claimName")
            yield required_cause(here, f"{here} is a required field")


def memory_dumps_are_no_disks(subject: Subject) -> Iterator[Cause]:
    """At most one, of a VM, and without a disk: the guest does not see it."""
    disks = {disk.name for disk in subject.spec.domain.devices.disks}
    at = subject.at.at("volumes")
    found = [(index, volume) for index, volume in enumerate(subject.spec.volumes) if is_memory_dump(volume)]
    if len(found) > 1:
        yield Cause(at, f"{at} must have max one memory dump volume set")
    for index, volume in found:
        if str(subject.at) == "spec":
            # A run gets the volume from its VM's controller, for one dump.
            text = (
                f"{at.item(index)}: a guest's memory is dumped while it runs: remove it, and ask for the dump of its VM"
            )
            yield unsupported_cause(at.item(index), text)
        if volume.name in disks:
            yield Cause(at.item(index), f"{at.item(index)} is a memory dump and no disk: remove disk '{volume.name}'")


def claims_hold_no_snapshot(subject: Subject) -> Iterator[Cause]:
    """A guest that wrote to the copy of a volume would change what a snapshot restores."""
    for index, volume in enumerate(subject.spec.volumes):
        name = claim_of(volume)
        if name and is_volume_copy(name):
            at = subject.at.at("volumes").item(index)
            text = f"{at}: claim '{name}' holds a volume's copy for a VirtualMachineSnapshot: restore that instead"
            yield unsupported_cause(at, text)


def utility_volumes_are_the_controllers(subject: Subject) -> Iterator[Cause]:
    """A copy of the guest's disks would be written to whatever claim a user names there."""
    if subject.spec.utility_volumes:
        at = subject.at.at("utilityVolumes")
        text = f"{at}: only kvedge's controller adds utility volumes, to VMIs that run; remove it, or use volumes"
        yield unsupported_cause(at, text)


def claims_are_written_by_one_disk(subject: Subject) -> Iterator[Cause]:
    """A claim that is two disks' is shared by both: QEMU would refuse the second, and the guest never start."""
    shared = {disk.name for disk in subject.spec.domain.devices.disks if disk.shareable}
    used = {disk.name for disk in subject.spec.domain.devices.disks}
    first: dict[str, int] = {}
    for index, volume in enumerate(subject.spec.volumes):
        name = None if volume.ephemeral is not None else claim_of(volume)
        if not name or volume.name not in used:
            continue
        other = first.setdefault(name, index)
        if other == index or {volume.name, subject.spec.volumes[other].name} <= shared:
            continue
        volumes = subject.at.at("volumes")
        text = f"{volumes.item(index)} and {volumes.item(other)} both use claim '{name}'"
        yield Cause(volumes.item(index), f"{text}; remove one, or set shareable: true on both disks")


def container_disks_are_complete(subject: Subject) -> Iterator[Cause]:
    """An image, and a path within it that is one."""
    for index, volume in enumerate(subject.spec.volumes):
        disk = volume.container_disk
        if disk is None:
            continue
        at = subject.at.at("volumes").item(index).at("containerDisk")
        if not disk.image:
            yield required_cause(at.at("image"), f"{at.at('image')} is a required field")
        if disk.image_pull_policy not in _PULL_POLICIES:
            text = f"{at.at('imagePullPolicy')} has invalid value {disk.image_pull_policy}"
            yield Cause(at.at("imagePullPolicy"), text)
        if disk.path:
            yield from path_in_image(disk.path, at.at("path"))


def empty_disks_have_a_size(subject: Subject) -> Iterator[Cause]:
    """A capacity above zero."""
    for index, volume in enumerate(subject.spec.volumes):
        if volume.empty_disk is None:
            continue
        at = subject.at.at("volumes").item(index).at("emptyDisk", "capacity")
        value = volume.empty_disk.capacity
        try:
            size = parse_quantity(value)
        except QuantityError as error:
            yield Cause(at, f"{at}: {error}")
            continue
        if size <= 0:
            yield Cause(at, f"{at} '{value}': must be greater than 0.")


def host_disks_are_allowed_and_complete(subject: Subject) -> Iterator[Cause]:
    """The gate is on, and a path and a type say which file is meant, and whether it may be made."""
    is_on = subject.cluster.configuration.gates.is_on(HOST_DISK)
    for index, volume in enumerate(subject.spec.volumes):
        if volume.host_disk is None:
            continue
        at = subject.at.at("volumes").item(index)
        if not is_on:
            yield Cause(at, "HostDisk feature gate is not enabled")
        yield from _host_disk(volume.host_disk, at.at("hostDisk"))


def _host_disk(disk: HostDisk, at: Field) -> Iterator[Cause]:
    if not disk.path:
        yield not_found_cause(at.at("path"), f"{at.at('path')} is required for hostDisk volume")
    elif not _is_plain_path(disk.path):
        text = f"{at.at('path')} '{disk.path[:100]}' must be the absolute path of a file in a directory, without '..'"
        yield Cause(at.at("path"), text)
    if disk.type not in (DISK, DISK_OR_CREATE):
        text = f"{at.at('type')} has invalid value '{disk.type}', allowed are '{DISK}' or '{DISK_OR_CREATE}'"
        yield Cause(at.at("type"), text)
    yield from _host_capacity(disk, at)


def _host_capacity(disk: HostDisk, at: Field) -> Iterator[Cause]:
    here = at.at("capacity")
    try:
        size = parse_quantity(disk.capacity or 0)
    except QuantityError as error:
        yield Cause(here, f"{here}: {error}")
        return
    if size and disk.type == DISK:
        yield Cause(here, f"{here} is allowed to pass only with {at.at('type')} equal to '{DISK_OR_CREATE}'")
    if size < 0:
        yield Cause(here, f"{here} '{disk.capacity}': must be greater than 0.")


def _is_plain_path(path: str) -> bool:
    """Whether it names a file below a directory that is not the host's root: all of that would be the Pod's."""
    parts = path.split("/")
    return path.isprintable() and len(parts) > 2 and not parts[0] and all(parts[1:]) and not {".", ".."} & set(parts)


def metrics_disks_are_allowed(subject: Subject) -> Iterator[Cause]:
    """The gate is on; there is one, and its disk is on virtio."""
    volumes, at = subject.spec.volumes, subject.at.at("volumes")
    found = {volume.name: index for index, volume in enumerate(volumes) if volume.downward_metrics is not None}
    if found and not subject.cluster.configuration.gates.is_on(GATE):
        text = f"downwardMetrics disks are not allowed: {GATE} feature gate is not enabled."
        yield from (Cause(at.item(index), text) for index in found.values())
    if sum(volume.downward_metrics is not None for volume in volumes) > 1:
        yield Cause(at, f"{at} must have max one downwardMetric volume set")
    for index, disk in enumerate(subject.spec.domain.devices.disks):
        if disk.name not in found:
            continue
        here = subject.devices_at.at("disks").item(index).at("disk")
        if disk.cdrom is not None or disk.lun is not None:
            yield Cause(here, f"DownwardMetrics volume must be mapped to a disk, but disk is not set on {here}.")
        elif disk.disk is not None and disk.disk.bus not in ("", "virtio"):
            bus = here.at("bus")
            yield Cause(
                bus, f"DownwardMetrics volume must be mapped to virtio bus, but {bus} is set to {disk.disk.bus}"
            )


def cloud_init_is_complete(subject: Subject) -> Iterator[Cause]:
    """One source of user data and at most one of network data, small enough to stand inline."""
    for index, volume in enumerate(subject.spec.volumes):
        at = subject.at.at("volumes").item(index)
        for name, source in (
            ("cloudInitNoCloud", volume.cloud_init_no_cloud),
            ("cloudInitConfigDrive", volume.cloud_init_config_drive),
        ):
            if source is not None:
                yield from _cloud_init(source, at.at(name))


def _cloud_init(source: CloudInit, at: Field) -> Iterator[Cause]:
    users = [source.user_data, source.user_data_base64, source.secret_ref]
    networks = [source.network_data, source.network_data_base64, source.network_data_secret_ref]
    if sum(map(bool, users)) > 1:
        yield Cause(at, f"{at} must have only one userdatasource set.")
    if sum(map(bool, networks)) > 1:
        yield Cause(at, f"{at} must have only one networkdata source set.")
    if not any(users) and not any(networks):
        yield required_cause(at, f"{at} must have at least one userdatasource or one networkdatasource set.")
    yield from _inline(source.user_data, source.user_data_base64, at, "userData")
    yield from _inline(source.network_data, source.network_data_base64, at, "networkData")
    for name, reference in (("secretRef", source.secret_ref), ("networkDataSecretRef", source.network_data_secret_ref)):
        if reference is not None and not reference.name:
            yield required_cause(at.at(name, "name"), f"{at.at(name, 'name')} is a required field")


def _inline(text: str, encoded: str, at: Field, name: str) -> Iterator[Cause]:
    size = len(text.encode())
    here = at.at(f"{name}Base64") if encoded else at.at(name)
    if encoded:
        try:
            size = len(base64.b64decode(encoded, validate=True))
        except ValueError:
            yield Cause(here, f"{here} is not a valid base64 value.")
            return
    if size > _INLINE_BYTES:
        reference = "UserDataSecretRef" if name == "userData" else "NetworkDataSecretRef"
        text = f"{here} {name.lower()} exceeds {_INLINE_BYTES} byte limit. Should use {reference} for larger data."
        yield Cause(here, text)


def _sources(volume: Volume) -> list[str]:
    return [name for name in _SOURCES if getattr(volume, name) is not None]


RULES: Final[tuple[Rule, ...]] = (
    volumes_have_one_name_and_source,
    claims_are_named,
    memory_dumps_are_no_disks,
    claims_hold_no_snapshot,
    utility_volumes_are_the_controllers,
    claims_are_written_by_one_disk,
    container_disks_are_complete,
    empty_disks_have_a_size,
    host_disks_are_allowed_and_complete,
    metrics_disks_are_allowed,
    cloud_init_is_complete,
)

"""Rules for directories that a guest has by virtiofs, worded as KubeVirt's where it has one.

Called by admission_plan.py; touches nothing. A claim's volume mode is seen when the VM starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import (
    Cause,
    Field,
    duplicate,
    not_found_cause,
    required_cause,
    unsupported_cause,
)
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.feature_gates import VIRTIOFS_OF_CLAIMS
from kvedge.resources.disks.volume_facts import claim_of, is_hotpluggable
from kvedge.resources.shares.shared_directories import LONGEST_TAG, is_claim, shared_directory, shared_volumes
from kvedge.resources.types.volumes import Volume

# Each has a daemon of its own beside the guest.
_MOST_FILESYSTEMS: Final = 16


def filesystems_are_allowed(subject: Subject) -> Iterator[Cause]:
    """KubeVirt's gate guards the directories of claims."""
    if subject.cluster.configuration.gates.is_on(VIRTIOFS_OF_CLAIMS):
        return
    for _, volume in shared_volumes(subject.spec):
        if is_claim(volume):
            text = (
                "virtiofs is not allowed: virtiofs feature gate is not enabled for PVC; name "
                f"{VIRTIOFS_OF_CLAIMS} in spec.configuration.developerConfiguration.featureGates of the KubeVirt object"
            )
            yield Cause(subject.devices_at.at("filesystems"), text)


def filesystems_have_names_and_volumes(subject: Subject) -> Iterator[Cause]:
    """Each has a volume of its name, which is also the tag that the guest mounts."""
    filesystems, at = subject.spec.domain.devices.filesystems, subject.devices_at.at("filesystems")
    if len(filesystems) > _MOST_FILESYSTEMS:
        yield Cause(at, f"{at} list exceeds the {_MOST_FILESYSTEMS} element limit in length")
    volumes = {volume.name for volume in subject.spec.volumes}
    seen: dict[str, int] = {}
    for index, filesystem in enumerate(filesystems):
        here = at.item(index)
        name = filesystem.name
        if name in seen:
            yield duplicate(here.at("name"), f"{at.item(seen[name])} and {here} must not have the same Name.")
        seen.setdefault(name, index)
        if filesystem.virtiofs is None:
            yield required_cause(here.at("virtiofs"), f"{here.at('virtiofs')} is a required field: set it to {{}}")
        if name not in volumes:
            yield not_found_cause(here.at("name"), f"{here}.Name '{name}' not found.")
        elif len(name.encode()) > LONGEST_TAG:
            text = f"{here.at('name')} has {len(name.encode())} bytes: a guest takes tags of {LONGEST_TAG} at most"
            yield Cause(here.at("name"), text)


def filesystems_are_of_directories(subject: Subject) -> Iterator[Cause]:
    """Their volumes are in the launcher's Pod from its start, and have a directory there."""
    disks = {disk.name for disk in subject.spec.domain.devices.disks}
    claimed = {claim_of(volume) for volume in subject.spec.volumes if volume.name in disks} - {None}
    for index, volume in shared_volumes(subject.spec):
        at = subject.devices_at.at("filesystems").item(index)
        if shared_directory(volume) is None:
            text = (
                f"{at}: volume '{volume.name}' has no directory to share; use a persistentVolumeClaim, dataVolume,"
                " configMap, secret, serviceAccount, downwardAPI or containerPath volume"
            )
            yield unsupported_cause(at, text)
        elif is_hotpluggable(volume):
            text = f"{at}: volume '{volume.name}' is hotpluggable, and filesystems are there from the guest's start"
            yield unsupported_cause(at, f"{text}; set hotpluggable: false on the volume")
        if volume.container_path is None:
            yield from _check_use(volume, at, is_disk=volume.name in disks or claim_of(volume) in claimed)


def _check_use(volume: Volume, at: Field, *, is_disk: bool) -> Iterator[Cause]:
    """The guest could change the image of its own running disk by the directory that holds it."""
    if is_disk:
        text = f"{at}: volume '{volume.name}' is a disk of the guest as well; use it for either, not for both"
        yield Cause(at, text)


RULES: Final[tuple[Rule, ...]] = (
    filesystems_are_allowed,
    filesystems_have_names_and_volumes,
    filesystems_are_of_directories,
)

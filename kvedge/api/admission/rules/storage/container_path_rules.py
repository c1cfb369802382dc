"""Rules for volumes `containerPath`, in KubeVirt's words, those of its CRD among them.

Called by admission_plan.py; touches nothing. What is mounted at a path is known when the launcher's Pod is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.feature_gates import CONTAINER_PATHS
from kvedge.resources.shares.container_paths import GATE_IS_OFF, RESERVED_PREFIXES
from kvedge.resources.types.volumes import ContainerPath

_LONGEST_PATH: Final = 4096
_SHOWN: Final = 100


def container_paths_are_filesystems(subject: Subject) -> Iterator[Cause]:
    """The gate is on, and each volume is a filesystem of the guest and no disk."""
    devices, at = subject.spec.domain.devices, subject.at.at("volumes")
    disks = {disk.name for disk in devices.disks}
    filesystems = {filesystem.name for filesystem in devices.filesystems}
    is_on = subject.cluster.configuration.gates.is_on(CONTAINER_PATHS)
    for index, volume in enumerate(subject.spec.volumes):
        if volume.container_path is None:
            continue
        here = at.item(index)
        if not is_on:
            text = f"name {CONTAINER_PATHS} in spec.configuration.developerConfiguration.featureGates of the KubeVirt"
            yield Cause(here, f"{GATE_IS_OFF}; {text} object")
        if volume.name in disks:
            text = f"ContainerPath volume '{volume.name}' must be mapped to a filesystem, not a disk"
            yield Cause(here, text)
        if volume.name not in filesystems:
            text = "must have a matching filesystem defined in spec.domain.devices.filesystems"
            yield Cause(here, f"ContainerPath volume '{volume.name}' {text}")
        yield from _check_path(volume.name, volume.container_path, here.at("containerPath"))


def _check_path(name: str, source: ContainerPath, at: Field) -> Iterator[Cause]:
    path, here = source.path, at.at("path")
    if source.read_only is False:
        yield Cause(at.at("readOnly"), f"{at.at('readOnly')}: readOnly must be true, write access is not supported")
    if len(path) > _LONGEST_PATH:
        yield Cause(here, f"{here} has more than {_LONGEST_PATH} characters")
    if not path.startswith("/"):
        yield Cause(here, f"{here} '{path[:_SHOWN]}': path must be absolute (start with '/')")
    if ".." in path:
        yield Cause(here, f"{here} '{path[:_SHOWN]}': path must not contain '..'")
    elif path.startswith("/") and not path.strip("/"):
        yield Cause(here, f"{here} '{path[:_SHOWN]}': name a directory below '/'")
    for prefix in RESERVED_PREFIXES:
        if path.startswith(prefix):
            yield Cause(here, f"ContainerPath volume '{name}' uses reserved path prefix '{prefix}'")


RULES: Final[tuple[Rule, ...]] = (container_paths_are_filesystems,)

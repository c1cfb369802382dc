"""Brings Secrets and ConfigMaps that a running Pod has as volumes to what they hold now.

Called by `volume_keeper`. As on a Kubernetes node: a volume changes as a whole, and what is gone meanwhile stays as it
was. Touches the Pod's own directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kvedge.resources.types.core import Pod, PodVolume
from kvedge.standalone.agent.container.atomic_files import DATA_LINK, BadPath, FileContent, write_files
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.place.volume_files import ObjectReader, VolumeError, read_config_map, read_secret


def refresh_volumes(pod: Pod, files: PodFiles, reader: ObjectReader) -> list[str]:
    """Do so; the names of the volumes that have changed.

    Raises:
        OSError: as the file system has it.
        KubeError: when the API cannot be asked.
    """
    context = pod.spec.security_context
    group = context.fs_group if context else None
    changed = []
    for volume in pod.spec.volumes:
        target = _find_made(volume, files)
        if target is None:
            continue
        try:
            wanted = (read_secret if volume.secret is not None else read_config_map)(pod, volume, reader)
            if _holds(target, wanted):
                continue
            write_files(target, wanted, group)
        except (VolumeError, BadPath):
            # It was taken away, or holds what no volume can: containers keep what they have.
            continue
        changed.append(volume.name)
    return changed


def _find_made(volume: PodVolume, files: PodFiles) -> Path | None:
    """Where such a volume is; None for others, and while it is not there."""
    if volume.secret is not None:
        target = files.volume("secret", volume.name)
        # Secrets are in memory alone: nothing is written where that is not mounted any more.
        return target if target.is_mount() else None
    if volume.config_map is not None:
        target = files.volume("configmap", volume.name)
        return target if (target / DATA_LINK).exists() else None
    return None


def _holds(target: Path, wanted: Mapping[str, FileContent]) -> bool:
    """Whether a volume holds exactly these files."""
    version = (target / DATA_LINK).resolve()
    found = {str(path.relative_to(version)): path.read_bytes() for path in version.rglob("*") if path.is_file()}
    return found == {path: content.data for path, content in wanted.items()}

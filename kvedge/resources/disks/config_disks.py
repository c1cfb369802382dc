"""Volumes of a VMI whose files become a disk: ConfigMap, Secret, service account, downward API and sysprep.

Called by the controller, which mounts their files into the launcher Pod, and by the launcher's preparation, which makes
an ISO of them. Pure. Paths and labels are KubeVirt's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from kvedge.resources.disks.volume_facts import (
    CONFIG_MAP_DIRECTORY,
    DOWNWARD_API_DIRECTORY,
    SECRET_DIRECTORY,
    SERVICE_ACCOUNT_DIRECTORY,
    SYSPREP_DIRECTORY,
)
from kvedge.resources.names import PRIVATE_DIRECTORY
from kvedge.resources.types.volumes import Volume

_LABEL: Final = "cfgdata"
_SYSPREP_LABEL: Final = "unattendCD"


class ConfigDisk(Struct, frozen=True):
    """Where the files of a volume are in the launcher Pod, where the ISO is made of them, and the ISO's label.

    `source` is the volume's field of the API; `private` files are only the guest's root's to read.
    """

    source: str
    directory: str
    image: str
    label: str
    private: bool = False


def config_disk(volume: Volume) -> ConfigDisk | None:
    """The disk of a volume of these kinds; None for another kind."""
    name = volume.name
    if volume.config_map is not None:
        label = volume.config_map.volume_label or _LABEL
        return ConfigDisk("configMap", f"{CONFIG_MAP_DIRECTORY}/{name}", _image("config-map-disks", name), label)
    if volume.secret is not None:
        label = volume.secret.volume_label or _LABEL
        return ConfigDisk("secret", f"{SECRET_DIRECTORY}/{name}", _image("secret-disks", name), label, private=True)
    if volume.service_account is not None:
        image = _image("service-account-disk", "service-account")
        return ConfigDisk("serviceAccount", SERVICE_ACCOUNT_DIRECTORY, image, _LABEL, private=True)
    if volume.downward_api is not None:
        label = volume.downward_api.volume_label or _LABEL
        return ConfigDisk("downwardAPI", f"{DOWNWARD_API_DIRECTORY}/{name}", _image("downwardapi-disks", name), label)
    if volume.sysprep is not None:
        directory, image = f"{SYSPREP_DIRECTORY}/{name}", _image("sysprep-disks", name)
        return ConfigDisk("sysprep", directory, image, _SYSPREP_LABEL, private=True)
    return None


def service_account_of(volumes: Iterable[Volume]) -> str:
    """The account whose token a volume brings; empty when there is none. Admission allows one such volume."""
    return next((v.service_account.service_account_name for v in volumes if v.service_account is not None), "")


def _image(folder: str, name: str) -> str:
    return f"{PRIVATE_DIRECTORY}/{folder}/{name}.iso"

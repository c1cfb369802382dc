"""The lasting disk of `launch --disk`: where its image comes from, and the DataVolume that is filled with it.

Called by the rules of a launch. Looks whether a file is there when it is asked for one; sends nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct, field

from kvedge.client.errors import UsageError
from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import ALLOW_ADOPTION, BIND_IMMEDIATELY

_WEB: Final = ("http://", "https://")
_REGISTRY: Final = "docker://"
# How a path begins that is meant as one, and how files of images end.
_PATHS: Final = ("/", "./", "../", "~")
_ENDINGS: Final = (".qcow2", ".img", ".raw", ".iso", ".vmdk", ".vdi", ".vhd", ".vhdx", ".gz", ".xz", ".zst")
# Nothing starts these VMs by itself, so no guest tells where their claims are to be.
_WAITING_STRATEGIES: Final = ("Halted", "Manual")


class LaunchDisk(Struct, frozen=True):
    """A disk to make; `file` is uploaded into it once it is there; a DataSource takes the place of the source."""

    size: str
    source: JsonObject
    storage_class: str = ""
    file: Path | None = None
    annotations: JsonObject = field(default_factory=dict)
    data_source: str = ""

    def template(self, name: str, size: str) -> JsonObject:
        """The entry of a VM's dataVolumeTemplates; `size` is the canonical form of this disk's."""
        storage: JsonObject = {"resources": {"requests": {"storage": size}}}
        if self.storage_class:
            storage["storageClassName"] = self.storage_class
        # A claim of that name would be taken over as it is, without the image, and be deleted with the VM.
        annotations = {ALLOW_ADOPTION: "false", **self.annotations}
        metadata: JsonObject = {"name": name, "annotations": annotations}
        if self.data_source:
            reference = {"kind": "DataSource", "name": self.data_source}
            return {"metadata": metadata, "spec": {"sourceRef": reference, "storage": storage}}
        return {"metadata": metadata, "spec": {"source": self.source, "storage": storage}}


def disk_name(vm: str) -> str:
    """The DataVolume, and so the claim, of a VM's lasting disk.

    >>> disk_name("web")
    'web-disk'
    """
    return f"{vm}-disk"


def is_path(image: str) -> bool:
    """Whether it is written as the path of a file."""
    return image.startswith(_PATHS)


def is_remote(image: str) -> bool:
    """Whether it is a URL, of the web or of a registry: such an image is the source of a disk alone."""
    return image.startswith((*_WEB, _REGISTRY))


def find_file(image: str) -> Path | None:
    """The file of this computer that is meant, whether it is there or not; None for the name of an image or a URL."""
    if is_remote(image):
        return None
    if is_path(image):
        return _at_home(image)
    path = Path(image)
    return path if image.lower().endswith(_ENDINGS) and _is_file(path) else None


def launch_disk(image: str, file: Path | None, size: str, storage_class: str, run_strategy: str) -> LaunchDisk:
    """What fills the disk: a URL, the file, which is uploaded, or an image, which the node pulls unless it has it.

    Raises:
        UsageError: when the file is not there.
    """
    if image.startswith(_WEB):
        return LaunchDisk(size, {"http": {"url": image}}, storage_class)
    if file is None:
        # A box takes an image of its own store without asking a network.
        registry = {"url": f"{_REGISTRY}{image.removeprefix(_REGISTRY)}", "pullMethod": "node"}
        return LaunchDisk(size, {"registry": registry}, storage_class)
    if not _is_file(file):
        raise UsageError(f"{image}: there is no such file")
    waits = run_strategy in _WAITING_STRATEGIES
    return LaunchDisk(size, {"upload": {}}, storage_class, file, {BIND_IMMEDIATELY: ""} if waits else {})


def _at_home(image: str) -> Path:
    try:
        return Path(image).expanduser()
    except RuntimeError:
        # Nobody of that name is here: as a shell does, we take it as it is written.
        return Path(image)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # No file has a name of that length, and none is found behind a directory that we may not enter.
        return False

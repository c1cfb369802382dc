"""What an exporter's Pod is told: which volumes it serves, as what, and until when.

Rendered by the controller into the Pod's environment, read by the exporter; both meet here alone. The token, the
certificate and the manifests are files in the Pod, and never part of it. Touches nothing.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject, KubeStruct

# The environment variable with the job, as JSON.
EXPORT_JOB_VARIABLE: Final = "KVEDGE_EXPORT_JOB"
# Of the volume with that number: where a claim with a file system is mounted, and where one of mode Block is.
_DIRECTORIES: Final = "/exports"
_DEVICES: Final = "/dev/kvedge-export"
# The token's Secret as files, and the exporter's own Secret: tls.crt, tls.key, and the manifests.
TOKEN_DIRECTORY: Final = "/var/run/kvedge/export/token"
OWN_DIRECTORY: Final = "/var/run/kvedge/export/own"
MANIFESTS_KEY: Final = "manifests.json.gz"


def volume_directory(number: int) -> str:
    """Where the claim of a volume is mounted."""
    return f"{_DIRECTORIES}/{number}"


def volume_device(number: int) -> str:
    """Where the device of a volume is."""
    return f"{_DEVICES}-{number}"


class ServedBackup(KubeStruct, kw_only=True):
    """One backup in a claim: its directory there, the image of each volume, and whether these hold changes alone."""

    directory: str
    images: dict[str, str] = {}
    incremental: bool = False


class ServedVolume(KubeStruct, kw_only=True):
    """One volume: its name in links, whether it holds a disk or files, and the one backup of it that is served."""

    name: str
    block: bool = False
    disk: bool = True
    backup: ServedBackup | None = None


class ExportJob(KubeStruct, kw_only=True):
    """What one exporter serves; `until` is the second, since 1970, at which it ends."""

    name: str
    volumes: list[ServedVolume] = []
    until: float = 0.0


class ExportManifests(KubeStruct, kw_only=True):
    """The documents by which somebody else can import the VM.

    The URLs of sources are paths, which the exporter completes; `base` and `ca` are those of the way within the
    cluster.
    """

    virtual_machine: JsonObject = {}
    data_volumes: list[JsonObject] = []
    base: str = ""
    ca: str = ""

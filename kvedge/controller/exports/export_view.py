"""What an export's plan looks at, and what it may say.

Made by the loop, judged by `export_plan`. Pure.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.export_job import ExportManifests, ServedBackup
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.storage import PersistentVolumeClaim


class SourceVolume(Struct, frozen=True):
    """One claim that is served, under a name; `disk` says that it holds a disk and not files."""

    name: str
    claim: PersistentVolumeClaim
    disk: bool = True
    # The images of one backup are served, and nothing else of the claim.
    backup: ServedBackup | None = None


class VolumesState(Struct, frozen=True):
    """The condition that tells of the claims themselves."""

    type: str
    status: str
    reason: str
    message: str = ""


class SourceSeen(Struct, frozen=True):
    """What is exported; with a `reason` it cannot be served now, and `message` says why.

    Messages are KubeVirt's, for which clients may wait. What else is known, such as who uses a claim, is in `detail`.
    """

    volumes: tuple[SourceVolume, ...] = ()
    reason: str = ""
    message: str = ""
    detail: str = ""
    # There is nothing to export.
    is_skipped: bool = False
    vm: str | None = None
    state: VolumesState | None = None
    manifests: ExportManifests | None = None


class Front(Struct, frozen=True):
    """Where clients from outside come in, and the authority of that server; no URL where there is no such place."""

    url: str = ""
    ca: str = ""


class ExportView(Struct, frozen=True):
    """All that counts for one export."""

    export: VirtualMachineExport
    source: SourceSeen
    pod: Pod | None = None
    # Whether the Pod's Secret is known to be there.
    has_secret: bool = True
    # Whether the Service of an exporter that serves is there.
    has_service: bool = True
    # Why the server did not take what was to be made.
    refusal: str = ""
    # The authority of exporters, as PEM.
    ca: str = ""
    front: Front = field(default_factory=Front)


class Serve(Struct, frozen=True):
    """Make the exporter, its Service, its Secret, and the token's where the export names none."""


class KeepSecret(Struct, frozen=True):
    """Make the Secret of an exporter that waits for it."""

    pod: Pod


class KeepService(Struct, frozen=True):
    """Make the Service of an exporter anew: somebody has deleted it."""


class EndExporter(Struct, frozen=True):
    """Delete the exporter."""

    pod: Pod


class EndExport(Struct, frozen=True):
    """Delete the export itself: its time is over."""


class Report(Struct, frozen=True):
    """Write the status, by a merge patch."""

    body: JsonObject


ExportAction: TypeAlias = Serve | KeepSecret | KeepService | EndExporter | EndExport | Report


class Told(Struct, frozen=True):
    """An event of the export."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class ExportPlan(Struct, frozen=True):
    """Actions in order, what is told once they are done, and when to look again."""

    actions: tuple[ExportAction, ...] = ()
    told: tuple[Told, ...] = ()
    again_after: float | None = None

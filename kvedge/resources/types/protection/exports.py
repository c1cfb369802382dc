"""Exports of disks and of the virtual machines that they belong to (export.kubevirt.io/v1).

Touches nothing. Names on the wire are KubeVirt's.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, ObjectMeta

EXPORT_GROUP: Final = "export.kubevirt.io"
EXPORT_VERSION: Final = "v1"
# Served as well: the fields are the same.
OLDER_EXPORT_VERSIONS: Final = ("v1beta1",)

ExportPhase = Literal["", "Pending", "Ready", "Terminated", "Skipped"]


class ExportSource(KubeStruct, kw_only=True):
    """An object of the same namespace whose disks are exported; a claim has no group."""

    api_group: str | None = None
    kind: str = ""
    name: str = ""


class VirtualMachineExportSpec(KubeStruct, kw_only=True):
    """What is exported, and for how long; it cannot be changed."""

    source: ExportSource = field(default_factory=ExportSource)
    token_secret_ref: str | None = None
    ttl_duration: str | None = None


class ExportFormat(KubeStruct, kw_only=True):
    """One form in which a volume can be fetched, and where."""

    format: str
    url: str


class ExportVolume(KubeStruct, kw_only=True):
    """One volume and its forms."""

    name: str
    formats: list[ExportFormat] = []


class ExportManifest(KubeStruct, kw_only=True):
    """One manifest that can be fetched, and where."""

    type: str
    url: str


class ExportLink(KubeStruct, kw_only=True):
    """One way to everything that is exported, with the authority by which the server is known, as PEM."""

    cert: str = ""
    volumes: list[ExportVolume] = []
    manifests: list[ExportManifest] = []


class ExportLinks(KubeStruct, kw_only=True):
    """The way within the cluster, and the one from outside."""

    internal: ExportLink | None = None
    external: ExportLink | None = None


class VirtualMachineExportStatus(KubeStruct, kw_only=True):
    """How far it is, and where to fetch."""

    phase: ExportPhase = ""
    links: ExportLinks | None = None
    token_secret_ref: str | None = None
    ttl_expiration_time: str | None = field(default=None, name="ttlExpirationTime")
    service_name: str = ""
    virtual_machine_name: str | None = None
    conditions: list[Condition] = []


class VirtualMachineExport(KubeStruct, kw_only=True):
    """export.kubevirt.io/v1 VirtualMachineExport: disks that can be fetched by HTTPS for a while."""

    KIND: ClassVar[Kind] = Kind(EXPORT_GROUP, EXPORT_VERSION, "VirtualMachineExport", "virtualmachineexports")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineExportSpec = field(default_factory=VirtualMachineExportSpec)
    status: VirtualMachineExportStatus = field(default_factory=VirtualMachineExportStatus)

"""DataImportCrons: golden images that are kept fresh (cdi.kubevirt.io/v1beta1).

Read by the controller where CDI is not installed. Touches nothing. Names on the wire are CDI's.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.data_volume_names import CDI_GROUP
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.data_volumes import CDI_VERSION, CdiCondition, DataVolumeTemplate, ObjectName


class DataImportCronSpec(KubeStruct, kw_only=True):
    """What is imported, when it is looked for, and what is kept of it."""

    template: DataVolumeTemplate = field(default_factory=DataVolumeTemplate)
    schedule: str = ""
    managed_data_source: str = ""
    garbage_collect: str | None = None
    imports_to_keep: int | None = None
    retention_policy: str | None = None
    created_by: str | None = None


class ImportStatus(KubeStruct, kw_only=True):
    """One import that is under way or done."""

    data_volume_name: str = field(default="", name="DataVolumeName")
    digest: str = field(default="", name="Digest")


class DataImportCronStatus(KubeStruct, kw_only=True):
    """What became of it."""

    current_imports: list[ImportStatus] = []
    last_imported_pvc: ObjectName | None = field(default=None, name="lastImportedPVC")
    last_execution_timestamp: str | None = None
    last_import_timestamp: str | None = None
    source_format: str | None = None
    conditions: list[CdiCondition] = []


class DataImportCron(KubeStruct, kw_only=True):
    """cdi.kubevirt.io/v1beta1 DataImportCron: a DataSource that always points at the newest good image."""

    KIND: ClassVar[Kind] = Kind(CDI_GROUP, CDI_VERSION, "DataImportCron", "dataimportcrons")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DataImportCronSpec = field(default_factory=DataImportCronSpec)
    status: DataImportCronStatus = field(default_factory=DataImportCronStatus)

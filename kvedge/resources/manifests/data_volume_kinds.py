"""CDI's kinds as kvedge serves them where CDI is not installed, and whose a CRD is.

Called by crd_manifest.py, by the api role, which writes them, and by the controller, which fills claims only while the
CRDs are kvedge's. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kvedge.resources.manifests.custom_kind import AGE, CustomKind, column
from kvedge.resources.types.data_import_cron import DataImportCron, DataImportCronSpec, DataImportCronStatus
from kvedge.resources.types.data_volumes import (
    CdiConfig,
    CdiConfigSpec,
    CdiConfigStatus,
    DataSource,
    DataSourceSpec,
    DataSourceStatus,
    DataVolume,
    DataVolumeSpec,
    DataVolumeStatus,
    StorageProfile,
    StorageProfileSpec,
    StorageProfileStatus,
)

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
KVEDGE: Final = "kvedge"
# The kind that CDI's operator brings, and kvedge never does.
CDI_CRD: Final = "cdis.cdi.kubevirt.io"
# CDI's operator finds its CRDs by the first one; the second one is overwritten by that operator, with its own name.
_LABELS: Final = (("cdi.kubevirt.io", ""), (MANAGED_BY, KVEDGE))


def _kind(cls: Any, description: str, types: tuple[type, type], **more: Any) -> CustomKind:
    return CustomKind(
        kind=cls.KIND,
        description=description,
        spec=types[0],
        status=types[1],
        **{"short_names": (), "columns": (), "has_status_subresource": False, "categories": (), **more},
        labels=_LABELS,
        deprecated_versions=(),
    )


DATA_VOLUME_KINDS: Final[Sequence[CustomKind]] = (
    _kind(
        DataVolume,
        "A claim of its name that comes filled: with an image from the network or from a client, with a copy of "
        "another claim, or as an empty disk.",
        (DataVolumeSpec, DataVolumeStatus),
        short_names=("dv", "dvs"),
        columns=(
            column("Phase", ".status.phase"),
            column("Progress", ".status.progress"),
            column("Restarts", ".status.restartCount", type_="integer"),
            AGE,
        ),
        has_status_subresource=True,
        categories=("all",),
    ),
    _kind(
        DataSource,
        "A name for what DataVolumes clone, which may point elsewhere tomorrow.",
        (DataSourceSpec, DataSourceStatus),
        short_names=("das",),
        categories=("all",),
        required_spec=("source",),
    ),
    _kind(
        DataImportCron,
        "An image that is looked for by a schedule: what is new is imported, and a DataSource points at the newest "
        "good one.",
        (DataImportCronSpec, DataImportCronStatus),
        short_names=("dic", "dics"),
        columns=(column("Format", ".status.sourceFormat"), AGE),
        categories=("all",),
        required_spec=("template", "managedDataSource"),
    ),
    _kind(
        StorageProfile,
        "What claims of the storage class of its name can be; by it `storage:` gets what it leaves out.",
        (StorageProfileSpec, StorageProfileStatus),
        has_status_subresource=True,
    ),
    _kind(
        CdiConfig,
        "How claims are filled in this cluster; the one that counts is called config.",
        (CdiConfigSpec, CdiConfigStatus),
    ),
)


DATA_VOLUME_CRDS: Final = frozenset(custom.name for custom in DATA_VOLUME_KINDS)


def cdi_serves(read: Callable[[str], Mapping[str, Any] | None]) -> bool:
    """Whether CDI is installed, so that its kinds are its own; `read` gives the CRD of a name, or None."""
    if read(CDI_CRD) is not None:
        return True
    found = (read(name) for name in sorted(DATA_VOLUME_CRDS))
    return any(crd is not None and not _is_ours(crd) for crd in found)


def _is_ours(crd: Mapping[str, Any]) -> bool:
    """Whether a CRD of one of these kinds is kvedge's to change: CDI's operator puts its own name on its CRDs."""
    labels = (crd.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(MANAGED_BY) == KVEDGE)

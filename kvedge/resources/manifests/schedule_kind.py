"""The kind of snapshot schedules: what kubectl shows of it, and what `kubectl explain` says of its fields.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.resources.manifests.custom_kind import CustomKind, column, condition_column
from kvedge.resources.types.protection.schedules import (
    DEFAULT_KEEP,
    VirtualMachineSnapshotSchedule,
    VirtualMachineSnapshotScheduleSpec,
    VirtualMachineSnapshotScheduleStatus,
)

SCHEDULE: Final = CustomKind(
    kind=VirtualMachineSnapshotSchedule.KIND,
    description="Snapshots of a VM that are taken again and again; of the complete ones the newest stay.",
    spec=VirtualMachineSnapshotScheduleSpec,
    status=VirtualMachineSnapshotScheduleStatus,
    short_names=("vmsnapshotschedule", "vmsnapshotschedules"),
    columns=(
        column("VM", ".spec.source.name"),
        column("Every", ".spec.every"),
        column("Keep", ".spec.keep", type_="integer"),
        condition_column("Ready", "Ready"),
        column("LastSuccess", ".status.lastSuccessTime", type_="date"),
        column("Next", ".status.nextScheduleTime"),
        column("Failures", ".status.failures", type_="integer"),
    ),
    has_status_subresource=True,
    required_spec=("every", "source"),
    default_spec=(("keep", DEFAULT_KEEP),),
    deprecated_versions=(),
    labels=(("kvedge.io", ""),),
)

SCHEDULE_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "VirtualMachineSnapshotScheduleSpec": {
        "every": "How often, such as 1h or 30m: the first one at once. After the box was off one is taken, not all "
        "that were missed.",
        "keep": "So many complete ones stay, at least 1; older ones are deleted, but for those with the label "
        "snapshot.kvedge.io/protected, which do not count.",
        "suspend": "Take and delete none for now.",
    },
    "VirtualMachineSnapshotScheduleStatus": {
        "lastSequence": "The number of the last one: it is in its name and its label.",
        "lastScheduleTime": "When the last one was due.",
        "nextScheduleTime": "When the next one is due.",
        "currentSnapshot": "The one that is being taken.",
        "lastSuccessTime": "When the last one was complete.",
        "lastSuccessSnapshot": "The last one that was complete.",
        "failures": "How many have failed since then.",
        "conditions": "Ready: whether the last one succeeded and none is late.",
    },
}

"""What the API server has told of objects that series are made of.

Made by followed_objects.py, read by metrics_server.py and object_series.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from kvedge.api.metrics.label_choice import NOTHING, LabelChoice
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


class SeenObjects(Struct, frozen=True):
    """All objects of these kinds; `known` says of each kind whether the API server tells of it now."""

    vms: Sequence[VirtualMachine] = ()
    vmis: Sequence[VirtualMachineInstance] = ()
    migrations: Sequence[VirtualMachineInstanceMigration] = ()
    snapshots: Sequence[VirtualMachineSnapshot] = ()
    claims: Sequence[PersistentVolumeClaim] = ()
    # Which labels of VMs are told of.
    labels: LabelChoice = NOTHING
    known: Mapping[str, bool] = field(default_factory=dict)

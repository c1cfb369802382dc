"""A line for each claim: what `kvedge volume list` shows of it, and which VMs use it.

Called by the verb. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from kvedge.client.vm_rows import age_text
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import parse_rfc3339

HEADER: Final = ["NAME", "STATUS", "SIZE", "CLASS", "MODE", "USED BY", "SNAPSHOTS", "AGE"]
# As kubectl abbreviates them.
_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadWriteMany": "RWX",
    "ReadOnlyMany": "ROX",
    "ReadWriteOncePod": "RWOP",
}

Users = Mapping[tuple[str, str], Sequence[str]]


class VolumeRow(Struct, frozen=True):
    """One claim."""

    namespace: str
    name: str
    status: str
    size: str
    storage_class: str
    mode: str
    used_by: tuple[str, ...]
    snapshots: tuple[str, ...]
    created: str
    age: str

    def cells(self, *, with_namespace: bool) -> list[str]:
        """The cells below :data:`HEADER`."""
        cells = [self.name, self.status, self.size, self.storage_class, self.mode]
        cells += [",".join(self.used_by), ",".join(self.snapshots), self.age]
        return [cell or "-" for cell in ([self.namespace] if with_namespace else []) + cells]

    def document(self) -> JsonObject:
        """For scripts."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "status": self.status,
            "size": self.size,
            "storageClass": self.storage_class,
            "mode": self.mode,
            "usedBy": list(self.used_by),
            "snapshots": list(self.snapshots),
            "created": self.created,
        }


def users_of(vms: Iterable[VirtualMachine], vmis: Iterable[VirtualMachineInstance]) -> dict[tuple[str, str], list[str]]:
    """The names of the VMs by namespace and claim; a run that has a claim which its VM has no more counts as well."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for vm in vms:
        volumes = vm.spec.template.spec.volumes if vm.spec.template is not None else []
        for _, claim in claims(volumes):
            found[vm.metadata.namespace, claim].add(vm.metadata.name)
    for vmi in vmis:
        for _, claim in claims(vmi.spec.volumes):
            found[vmi.metadata.namespace, claim].add(vmi.metadata.name)
    return {key: sorted(names) for key, names in found.items()}


def volume_rows(
    found: Iterable[PersistentVolumeClaim], users: Users, now: datetime, snapshots: Users | None = None
) -> list[VolumeRow]:
    """A row for each claim, by namespace and name; `snapshots` has the names of VolumeSnapshots as `users` has VMs."""
    return sorted(
        (_row(claim, users, snapshots or {}, now) for claim in found), key=lambda row: (row.namespace, row.name)
    )


def size_text(claim: PersistentVolumeClaim) -> str:
    """What a claim has, and what it will have when it is still growing."""
    wanted, there = claim.spec.resources.requests.get("storage"), claim.status.capacity.get("storage")
    if there is None or wanted is None or str(wanted) == str(there):
        return str(there if there is not None else wanted or "")
    return f"{there}→{wanted}" if _is_more(str(wanted), str(there)) else str(there)


def _is_more(wanted: str, there: str) -> bool:
    from kvedge.resources.values.quantities import QuantityError, parse_quantity

    try:
        return parse_quantity(wanted) > parse_quantity(there)
    except QuantityError:
        return False


def _row(claim: PersistentVolumeClaim, users: Users, snapshots: Users, now: datetime) -> VolumeRow:
    meta, created = claim.metadata, claim.metadata.creation_timestamp or ""
    modes = [_MODES.get(mode, mode) for mode in claim.spec.access_modes]
    return VolumeRow(
        namespace=meta.namespace,
        name=meta.name,
        status="Terminating" if meta.deletion_timestamp else claim.status.phase,
        size=size_text(claim),
        storage_class=claim.spec.storage_class_name or "",
        mode=",".join([*modes, *(["Block"] if claim.is_block else [])]),
        used_by=tuple(users.get((meta.namespace, meta.name), ())),
        snapshots=tuple(snapshots.get((meta.namespace, meta.name), ())),
        created=created,
        age=age_text((now - parse_rfc3339(created)).total_seconds()) if created else "",
    )

"""The series of VMIs: how each is, where it is reached, whether it can leave its node, and its last migration.

Called by object_series.py. Pure. Names, types and labels are KubeVirt's; labels of its that nothing here knows are
left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from kvedge.api.metrics.nic_series import describe_nics
from kvedge.api.metrics.series_table import NONE, Table, Told, describe, gauge, unix_seconds
from kvedge.resources.evacuation import LIVE_MIGRATE, is_migratable, strategy_of
from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.moves.workload_updates import OUTDATED_LAUNCHER
from kvedge.resources.types.vmi import GuestOsInfo, VirtualMachineInstance
from kvedge.resources.values.quantities import parse_bytes

# On a VMI: of which instance type and preference it was made.
_TYPES: Final = ("kubevirt.io/instancetype-name", "kubevirt.io/cluster-instancetype-name")
_PREFERENCES: Final = ("kubevirt.io/preference-name", "kubevirt.io/cluster-preference-name")

TABLE: Final[Table] = {
    "kubevirt_vmi_info": gauge("VMIs, and how they are."),
    "kubevirt_vmi_non_evictable": gauge("Whether a VMI shall move when its node is emptied, and cannot."),
    "kubevirt_vmi_status_addresses": gauge("The addresses of VMIs."),
    "kubevirt_vmi_vnic_info": gauge("The NICs of a VMI."),
    "kubevirt_vmi_launcher_memory_overhead_bytes": gauge("Memory that is reserved beside the guest's own."),
    "kubevirt_vmi_migration_start_time_seconds": gauge("When the last migration of a VMI began."),
    "kubevirt_vmi_migration_end_time_seconds": gauge("When the last migration of a VMI ended."),
}


class VmiTeller(Struct, frozen=True):
    """Tells of VMIs, by what else is known."""

    eviction_strategy: str
    # Names of migrations, by what their VMIs know them by.
    migrations: Mapping[str, str]

    def tell(self, vmi: VirtualMachineInstance) -> Iterator[Told]:
        """The samples of one VMI."""
        name = {"namespace": vmi.metadata.namespace, "name": vmi.metadata.name}
        base = {"node": vmi.status.node_name, **name}
        stuck = strategy_of(vmi, self.eviction_strategy) == LIVE_MIGRATE and not is_migratable(vmi)
        yield Told("kubevirt_vmi_info", base | _info(vmi) | {"evictable": str(not stuck).lower()}, 1)
        yield Told("kubevirt_vmi_non_evictable", base, int(stuck))
        yield from _addresses(vmi, base)
        for nic in describe_nics(vmi.spec):
            yield Told("kubevirt_vmi_vnic_info", name | nic, 1)
        memory = vmi.status.memory
        if memory is not None and memory.memory_overhead is not None:
            overhead = parse_bytes(memory.memory_overhead)
            yield Told("kubevirt_vmi_launcher_memory_overhead_bytes", name, overhead)
        yield from self._migration(vmi, base)

    def _migration(self, vmi: VirtualMachineInstance, base: Mapping[str, str]) -> Iterator[Told]:
        state = vmi.status.migration_state
        if state is None:
            return
        labels = {**base, "migration_name": self.migrations.get(state.migration_uid, "")}
        begun, ended = unix_seconds(state.start_timestamp), unix_seconds(state.end_timestamp)
        if begun is not None:
            yield Told("kubevirt_vmi_migration_start_time_seconds", labels, begun)
        if ended is not None:
            outcome = "failed" if state.failed else "succeeded" if state.completed else ""
            yield Told("kubevirt_vmi_migration_end_time_seconds", {**labels, "status": outcome}, ended)


def _info(vmi: VirtualMachineInstance) -> dict[str, str]:
    guest = vmi.status.guest_os_info or GuestOsInfo()
    annotations = vmi.metadata.annotations
    return {
        "phase": vmi.status.phase.lower(),
        **describe(annotations),
        "instance_type": _first(annotations, _TYPES),
        "preference": _first(annotations, _PREFERENCES),
        "guest_os_kernel_release": guest.kernel_release,
        "guest_os_machine": vmi.status.machine.type if vmi.status.machine is not None else "",
        "guest_os_arch": guest.machine,
        "guest_os_name": guest.name,
        "guest_os_version_id": guest.version_id,
        "outdated": str(OUTDATED_LAUNCHER in vmi.metadata.labels).lower(),
        "vmi_pod": _pod(vmi),
    }


def _pod(vmi: VirtualMachineInstance) -> str:
    """The launcher Pod in which the guest is, once it is on a node."""
    if not vmi.status.node_name or vmi.is_final:
        return ""
    state = vmi.status.migration_state
    moved = state is not None and state.completed and not state.failed and state.target_node == vmi.status.node_name
    return state.target_pod if state is not None and moved else launcher_pod_name(vmi)


def _first(annotations: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((annotations[key] for key in keys if key in annotations), NONE)


def _addresses(vmi: VirtualMachineInstance, base: Mapping[str, str]) -> Iterator[Told]:
    for nic in vmi.status.interfaces:
        if nic.ip_address or nic.name or nic.interface_name:
            labels = {
                **base,
                "vnic_name": nic.name,
                "interface_name": nic.interface_name,
                "address": nic.ip_address,
                "type": "ExternalInterface" if nic.ip_address else "SystemInterface",
            }
            yield Told("kubevirt_vmi_status_addresses", labels, 1)

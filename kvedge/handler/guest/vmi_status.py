"""The status of a VMI as the handler reports it: one merge patch per pass, or none.

Called by the sync loop. Pure. The handler writes phase, interfaces, volumes, machine, memory, CPUs, what the guest's
agent says, how it can move to another node, and the conditions of its own (Paused, HotVCPUChange, HotMemoryChange,
AgentConnected, AgentVersionNotSupported, LiveMigratable, StorageLiveMigratable, Synchronized); other conditions pass
through untouched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct, field

from kvedge.handler.guest.copy_plan import NOT_LOOKED, CopyOutcome
from kvedge.handler.guest.disk_errors import describe_disk_errors
from kvedge.handler.guest.growth_status import (
    HOT_VCPU_CHANGE,
    current_memory,
    current_topology,
    memory_condition,
    vcpu_condition,
)
from kvedge.handler.guest.migratable import (
    LauncherCan,
    choose_method,
    judge_migratable,
    judge_storage_migratable,
)
from kvedge.handler.guest.nic_plan import nic_troubles, unserved_nics
from kvedge.handler.launchers.domain_outcome import ALIVE
from kvedge.handler.migration.migration_patches import paused_by_user
from kvedge.handler.volumes.hotplug_plan import HotplugSeen, hotplug_troubles, volume_entries
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.configuration.configuration import BindingPlugin
from kvedge.resources.disks.config_disks import config_disk
from kvedge.resources.disks.volume_facts import is_hotpluggable
from kvedge.resources.evacuation import LIVE_MIGRATABLE, STORAGE_LIVE_MIGRATABLE
from kvedge.resources.meta import Condition
from kvedge.resources.names import LAUNCHER_VERSION
from kvedge.resources.phases import FINAL_PHASES, Phase, check_transition
from kvedge.resources.types.vmi import (
    DOMAIN_SOURCE,
    MULTUS_STATUS,
    ChangedBlockTracking,
    GuestOsInfo,
    InterfaceStatus,
    MachineStatus,
    PhaseTransition,
    VirtualMachineInstance,
    VirtualMachineInstanceStatus,
    VolumeStatus,
)
from kvedge.resources.types.volumes import Volume
from kvedge.resources.vmi_facts import HOT_MEMORY_CHANGE
from kvedge.rpc.launcher_pb2 import (
    DOMAIN_REASON_DUMP,
    DOMAIN_REASON_IO_ERROR,
    DOMAIN_REASON_UNSPECIFIED,
    DOMAIN_STATE_PAUSED,
    INCOMING_OWNED,
    OUTGOING_ACTIVE,
    DiskTarget,
    DomainNic,
    DomainStatus,
    GuestAddress,
)
from kvedge.runtime.clock import rfc3339

_MOBILITY: Final = (LIVE_MIGRATABLE, STORAGE_LIVE_MIGRATABLE)
_CREDENTIALS: Final = "AccessCredentialsSynchronized"
_OF_AGENT: Final = ("AgentConnected", "AgentVersionNotSupported", _CREDENTIALS)
_OF_DOMAIN: Final = ("Paused", *_OF_AGENT, HOT_VCPU_CHANGE, HOT_MEMORY_CHANGE, *_MOBILITY)
_OURS: Final = frozenset({*_OF_DOMAIN, "Synchronized"})
# KubeVirt's reason, which is a sentence.
_LACKS: Final = "This guest agent doesn't support required basic commands"
# An agent's answers are the guest's text: they are cut before they are stored.
_LONGEST_TEXT: Final = 256
_MOST_ADDRESSES: Final = 64
_MOST_LACKS: Final = 16
# Of volumes, in one condition; each has its own entry.
_MOST_TROUBLES: Final = 4
# A condition's reason: hotplugged volumes do not come or go; the rest of the VMI is as it should be.
HOTPLUG_FAILED: Final = "HotplugVolumesNotSynchronized"
NIC_HOTPLUG_FAILED: Final = "HotplugInterfacesNotSynchronized"
# The guest runs, and a network of it is not there.
NETWORK_CUT_OFF: Final = "NetworkCutOff"


class GuestNic(Struct, frozen=True):
    """What the handler gave to one interface of the VMI."""

    name: str
    mac: str
    # The Pod's addresses, by which the guest can be reached: IPv4 first.
    addresses: tuple[str, ...]
    pod_interface: str
    queues: int = 1
    # Empty where the guest alone knows.
    link_state: str = "up"
    # Whether its addresses are the Pod's and not the guest's: nobody reaches it by what its agent sees.
    is_translated: bool = False


class SyncFailure(Struct, frozen=True):
    """Why the VMI could not be brought to what it should be, in words for the user."""

    reason: str
    message: str


class Observation(Struct, frozen=True):
    """What the handler saw of one VMI."""

    phase: Phase
    reason: str = ""
    status: DomainStatus | None = None
    # None when none was prepared yet: the status keeps its entries of them.
    nics: tuple[GuestNic, ...] | None = None
    # Names of interfaces that are to be absent, and of which something is left.
    leaving: frozenset[str] = frozenset()
    failure: SyncFailure | None = None
    launcher_version: str = ""
    # Of hotplugged volumes; None when they were not looked at.
    hotplug: HotplugSeen | None = None
    # Of the copy of the guest's disks that the VMI asks for.
    copy: CopyOutcome = NOT_LOOKED
    # Of networks that the guest is cut off from, each a sentence.
    cut_off: tuple[str, ...] = ()
    # The network binding plugins in force.
    plugins: Mapping[str, BindingPlugin] = field(default_factory=dict)


def status_patch(vmi: VirtualMachineInstance, seen: Observation, now: datetime) -> JsonObject | None:
    """A JSON merge patch for the VMI, bound to the version that was read; None when nothing changed.

    Raises:
        PhaseError: when the phase may not follow the present one.
    """
    old = encode(vmi.status)
    new = encode(_status(vmi, seen, now))
    changes = {key: value for key, value in new.items() if old.get(key) != value}
    changes |= {key: None for key in old if key not in new}
    tracking = "changedBlockTracking"
    if changes.get(tracking) and old.get(tracking):
        # What was said of an earlier backup, or while this one waited, does not stay.
        changes[tracking] = merge_difference(old[tracking], changes[tracking])
    known = vmi.metadata.annotations.get(LAUNCHER_VERSION)
    is_other = seen.launcher_version not in ("", known)
    # The first one is not worth a write of its own: it comes when the guest starts. A guest that has moved to another
    # version's launcher would be moved again until that is told.
    if not changes and not (is_other and known):
        return None
    metadata: JsonObject = {"resourceVersion": vmi.metadata.resource_version}
    if is_other:
        metadata["annotations"] = {LAUNCHER_VERSION: seen.launcher_version}
    return {"metadata": metadata, **({"status": changes} if changes else {})}


def _status(vmi: VirtualMachineInstance, seen: Observation, now: datetime) -> VirtualMachineInstanceStatus:
    status = msgspec.structs.replace(vmi.status, conditions=_conditions(vmi, seen, now))
    phase = check_transition(status.phase, seen.phase)
    if phase != vmi.status.phase:
        entry = PhaseTransition(phase=phase, phase_transition_timestamp=rfc3339(now))
        timestamps = [*status.phase_transition_timestamps, entry]
        status = msgspec.structs.replace(
            status, phase=phase, phase_transition_timestamps=timestamps, reason=seen.reason
        )
    if seen.status is not None and phase not in FINAL_PHASES:
        status = msgspec.structs.replace(
            status,
            interfaces=_interfaces(vmi, seen.nics, seen.leaving, seen.status),
            volume_status=volume_entries(vmi, seen.status, seen.hotplug, _volumes(vmi, seen.status), now),
            machine=MachineStatus(type=seen.status.machine_type) if seen.status.machine_type else status.machine,
            memory=current_memory(vmi, seen.status),
            current_cpu_topology=current_topology(vmi, seen.status),
            guest_os_info=_guest_os(seen.status) or status.guest_os_info,
            migration_method=choose_method(vmi) if seen.status.state in ALIVE else status.migration_method,
            changed_block_tracking=_tracking(status, seen.copy),
            fs_freeze_status="frozen" if seen.status.fs_freeze_status == "frozen" else "",
        )
    return status


def _tracking(status: VirtualMachineInstanceStatus, copy: CopyOutcome) -> ChangedBlockTracking | None:
    if not copy.looked:
        return status.changed_block_tracking
    told = status.changed_block_tracking
    # The controller's word.
    state = "" if told is None else told.state
    return ChangedBlockTracking(state=state, backup_status=copy.status) if state or copy.status is not None else None


def _interfaces(
    vmi: VirtualMachineInstance, nics: tuple[GuestNic, ...] | None, leaving: frozenset[str], status: DomainStatus
) -> list[InterfaceStatus]:
    if nics is None:
        return vmi.status.interfaces
    rows = {row.name: row for row in vmi.status.interfaces if row.name}
    has = {nic.name: nic for nic in status.nics}
    by_mac: dict[str, list[GuestAddress]] = {}
    for entry in list(status.addresses)[:_MOST_ADDRESSES]:
        by_mac.setdefault(entry.mac.lower(), []).append(entry)
    known = []
    for nic in nics:
        # The controller has read from the Pod that it has joined the network.
        is_joined = nic.name in rows and MULTUS_STATUS in rows[nic.name].sources
        domain_nic = has.get(nic.name)
        if domain_nic is None and status.follows_nics:
            known.append(_without_domain(nic, rows.get(nic.name)))
        else:
            entries = by_mac.pop(nic.mac.lower(), []) if nic.mac else []
            known.append(_build_known_interface(nic, domain_nic, entries, is_joined=is_joined))
    served = {nic.name for nic in nics}
    for row in rows.values():
        if row.name not in served and (row.name in leaving or MULTUS_STATUS in row.sources):
            by_mac.pop(row.mac.lower(), None)
            known.append(row if row.name in leaving else _clear_guest_facts(row))
    # NICs that only the guest knows, such as a bridge of its own, come last and without a name.
    return known + [
        _guest_only(entries) for entries in by_mac.values() if any(e.source == "guest-agent" for e in entries)
    ]


def _without_domain(nic: GuestNic, row: InterfaceStatus | None) -> InterfaceStatus:
    """A NIC that is on its way into the guest."""
    found = row or InterfaceStatus(name=nic.name, pod_interface_name=nic.pod_interface)
    return _clear_guest_facts(found)


def _clear_guest_facts(row: InterfaceStatus) -> InterfaceStatus:
    """The row of a NIC that only the Pod has now, without the guest's facts."""
    joined = [MULTUS_STATUS] if MULTUS_STATUS in row.sources else []
    return InterfaceStatus(name=row.name, pod_interface_name=row.pod_interface_name, info_source=", ".join(joined))


def _build_known_interface(
    nic: GuestNic, in_domain: DomainNic | None, entries: Sequence[GuestAddress], *, is_joined: bool
) -> InterfaceStatus:
    agent = [entry for entry in entries if entry.source == "guest-agent"]
    addresses = list(nic.addresses) if nic.is_translated else _addresses(agent) or list(nic.addresses)
    sources = [DOMAIN_SOURCE, *(["guest-agent"] if agent else []), *([MULTUS_STATUS] if is_joined else [])]
    return InterfaceStatus(
        name=nic.name,
        mac=nic.mac,
        ip_address=addresses[0] if addresses else "",
        ip_addresses=addresses,
        interface_name=_cut(agent[0].guest_name) if agent else "",
        pod_interface_name=nic.pod_interface,
        info_source=", ".join(sources),
        queue_count=in_domain.queues if in_domain is not None else nic.queues,
        link_state=_link_state(nic, in_domain),
    )


def _link_state(nic: GuestNic, in_domain: DomainNic | None) -> str:
    if in_domain is None or not nic.link_state:
        return nic.link_state
    return "down" if in_domain.down else "up"


def _guest_only(entries: Sequence[GuestAddress]) -> InterfaceStatus:
    addresses = _addresses(entries)
    return InterfaceStatus(
        mac=_cut(entries[0].mac),
        ip_address=addresses[0] if addresses else "",
        ip_addresses=addresses,
        interface_name=_cut(entries[0].guest_name),
        info_source="guest-agent",
    )


def _addresses(entries: Sequence[GuestAddress]) -> list[str]:
    return [_cut(address) for entry in entries for address in entry.addresses][:_MOST_ADDRESSES]


def _volumes(vmi: VirtualMachineInstance, status: DomainStatus) -> list[VolumeStatus]:
    """The volumes with the guest's names for them, and the sizes of ISOs and of claims' disks; what else stands there,
    such as their claims, is not ours.
    """
    disks = {disk.name: disk for disk in status.disks}
    if not disks:
        return vmi.status.volume_status
    entries = {entry.name: entry for entry in vmi.status.volume_status}
    sized = {volume.name for volume in vmi.spec.volumes if _has_size(volume)}
    for volume in vmi.spec.volumes:
        # A hotplugged volume gets its entry from the controller, with its phase.
        if not is_hotpluggable(volume):
            entries.setdefault(volume.name, VolumeStatus(name=volume.name, target=""))
    return [
        _with_disk(entry, disks.get(entry.name), has_size=entry.name in sized)
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
    ]


def _with_disk(entry: VolumeStatus, disk: DiskTarget | None, *, has_size: bool) -> VolumeStatus:
    if disk is None:
        return msgspec.structs.replace(entry, target="")
    size = max(0, disk.image_bytes) if has_size else 0
    return msgspec.structs.replace(entry, target=disk.target, size=size or entry.size)


def _has_size(volume: Volume) -> bool:
    """Whether the size of its disk is told: of an image that the launcher makes of files, or of a disk on a claim."""
    is_made = volume.cloud_init_no_cloud or volume.cloud_init_config_drive or config_disk(volume)
    return bool(is_made or volume.persistent_volume_claim or volume.data_volume)


def _guest_os(status: DomainStatus) -> GuestOsInfo | None:
    if not status.HasField("guest"):
        return None
    guest = status.guest
    return GuestOsInfo(
        name=_cut(guest.os_name),
        id=_cut(guest.os_id),
        version=_cut(guest.os_version),
        version_id=_cut(guest.os_version_id),
        pretty_name=_cut(guest.os_pretty_name),
        kernel_release=_cut(guest.kernel_release),
        kernel_version=_cut(guest.kernel_version),
        machine=_cut(guest.machine),
    )


def _cut(text: str) -> str:
    return text[:_LONGEST_TEXT]


def _conditions(vmi: VirtualMachineInstance, seen: Observation, now: datetime) -> list[Condition]:
    wanted = _own_conditions(vmi, seen)
    result = []
    for present in vmi.status.conditions:
        if present.type not in _OURS:
            result.append(present)
            continue
        new = wanted.pop(present.type, None)
        if new is not None:
            result.append(_merge(present, new, now))
    return result + [_merge(None, new, now) for new in wanted.values()]


def _own_conditions(vmi: VirtualMachineInstance, seen: Observation) -> dict[str, Condition]:
    wanted: dict[str, Condition] = {}
    if seen.failure is not None:
        failure = seen.failure
        wanted["Synchronized"] = Condition(
            type="Synchronized", status="False", reason=failure.reason, message=failure.message
        )
    if seen.phase in FINAL_PHASES:
        return wanted
    troubles = hotplug_troubles(seen.status, seen.hotplug)
    of_nics, cut_off = list(nic_troubles(seen.status)), (*seen.cut_off, *unserved_nics(seen.status))
    if (troubles or of_nics or cut_off) and seen.failure is None:
        texts = [*of_nics, *cut_off, *(text for _, text in sorted(troubles.items()))]
        reason = HOTPLUG_FAILED if troubles else NIC_HOTPLUG_FAILED if of_nics else NETWORK_CUT_OFF
        message = "; ".join(texts[:_MOST_TROUBLES])
        wanted["Synchronized"] = Condition(type="Synchronized", status="False", reason=reason, message=message)
    if seen.status is None:
        # This pass learnt nothing of the domain: the known facts stay.
        return wanted | _find_present(vmi.status.conditions, _OF_DOMAIN)
    if seen.status.state == DOMAIN_STATE_PAUSED and not _goes_on_by_itself(seen.status):
        wanted["Paused"] = _pause_condition(seen.status)
    elif seen.status.outgoing.state == OUTGOING_ACTIVE and seen.status.outgoing.paused:
        # For a moment the migration holds it, too.
        wanted["Paused"] = paused_by_user()
    if seen.status.agent_connected:
        wanted["AgentConnected"] = Condition(type="AgentConnected", status="True")
        if seen.status.agent_lacks:
            message = f"it lacks {', '.join(_cut(name) for name in list(seen.status.agent_lacks)[:_MOST_LACKS])}"
            wanted["AgentVersionNotSupported"] = Condition(
                type="AgentVersionNotSupported", status="True", reason=_LACKS, message=message
            )
    growing = vcpu_condition(vmi, seen.status)
    if growing is not None:
        wanted[HOT_VCPU_CHANGE] = growing
    changing = memory_condition(vmi, seen.status)
    if changing is not None:
        wanted[HOT_MEMORY_CHANGE] = changing
    if seen.status.HasField("access_credentials"):
        wanted[_CREDENTIALS] = _credentials_condition(seen.status)
    if seen.status.state in ALIVE:
        launcher = LauncherCan(seen.status.migrates, seen.status.moves_functions)
        return wanted | {
            LIVE_MIGRATABLE: judge_migratable(vmi, launcher, seen.plugins),
            STORAGE_LIVE_MIGRATABLE: judge_storage_migratable(vmi, launcher, seen.plugins),
        }
    return wanted | _find_present(vmi.status.conditions, _MOBILITY)


def _find_present(conditions: Sequence[Condition], types: Sequence[str]) -> dict[str, Condition]:
    return {item.type: item for item in conditions if item.type in types}


def _goes_on_by_itself(status: DomainStatus) -> bool:
    """Whether its memory is being written to a file, or it has come from another node and waits for a disk."""
    if status.reason == DOMAIN_REASON_DUMP:
        return True
    return status.reason == DOMAIN_REASON_UNSPECIFIED and status.incoming.state == INCOMING_OWNED


def _pause_condition(status: DomainStatus) -> Condition:
    if status.reason == DOMAIN_REASON_IO_ERROR:
        message = f"VMI was paused, low-level IO error detected{describe_disk_errors(status)}"
        return Condition(type="Paused", status="True", reason="PausedIOError", message=message)
    return paused_by_user()


def _credentials_condition(status: DomainStatus) -> Condition:
    """Whether the guest has the keys and passwords of its Secrets; without a reason, as KubeVirt has it."""
    word = status.access_credentials
    return Condition(type=_CREDENTIALS, status="True" if word.synchronized else "False", message=_cut(word.message))


def _merge(present: Condition | None, new: Condition, now: datetime) -> Condition:
    if present is not None and present.status == new.status:
        since = present.last_transition_time
        return msgspec.structs.replace(
            new, last_transition_time=since, last_probe_time=present.last_probe_time or new.last_probe_time
        )
    return msgspec.structs.replace(new, last_transition_time=rfc3339(now), last_probe_time=rfc3339(now))

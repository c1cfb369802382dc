"""Whether a VMI can move to another node while it runs, why not, and how: KubeVirt's conditions
LiveMigratable, and StorageLiveMigratable for a guest whose disks would move along.

Used by the status that the handler reports; admission of migrations and the controller read the result. Pure. What is
in the way first, in KubeVirt's order, is told by its name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from kvedge.resources.configuration.configuration import BindingPlugin
from kvedge.resources.counters.tsc_frequency import INVTSC, REENLIGHTENMENT, find_clock_field, find_told_frequency
from kvedge.resources.disks.acpi_tables import acpi_tables
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.moved_places import is_moved_place
from kvedge.resources.disks.moved_volumes import attached_volumes, destinations, find_uncopied
from kvedge.resources.disks.state_claims import keeps_state, state_claim_of
from kvedge.resources.disks.volume_facts import claim_of, is_hotpluggable, is_memory_dump
from kvedge.resources.evacuation import LIVE_MIGRATABLE, STORAGE_LIVE_MIGRATABLE
from kvedge.resources.host_devices.claimed_devices import claimed_networks
from kvedge.resources.host_devices.cpu_placement import has_dedicated_cpus
from kvedge.resources.meta import Condition
from kvedge.resources.names import TSC_FREQUENCY
from kvedge.resources.types.domain import is_on
from kvedge.resources.types.pod_networks import sriov_interfaces
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume
from kvedge.resources.values.hook_sidecars import wants_hooks
from kvedge.resources.vmi_facts import reserved_disks

# KubeVirt's: the user vouches that an address of the Pod network goes where the guest goes.
ALLOW_POD_BRIDGE: Final = "kubevirt.io/allow-pod-bridge-network-live-migration"
_NO_PLUGINS: Final[Mapping[str, BindingPlugin]] = MappingProxyType({})
_SHARED: Final = "ReadWriteMany"
_REMEDY: Final = f"restart the VM where the node has the label {TSC_FREQUENCY}"
# That of re-enlightenment begins with KubeVirt's words.
_WITHOUT_FREQUENCY: Final[Mapping[str, str]] = MappingProxyType(
    {
        INVTSC: "cannot migrate VMI with the CPU feature invtsc: another node's counter may have another frequency;"
        f" {_REMEDY}",
        REENLIGHTENMENT: "HyperV Reenlightenment VMIs cannot migrate when TSC Frequency is not exposed on the cluster:"
        f" guest timers might be inconsistent; {_REMEDY}",
    }
)

Method = Literal["BlockMigration", "LiveMigration"]


class Obstacle(NamedTuple):
    """Something that keeps a guest on its node."""

    reason: str
    message: str


_OLD_LAUNCHER: Final = Obstacle(
    "NotMigratable",
    "the launcher is of an earlier version, which cannot move its guest: restart the VM to get a new one",
)


class LauncherCan(NamedTuple):
    """What the launcher that a guest runs in can do: move it; and have it give back virtual functions before."""

    move: bool = True
    release_functions: bool = True


def judge_migratable(
    vmi: VirtualMachineInstance, launcher: LauncherCan, plugins: Mapping[str, BindingPlugin] = _NO_PLUGINS
) -> Condition:
    """The condition; `plugins` are the network binding plugins in force."""
    found = next(_obstacles(vmi, launcher, plugins), None)
    if found is None and not launcher.move:
        found = _OLD_LAUNCHER
    return _condition(LIVE_MIGRATABLE, found)


def judge_storage_migratable(
    vmi: VirtualMachineInstance, launcher: LauncherCan, plugins: Mapping[str, BindingPlugin] = _NO_PLUGINS
) -> Condition:
    """Whether the guest could move if its disks moved along, whatever claims they are on: StorageLiveMigratable."""
    found = next(
        itertools.chain(
            _of_networks(vmi, plugins),
            _of_devices(vmi, launcher),
            _of_cpus(vmi),
            _of_encryption(vmi),
            _of_hooks(vmi),
            _of_state(vmi),
            _of_reservations(vmi),
            _of_moved_disks(vmi),
        ),
        None,
    )
    if found is None and not launcher.move:
        found = _OLD_LAUNCHER
    return _condition(STORAGE_LIVE_MIGRATABLE, found)


def _condition(kind: str, found: Obstacle | None) -> Condition:
    if found is None:
        return Condition(type=kind, status="True")
    return Condition(type=kind, status="False", reason=found.reason, message=found.message)


def choose_method(vmi: VirtualMachineInstance) -> Method:
    """Whether disks are copied, the Pod's own or to other claims, or memory alone moves."""
    if destinations(vmi):
        return "BlockMigration"
    disks = vmi.spec.domain.devices.disks
    read_only = {disk.name for disk in disks if disk.cdrom is not None}
    # Without a disk such a volume only brings its files to the Pod, as the other Pod has them.
    tables = {table.volume for table in acpi_tables(vmi.spec.domain).values()} - {disk.name for disk in disks}
    copied = any(
        volume.name not in read_only | tables and claim_of(volume) is None and volume.host_disk is None
        for volume in vmi.spec.volumes
    )
    layered = any(volume.ephemeral is not None and volume.name not in read_only for volume in vmi.spec.volumes)
    return "BlockMigration" if copied or layered else "LiveMigration"


def _obstacles(
    vmi: VirtualMachineInstance, launcher: LauncherCan, plugins: Mapping[str, BindingPlugin]
) -> Iterator[Obstacle]:
    yield from _of_networks(vmi, plugins)
    yield from _of_devices(vmi, launcher)
    yield from _of_cpus(vmi)
    yield from _of_encryption(vmi)
    yield from _of_hooks(vmi)
    yield from _of_state(vmi)
    yield from _of_volumes(vmi)
    yield from _of_moved_disks(vmi)


def _of_networks(vmi: VirtualMachineInstance, plugins: Mapping[str, BindingPlugin]) -> Iterator[Obstacle]:
    reason = "InterfaceNotLiveMigratable"
    on_pod_network = {network.name for network in vmi.spec.networks if network.pod is not None}
    vouched = ALLOW_POD_BRIDGE in vmi.metadata.annotations
    for interface in vmi.spec.domain.devices.interfaces:
        plugin = plugins.get(interface.binding.name) if interface.binding is not None else None
        moves = plugin is not None and plugin.migrates
        if interface.name not in on_pod_network or interface.masquerade is not None:
            if plugin is not None and plugin.sidecar_image and not moves:
                yield Obstacle(
                    reason,
                    f"cannot migrate VMI: interface {interface.name} is made by the sidecar of a binding plugin without"
                    " `migration`",
                )
            continue
        if not (moves or (interface.bridge is not None and vouched)):
            yield Obstacle(
                reason,
                "cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network",
            )


def _of_devices(vmi: VirtualMachineInstance, launcher: LauncherCan) -> Iterator[Obstacle]:
    reason, devices = "HostDeviceNotLiveMigratable", vmi.spec.domain.devices
    if devices.host_devices:
        yield Obstacle(reason, "VMI specifies non-migratable generic PCI host device")
    if devices.gpus:
        yield Obstacle(reason, "VMI specifies non-migratable GPU device")
    for name in claimed_networks(vmi.spec):
        yield Obstacle(
            reason, f"cannot migrate VMI: network {name} is a device of a claim, which another node's Pod does not get"
        )
    for _, interface, _ in () if launcher.release_functions else sriov_interfaces(vmi):
        yield Obstacle(
            reason,
            f"cannot migrate VMI: interface {interface.name} is a virtual function of this node, and the launcher is of"
            " an earlier version, which cannot take it from the guest: restart the VM to get a new one",
        )
    if devices.filesystems:
        yield Obstacle("VirtIOFSNotLiveMigratable", "cannot migrate VMI with filesystems")


def _of_cpus(vmi: VirtualMachineInstance) -> Iterator[Obstacle]:
    if has_dedicated_cpus(vmi.spec.domain):
        yield Obstacle(
            "DedicatedCPUNotLiveMigratable",
            "cannot migrate VMI with dedicatedCpuPlacement: its vCPUs are on CPUs of this node, and another node gives"
            " its Pod others",
        )
    features = vmi.spec.domain.features
    if features is not None and is_on(features.hyperv_passthrough):
        yield Obstacle("HypervPassthroughNotLiveMigratable", "VMI uses hyperv passthrough")
    # QEMU keeps a guest that counts on its counter's frequency, and was told none.
    clock_field = find_clock_field(vmi.spec.domain)
    if clock_field and find_told_frequency(vmi) is None:
        yield Obstacle("NoTSCFrequencyNotLiveMigratable", _WITHOUT_FREQUENCY[clock_field])


def _of_encryption(vmi: VirtualMachineInstance) -> Iterator[Obstacle]:
    security = vmi.spec.domain.launch_security
    if security is None:
        return
    kind = "SEV" if security.uses_sev else "TDX"
    yield Obstacle(f"{kind}NotLiveMigratable", f"VMI uses {kind}")


def _of_hooks(vmi: VirtualMachineInstance) -> Iterator[Obstacle]:
    if wants_hooks(vmi.metadata.annotations):
        yield Obstacle(
            "HookSidecarsNotLiveMigratable",
            "cannot migrate VMI with hook sidecars: what they made of its domain may not fit another node",
        )


def _of_state(vmi: VirtualMachineInstance) -> Iterator[Obstacle]:
    """The state of a TPM and of firmware moves to another claim where source and target cannot have one at a time."""
    if not keeps_state(vmi.spec):
        return
    found = (entry.persistent_volume_claim_info for entry in vmi.status.volume_status if entry.name == STATE_VOLUME)
    if next(found, None) is None:
        name = state_claim_of(vmi.metadata)
        yield Obstacle("DisksNotLiveMigratable", _of_claim(f"Unable to determine if PVC {name} is shared"))


def _of_volumes(vmi: VirtualMachineInstance) -> Iterator[Obstacle]:
    reason = "DisksNotLiveMigratable"
    claims = {entry.name: entry.persistent_volume_claim_info for entry in vmi.status.volume_status}
    moved = destinations(vmi)
    uncopied = {disk.name for disk in vmi.spec.domain.devices.disks if find_uncopied(disk)}
    for volume in vmi.spec.volumes:
        claim = claim_of(volume)
        if is_memory_dump(volume):
            # A migration waits until the dump is complete.
            continue
        if volume.name in moved and not is_hotpluggable(volume):
            if volume.ephemeral is not None or volume.name in uncopied:
                yield Obstacle(
                    reason,
                    f"cannot migrate VMI: volume {volume.name} cannot move to another claim: only a disk that the guest"
                    " alone writes is copied",
                )
        elif claim is not None:
            info = claims.get(volume.name)
            if info is None:
                # A hotplugged one of which nothing is known is not the guest's yet: it comes where the guest then is.
                if not is_hotpluggable(volume):
                    yield Obstacle(reason, _of_claim(f"Unable to determine if PVC {claim} is shared"))
            elif _SHARED not in info.access_modes and not _is_only_read(volume, info.access_modes):
                yield Obstacle(reason, _of_claim(f"PVC {claim} is not shared"))
        elif volume.host_disk is not None and not volume.host_disk.shared:
            yield Obstacle(reason, "cannot migrate VMI with non-shared HostDisk")
    yield from _of_reservations(vmi)


def _of_moved_disks(vmi: VirtualMachineInstance) -> Iterator[Obstacle]:
    """The launcher has the claim by an attachment Pod, in a place where no other launcher has it."""
    for volume in attached_volumes(vmi):
        if is_moved_place(volume.name):
            yield Obstacle(
                "DisksNotLiveMigratable",
                f"cannot migrate VMI: a disk has moved to claim {claim_of(volume)} while the guest ran, or is about to;"
                " restart the VM to have the claim in its Pod",
            )


def _of_reservations(vmi: VirtualMachineInstance) -> Iterator[Obstacle]:
    for name in reserved_disks(vmi.spec):
        yield Obstacle("PersistentReservationNotLiveMigratable", f"cannot migrate VMI: LUN {name} is reserved")


def _of_claim(what: str) -> str:
    return (
        f"cannot migrate VMI: {what}, live migration requires that all PVCs must be shared "
        "(using ReadWriteMany access mode)"
    )


def _is_only_read(volume: Volume, modes: list[str]) -> bool:
    """Whether the claim is read by many, below a layer of the Pod's own."""
    return volume.ephemeral is not None and "ReadOnlyMany" in modes

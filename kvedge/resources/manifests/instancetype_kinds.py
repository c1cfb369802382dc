"""The kinds of instance types and preferences: what kubectl shows of them, and what `kubectl explain` says.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.resources.kinds import Kind
from kvedge.resources.manifests.custom_kind import CustomKind
from kvedge.resources.types.vm_types.instancetypes import (
    VirtualMachineClusterInstancetype,
    VirtualMachineInstancetype,
    VirtualMachineInstancetypeSpec,
)
from kvedge.resources.types.vm_types.preferences import (
    VirtualMachineClusterPreference,
    VirtualMachinePreference,
    VirtualMachinePreferenceSpec,
)


def _type(kind: Kind, short_names: tuple[str, ...], whose: str) -> CustomKind:
    return CustomKind(
        kind=kind,
        description=f"An instance type {whose}: the CPUs and the memory of VMs that name it, which then say nothing of "
        "these themselves. A VM keeps the type as it was when the VM was made.",
        spec=VirtualMachineInstancetypeSpec,
        status=None,
        short_names=short_names,
        columns=(),
        has_status_subresource=False,
        categories=("all",) if kind.namespaced else (),
        deprecated_versions=(),
    )


def _preference(kind: Kind, short_names: tuple[str, ...], whose: str) -> CustomKind:
    return CustomKind(
        kind=kind,
        description=f"A preference {whose}: what VMs of one system get wherever they say nothing themselves. A VM "
        "keeps the preference as it was when the VM was made.",
        spec=VirtualMachinePreferenceSpec,
        status=None,
        short_names=short_names,
        columns=(),
        has_status_subresource=False,
        categories=("all",) if kind.namespaced else (),
        deprecated_versions=(),
    )


_CLUSTER: Final = "for every namespace"
_NAMESPACE: Final = "of one namespace"
INSTANCETYPE_KINDS: Final[Sequence[CustomKind]] = (
    _type(VirtualMachineInstancetype.KIND, ("vminstancetype", "vminstancetypes", "vmf", "vmfs"), _NAMESPACE),
    _type(
        VirtualMachineClusterInstancetype.KIND,
        ("vmclusterinstancetype", "vmclusterinstancetypes", "vmcf", "vmcfs"),
        _CLUSTER,
    ),
    _preference(VirtualMachinePreference.KIND, ("vmpref", "vmprefs", "vmp", "vmps"), _NAMESPACE),
    _preference(VirtualMachineClusterPreference.KIND, ("vmcp", "vmcps"), _CLUSTER),
)

_WHERE_OPEN: Final = "where a VM does not say it."
INSTANCETYPE_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Matcher": {
        "name": "Its name.",
        "kind": "Its kind; the one for every namespace unless given.",
        "revisionName": "The ControllerRevision that holds the VM's own copy; kvedge makes one where none is given.",
        "inferFromVolume": "The volume whose labels, or those of what fills it, name it.",
        "inferFromVolumeFailurePolicy": "What happens when the volume says nothing: Reject refuses the VM, Ignore goes "
        "on without; Reject unless given.",
    },
    "InstancetypeStatusRef": {
        "name": "Its name.",
        "kind": "Its kind.",
        "inferFromVolume": "The volume that it was read from.",
        "inferFromVolumeFailurePolicy": "What was to happen when the volume said nothing.",
    },
    "ControllerRevisionRef": {"name": "Its name."},
    "VirtualMachineInstancetypeSpec": {
        "nodeSelector": "Labels of nodes that its VMs may run on.",
        "schedulerName": "The scheduler of its VMs.",
        "gpus": "GPUs that its VMs get.",
        "hostDevices": "Devices of the host that its VMs get.",
        "ioThreadsPolicy": "shared, auto or supplementalPool.",
        "launchSecurity": "Deprecated: use a preference.",
        "annotations": "Annotations of its VMs' VMIs.",
    },
    "CpuInstancetype": {
        "guest": "How many vCPUs; the preference says whether they are sockets, cores or threads.",
        "model": "The CPU model.",
        "dedicatedCPUPlacement": "Whether each vCPU has a CPU of the node for itself.",
        "isolateEmulatorThread": "Whether the emulator has one, too.",
        "realtime": "Real-time scheduling of vCPUs.",
        "maxSockets": "How many sockets a running guest may get.",
    },
    "MemoryInstancetype": {
        "guest": "How much the guest sees.",
        "overcommitPercent": "So many percent of it are not requested for the VM's Pod.",
        "maxGuest": "How much a running guest may get.",
    },
    "VirtualMachinePreferenceSpec": {
        "preferredSubdomain": f"The subdomain {_WHERE_OPEN}",
        "preferredTerminationGracePeriodSeconds": f"How long a guest may take to shut down {_WHERE_OPEN}",
        "annotations": "Annotations of its VMs' VMIs.",
        "preferSpreadSocketToCoreRatio": "With the topology spread: so many cores in each socket; 2 unless given.",
        "preferredArchitecture": f"The architecture {_WHERE_OPEN}",
        "preferredLaunchSecurity": f"The launch security {_WHERE_OPEN}",
    },
    "CpuPreferences": {
        "preferredCPUTopology": "What the vCPUs of an instance type are: sockets, cores, threads, spread or any; "
        "sockets unless given.",
        "preferredCPUFeatures": "CPU features that are added.",
    },
    "SpreadOptions": {
        "across": "SocketsCores, SocketsCoresThreads or CoresThreads; SocketsCores unless given.",
        "ratio": "So many of the inner ones in each of the outer ones; 2 unless given.",
    },
    "ClockOffset": {"timezone": "A time zone, such as Europe/Berlin."},
    "DevicePreferences": {
        "preferredAutoattachGraphicsDevice": f"Whether there is a display {_WHERE_OPEN}",
        "preferredAutoattachMemBalloon": f"Whether there is a memory balloon {_WHERE_OPEN}",
        "preferredAutoattachPodInterface": f"Whether there is a NIC on the Pod network {_WHERE_OPEN}",
        "preferredAutoattachSerialConsole": f"Whether there is a serial console {_WHERE_OPEN}",
        "preferredAutoattachInputDevice": f"Whether there is a tablet {_WHERE_OPEN}",
        "preferredDisableHotplug": "Whether nothing is hotplugged, whatever a VM says.",
        "preferredVirtualGPUOptions": f"Options of virtual GPUs {_WHERE_OPEN}",
        "preferredSoundModel": f"The model of a sound device {_WHERE_OPEN}",
        "preferredUseVirtioTransitional": f"Whether virtio devices are for old drivers, too, {_WHERE_OPEN}",
        "preferredInputBus": f"The bus of input devices {_WHERE_OPEN}",
        "preferredInputType": f"What input devices are {_WHERE_OPEN}",
        "preferredDiskBus": f"The bus of disks {_WHERE_OPEN}",
        "preferredLunBus": f"The bus of LUNs {_WHERE_OPEN}",
        "preferredCdromBus": f"The bus of CD-ROMs {_WHERE_OPEN}",
        "preferredDiskDedicatedIoThread": f"Whether disks with bus virtio have a thread for themselves {_WHERE_OPEN}",
        "preferredDiskCache": f"The cache of disks {_WHERE_OPEN}",
        "preferredDiskIO": f"The I/O of disks {_WHERE_OPEN}",
        "preferredInterfaceModel": f"The model of NICs {_WHERE_OPEN}",
        "preferredBlockMultiQueue": f"Whether disks have a queue for each vCPU {_WHERE_OPEN}",
        "preferredNetworkInterfaceMultiQueue": f"Whether NICs have a queue for each vCPU {_WHERE_OPEN}",
        "preferredTPM": f"A TPM {_WHERE_OPEN}",
        "preferredPanicDeviceModel": f"The model of panic devices {_WHERE_OPEN}",
        "preferredVideoType": f"The video device {_WHERE_OPEN}",
    },
    "FirmwarePreferences": {
        "preferredUseBios": "Whether a VM without a bootloader boots by BIOS.",
        "preferredUseBiosSerial": f"Whether a BIOS writes to the serial console {_WHERE_OPEN}",
        "preferredUseEfi": "Deprecated: use preferredEfi.",
        "preferredUseSecureBoot": "Deprecated: use preferredEfi.",
    },
    "MachinePreferences": {"preferredMachineType": f"The machine {_WHERE_OPEN}"},
    "VolumePreferences": {
        "preferredStorageClassName": f"The storage class of the claims of DataVolume templates {_WHERE_OPEN}"
    },
    "CpuPreferenceRequirement": {"guest": "How many vCPUs."},
    "MemoryPreferenceRequirement": {"guest": "How much memory."},
    "PreferenceRequirements": {"architecture": "The architecture that a VM must have."},
}

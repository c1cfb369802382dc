"""KubeVirt's feature gates, and what each one means here.

Part of configuration.py. Touches nothing. KubeVirt's rule: beta is on unless it is disabled, alpha is off unless it is
named, what became permanent is on, what was given up is never on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from kvedge.resources.unknown_fields import MOST_HINTS
from kvedge.runtime.nearest_names import nearest_name

Stage = Literal["alpha", "beta", "permanent", "deprecated", "discontinued"]

_GATES: Final[Mapping[Stage, str]] = {
    "alpha": """AlignCPUs CPUManager ConfigurableHypervisor ContainerPathVolumes CrossArchitectureVirtualization
        DownwardMetrics EnableVirtioFsStorageVolumes ExperimentalIgnitionSupport FirmwareAutoSelection
        GraceIOVirtualization HostDevices HostDisk HypervStrictCheck IOMMUFD IncrementalBackup MigrationDowntimeTuning
        MigrationStallDetection NetworkDevicesWithDRA OCIExport ObjectGraph PCINUMAAwareTopology Plugins PortRangesSpec
        ReservedOverheadMemlock Root Sidecar UtilityVolumes VGPULiveMigration VMStatsCollector VSOCK
        WorkloadEncryptionTDX""",
    "beta": """DeclarativeHotplugVolumes DecentralizedLiveMigration ExternalNetResourceInjection GPUsWithDRA
        HostDevicesWithDRA ImageVolume KubevirtSeccompProfile NodeRestriction OptOutRoleAggregation PasstBinding
        PodSecondaryInterfaceNamingUpgrade RebootPolicy Snapshot Template WorkloadEncryptionSEV""",
    "permanent": """AutoResourceLimits CPUNodeDiscovery CommonInstancetypesDeployment EnableVirtioFsConfigVolumes
        ExpandDisks GPU HotplugNICs InstancetypeReferencePolicy LibvirtHooksServerAndClient LiveMigration
        LiveUpdateNADRef MigrationPriorityQueue NUMA NetworkBindingPlugins NonRoot PSA PanicDevices
        PersistentReservation SRIOVLiveMigration SecureExecution VMExport VMLiveUpdateFeatures VMPersistentState
        VideoConfig VmiMemoryOverheadReport VolumeMigration VolumesUpdateStrategy""",
    "deprecated": "DisableMDEVConfiguration DockerSELinuxMCSWorkaround HotplugVolumes MultiArchitecture",
    "discontinued": "ExperimentalVirtiofsSupport Macvtap Passt",
}
STAGES: Final[Mapping[str, Stage]] = {name: stage for stage, names in _GATES.items() for name in names.split()}
# With this gate another webhook asks for the virtual functions of a Pod's networks. KubeVirt has it on unless somebody
# disables it, and without that webhook no guest gets a function. Here it is on where it is named.
EXTERNAL_RESOURCES: Final = "ExternalNetResourceInjection"
# With this gate VMs may share the directories of claims with their guests.
VIRTIOFS_OF_CLAIMS: Final = "EnableVirtioFsStorageVolumes"
# With this gate VMs may share directories with their guests that others mount into launchers.
CONTAINER_PATHS: Final = "ContainerPathVolumes"
# Named, it lets guests reserve LUNs, unless the KubeVirt object says otherwise where it configures that.
PERSISTENT_RESERVATION: Final = "PersistentReservation"
# With this gate VMs may have hostDevices.
HOST_DEVICES_GATE: Final = "HostDevices"
# With these gates claims (DRA) may have them: GPUs and other devices unless somebody disables it, networks where named.
GPU_CLAIMS_GATE: Final = "GPUsWithDRA"
HOST_DEVICE_CLAIMS_GATE: Final = "HostDevicesWithDRA"
NETWORK_CLAIMS_GATE: Final = "NetworkDevicesWithDRA"
# With this gate there are KubeVirt's backups of running VMs.
INCREMENTAL_BACKUP: Final = "IncrementalBackup"
# With this gate a VMI's annotation may hold a config for Ignition.
IGNITION_SUPPORT: Final = "ExperimentalIgnitionSupport"
# With this gate a VMI may name memory that its QEMU needs beyond what is reckoned.
RESERVED_OVERHEAD: Final = "ReservedOverheadMemlock"
# With this gate, on unless somebody disables it, a guest may speak by passt.
PASST_GATE: Final = "PasstBinding"
# With these gates the memory of guests may be encrypted: by AMD, on unless somebody disables it, and by Intel.
SEV_GATE: Final = "WorkloadEncryptionSEV"
TDX_GATE: Final = "WorkloadEncryptionTDX"
# With this gate guests may have a vsock.
VSOCK_GATE: Final = "VSOCK"
# With this gate users may ask what belongs to a VM.
OBJECT_GRAPH: Final = "ObjectGraph"
# With one of these gates volumes come to guests that run; by the older one a run may have some that its VM has not.
DECLARATIVE_HOTPLUG: Final = "DeclarativeHotplugVolumes"
HOTPLUG_VOLUMES: Final = "HotplugVolumes"
# With this gate a VM may have files of its node as disks.
HOST_DISK: Final = "HostDisk"
# kvedge always works in the way that these gates guard: they cannot be switched off.
ALWAYS_ON: Final[Mapping[str, str]] = {
    "NodeRestriction": "a node only writes what is its own",
    "RebootPolicy": "rebootPolicy is always understood",
}
# What KubeVirt has without a gate by now, or unless somebody disables it: manifests of its earlier releases name them.
_PRESENT_FOR_GOOD: Final = (
    "AutoResourceLimits",
    "CommonInstancetypesDeployment",
    "EnableVirtioFsConfigVolumes",
    "ExpandDisks",
    "HotplugNICs",
    "InstancetypeReferencePolicy",
    "LiveMigration",
    "LiveUpdateNADRef",
    "MigrationPriorityQueue",
    "NUMA",
    "NetworkBindingPlugins",
    "SRIOVLiveMigration",
    "Snapshot",
    "VMExport",
    "VMLiveUpdateFeatures",
    "VMPersistentState",
    "VolumeMigration",
    "VolumesUpdateStrategy",
)
# Features that kvedge has: their gates are on unless somebody says otherwise, or do something when they are named.
PRESENT: Final = frozenset(
    (
        # KubeVirt labels nodes with it alone; here those of kubelets with the policy are labelled.
        "CPUManager",
        "CPUNodeDiscovery",
        CONTAINER_PATHS,
        "DeclarativeHotplugVolumes",
        "DownwardMetrics",
        VIRTIOFS_OF_CLAIMS,
        EXTERNAL_RESOURCES,
        "GPU",
        GPU_CLAIMS_GATE,
        HOST_DEVICES_GATE,
        HOST_DEVICE_CLAIMS_GATE,
        IGNITION_SUPPORT,
        "HostDisk",
        "HotplugVolumes",
        "ImageVolume",
        INCREMENTAL_BACKUP,
        NETWORK_CLAIMS_GATE,
        "NonRoot",
        OBJECT_GRAPH,
        "PSA",
        "PanicDevices",
        PASST_GATE,
        PERSISTENT_RESERVATION,
        "PortRangesSpec",
        RESERVED_OVERHEAD,
        SEV_GATE,
        TDX_GATE,
        # That of hook sidecars.
        "Sidecar",
        # Backups need it in KubeVirt; such volumes are always there here.
        "UtilityVolumes",
        "VideoConfig",
        "VmiMemoryOverheadReport",
        VSOCK_GATE,
        *ALWAYS_ON,
        *_PRESENT_FOR_GOOD,
    )
)
# Gates of how KubeVirt itself is built.
_INTERNAL: Final = frozenset(
    [
        "DockerSELinuxMCSWorkaround",
        "KubevirtSeccompProfile",
        "LibvirtHooksServerAndClient",
        "OptOutRoleAggregation",
        "PodSecondaryInterfaceNamingUpgrade",
        "Root",
    ]
)


class FeatureGates(Struct, frozen=True):
    """The two lists of the KubeVirt object."""

    enabled: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()

    def is_on(self, gate: str) -> bool:
        """Whether the feature behind a gate of KubeVirt may be used; an unknown gate is off."""
        stage = STAGES.get(gate)
        if stage == "permanent" or gate in ALWAYS_ON:
            return True
        if stage in ("alpha", "deprecated"):
            return gate in self.enabled
        return stage == "beta" and gate not in self.disabled


def find_enabled_without_effect(gates: Sequence[str]) -> Iterator[tuple[int, str]]:
    """For each gate that changes nothing here when it is named: where it is in the list, and why."""
    for index, gate in enumerate(gates):
        stage = STAGES.get(gate)
        if stage == "discontinued":
            yield index, f"feature gate {gate}: KubeVirt has given the feature up"
        elif gate in _INTERNAL:
            yield index, f"feature gate {gate}: it is about parts that only KubeVirt has"
        elif stage is not None and gate not in PRESENT:
            yield index, f"feature gate {gate}: kvedge does not have the feature yet"


def find_disabled_without_effect(gates: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The same for gates that are to be switched off."""
    for index, gate in enumerate(gates):
        if gate in ALWAYS_ON:
            yield index, f"feature gate {gate} is always on here: {ALWAYS_ON[gate]}"
        elif STAGES.get(gate) == "permanent":
            yield index, f"feature gate {gate} is always on, in KubeVirt too"


def unknown_gates(gates: Sequence[str]) -> Iterator[tuple[int, str]]:
    """For each gate that KubeVirt does not have: where it is in the list, and which one may be meant."""
    unknown = [(index, gate) for index, gate in enumerate(gates) if gate not in STAGES]
    for count, (index, gate) in enumerate(unknown):
        near = nearest_name(gate, STAGES) if count < MOST_HINTS else ""
        hint = f'; did you mean "{near}"?' if near else ""
        yield index, f'unknown feature gate "{gate}"{hint}'

"""What each key of the KubeVirt object does here: applied, accepted for later, or nothing; and why.

ONE table; a feature that is built moves its keys in the same commit. It is what the object's conditions say, what
admission warns of, and what `kubectl explain kubevirt.spec` tells. Touches nothing. A test holds it against the types.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct


class Effect(enum.Enum):
    """What setting a key does."""

    APPLIED = "applied"
    LATER = "is accepted for later"
    NONE = "does not apply"


class Key(Struct, frozen=True):
    """One key: its path below `spec`, what it is, what it does here and why it does not do more.

    `same` are values that ask for what kvedge does anyhow: nothing is to be told of them. `without` are values of an
    applied key that do nothing, for the same reason.
    """

    path: str
    effect: Effect
    text: str
    reason: str = ""
    same: Sequence[Any] = ()
    without: Sequence[Any] = ()


def _make_applied(path: str, text: str, reason: str = "", without: Sequence[Any] = ()) -> Key:
    return Key(path, Effect.APPLIED, text, reason, without=without)


def _make_later(path: str, text: str, reason: str, same: Sequence[Any] = ()) -> Key:
    return Key(path, Effect.LATER, text, reason, same)


def _make_nothing(path: str, text: str, reason: str, same: Sequence[Any] = ()) -> Key:
    return Key(path, Effect.NONE, text, reason, same)


_NO_IMAGES: Final = "kvedge is one program and writes its launcher image itself"
_NO_DEPLOYMENTS: Final = "kvedge's roles are programs on hosts, not Deployments"
_NO_POST_COPY: Final = "a guest goes on once all of its memory has moved"
_ONE_CLUSTER: Final = "guests move between the nodes of one cluster"
_OWN_CERTIFICATES: Final = "kvedge renews its certificates by itself"
_ONE_CLIENT: Final = "kvedge's roles do not limit their own requests"
_NO_ARCHITECTURE: Final = "kvedge runs guests on amd64 and arm64"

_SPEC: Final = (
    _make_nothing("imageTag", "The tag of KubeVirt's images.", _NO_IMAGES),
    _make_nothing("imageRegistry", "The registry of KubeVirt's images.", _NO_IMAGES),
    _make_nothing("imagePullPolicy", "When KubeVirt's images are pulled.", _NO_IMAGES),
    _make_nothing("imagePullSecrets", "Secrets for the registry of KubeVirt's images.", _NO_IMAGES),
    _make_nothing("monitorNamespace", "Where Prometheus is.", "kvedge makes no ServiceMonitors"),
    _make_nothing("serviceMonitorNamespace", "Where ServiceMonitors are made.", "kvedge makes no ServiceMonitors"),
    _make_nothing("monitorAccount", "Prometheus' service account.", "kvedge makes no ServiceMonitors"),
    _make_applied(
        "workloadUpdateStrategy.workloadUpdateMethods",
        "How running VMs get a launcher of this release once all nodes run it: LiveMigrate moves those that can move; "
        "Evict ends the others in batches, and their run strategy starts them again. Neither by default.",
    ),
    _make_applied(
        "workloadUpdateStrategy.batchEvictionSize", "VMs that are evicted at a time; 10 by default, 0 for none."
    ),
    _make_applied("workloadUpdateStrategy.batchEvictionInterval", "Between two batches; 1m0s by default."),
    _make_applied(
        "uninstallStrategy",
        "BlockUninstallIfWorkloadsExist refuses to delete this object while there are VMs. Deleting it never removes "
        "VMs: without it defaults hold.",
        "deleting this object removes no VM",
        without=("RemoveWorkloads",),
    ),
    _make_nothing("certificateRotateStrategy", "How certificates are renewed.", _OWN_CERTIFICATES),
    _make_nothing("productVersion", "A label of KubeVirt's own objects.", _NO_DEPLOYMENTS),
    _make_nothing("productName", "A label of KubeVirt's own objects.", _NO_DEPLOYMENTS),
    _make_nothing("productComponent", "A label of KubeVirt's own objects.", _NO_DEPLOYMENTS),
    _make_later("synchronizationPort", "The port for migrations between clusters.", _ONE_CLUSTER),
    _make_nothing("infra", "Where KubeVirt's own Pods run, and how many.", _NO_DEPLOYMENTS),
    _make_nothing("workloads", "Where KubeVirt's handlers run.", _NO_DEPLOYMENTS),
    _make_nothing("customizeComponents", "Patches of KubeVirt's own objects.", _NO_DEPLOYMENTS),
)

_DEVELOPER: Final = (
    _make_applied(
        "configuration.developerConfiguration.featureGates",
        "Features to switch on. Gates that KubeVirt has made permanent need not be named; those of features that "
        "kvedge lacks change nothing and are listed in the condition ConfigurationApplied.",
    ),
    _make_applied(
        "configuration.developerConfiguration.disabledFeatureGates",
        "Features to switch off that are on by default; a gate that is always on here stays on, and is listed in the "
        "condition ConfigurationApplied.",
    ),
    _make_later(
        "configuration.developerConfiguration.pvcTolerateLessSpaceUpToPercent",
        "How much smaller than asked for a volume may be.",
        "there are no disks on claims yet",
    ),
    _make_later(
        "configuration.developerConfiguration.minimumReservePVCBytes",
        "Bytes that stay free on a volume.",
        "there are no disks on claims yet",
    ),
    _make_applied(
        "configuration.developerConfiguration.memoryOvercommit",
        "Guests' memory in percent of what their Pods request: 150 lets guests have half as much again; 100 by "
        "default.",
    ),
    _make_applied("configuration.developerConfiguration.nodeSelectors", "Labels that a node must have to run any VM."),
    _make_applied(
        "configuration.developerConfiguration.useEmulation",
        "Emulate guests' CPUs in software, on every node. Without it each node finds out whether KVM works. The "
        "setting emulation of a node (kvm or tcg) wins over this.",
    ),
    _make_applied(
        "configuration.developerConfiguration.cpuAllocationRatio",
        "Virtual CPUs for one CPU of a node, in the requests of VMs that name none; 10 by default.",
    ),
    _make_later(
        "configuration.developerConfiguration.minimumClusterTSCFrequency",
        "The least TSC frequency that VMs rely on.",
        "guests are told the lowest frequency of the nodes, where the node that they start on can have it",
    ),
    _make_nothing(
        "configuration.developerConfiguration.diskVerification",
        "Limits for the check of a disk image.",
        "kvedge checks images when they are imported, within limits of its own",
    ),
    _make_applied("configuration.developerConfiguration.logVerbosity.virtAPI", "For the api role, from 0 to 9."),
    _make_applied(
        "configuration.developerConfiguration.logVerbosity.virtController", "For the controller, from 0 to 9."
    ),
    _make_applied("configuration.developerConfiguration.logVerbosity.virtHandler", "For all handlers, from 0 to 9."),
    _make_later(
        "configuration.developerConfiguration.logVerbosity.virtLauncher",
        "For launchers, from 0 to 9.",
        "a launcher always logs what happens",
    ),
    _make_nothing(
        "configuration.developerConfiguration.logVerbosity.virtOperator", "For the operator.", _NO_DEPLOYMENTS
    ),
    _make_nothing(
        "configuration.developerConfiguration.logVerbosity.virtSynchronizationController",
        "For the role that migrates between clusters.",
        _ONE_CLUSTER,
    ),
    _make_applied(
        "configuration.developerConfiguration.logVerbosity.nodeVerbosity",
        "For the handlers of single nodes, by node; wins over virtHandler.",
    ),
    _make_nothing(
        "configuration.developerConfiguration.clusterProfiler", "Go profiles.", "kvedge has none", same=(False,)
    ),
)

_MACHINE: Final = (
    _make_applied(
        "configuration.cpuModel",
        "The CPU model of VMs that name none: a model, host-model or host-passthrough. host-model by default, "
        "host-passthrough on arm64.",
    ),
    _make_applied(
        "configuration.cpuRequest", "The CPU request of VMs that name none; cpuAllocationRatio unless given."
    ),
    _make_applied(
        "configuration.emulatedMachines",
        "Machine types that VMs may ask for, with * for any letters; wins over those of architectureConfiguration.",
    ),
    _make_nothing("configuration.imagePullPolicy", "When launchers' images are pulled.", _NO_IMAGES),
    _make_applied(
        "configuration.machineType", "The machine type of VMs that name none; q35 by default, virt on arm64."
    ),
    _make_applied("configuration.ovmfPath", "The directory with UEFI firmware, on every node; found unless given."),
    _make_applied("configuration.smbios.manufacturer", "The maker; KubeVirt by default."),
    _make_applied("configuration.smbios.product", "The product; None by default."),
    _make_applied("configuration.smbios.version", "The product's version."),
    _make_applied("configuration.smbios.sku", "The product's number."),
    _make_applied("configuration.smbios.family", "The product's family; KubeVirt by default."),
    _make_applied("configuration.architectureConfiguration.amd64", "What holds for VMs on amd64."),
    _make_applied("configuration.architectureConfiguration.arm64", "What holds for VMs on arm64."),
    _make_nothing("configuration.architectureConfiguration.ppc64le", "Deprecated.", _NO_ARCHITECTURE),
    _make_nothing("configuration.architectureConfiguration.s390x", "What holds for VMs on s390x.", _NO_ARCHITECTURE),
    _make_applied(
        "configuration.architectureConfiguration.defaultArchitecture",
        "The architecture of VMs that name none: amd64 or arm64; that of the control plane by default.",
    ),
    _make_nothing("configuration.minCPUModel", "Deprecated.", "KubeVirt ignores it, too"),
    _make_applied(
        "configuration.obsoleteCPUModels",
        "CPU models, by name, that nodes do not offer where it says true; a node of such a CPU takes no host-model.",
    ),
    _make_later(
        "configuration.hypervisors", "The hypervisor of VMs.", "kvedge runs QEMU with KVM", same=([{"name": "kvm"}],)
    ),
    _make_later(
        "configuration.confidentialCompute", "Intel TDX: who signs its quotes.", "guests get no socket for them"
    ),
)

_GUESTS: Final = (
    _make_applied(
        "configuration.evictionStrategy",
        "What a drain does to VMs that say nothing: None, the default, shuts them down; LiveMigrate moves them, with "
        "their local disks if need be, and holds the drain where one cannot move; LiveMigrateIfPossible moves them, "
        "and shuts down what cannot move; External marks them for another controller, and holds the drain.",
    ),
    _make_applied(
        "configuration.additionalGuestMemoryOverheadRatio",
        'A number from 1.0 on, as text, by which the memory that a VM costs beyond its guest\'s is multiplied: "1.5".',
    ),
    _make_later(
        "configuration.supportedGuestAgentVersions",
        "Versions of the guest agent that are supported.",
        "every version is",
    ),
    _make_applied(
        "configuration.memBalloonStatsPeriod",
        "Seconds between two looks at a guest's memory; 10 by default, 0 for none.",
    ),
    _make_applied(
        "configuration.permittedHostDevices.pciHostDevices",
        "PCI functions that VMs may be given, by vendor:product; each node offers those that vfio-pci has.",
    ),
    _make_applied(
        "configuration.permittedHostDevices.mediatedDevices",
        "Mediated devices that VMs may be given, by the name of their type; the node's administrator makes them.",
    ),
    _make_applied(
        "configuration.permittedHostDevices.usb",
        "USB devices that VMs may be given: by vendor and product, and here also by serial number and port. Those of "
        "all selectors of an entry go to a guest together.",
    ),
    _make_later(
        "configuration.mediatedDevicesConfiguration",
        "Mediated devices to make on nodes.",
        "kvedge makes no mediated devices: the node's administrator does",
    ),
    _make_applied(
        "configuration.virtualMachineInstancesPerNode", "How many VMs one node takes at most; 1000 by default."
    ),
    _make_applied(
        "configuration.virtualMachineOptions.disableFreePageReporting", "Guests do not give unused pages back."
    ),
    _make_applied(
        "configuration.virtualMachineOptions.disableSerialConsoleLog",
        "VMs that do not say logSerialConsole write no log of their serial console.",
    ),
    _make_nothing("configuration.ksmConfiguration", "Merging of equal pages.", "kvedge leaves the host's KSM as it is"),
    _make_later(
        "configuration.autoCPULimitNamespaceLabelSelector",
        "Namespaces whose VMs get a CPU limit.",
        "limits are those that a VM names",
    ),
    _make_applied(
        "configuration.liveUpdateConfiguration.maxHotplugRatio",
        "How many times its sockets and its memory a guest may get while it runs; 4 by default. With vmRolloutStrategy "
        "LiveUpdate.",
    ),
    _make_applied(
        "configuration.liveUpdateConfiguration.maxCpuSockets",
        "How many sockets a guest may get while it runs, whatever it starts with. With vmRolloutStrategy LiveUpdate.",
    ),
    _make_applied(
        "configuration.liveUpdateConfiguration.maxGuest",
        "How much memory a guest may get while it runs, whatever it starts with. With vmRolloutStrategy LiveUpdate.",
    ),
    _make_applied(
        "configuration.vmRolloutStrategy",
        "When changes of a VM take effect: LiveUpdate, the default, at once where possible, Stage with its next "
        "start. Sockets, memory and where it may run change at once.",
    ),
    _make_applied(
        "configuration.vmStateStorageClass",
        "The storage class for TPM and UEFI variables that last; the default class unless given.",
    ),
    _make_applied(
        "configuration.changedBlockTrackingLabelSelectors",
        "VMs of which backups may have changed blocks alone: those whose labels the virtualMachineLabelSelector "
        "selects, and all in namespaces that the namespaceLabelSelector does. None without it.",
    ),
    _make_applied(
        "configuration.persistentReservationConfiguration",
        "enabled: guests may reserve LUNs (disks[].lun.reservation) by the qemu-pr-helper of their node.",
    ),
)

_NETWORK: Final = (
    _make_applied(
        "configuration.network.defaultNetworkInterface",
        "The binding of the interface that VMs get when they name none: bridge, the default, or masquerade.",
    ),
    _make_applied(
        "configuration.network.permitBridgeInterfaceOnPodNetwork",
        "Whether VMs may join the pod network by a bridge; true by default.",
    ),
    _make_nothing("configuration.network.permitSlirpInterface", "Discontinued.", "there is no slirp", same=(False,)),
    _make_applied(
        "configuration.network.binding",
        "Network binding plugins, by the names that interfaces give in binding.name.",
    ),
)

_MIGRATIONS: Final = (
    _make_applied(
        "configuration.migrations.nodeDrainTaintKey",
        "The taint, with effect NoSchedule, of a node whose VMs move away without evictions; kubevirt.io/drain by "
        "default.",
    ),
    _make_applied(
        "configuration.migrations.parallelOutboundMigrationsPerNode",
        "Migrations away from one node at a time; 2 by default.",
    ),
    _make_applied(
        "configuration.migrations.parallelMigrationsPerCluster", "Migrations in the cluster at a time; 5 by default."
    ),
    _make_applied("configuration.migrations.allowAutoConverge", "Slow guests down that write too fast."),
    _make_applied(
        "configuration.migrations.bandwidthPerMigration", "Bytes per second of one migration; 0, the default, for any."
    ),
    _make_applied(
        "configuration.migrations.completionTimeoutPerGiB",
        "Seconds for one GiB of memory and disks that move; 150 by default. A migration that takes longer fails.",
    ),
    _make_applied(
        "configuration.migrations.maxDowntimeMs",
        "How long a guest may stand still at the end, in milliseconds; 900 by default.",
    ),
    _make_applied(
        "configuration.migrations.progressTimeout",
        "Seconds without progress, after which a migration fails; 150 by default.",
    ),
    _make_later(
        "configuration.migrations.utilityVolumesTimeout",
        "Seconds to wait for utility volumes; 150 by default.",
        "a migration waits for copies of disks as long as they take",
    ),
    _make_applied(
        "configuration.migrations.unsafeMigrationOverride",
        "Migrate with claims on file systems of which libvirt does not know that nodes share them.",
    ),
    _make_later(
        "configuration.migrations.allowPostCopy",
        "Let the guest go on before its memory is there.",
        _NO_POST_COPY,
        same=(False,),
    ),
    _make_applied(
        "configuration.migrations.allowWorkloadDisruption",
        "Stop guests that write faster than their memory can be sent, once their time is over; false by default.",
    ),
    _make_later(
        "configuration.migrations.disableTLS", "Migrate in clear text.", "what moves is encrypted", same=(False,)
    ),
    _make_applied(
        "configuration.migrations.network",
        "The network to migrate over, in CIDR notation: each node takes guests at its own address in it. Without it "
        "they move over the network that the nodes know each other by.",
    ),
    _make_later(
        "configuration.migrations.matchSELinuxLevelOnMigration",
        "Keep the Pod's SELinux level.",
        "the node gives each Pod its own",
    ),
)

_CLUSTER: Final = (
    _make_nothing(
        "configuration.selinuxLauncherType", "The SELinux type of launchers.", "launchers have the runtime's own"
    ),
    _make_later("configuration.defaultRuntimeClass", "The runtime class of launchers.", "they have the node's default"),
    _make_applied(
        "configuration.supportContainerResources",
        "CPU and memory of containers that support VMs, by their type: vmexport, hotplug-disk, virtiofs, sidecar,"
        " container-disk.",
    ),
    _make_nothing("configuration.apiConfiguration", "Limits of the api role's requests.", _ONE_CLIENT),
    _make_nothing("configuration.webhookConfiguration", "Limits of the webhooks' requests.", _ONE_CLIENT),
    _make_nothing("configuration.controllerConfiguration", "Limits of the controller's requests.", _ONE_CLIENT),
    _make_nothing("configuration.handlerConfiguration", "Limits of handlers' requests.", _ONE_CLIENT),
    _make_later("configuration.tlsConfiguration", "TLS versions and ciphers.", "roles take TLS 1.2 and later"),
    _make_nothing(
        "configuration.seccompConfiguration", "Seccomp of launchers.", "launchers have the runtime's own profile"
    ),
    _make_applied(
        "configuration.commonInstancetypesDeployment.enabled",
        "Whether there are ready-made instance types and preferences: on one box, unless false; in a cluster, if true.",
    ),
    _make_later(
        "configuration.virtTemplateDeployment", "VM templates.", "there are none yet", same=({"enabled": False},)
    ),
    _make_applied(
        "configuration.instancetype.referencePolicy",
        "How VMs keep their instance type: reference, by a copy; expand, as their own words, if they have no copy yet; "
        "expandAll, all of them.",
    ),
    _make_nothing(
        "configuration.roleAggregationStrategy",
        "Whether KubeVirt's rights are added to the cluster's own roles.",
        "they are",
        same=("AggregateToDefault",),
    ),
)

TABLE: Final[Sequence[Key]] = (*_SPEC, *_MACHINE, *_GUESTS, *_NETWORK, *_DEVELOPER, *_MIGRATIONS, *_CLUSTER)
_BY_PATH: Final[Mapping[str, Key]] = {key.path: key for key in TABLE}


def key_of(path: str) -> Key | None:
    """The entry for a path below `spec`: its own, or that of the nearest object it is in."""
    while path:
        if path in _BY_PATH:
            return _BY_PATH[path]
        path = path.rpartition(".")[0]
    return None

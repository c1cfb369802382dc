"""What is known of KubeVirt's specs, on one box and on a cluster: the one list of those that cannot apply or wait.

Read by the conformance run. It leaves out what cannot apply, unless `--all` asks for it, and it runs what waits for a
part of kvedge that is not there yet: such a spec may fail, and one that passes should leave the list. A pattern is a
regular expression on a spec's whole text, containers included. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Place(Enum):
    """Where specs run."""

    BOX = "one box"
    CLUSTER = "a cluster"


BOTH: Final = frozenset(Place)
_BOX: Final = frozenset({Place.BOX})
_CLUSTER: Final = frozenset({Place.CLUSTER})


@dataclass(frozen=True)
class KnownSpecs:
    """Some specs, and why they are here."""

    pattern: str
    reason: str
    places: frozenset[Place] = BOTH


CANNOT_APPLY: Final = (
    KnownSpecs(
        r"Live Migrat|Migrate subresource|Migration recovery|VM Post Copy",
        "needs a second node",
        _BOX,
    ),
    KnownSpecs(r"when performing migration|is migrated", "needs a second node", _BOX),
    KnownSpecs(
        r"clients should be able to reach VM workload", "needs a second node: a Job runs beside the guest's", _BOX
    ),
    KnownSpecs(r"test_id:8607", "needs a second node: the TPM's state is migrated", _BOX),
    KnownSpecs(
        r"Migration based|can migrate a VMI|vm with ifaces down is migrated|allow live migration with attached",
        "needs a second node",
        _BOX,
    ),
    KnownSpecs(r"should be able to reach the vmi based on labels", "needs a kube-proxy, which is no part", _CLUSTER),
    KnownSpecs(r"Networkpolicy", "needs a CNI that enforces policies, which is no part", _CLUSTER),
    KnownSpecs(r"DataVolume clone permission checking", "needs CDI: its webhook decides who may clone"),
    KnownSpecs(
        r"PVC expansion is detected by VM and can be fully used|fstrim from the VM influences disk.img",
        "the root of this tier's guests is in their memory",
    ),
    KnownSpecs(r"With a HostDisk defined", "looks for files by a Pod of virt-handler, or by an image of KubeVirt's"),
    KnownSpecs(r"With smaller than requested PVCs", "has an image of KubeVirt's mount on the host"),
    KnownSpecs(
        r"Starting a VirtualMachineInstance with (error|lun) disk", "needs the host's kernel to have scsi_debug"
    ),
    KnownSpecs(r"test_id:868", "a directory of root's: here the guest's user makes disk.img, and says that it cannot"),
    KnownSpecs(r"test_id:5258", "a second restore waits for the first one, which KubeVirt refuses"),
    KnownSpecs(r"hotplug 75 volumes simultaneously", "needs more room than the run's machine has"),
    KnownSpecs(r"disk mutating sidecar", "needs KubeVirt's image of that hook sidecar"),
    KnownSpecs(
        r"should produce different PCI addresses than v3", "asks for slots as earlier releases of KubeVirt gave them"
    ),
    KnownSpecs(
        r"With webhook-injected|Should preserve ConfigMap data accessible via ContainerPath",
        "needs KubeVirt's image of a webhook that changes Pods",
    ),
    KnownSpecs(
        r"test_id:(6547|10811|10822|10823)\]|should successfully hotplug memory"
        r"|should plug extra resources from new instance type",
        "waits for the migration that brings CPUs and memory in KubeVirt; here they come in place, within moments",
    ),
    KnownSpecs(
        r"cancel the migration by the reverting to the source volume|when the destination image is smaller"
        r"|set the ManualRecoveryRequired at VM shutdown|cancel the migration and clear the volume migration state",
        "wants migrations to claims that are too small or cannot be bound; here the VMI says so, and none is made",
    ),
    KnownSpecs(r"continously report storage migration metrics", "asks Pods of virt-handler for figures"),
    KnownSpecs(r"Volumes update with migration", "needs a second node: volumes move in place", _BOX),
    KnownSpecs(r"destination PVC expansion", "the nodes' class of storage expands no volumes", _CLUSTER),
    KnownSpecs(
        r"block RWX DVs|from a block source and filesystem|from filesystem to block|from block to (filesystem|block)",
        "needs block volumes, which the nodes do not have",
        _CLUSTER,
    ),
    KnownSpecs(r"Node-labeller", "needs nodes with KVM"),
    KnownSpecs(r"test_id:1616\]", "gives a guest data that Ignition would not read, which is refused here"),
    KnownSpecs(r"when TSC frequency is exposed", "needs a CPU with an invariant counter"),
    KnownSpecs(r"should allocate the appropriate number of free ports", "counts the ports of KubeVirt's own devices"),
    KnownSpecs(r"VSOCK", "needs the kernel's vhost_vsock, which the run's machine does not have"),
    KnownSpecs(r"host USB Passthrough", "needs USB devices of the node, which the run's machine has not got"),
    KnownSpecs(r"Syspreped", "needs a disk of Windows, which only its owner may hand on"),
    KnownSpecs(r"VMI Memory Overhead Reporting", "needs a second node: sockets come in place", _BOX),
    KnownSpecs(
        r"add and use WFFC storage|add and remove (and re-add )?multiple volumes|both a filesystem and block volume",
        "counts one attachment Pod for all volumes; kvedge has one for each",
    ),
    KnownSpecs(
        r"test_id:313[0123]|unless hostpath disk image file not owned|test_id:313[68]|test_id:3137",
        "needs the host path volumes of KubeVirt's test infrastructure",
    ),
    KnownSpecs(r"Inject/Eject CD-ROM", "needs KubeVirt's image of virtio-win, by whose size it tells two disks apart"),
    KnownSpecs(r"eventually consistent DataVolumes", "needs a registry without TLS behind a Service of another name"),
    KnownSpecs(r"test_id:1165[56]", "needs a class that binds at first use", _BOX),
    KnownSpecs(r"Guestfs", "needs a libguestfs image"),
    KnownSpecs(r"IPv6", "the Pods have IPv4 addresses alone", _CLUSTER),
    KnownSpecs(r"exposed by an IPv6 address", "the run's Services have IPv4 addresses alone", _BOX),
    KnownSpecs(r"outside world", "the tests' guests reach nobody outside of this machine"),
    KnownSpecs(r"test_id:4300", "a launcher of kvedge's has no capability at all, KubeVirt's has NET_BIND_SERVICE"),
    KnownSpecs(
        r"crash loop backoff|crashloop backoff|auto-heal consistently failing VMs|evacuating fails"
        r"|condition when migration fails|finalized migrations should get garbage|test_id:69(79|80)"
        r"|empty isos of the right size|after a catch all timeout period",
        "asks virt-launcher to fail by an annotation of KubeVirt's tests",
    ),
    KnownSpecs(
        r"Domain resilience|test_id:(6977|2303|6978)|dedicated migration network|Migration Metrics",
        "looks into the Pods of virt-handler, which are none of kvedge's",
    ),
    KnownSpecs(r"test_id:4746", "kills virtqemud, which a launcher of kvedge's has not got"),
    KnownSpecs(r"test_id:7680", "has budgets removed that earlier releases of KubeVirt made"),
    KnownSpecs(r"with Headless service", "needs a name server of the cluster's, which is no part", _CLUSTER),
    KnownSpecs(r"migration to (non)?root", "a launcher of kvedge's never runs as root"),
    KnownSpecs(
        r"when acceptable time exceeded and post-copy is forbidden",
        "counts on Fedora's disk of 5 GiB, by which a guest has time; the tests' guest has 20 seconds for 350 MiB",
    ),
    KnownSpecs(r"VM Post Copy|postcopy combined", "post-copy is refused: a target waits until its source is off"),
    KnownSpecs(r"downtime tuning|zstd compression", "experimental fields of migration policies are refused"),
    KnownSpecs(r"Migration recovery", "a TPM's state on a claim of one node does not move yet", _CLUSTER),
    KnownSpecs(r"Live Migration across namespaces", "migrations between clusters are refused"),
    KnownSpecs(r"with addedNodeSelector", "needs a third node", _CLUSTER),
    KnownSpecs(
        r"read-only disks|test_id:(1479|1854|1377|3240|2731|1862)",
        "needs block volumes, which the nodes do not have",
        _CLUSTER,
    ),
    KnownSpecs(r"With Huge Pages|CPU pinning and huge pages|with dedicated CPUs", "needs huge pages or a CPU manager"),
    KnownSpecs(r"test_id:684[23]|topology hints", "needs a CPU with an invariant time-stamp counter"),
    KnownSpecs(r"Virtiofs should migrate", "guests with virtiofs do not migrate"),
    KnownSpecs(r"horizontal pod autoscaler", "needs an autoscaler, which one box has not got", _BOX),
    KnownSpecs(r"cni ptp plugin|test_id:1751", "needs CNI's plugin ptp; one box joins bridges"),
    KnownSpecs(r"IPAM-assigned addresses", "needs CNI's IPAM; a box's networks are asked for addresses otherwise"),
    KnownSpecs(r"with passt network binding", "their guests migrate, which they do not by passt here"),
    KnownSpecs(
        r"network binding plugin with CNI and Sidecar", "needs KubeVirt's image of the plugin and its CNI plugin"
    ),
    KnownSpecs(r"NAD name live update", "needs a second node: one box takes the NIC to its new network at once", _BOX),
    KnownSpecs(
        r"NAD name live update",
        "needs Multus, which the run's cluster has not (tests/cluster/test_switched_networks.py does the same with it)",
        _CLUSTER,
    ),
    KnownSpecs(r"K8s IO events", "needs a device-mapper on the node, and an image with its tools"),
    KnownSpecs(r"MTU verification", "needs iputils' ping in the guest: busybox's sets no DF"),
    KnownSpecs(r"test_id:763[5678]|Backup with migration", "needs a second node", _BOX),
    KnownSpecs(r"should persist VM state of", "needs a second node", _BOX),
    KnownSpecs(
        r"VirtualMachineSnapshot Tests \[storage-req\]|VirtualMachineRestore Tests .*\[storage-req\]"
        r"|and snapshot storage class",
        "needs VolumeSnapshots of a CSI driver; snapshots of kvedge's own have none",
        _CLUSTER,
    ),
    KnownSpecs(
        r"should succeed online snapshot with hot plug disk|test_id:(8922|4611|6838)\]"
        r"|should error if VolumeSnapshot deleted|should not error if VolumeSnapshot has error"
        r"|restore size bigger then PVC size|should not restore memory dump volume",
        "looks for the VolumeSnapshots of a VM's snapshot, which a box takes without any",
        _BOX,
    ),
    KnownSpecs(
        r"VirtualMachineInstancetype (meets|does not meet) (CPU|Memory) requirements",
        "makes instance types without memory or without CPUs, which are refused here",
    ),
    KnownSpecs(
        r"should upgrade .* without labels to latest",
        "gives a VM the copy of a type that it does not name, which is no copy for it here",
    ),
    KnownSpecs(r"should strip firmware UUID", "gives a VM a UUID that is none, which is refused here"),
    KnownSpecs(r"test_id:555\]", "wants the program compiled by Go's compiler"),
    KnownSpecs(r"rate limiter should lead to delayed", "sets rate limits of clients, which kvedge warns of"),
    KnownSpecs(r"via validatingAdmissionPolicy", "one box has no ValidatingAdmissionPolicies", _BOX),
    KnownSpecs(r"test_id:(1679|1680)\]", "needs KVM: an emulated CPU has a name of its own"),
    KnownSpecs(r"test_id:1673\]", "asks for pages of 3Mi, which are refused here, where KubeVirt's VM waits for ever"),
    KnownSpecs(r"test_id:1020\]", "asks for a slot that no PCIe port has, for which kvedge puts a bridge there"),
    KnownSpecs(r"test_id:(11652|11653|11659|11660|11661)\]", "needs an SSH server in the guest"),
    KnownSpecs(r"test_id:5271\]", "needs virt-what in the guest"),
    KnownSpecs(r"test_id:732\]", "counts on a kernel that keeps less of 128 MiB to itself than the guests' one"),
    KnownSpecs(r"virt-launcher processes memory usage", "looks for the processes of KubeVirt's launcher"),
    KnownSpecs(r"Guest console log", "looks for the container of KubeVirt's that keeps the log; the launcher keeps it"),
    KnownSpecs(
        r"(SM BIOS|CloudInit) hook sidecar|set sidecar resources|with sidecar-shim|when sidecar image is specified",
        "needs KubeVirt's images of hook sidecars",
    ),
    KnownSpecs(r"test_id:(6222|6223)\]", "needs a cloud-init in the guest that writes the agent's settings"),
    KnownSpecs(r"test_id:4630\]", "wants file systems of disks in the guest, which runs from its initrd"),
    KnownSpecs(r"test_id:11214\]", "wants limits computed from KubeVirt's overhead of a Pod"),
    KnownSpecs(
        r"\[sig-storage\] ?CBT |CBT with migration",
        "looks for the overlays in which KubeVirt notes changed blocks; kvedge puts none before a disk",
    ),
    KnownSpecs(
        r"Backup (Full Backup with source|Full and Incremental Backup with)|insufficient target PVC size",
        "wants images of backups that are as large as their disk, whose holes are left out here",
    ),
    KnownSpecs(
        r"pull mode Backup with endpoint verification",
        "writes into the file system of a guest's disk, which runs from its initrd",
    ),
    KnownSpecs(
        r"Backup after VM shutdown and restart|when checkpoint is corrupted|Checkpoint redefinition",
        "counts on what KubeVirt keeps of changed blocks beyond QEMU's end; the next backup is a full one here",
    ),
    KnownSpecs(
        r"content type (block )?PROXY",
        "asks a Service of KubeVirt's for the proxy of exports, which is behind a box's API here",
    ),
    KnownSpecs(r"contain (ingress|route) host", "one box has no Ingresses and Routes", _BOX),
    KnownSpecs(r"OCI export", "exports as OCI archives are refused"),
    KnownSpecs(r"observe exportserver pod exiting", "ends an exporter by a variable of KubeVirt's"),
    KnownSpecs(
        r"DVs and expanded VM definition on http endpoint",
        "makes an instance type without memory, which is refused here",
    ),
    KnownSpecs(r"ACPI MSDM", "needs libvirt 11.2 for MSDM"),
)
# Left out on a machine whose kernel cannot tell VLANs apart.
NEEDS_VLANS: Final = KnownSpecs(
    r"Linux bridge plugin interface|Linux bridge CNI plugin interface|test_id:1757",
    "needs a kernel with CONFIG_BRIDGE_VLAN_FILTERING",
)
WAITING: Final = (
    KnownSpecs(r"verify swtpm directories", "exports of the claim that keeps what is in a TPM"),
    KnownSpecs(
        r"test_id:165[34]", "a VMI that stays Succeeded for a second, for which these specs look once a second", _BOX
    ),
)


def patterns(known: Iterable[KnownSpecs], place: Place) -> list[str]:
    """The patterns of those that are known of a place."""
    return [entry.pattern for entry in known if place in entry.places]


def waits_for(name: str, place: Place) -> str:
    """What a spec waits for in a place, or nothing."""
    found = (entry.reason for entry in WAITING if place in entry.places and re.search(entry.pattern, name))
    return next(found, "")

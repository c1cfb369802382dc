"""What `kubectl explain` says of statuses: a text for each field that is no object with a docstring of its own.

Read by field_descriptions.py. Touches nothing. Keys are the type's name, then the field as it is on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STATUS_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Condition": {
        "type": "What it is about, such as Ready or Paused.",
        "status": "True, False or Unknown.",
        "reason": "Why, in one word that programs compare.",
        "message": "Why, in words for people.",
        "lastProbeTime": "When it was last looked at.",
        "lastTransitionTime": "When its status last changed.",
    },
    "VirtualMachineStatus": {
        "created": "Whether a VMI of it exists.",
        "ready": "Whether its guest runs and is ready.",
        "printableStatus": "All of it in one word: Stopped, Starting, Running, Paused, Stopping, CrashLoopBackOff …",
        "conditions": "What holds of it; the conditions of its VMI are among them while there is one.",
        "stateChangeRequests": "Starts and stops that were asked for and are not done yet; the first one is next.",
        "observedGeneration": "The generation of the spec that the present run was made from.",
        "desiredGeneration": "The generation of the spec as it is now.",
        "runStrategy": "The run strategy that was last acted on.",
        "snapshotInProgress": "The snapshot that is being taken; disks and run strategy wait for it.",
        "restoreInProgress": "The restore that is being done; the run strategy waits for it.",
        "volumeSnapshotStatuses": "Which volumes a snapshot would contain.",
        "volumeUpdateState": "Volumes that are being changed while the guest runs.",
    },
    "VolumeUpdateState": {
        "volumeMigrationState": "Volumes whose disks move to other claims.",
    },
    "VolumeMigrationState": {
        "migratedVolumes": "The claims that they leave, and those that they move to.",
    },
    "StateChangeRequest": {
        "action": "Start or Stop.",
        "data": "How: paused is true for a guest whose CPUs stand still at first.",
        "uid": "The run that is to end, for Stop.",
    },
    "StartFailure": {
        "consecutiveFailCount": "How many runs in a row ended before they ran.",
        "lastFailedVMIUID": "The last of them.",
        "retryAfterTimestamp": "When the next one begins.",
    },
    "VirtualMachineInstanceStatus": {
        "phase": "Where it is: Pending, Scheduling, Scheduled, Running, and at last Succeeded or Failed.",
        "phaseTransitionTimestamps": "When it entered each phase.",
        "reason": "Why it is in this phase, in a few words.",
        "nodeName": "The node that runs it; that node's handler reports on it.",
        "conditions": "What holds of it: Ready, Paused, AgentConnected, LiveMigratable …",
        "interfaces": "Its NICs and their addresses; the Pod network's comes first.",
        "volumeStatus": "What became of each volume.",
        "activePods": "The launcher Pods that it has: the node of each, by UID.",
        "qosClass": "The quality of service of its Pod.",
        "runtimeUser": "The user that its QEMU runs as; 107 is unprivileged.",
        "launcherContainerImageVersion": "The image of its launcher.",
        "migrationMethod": "How it would be migrated: LiveMigration or BlockMigration.",
        "migratedVolumes": "Volumes whose disks move to other claims when the guest moves.",
        "migrationTransport": "What a migration goes through: Unix.",
        "evacuationNodeName": "The node that its guest is to leave, as a drain of the node asked.",
        "virtualMachineRevisionName": "The ControllerRevision with the VM's spec that it was made from.",
        "selinuxContext": "The SELinux context of its Pod; none without SELinux.",
        "fsFreezeStatus": "frozen while its filesystems are held still.",
    },
    "PhaseTransition": {"phase": "The phase.", "phaseTransitionTimestamp": "When it was entered."},
    "InterfaceStatus": {
        "name": "The name of its network in the spec; none for a NIC that only the guest knows.",
        "mac": "Its MAC.",
        "ipAddress": "The first of its addresses.",
        "ipAddresses": "All its addresses.",
        "interfaceName": "What the guest calls it, such as eth0.",
        "podInterfaceName": "What its Pod calls it.",
        "infoSource": "Who says so: domain, guest-agent, multus-status.",
        "queueCount": "How many queues it has.",
        "linkState": "up or down: whether its cable is plugged.",
    },
    "VolumeStatus": {
        "name": "The volume's name.",
        "target": "What the guest may call its disk, such as vda.",
        "phase": "Where it is, for volumes that come and go.",
        "reason": "Why it is there, in one word.",
        "message": "Why it is there, in words.",
        "size": "Its size in bytes, of those that are made here.",
    },
    "ClaimInfo": {
        "claimName": "The claim's name.",
        "accessModes": "How the claim may be used.",
        "volumeMode": "Filesystem or Block.",
        "capacity": "What the claim has.",
        "requests": "What the claim asks for.",
        "preallocated": "Whether all its blocks are allocated.",
        "filesystemOverhead": "The fraction of the claim that its file system itself may take.",
    },
    "MigratedVolume": {
        "volumeName": "The volume's name.",
        "sourcePVCInfo": "The claim that its disk leaves.",
        "destinationPVCInfo": "The claim that its disk moves to.",
    },
    "HotplugVolumeStatus": {
        "attachPodName": "The name of its attachment Pod.",
        "attachPodUID": "The UID of that Pod, once it is ready.",
    },
    "GuestOsInfo": {
        "name": "The system's name, such as Fedora Linux.",
        "id": "Its name for programs, such as fedora.",
        "version": "Its version, with words.",
        "versionId": "Its version, as a number.",
        "prettyName": "Name and version, as the guest shows them.",
        "kernelRelease": "The kernel's release.",
        "kernelVersion": "The kernel's build.",
        "machine": "The architecture, such as x86_64.",
    },
    "CpuTopology": {"cores": "Cores per socket.", "sockets": "Sockets.", "threads": "Threads per core."},
    "MemoryStatus": {
        "guestAtBoot": "What it began with.",
        "guestCurrent": "What it has.",
        "guestRequested": "What it should have.",
        "memoryOverhead": "What its Pod needs besides the guest's memory.",
    },
    "MachineStatus": {"type": "The machine type with its version, such as pc-q35-7.2."},
    "KubeVirtStatus": {
        "phase": "Deploying, Deployed or Deleting.",
        "conditions": "Available, Progressing, Degraded …, and which keys of the configuration have no effect.",
        "operatorVersion": "The release that looks after it.",
        "targetKubeVirtRegistry": "Always empty: no image is pulled.",
        "targetKubeVirtVersion": "The release that should run.",
        "observedKubeVirtRegistry": "Always empty: no image is pulled.",
        "observedKubeVirtVersion": "The release that runs.",
        "outdatedVirtualMachineInstanceWorkloads": "How many VMIs run with the launcher of an older release.",
        "observedGeneration": "The generation of the spec that is in force.",
        "defaultArchitecture": "The architecture of a VM that names none.",
    },
}

"""Labels, annotations, finalizers and fixed names that roles and users meet at: KubeVirt's, and our own in kvedge.io.

Touches nothing.
"""

from __future__ import annotations

from typing import Final

# Labels of KubeVirt.
APP: Final = "kubevirt.io"
# Its value on launcher Pods.
LAUNCHER_APP: Final = "virt-launcher"
CREATED_BY: Final = "kubevirt.io/created-by"
NODE_NAME: Final = "kubevirt.io/nodeName"
# On a VMI: the node that its guest is to come to, by which that node's handler finds it.
MIGRATION_TARGET_NODE: Final = "kubevirt.io/migrationTargetNodeName"
SCHEDULABLE: Final = "kubevirt.io/schedulable"
VMI_ID: Final = "vmi.kubevirt.io/id"
VM_NAME: Final = "vm.kubevirt.io/name"
CPU_MODEL_PREFIX: Final = "cpu-model.node.kubevirt.io/"
CPU_FEATURE_PREFIX: Final = "cpu-feature.node.kubevirt.io/"
# On a Node: whether its kubelet gives Pods CPUs for themselves. KubeVirt writes an older name of it as well.
CPU_MANAGER: Final = "kubevirt.io/cpumanager"
OLD_CPU_MANAGER: Final = "cpumanager"
# On a Node: its kernel lets real-time work have whole CPUs.
REALTIME: Final = "kubevirt.io/realtime"
# On a box's Node, a condition: true where there is a fresh copy of the object store.
STORE_COPIED: Final = "StoreCopied"
# On a Node: the ways in which it encrypts guests' memory, each "true".
SEV: Final = "kubevirt.io/sev"
SEV_ES: Final = "kubevirt.io/sev-es"
SEV_SNP: Final = "kubevirt.io/sev-snp"
TDX: Final = "kubevirt.io/tdx"
# On a Node: its labels of CPUs and machines are the operator's.
SKIP_NODE: Final = "node-labeller.kubevirt.io/skip-node"
MACHINE_TYPE_PREFIX: Final = "machine-type.node.kubevirt.io/"
HOST_MODEL_PREFIX: Final = "host-model-cpu.node.kubevirt.io/"
# On a Node: what its own model has beyond the model that names it; CPU models that its libvirt knows, so that a guest
# of such a model may come to it if the CPU has its features; the CPU's vendor.
HOST_MODEL_FEATURE_PREFIX: Final = "host-model-required-features.node.kubevirt.io/"
CPU_MIGRATION_PREFIX: Final = "cpu-model-migration.node.kubevirt.io/"
CPU_VENDOR_PREFIX: Final = "cpu-vendor.node.kubevirt.io/"
# On a Node: in Hz, by which counter its guests tell time, and whether guests may have another frequency.
TSC_FREQUENCY: Final = "cpu-timer.node.kubevirt.io/tsc-frequency"
TSC_SCALABLE: Final = "cpu-timer.node.kubevirt.io/tsc-scalable"
# On a Node: the cluster means to give up the model of its CPU.
HOST_MODEL_OBSOLETE: Final = "node-labeller.kubevirt.io/obsolete-host-model"
# Labels that kvedge acts on: a user who could set them could take a VMI to another node or away from its owner. The
# controller writes and removes them on VMIs, so that nothing may be known by them.
RESERVED_LABELS: Final = frozenset(
    {
        CREATED_BY,
        "kubevirt.io/migrationJobUID",
        NODE_NAME,
        MIGRATION_TARGET_NODE,
        SCHEDULABLE,
        "kubevirt.io/install-strategy",
    }
)

# Annotations of KubeVirt.
DOMAIN: Final = "kubevirt.io/domain"
HEARTBEAT: Final = "kubevirt.io/heartbeat"
VM_GENERATION: Final = "kubevirt.io/vm-generation"
PCI_TOPOLOGY: Final = "kubevirt.io/pci-topology-version"
# Of a VMI: its PCI devices have no ports before them. Some systems want that; nothing is plugged in by virtio then.
PCI_ON_ROOT: Final = "kubevirt.io/placePCIDevicesOnRootComplex"
# Of a VM's template, written when the VM is made: its guests start with room for CPUs and memory that come while they
# run. A VM without it has the machine that it had before there was room. kvedge's own.
GROWTH_ROOM: Final = "kvedge.io/growth-room"
# Of a VM's template, written by admission: what machine its guests have. It stays the same with the VM's copies.
MACHINE_MARKS: Final = (PCI_TOPOLOGY, GROWTH_ROOM)
# On a VM: the UID of a run, and the VM's generation at which nothing but such marks told it from what the run was made
# of. The controller's, written together with the marks.
MARKED_ALONE: Final = "kvedge.io/marked-alone"
# Of the KubeVirt object, whose API copies it to VMIs: an isolated emulator has two CPUs where its Pod would have an odd
# number of them. Kubelets with `full-pcpus-only` give whole cores alone.
EVEN_PARITY: Final = "alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity"
# A VMI's annotation: the config that Ignition (Fedora CoreOS, Flatcar) finds in the guest when it boots first.
IGNITION: Final = "kubevirt.io/ignitiondata"
KEEP_LAUNCHER: Final = "kubevirt.io/keep-launcher-alive-after-failure"
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
MEMORY_OVERHEAD: Final = "kubevirt.io/memory-overhead-bytes"
MIGRATION_TRANSPORT_UNIX: Final = "kubevirt.io/migrationTransportUnix"

# Finalizers of KubeVirt.
VMI_FINALIZER: Final = "kubevirt.io/foregroundDeleteVirtualMachine"
VM_FINALIZER: Final = "kubevirt.io/virtualMachineControllerFinalize"

# Readiness gate of a launcher Pod.
UNPAUSED_GATE: Final = "kubevirt.io/virtual-machine-unpaused"

# Ours.
SYSTEM_NAMESPACE: Final = "kvedge-system"
HANDLER_ADDRESS: Final = "kvedge.io/handler-address"
EMULATION: Final = "kvedge.io/emulation"
# On a Node: its devices that may go to guests, or could; see host_device_report.
HOST_DEVICES: Final = "kvedge.io/host-devices"
# On a Node: the version of its handler; and why that handler takes no VM.
VERSION: Final = "kvedge.io/version"
REFUSAL: Final = "kvedge.io/takes-no-vm"
# On a VMI: the version that its launcher runs, which stays while its node is upgraded.
LAUNCHER_VERSION: Final = "kvedge.io/launcher-version"
# A VMI's condition Synchronized: its launcher runs and does not answer, so that its Pod has to be ended.
LAUNCHER_SILENT: Final = "LauncherNotResponding"
# A condition: the guest waits for what another Pod would bring it.
MIGRATION_REQUIRED: Final = "MigrationRequired"
# A condition of VMs and nodes: alarms about it are raised. The controller's alarms write it, and nobody else.
ALARM: Final = "Alarm"
# On a launcher Pod: the MAC its NIC gets where the node agent makes it, so that no other Pod can take the guest's.
POD_MAC: Final = "kvedge.io/pod-mac"
# On a Pod, by whoever joins it to networks: "true" where its NICs are taken to others while it runs.
SWITCHES_NETWORKS: Final = "kvedge.io/switches-networks"
# On a VMI, by the controller: the networks that its NICs were taken to while it ran, by interface, as JSON; empty for
# one on its way there. Each change has the guest ask for its addresses anew.
SWITCHED_NETWORKS: Final = "kvedge.io/switched-networks"
# On a launcher Pod: when the controller made it, in milliseconds since 1970; the server keeps whole seconds.
MADE_UNIX_MS: Final = "kvedge.io/made-unix-ms"
OWNER_UID: Final = "kvedge.io/owner-uid"
TEMPLATE_HASH: Final = "kvedge.io/template-hash"
# On a VM's template: when it starts after the box has been booted, and how long the next ones wait for it.
AUTOSTART_ORDER: Final = "kvedge.io/autostart-order"
AUTOSTART_DELAY: Final = "kvedge.io/autostart-delay"
# On a VM: what its types were when it was kept. Only the controller writes it; it goes once the VM has its own copies.
KEPT_TYPES: Final = "kvedge.io/kept-instancetypes"
# Of a VMI: a move of its disks to devices that has come to nothing, and the version by which its handler knows it.
DISK_MOVE_ENDED: Final = "kvedge.io/disk-move-ended"
# On a VM's template: "true" has its guest start without hotplugged volumes that do not come.
START_WITHOUT_VOLUMES: Final = "kvedge.io/start-without-missing-volumes"
# On a VM's template: by what viewers reach its guest's screen. VNC is always there, SPICE comes beside it.
GRAPHICS: Final = "kvedge.io/graphics"
GRAPHICS_SPICE: Final = "spice"
GRAPHICS_VALUES: Final = ("vnc", GRAPHICS_SPICE)
# In seconds. A user who may make VMs can make all other VMs of the box wait for so long.
LONGEST_AUTOSTART_DELAY: Final = 600

# Device plugin resources: those that every node has, and their prefix.
DEVICES_PREFIX: Final = "devices.kubevirt.io/"
DEVICE_KVM: Final = "devices.kubevirt.io/kvm"
DEVICE_TUN: Final = "devices.kubevirt.io/tun"
DEVICE_VHOST_NET: Final = "devices.kubevirt.io/vhost-net"
DEVICE_VHOST_VSOCK: Final = "devices.kubevirt.io/vhost-vsock"
# What encrypts a guest's memory: AMD's device, and one of the keys that an Intel CPU has for guests.
DEVICE_SEV: Final = "devices.kubevirt.io/sev"
DEVICE_TDX: Final = "devices.kubevirt.io/tdx"
# The socket of the node's qemu-pr-helper, and where a launcher has its directory; KubeVirt's names.
DEVICE_PR_HELPER: Final = "devices.kubevirt.io/pr-helper"
PR_HELPER_DIRECTORY: Final = "/var/run/kubevirt/daemons/pr"
PR_HELPER_SOCKET: Final = "pr-helper.sock"
HOST_NAME: Final = "kubernetes.io/hostname"
# Before a claim's UID in the label of launchers that reserve its LUN.
PR_CLAIM_PREFIX: Final = "pr.kubevirt.io/"

# Before an interface's name in the alias of a function of a NIC, as KubeVirt has it.
SRIOV_PREFIX: Final = "sriov-"

# The user that a launcher and its QEMU run as, inside the Pod and on the host's files (KubeVirt's qemu user).
LAUNCHER_UID: Final = 107
LAUNCHER_GID: Final = 107

# Where things are inside a launcher Pod.
SOCKETS_DIRECTORY: Final = "/var/run/kubevirt/sockets"
LAUNCHER_SOCKET: Final = "launcher-sock"
PRIVATE_DIRECTORY: Final = "/var/run/kubevirt-private"
# In it: a directory for each claim with a file system.
CLAIM_DIRECTORY: Final = f"{PRIVATE_DIRECTORY}/vmi-disks"
# Where the launcher and the containers of shared directories meet.
SHARES_DIRECTORY: Final = "/var/run/kubevirt/virtiofs-containers"
EPHEMERAL_DISKS_DIRECTORY: Final = "/var/run/kubevirt-ephemeral-disks"
LIBVIRT_RUNTIME_DIRECTORY: Final = "/var/run/libvirt"
IMAGE_VOLUMES_DIRECTORY: Final = "/var/run/kubevirt-image-volume"
CAPABILITIES_DIRECTORY: Final = "/var/run/kubevirt-capabilities"
# Below the seed of capabilities: what the node puts first on the PATH of a launcher's container.
TOOLS_FOLDER: Final = "bin"
# The one that freezes the guest for a backup, named as KubeVirt's.
FREEZER_TOOL: Final = "virt-freezer"
# What Go's strconv takes for true.
GO_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
# On a VM, a VMI or the KubeVirt object: "true" keeps backups of launchers' Pods from freezing guests.
SKIP_BACKUP_HOOKS: Final = "kubevirt.io/skip-backup-hooks"
# In the environment of a launcher's container: the argv that starts its kvedge, as a shell has it.
PROGRAM_VARIABLE: Final = "LAUNCHER_PROGRAM"
SERIAL_SOCKET: Final = "virt-serial0"
AGENT_SOCKET: Final = "virt-agent"
VNC_SOCKET: Final = "virt-vnc"
METRICS_SOCKET: Final = "virt-metrics"
# Followed by the slot's number, from 0.
USB_SOCKET: Final = "virt-usbredir-"
# USB devices of clients that a guest may have at once, as in KubeVirt.
USB_SLOTS: Final = 4
SPICE_SOCKET: Final = "virt-spice"

# The module by which QEMU speaks SPICE: beside QEMU's others, at a place that each distribution has of its own.
SPICE_PACKAGE: Final = "QEMU's SPICE modules (Debian 13: qemu-system-modules-spice)"
SPICE_MODULE: Final = "qemu/ui-spice-core.so"
LIBRARY_DIRECTORIES: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")

# Where distributions have UEFI firmware on a node: Debian and Ubuntu, Fedora, Debian on ARM.
FIRMWARE_DIRECTORIES: Final = ("/usr/share/OVMF", "/usr/share/edk2/ovmf", "/usr/share/AAVMF")

COMPUTE_CONTAINER: Final = "compute"
# The image of launcher Pods: kvedge writes it itself, no registry serves it. Its tag counts the layouts of what is in
# it, not kvedge's versions, so that a controller of one version can name it for a node of another.
LAUNCHER_IMAGE: Final = "kvedge.local/launcher:v1"
# The image of the Pods that `virtctl guestfs` makes, as empty: a node with this label gives them its own libguestfs.
GUESTFS_IMAGE: Final = "kvedge.local/guestfs:v1"
GUESTFS_LABEL: Final = "kvedge.io/guestfs"
# In it: what virtctl starts, and with this argument the shell that it attaches to.
GUESTFS_ENTRY: Final = "/entrypoint.sh"
GUESTFS_SHELL: Final = "shell"


def domain_name(namespace: str, name: str) -> str:
    """libvirt's name of a VMI's domain."""
    return f"{namespace}_{name}"

"""What `kubectl explain` says of fields: a text for each one that is no object with a docstring of its own.

Read by schema_manifest.py. Touches nothing. Keys are the type's name, then the field as it is written in a manifest; a
test fails when a field has no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.resources.manifests.backup_kinds import BACKUP_DESCRIPTIONS
from kvedge.resources.manifests.clone_kind import CLONE_DESCRIPTIONS
from kvedge.resources.manifests.data_volume_descriptions import DATA_VOLUME_DESCRIPTIONS
from kvedge.resources.manifests.export_kinds import EXPORT_DESCRIPTIONS
from kvedge.resources.manifests.instancetype_kinds import INSTANCETYPE_DESCRIPTIONS
from kvedge.resources.manifests.kubevirt_descriptions import kubevirt_descriptions
from kvedge.resources.manifests.migration_kinds import MIGRATION_DESCRIPTIONS
from kvedge.resources.manifests.preset_kind import PRESET_DESCRIPTIONS
from kvedge.resources.manifests.replica_kinds import REPLICA_DESCRIPTIONS
from kvedge.resources.manifests.schedule_kind import SCHEDULE_DESCRIPTIONS
from kvedge.resources.manifests.snapshot_kinds import SNAPSHOT_DESCRIPTIONS
from kvedge.resources.manifests.status_descriptions import STATUS_DESCRIPTIONS
from kvedge.resources.manifests.vm_backup_kinds import VM_BACKUP_DESCRIPTIONS

_LATER: Final = "Not supported by this release: refused when it is set."
_PULL_POLICY: Final = "Always, IfNotPresent or Never; Always for the tag latest or none, else IfNotPresent."
_PCI: Final = "The PCI address in the guest, such as 0000:81:01.0; only with bus virtio."
_OPTIONAL: Final = "Whether the VM starts without it."
_LABEL: Final = "The label of the disk's file system."
_ENABLED: Final = {"enabled": "Whether it is on; true when the object is there."}

_VM: Final[Mapping[str, Mapping[str, str]]] = {
    "VirtualMachineSpec": {
        "running": "Deprecated: true is runStrategy Always, false is Halted. Excludes runStrategy.",
        "runStrategy": "When it runs: Always, RerunOnFailure (again after a crash), Manual (by start and stop), Halted "
        "or Once.",
        "dataVolumeTemplates": "DataVolumes that are made with the VM and go with it; volumes name them.",
        "updateVolumesStrategy": "How volumes of a VM that runs get other claims: Replacement, at the next start; "
        "Migration, with the guest's data, when it moves to another node.",
    },
    "VirtualMachineInstanceSpec": {
        "volumes": "Where the data of disks is; each one is attached, by the disk of its name or by one that is made.",
        "networks": "The networks that interfaces join, by name.",
        "accessCredentials": "SSH keys of Secrets that cloud-init brings into the guest: sshPublicKey by noCloud or "
        "configDrive.",
        "nodeSelector": "Labels that a node must have.",
        "affinity": "Which nodes and neighbours are wanted or avoided, as for a Pod.",
        "tolerations": "Taints of nodes that do not matter, as for a Pod.",
        "topologySpreadConstraints": "How VMs are spread over nodes, as for a Pod.",
        "priorityClassName": "The priority of its launcher Pod.",
        "schedulerName": "Which scheduler finds its node.",
        "serviceAccountName": _LATER,
        "evictionStrategy": "What a drain of its node does: None shuts the guest down; LiveMigrate moves it, with its "
        "local disks if need be, and holds the drain while it cannot move; LiveMigrateIfPossible moves it, or shuts it "
        "down; External marks it for another controller, and holds the drain.",
        "startStrategy": "Paused: the guest's CPUs stand still until somebody unpauses it.",
        "terminationGracePeriodSeconds": "Seconds the guest may take to shut down before it is killed; 30 by default.",
        "hostname": "The guest's host name; made from the object's name unless given.",
        "subdomain": "The domain below which the host name stands.",
        "dnsPolicy": "Where the guest's DNS servers come from: ClusterFirst, ClusterFirstWithHostNet, Default or None.",
        "dnsConfig": "DNS servers and search domains, required with dnsPolicy None.",
        "architecture": "amd64 or arm64; that of the cluster unless given.",
        "livenessProbe": "Whether the guest lives: one that does not is ended; its run strategy decides what follows.",
        "readinessProbe": "Whether the guest serves: until it does, its VMI is not Ready and no Service sends to it.",
        "resourceClaims": "Claims on devices of the cluster (DRA), of which its devices and networks may be.",
        "utilityVolumes": "Claims that come to the launcher and are no disks of the guest; set by kvedge alone.",
    },
}

_DOMAIN: Final[Mapping[str, Mapping[str, str]]] = {
    "DomainSpec": {
        "ioThreadsPolicy": "How disks share IO threads: shared, auto, or supplementalPool.",
        "launchSecurity": "How the guest's memory is encrypted; needs UEFI and a node that can do it.",
        "rebootPolicy": "What a reboot from inside does: Reboot stays in the same QEMU, Terminate ends the run.",
    },
    "Cpu": {
        "cores": "Cores per socket.",
        "sockets": "Sockets.",
        "threads": "Threads per core; 1 on arm64.",
        "maxSockets": "How many sockets the guest may get while it runs; amd64 only.",
        "model": "host-model, host-passthrough, or a model of QEMU's; host-model unless given.",
        "features": "Flags that are added to or taken from the model.",
        "dedicatedCpuPlacement": "Whether each vCPU has a CPU of the node for itself.",
        "isolateEmulatorThread": "Whether the emulator has one, too.",
        "realtime": "Real-time scheduling of vCPUs; needs dedicatedCpuPlacement and numa.",
    },
    "CpuFeature": {
        "name": "The flag, such as vmx.",
        "policy": "force, require, optional, disable or forbid; require unless given.",
    },
    "Realtime": {"mask": "The vCPUs that are meant, such as 0-3,^1; all unless given."},
    "Numa": {"guestMappingPassthrough": "Gives the guest the cells of its CPUs; needs huge pages."},
    "Memory": {
        "guest": "How much the guest sees, such as 512Mi; the request of memory unless given.",
        "maxGuest": "How much RAM the guest may get while it runs; amd64 only, from 1Gi on.",
        "hugepages": "Memory of huge pages, which the node has to have set aside.",
        "reservedOverhead": "Memory that QEMU needs beyond what is reckoned; feature gate ReservedOverheadMemlock.",
    },
    "ReservedOverhead": {
        "addedOverhead": "How much is added to the overhead, such as 100Mi.",
        "memLock": "Required or NotRequired: whether QEMU may lock all its memory.",
    },
    "Hugepages": {"pageSize": "2Mi or 1Gi."},
    "Resources": {
        "requests": "What the scheduler sets aside: cpu and memory.",
        "limits": "What the Pod may use at most: cpu and memory.",
        "overcommitGuestOverhead": "Whether what QEMU itself needs is left out of the request.",
    },
    "Machine": {"type": "q35, a version of it such as pc-q35-7.2, or virt on arm64."},
    "LaunchSecurity": {
        "sev": "AMD SEV, and SEV-ES by its policy.",
        "snp": "AMD SEV-SNP.",
        "tdx": "Intel TDX.",
    },
    "Sev": {
        "policy": "What the guest asks of its host beside that nobody debugs it.",
        "attestation": "Has the guest wait until its owner has attested the host; needs startStrategy Paused.",
        "session": "The owner's session, base64; sev/setupsession writes it.",
        "dhCert": "The owner's Diffie-Hellman key, base64; sev/setupsession writes it.",
    },
    "SevPolicy": {"encryptedState": "Whether the guest's registers are encrypted, too: SEV-ES."},
    "Firmware": {
        "uuid": "The system's UUID in SMBIOS; derived from the VM unless given, and the same after each restart.",
        "serial": "The system's serial number in SMBIOS.",
        "acpi": "ACPI tables with licences of Windows.",
    },
    "AcpiTables": {
        "slicNameRef": "The volume whose Secret has the table SLIC, as the key slic.bin.",
        "msdmNameRef": "The volume whose Secret has the table MSDM, as the key msdm.bin; needs libvirt 11.2.",
    },
    "Bios": {"useSerial": "Whether the BIOS shows itself on the serial console."},
    "Efi": {
        "secureBoot": "Whether only signed loaders are started; true unless given, and needs features.smm.",
        "persistent": _LATER,
    },
    "KernelBoot": {"kernelArgs": "The kernel's command line."},
    "KernelBootContainer": {
        "image": "The image.",
        "imagePullSecret": "The Secret with the registry's credentials.",
        "imagePullPolicy": _PULL_POLICY,
        "kernelPath": "The kernel's absolute path in the image.",
        "initrdPath": "The initrd's absolute path in the image.",
    },
    "Clock": {"timezone": "A time zone such as Europe/Berlin; excludes utc."},
    "ClockUtc": {"offsetSeconds": "How far the clock is from UTC when the guest starts."},
    "Timer": {
        "present": "Whether the guest has it; true when the object is there.",
        "tickPolicy": "What becomes of ticks that the guest missed: delay, catchup or discard, as the timer can.",
        "track": "What the rtc follows: guest or wall.",
        "frequency": _LATER,
    },
    "FeatureState": _ENABLED,
    "FeatureApic": {**_ENABLED, "endOfInterrupt": "Whether the end of an interrupt is told the paravirtual way."},
    "FeatureKvm": {"hidden": "Whether the guest cannot see that it runs on KVM."},
    "FeatureSpinlocks": {**_ENABLED, "spinlocks": "Tries before the guest gives its turn away; 4096 unless given."},
    "FeatureVendorId": {**_ENABLED, "vendorid": "1 to 12 characters."},
    "SyNicTimer": _ENABLED,
    "TlbFlush": _ENABLED,
    "Chassis": {
        "manufacturer": "Who made it.",
        "version": "Its version.",
        "serial": "Its serial number.",
        "asset": "Its asset tag.",
        "sku": "Its stock keeping unit.",
    },
    "IoThreads": {"supplementalPoolThreadCount": "How many threads the pool has."},
}

_HOST_DEVICE: Final[Mapping[str, str]] = {
    "name": "A name of its own.",
    "deviceName": "The resource of the device plugin that has it: one of the KubeVirt object's permittedHostDevices.",
    "claimName": "In place of deviceName: the one of resourceClaims whose device it is.",
    "requestName": "The request of that claim.",
    "tag": _LATER,
}
_DEVICES: Final[Mapping[str, Mapping[str, str]]] = {
    "Devices": {
        "disks": "Disks, CD-ROM drives and LUNs; each is called like its volume.",
        "interfaces": "NICs; each is called like its network.",
        "inputs": "Tablets, for a mouse pointer that is where it is shown.",
        "panicDevices": "Devices by which a guest tells that its kernel has crashed.",
        "tpm": "A TPM 2.0, played by swtpm.",
        "gpus": "GPUs of the node, or parts of them.",
        "hostDevices": "Other devices of the node: PCI functions, USB devices. They need the feature gate HostDevices.",
        "filesystems": "Directories of volumes that the guest mounts by virtiofs; each is called like its volume.",
        "clientPassthrough": "Four slots for USB devices of clients, which `virtctl usbredir` plugs in.",
        "downwardMetrics": "A serial port by which the guest reads metrics of its host, with the gate DownwardMetrics.",
        "autoattachPodInterface": "Whether a VM without networks gets one; true unless given.",
        "autoattachGraphicsDevice": "Whether there is a display; true unless given.",
        "autoattachSerialConsole": "Whether there is a serial console; true unless given.",
        "autoattachMemBalloon": "Whether there is a memory balloon; true unless given.",
        "autoattachInputDevice": "Whether a tablet is added when there is none.",
        "autoattachVSOCK": "Gives the guest a vsock, by which users reach its ports; false unless given.",
        "logSerialConsole": "Whether the serial console is also written to a file.",
        "blockMultiQueue": "Whether virtio disks have a queue for each CPU.",
        "networkInterfaceMultiqueue": "Whether virtio NICs have a queue for each CPU.",
        "useVirtioTransitional": "Whether virtio devices also speak the old protocol, for old guests.",
        "disableHotplug": "Whether the SCSI controller for hotplugged disks is left out.",
    },
    "Filesystem": {
        "name": "The name of its volume, and the tag by which the guest mounts it.",
        "virtiofs": "The one kind that there is.",
    },
    "Disk": {
        "name": "The name of its volume.",
        "bootOrder": "Its place in the boot order, from 1, once among disks and interfaces.",
        "serial": "The serial number that the guest sees.",
        "cache": "none, writethrough or writeback; none where the file system can do it.",
        "io": "native or threads; chosen by the kind of volume unless given.",
        "dedicatedIOThread": "Whether it has an IO thread of its own; only with bus virtio.",
        "shareable": "Whether several VMs may write to it; there is no cache then.",
        "errorPolicy": "What an IO error does: stop (the guest), ignore, report (to the guest) or enospace.",
        "tag": "A word by which the guest finds the disk's serial in its config drive (meta_data.json, devices).",
        "changedBlockTracking": "Without effect: the KubeVirt object selects VMs for backups of changed blocks.",
    },
    "Gpu": _HOST_DEVICE,
    "HostDevice": _HOST_DEVICE,
    "VgpuDisplay": {"enabled": "Whether the guest's screen is also this GPU's; true unless given."},
    "RamFb": {"enabled": "Whether it shows what firmware and boot loader draw; true unless given."},
    "DiskTarget": {
        "bus": "virtio, sata, scsi or usb; sata unless given, virtio on arm64.",
        "readonly": "Whether the guest cannot write to it.",
        "pciAddress": _PCI,
    },
    "CdromTarget": {
        "bus": "sata, scsi or usb.",
        "readonly": "true; false is accepted, and the guest does not write to it either.",
        "tray": "open or closed; closed unless given.",
    },
    "LunTarget": {
        "bus": "scsi or virtio.",
        "readonly": "Whether the guest cannot write to it.",
        "reservation": "Lets the guest reserve it (SCSI-3), with persistentReservationConfiguration.enabled.",
    },
    "CustomBlockSize": {
        "logical": "What the guest addresses, in bytes; 512 to 2097152, a power of 2.",
        "physical": "What is written at once, in bytes; not less than logical.",
        "discardGranularity": "What can be given back at once, in bytes; a multiple of logical.",
    },
    "BlockSize": {"matchVolume": _LATER},
    "MatchVolume": {"enabled": "Whether to; true when the object is there."},
    "Interface": {
        "name": "The name of its network.",
        "bridge": "The guest has the Pod's address, given to it by DHCP.",
        "masquerade": "The guest is behind the Pod's address, with one of its own that is the same in each Pod.",
        "sriov": "The guest has a virtual function of a NIC of the node: of the resource that the network names.",
        "slirp": "Discontinued.",
        "macvtap": "Discontinued.",
        "passt": "Discontinued.",
        "passtBinding": "The guest has the Pod's address, and passt speaks for it, without a bridge in the Pod; "
        "feature gate PasstBinding, which is on.",
        "binding": "A network binding plugin, which the KubeVirt object configures.",
        "model": "virtio, e1000, e1000e, igb, ne2k_pci, pcnet or rtl8139; virtio unless given.",
        "macAddress": "Its MAC; derived from the VM unless given, and the same after each restart.",
        "ports": "With masquerade, the ports that reach the guest: all when none is listed, as with bridge always.",
        "portRanges": "With masquerade, ranges of ports that reach the guest, in place of ports; feature gate "
        "PortRangesSpec.",
        "bootOrder": "Its place in the boot order, from 1, once among disks and interfaces.",
        "pciAddress": "The PCI address in the guest, such as 0000:81:01.0.",
        "acpiIndex": "The number by which Linux names it: 1 is eno1.",
        "tag": "A word by which the guest finds the interface's MAC in its config drive (meta_data.json, devices).",
        "state": "up or down: whether its cable is plugged.",
    },
    "Port": {
        "name": "A name, for reference.",
        "port": "1 to 65535.",
        "protocol": "TCP or UDP; TCP unless given.",
    },
    "PortRange": {
        "start": "The first port: 1 to 65535.",
        "end": "The last port, not before the first.",
        "protocol": "TCP or UDP.",
    },
    "DhcpOptions": {
        "bootFileName": "Option 67: the file that a network boot loads.",
        "tftpServerName": "Option 66: where a network boot loads it from.",
        "ntpServers": "Option 42: IPv4 addresses of time servers.",
        "privateOptions": "Options 224 to 254.",
    },
    "PrivateOption": {"option": "224 to 254.", "value": "Its text."},
    "PluginBinding": {"name": "Its name below configuration.network.binding."},
    "Input": {
        "name": "A name, for reference.",
        "bus": "virtio or usb; usb unless given.",
        "type": "tablet.",
    },
    "Watchdog": {
        "name": "A name, for reference.",
        "i6300esb": "The watchdog of amd64.",
        "diag288": "The watchdog of s390x, which this release does not run.",
    },
    "WatchdogModel": {"action": "What happens when the guest does not feed it: poweroff, reset or shutdown."},
    "VideoDevice": {"type": "vga, bochs, virtio, cirrus or ramfb; by the firmware unless given."},
    "Sound": {"name": "A name, for reference.", "model": "ich9 or ac97; ich9 unless given."},
    "TpmDevice": {
        "enabled": "false for none; true unless given.",
        "persistent": "Whether what is in it lasts from run to run.",
    },
    "PanicDevice": {"model": "isa, hyperv or pvpanic."},
}

_STORAGE: Final[Mapping[str, Mapping[str, str]]] = {
    "UtilityVolume": {
        "name": "A DNS label that no volume has.",
        "claimName": "The claim.",
        "readOnly": "Whether it is only read.",
        "type": "What it is for: Backup, a copy of a disk; or MemoryDump.",
    },
    "Volume": {
        "name": "A DNS label; the name of its disk.",
        "cloudInitNoCloud": "Data for cloud-init, as a NoCloud disk.",
        "cloudInitConfigDrive": "Data for cloud-init, as an OpenStack config drive.",
        "memoryDump": "Where `virtctl memory-dump get` has the guest's memory written; no disk.",
        "downwardMetrics": "A disk from which the guest reads metrics of its host, with the gate DownwardMetrics.",
        **dict.fromkeys(
            (
                "persistentVolumeClaim",
                "dataVolume",
                "hostDisk",
                "ephemeral",
                "configMap",
                "secret",
                "downwardAPI",
                "serviceAccount",
                "sysprep",
            ),
            _LATER,
        ),
        "containerPath": "A directory that others mount into the launcher, for a filesystem; see ContainerPathVolumes.",
    },
    "ContainerDisk": {
        "image": "The image: from the node's own store, or a registry's.",
        "imagePullSecret": "The Secret with the registry's credentials.",
        "path": "The disk's absolute path in the image; the one file in /disk unless given.",
        "imagePullPolicy": _PULL_POLICY,
    },
    "EmptyDisk": {"capacity": "Its size, such as 2Gi."},
    "CloudInit": {
        "secretRef": "The Secret whose key userdata holds the user data.",
        "userData": "User data as text, at most 2048 bytes.",
        "userDataBase64": "User data in base64, at most 2048 bytes.",
        "networkDataSecretRef": "The Secret whose key networkdata holds the network data.",
        "networkData": "Network data as text, at most 2048 bytes.",
        "networkDataBase64": "Network data in base64, at most 2048 bytes.",
    },
    "PersistentVolumeClaimSource": {
        "claimName": "The claim's name.",
        "readOnly": "Whether it is only read.",
        "hotpluggable": "Whether it may be taken away while the guest runs.",
    },
    "MemoryDumpSource": {
        "claimName": "The claim's name.",
        "readOnly": "Of no use: a dump is written.",
        "hotpluggable": "Of no use: it comes and goes while the guest runs.",
    },
    "DataVolumeSource": {
        "name": "The DataVolume's name.",
        "hotpluggable": "Whether it may be taken away while the guest runs.",
    },
    "EphemeralClaim": {
        "claimName": "The claim's name.",
        "readOnly": "Whether the Pod mounts it read-only.",
    },
    "ConfigMapSource": {"name": "The ConfigMap's name.", "optional": _OPTIONAL, "volumeLabel": _LABEL},
    "SecretSource": {"secretName": "The Secret's name.", "optional": _OPTIONAL, "volumeLabel": _LABEL},
    "ServiceAccountSource": {"serviceAccountName": "The service account's name."},
    "DownwardApiSource": {"fields": "Files with fields of the launcher Pod, as a Pod has them.", "volumeLabel": _LABEL},
    "ContainerPath": {
        "path": "An absolute path at which a webhook mounts a volume into the launcher's container.",
        "readOnly": "Always true: the guest only reads it.",
    },
    "HostDisk": {
        "path": "Its absolute path on the node.",
        "type": "Disk or DiskOrCreate.",
        "capacity": "Its size when it is made.",
        "shared": "Whether several VMs may use it.",
    },
    "Network": {
        "name": "The name of its interface.",
        "multus": "A network besides the Pod's own, by its NetworkAttachmentDefinition.",
        "resourceClaim": "A device of a claim on the cluster's devices (DRA); it needs the gate NetworkDevicesWithDRA.",
    },
    "ClaimRequest": {
        "claimName": "The one of resourceClaims whose device it is.",
        "requestName": "The request of that claim.",
    },
    "PodResourceClaim": {
        "name": "What it is called here.",
        "resourceClaimName": "A ResourceClaim of the VM's namespace.",
        "resourceClaimTemplateName": "A ResourceClaimTemplate of it: each run has a claim made by it.",
    },
    "PodNetwork": {
        "vmNetworkCIDR": "With masquerade: the guest's network. Its first address is the router's, its second the "
        "guest's; 10.0.2.0/24 unless given.",
        "vmIPv6NetworkCIDR": "The same for IPv6, where the Pod has it; fd10:0:2::/120 unless given.",
    },
    "MultusNetwork": {
        "networkName": "Its name, with its namespace if it is another.",
        "default": "Whether it is the Pod's.",
    },
}

_PORT: Final = "Its number, or the name that an interface's ports give it."
_HOST: Final = "Who is asked instead of the guest."

_PROBES: Final[Mapping[str, Mapping[str, str]]] = {
    "Probe": {
        "initialDelaySeconds": "How long it waits after the start of the launcher and some seconds for that.",
        "timeoutSeconds": "How long an answer may take; 1 unless given.",
        "periodSeconds": "How often it asks; 10 unless given.",
        "successThreshold": "So many answers in a row count as a yes; 1 unless given, and for liveness.",
        "failureThreshold": "So many failures in a row count as a no; 3 unless given.",
    },
    "ExecAction": {"command": "The program and its arguments; no shell is between."},
    "HttpGetAction": {
        "port": _PORT,
        "path": "The path; / unless given.",
        "host": _HOST,
        "scheme": "HTTP or HTTPS, whose certificate is not looked at; HTTP unless given.",
        "httpHeaders": "Headers of the request.",
    },
    "HttpHeader": {"name": "Its name.", "value": "Its value."},
    "TcpSocketAction": {"port": _PORT, "host": _HOST},
}

DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    **_VM,
    **_DOMAIN,
    **_DEVICES,
    **_STORAGE,
    **_PROBES,
    **kubevirt_descriptions(),
    **STATUS_DESCRIPTIONS,
    **DATA_VOLUME_DESCRIPTIONS,
    **REPLICA_DESCRIPTIONS,
    **MIGRATION_DESCRIPTIONS,
    **SNAPSHOT_DESCRIPTIONS,
    **EXPORT_DESCRIPTIONS,
    **CLONE_DESCRIPTIONS,
    **BACKUP_DESCRIPTIONS,
    **VM_BACKUP_DESCRIPTIONS,
    **SCHEDULE_DESCRIPTIONS,
    **PRESET_DESCRIPTIONS,
    **INSTANCETYPE_DESCRIPTIONS,
}

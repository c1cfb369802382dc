"""VMIs that are wrong at one place: disks, volumes, interfaces and networks.

What is changed in a small valid VMI (path below spec, value), the field that is named, and words of the message.
"""

from __future__ import annotations

import base64
from typing import Any

Wrong = dict[str, tuple[dict[str, Any], str, str]]
DISK = "domain.devices.disks[0]"
NIC = "domain.devices.interfaces[0]"

WRONG_DISKS: Wrong = {
    "disk without volume": (
        {f"{DISK}.name": "other"},
        "spec.domain.devices.disks[0].name",
        "spec.domain.devices.disks[0].Name 'other' not found.",
    ),
    "two disks of one name": (
        {"domain.devices.disks[1]": {"name": "root"}},
        "spec.domain.devices.disks[1].name",
        "spec.domain.devices.disks[0] and spec.domain.devices.disks[1] must not have the same Name.",
    ),
    "sata on arm64": (
        {"architecture": "arm64", f"{DISK}.disk.bus": "sata"},
        "spec.domain.devices.disks[0].disk.bus",
        "Arm64 not support this disk bus type, please use virtio or scsi",
    ),
    "a CD-ROM drive on USB on arm64": (
        {"architecture": "arm64", DISK: {"name": "root", "cdrom": {"bus": "usb"}}},
        "spec.domain.devices.disks[0].cdrom.bus",
        "Arm64 not support this disk bus type, please use virtio or scsi",
    ),
    "hotplug on sata": (
        {
            "volumes[0]": {"name": "root", "persistentVolumeClaim": {"claimName": "a", "hotpluggable": True}},
            f"{DISK}.disk.bus": "sata",
        },
        "spec.domain.devices.disks[0].disk.bus",
        "Hotplug configuration for disk [root] requires bus to be 'scsi' or 'virtio'. [sata] is not permitted.",
    ),
    "two targets": (
        {f"{DISK}.cdrom": {"bus": "sata"}},
        "spec.domain.devices.disks[0]",
        "can only have a single target type defined",
    ),
    "ide": ({f"{DISK}.disk.bus": "ide"}, "spec.domain.devices.disks[0].disk.bus", "IDE bus is not supported"),
    "unknown bus": (
        {f"{DISK}.disk.bus": "nvme"},
        "spec.domain.devices.disks[0].disk.bus",
        "is set with an unrecognized bus nvme, must be one of: [virtio scsi sata usb]",
    ),
    "virtio cd-rom": (
        {DISK: {"name": "root", "cdrom": {"bus": "virtio"}}},
        "spec.domain.devices.disks[0].cdrom.bus",
        "Bus type virtio is invalid for CD-ROM device",
    ),
    "read-only sata": (
        {f"{DISK}.disk": {"bus": "sata", "readonly": True}},
        "spec.domain.devices.disks[0].disk.bus",
        "sata hard-disks do not support read-only.",
    ),
    "io thread on sata": (
        {f"{DISK}.disk.bus": "sata", f"{DISK}.dedicatedIOThread": True},
        "spec.domain.devices.disks[0].disk.bus",
        "IOThreads are not supported for disks on a sata bus",
    ),
    "tray": (
        {DISK: {"name": "root", "cdrom": {"bus": "sata", "tray": "ajar"}}},
        "spec.domain.devices.disks[0].cdrom.tray",
        "has invalid value ajar",
    ),
    "cache": ({f"{DISK}.cache": "turbo"}, "spec.domain.devices.disks[0].cache", "has invalid value turbo"),
    "cache of a shared disk": (
        {f"{DISK}.cache": "writeback", f"{DISK}.shareable": True},
        "spec.domain.devices.disks[0].cache",
        "must be none, as the disk is shareable",
    ),
    "io mode": (
        {f"{DISK}.io": "magic"},
        "spec.domain.devices.disks[0].io",
        "Supported modes are: native, threads.",
    ),
    "native io with a cache": (
        {f"{DISK}.io": "native", f"{DISK}.cache": "writeback"},
        "spec.domain.devices.disks[0].io",
        "native needs cache none, and the disk has writeback",
    ),
    "error policy": (
        {f"{DISK}.errorPolicy": "cry"},
        "spec.domain.devices.disks[0].errorPolicy",
        'has invalid value "cry"',
    ),
    "disk serial": (
        {f"{DISK}.serial": "a b"},
        "spec.domain.devices.disks[0].serial",
        "must be made up of the following characters [A-Za-z0-9_.+-], if specified",
    ),
    "long disk serial": (
        {f"{DISK}.serial": "a" * 257},
        "spec.domain.devices.disks[0].serial",
        "must be less than or equal to 256 in length, if specified",
    ),
    "serial that virtio cuts": (
        {f"{DISK}.serial": "a" * 21},
        "spec.domain.devices.disks[0].serial",
        "has 21 characters, and bus virtio would cut it at 20; use a shorter one",
    ),
    "serial that scsi cuts": (
        {f"{DISK}.disk.bus": "scsi", f"{DISK}.serial": "a" * 37},
        "spec.domain.devices.disks[0].serial",
        "has 37 characters, and bus scsi would cut it at 36; use a shorter one",
    ),
    "lun of an image": (
        {DISK: {"name": "root", "lun": {"bus": "scsi"}}},
        "spec.domain.devices.disks[0].lun",
        "spec.domain.devices.disks[0].lun can only be mapped to a DataVolume or PersistentVolumeClaim volume.",
    ),
    "reservations that are not enabled": (
        {
            DISK: {"name": "root", "lun": {"bus": "scsi", "reservation": True}},
            "volumes[0]": {"name": "root", "persistentVolumeClaim": {"claimName": "lun"}},
        },
        "spec.domain.devices.disks[0].lun",
        "persistent reservation is not enabled in kubevirt config; set spec.configuration.persistentReservation",
    ),
    "block size of both kinds": (
        {f"{DISK}.blockSize": {"custom": {"logical": 512, "physical": 512}, "matchVolume": {"enabled": True}}},
        "spec.domain.devices.disks[0].blockSize",
        "has both custom and matchVolume; keep one of the two",
    ),
    "claim without a name": (
        {"volumes[0]": {"name": "root", "persistentVolumeClaim": {"claimName": ""}}},
        "spec.volumes[0].persistentVolumeClaim.claimName",
        "is a required field",
    ),
    "data volume without a name": (
        {"volumes[0]": {"name": "root", "dataVolume": {"name": ""}}},
        "spec.volumes[0].dataVolume.name",
        "DataVolume 'name' must be set",
    ),
    "one claim as two disks": (
        {
            "volumes[0]": {"name": "root", "persistentVolumeClaim": {"claimName": "data"}},
            "volumes[1]": {"name": "more", "dataVolume": {"name": "data"}},
            "domain.devices.disks[1]": {"name": "more", "disk": {"bus": "virtio"}},
        },
        "spec.volumes[1]",
        "spec.volumes[1] and spec.volumes[0] both use claim 'data'; remove one, or set shareable: true on both disks",
    ),
    "boot order zero": (
        {f"{DISK}.bootOrder": 0},
        "spec.domain.devices.disks[0].bootOrder",
        "must have a boot order > 0, if supplied",
    ),
    "boot order twice": (
        {f"{DISK}.bootOrder": 1, f"{NIC}.bootOrder": 1},
        "spec.domain.devices.interfaces[0].bootOrder",
        "Boot order for spec.domain.devices.interfaces[0].bootOrder already set for a different device.",
    ),
    "pci address on sata": (
        {f"{DISK}.disk": {"bus": "sata", "pciAddress": "0000:81:01.0"}},
        "spec.domain.devices.disks[0].disk.pciAddress",
        "disk root - setting a PCI address is only possible with bus type virtio.",
    ),
    "malformed pci address": (
        {f"{DISK}.disk.pciAddress": "81:01"},
        "spec.domain.devices.disks[0].disk.pciAddress",
        "disk spec.domain.devices.disks[0].name has malformed PCI address (81:01).",
    ),
    "small blocks": (
        {f"{DISK}.blockSize.custom": {"logical": 128, "physical": 512}},
        "spec.domain.devices.disks[0].blockSize.custom.logical",
        "Provided size of 128 is less than the supported minimum size of 512",
    ),
    "large blocks": (
        {f"{DISK}.blockSize.custom": {"logical": 512, "physical": 4194304}},
        "spec.domain.devices.disks[0].blockSize.custom.physical",
        "Provided size of 4194304 is greater than the supported maximum size of 2097152",
    ),
    "odd blocks": (
        {f"{DISK}.blockSize.custom": {"logical": 513, "physical": 1024}},
        "spec.domain.devices.disks[0].blockSize.custom.logical",
        "Provided size of 513 is not a power of 2",
    ),
    "logical above physical": (
        {f"{DISK}.blockSize.custom": {"logical": 4096, "physical": 512}},
        "spec.domain.devices.disks[0].blockSize.custom.logical",
        "must be the same or less than the physical size of 512",
    ),
    "volume with two sources": (
        {"volumes[0].emptyDisk": {"capacity": "1Gi"}},
        "spec.volumes[0]",
        "must have exactly one source type set",
    ),
    "volume without source": (
        {"volumes[0]": {"name": "root"}},
        "spec.volumes[0]",
        "must have exactly one source type set",
    ),
    "volume name": (
        {"volumes[0].name": "Root!", f"{DISK}.name": "Root!"},
        "spec.volumes[0].name",
        "must consist of lower case letters, digits and '-'",
    ),
    "two volumes of one name": (
        {"volumes[1]": {"name": "root", "emptyDisk": {"capacity": "1Gi"}}},
        "spec.volumes[1].name",
        "spec.volumes[0] and spec.volumes[1] must not have the same Name.",
    ),
    "container disk without image": (
        {"volumes[0].containerDisk.image": ""},
        "spec.volumes[0].containerDisk.image",
        "is a required field",
    ),
    "container disk path": (
        {"volumes[0].containerDisk.path": "disk.img"},
        "spec.volumes[0].containerDisk.path",
        "must be an absolute path to a file without relative components",
    ),
    "pull policy": (
        {"volumes[0].containerDisk.imagePullPolicy": "Sometimes"},
        "spec.volumes[0].containerDisk.imagePullPolicy",
        "has invalid value Sometimes",
    ),
    "empty disk without size": (
        {"volumes[0]": {"name": "root", "emptyDisk": {"capacity": "0"}}},
        "spec.volumes[0].emptyDisk.capacity",
        "must be greater than 0.",
    ),
    "cloud-init without data": (
        {"volumes[0]": {"name": "root", "cloudInitNoCloud": {}}},
        "spec.volumes[0].cloudInitNoCloud",
        "must have at least one userdatasource or one networkdatasource set.",
    ),
    "cloud-init with two user data": (
        {"volumes[0]": {"name": "root", "cloudInitNoCloud": {"userData": "a", "secretRef": {"name": "s"}}}},
        "spec.volumes[0].cloudInitNoCloud",
        "must have only one userdatasource set.",
    ),
    "cloud-init with two network data": (
        {
            "volumes[0]": {
                "name": "root",
                "cloudInitConfigDrive": {"networkData": "a", "networkDataSecretRef": {"name": "s"}},
            }
        },
        "spec.volumes[0].cloudInitConfigDrive",
        "must have only one networkdata source set.",
    ),
    "access credential of no kind": (
        {"accessCredentials": [{}]},
        "spec.accessCredentials[0]",
        "must have exactly one access credential type set",
    ),
    "SSH key without a Secret": (
        {"accessCredentials": [{"sshPublicKey": {"source": {}, "propagationMethod": {"qemuGuestAgent": {}}}}]},
        "spec.accessCredentials[0].sshPublicKey.source",
        "must have exactly one source set",
    ),
    "SSH key of a Secret whose name is no volume's": (
        {
            "accessCredentials": [
                {
                    "sshPublicKey": {
                        "source": {"secret": {"secretName": "keys.of.ann"}},
                        "propagationMethod": {"qemuGuestAgent": {}},
                    }
                }
            ]
        },
        "spec.accessCredentials[0].sshPublicKey.source.secret.secretName",
        "names a volume of the launcher Pod",
    ),
    "SSH key without a way": (
        {"accessCredentials": [{"sshPublicKey": {"source": {"secret": {"secretName": "s"}}}}]},
        "spec.accessCredentials[0].sshPublicKey.propagationMethod",
        "must have exactly one propagationMethod set",
    ),
    "SSH key that an agent brings to nobody": (
        {
            "accessCredentials": [
                {
                    "sshPublicKey": {
                        "source": {"secret": {"secretName": "s"}},
                        "propagationMethod": {"qemuGuestAgent": {"users": []}},
                    }
                }
            ]
        },
        "spec.accessCredentials[0].sshPublicKey.propagationMethod.qemuGuestAgent.users",
        "requires at least one user to be present in the users list",
    ),
    "SSH key of a user that no guest has": (
        {
            "accessCredentials": [
                {
                    "sshPublicKey": {
                        "source": {"secret": {"secretName": "s"}},
                        "propagationMethod": {"qemuGuestAgent": {"users": ["ann", "a\nb"]}},
                    }
                }
            ]
        },
        "spec.accessCredentials[0].sshPublicKey.propagationMethod.qemuGuestAgent.users",
        "must be names of users in the guest",
    ),
    "password by cloud-init": (
        {
            "accessCredentials": [
                {
                    "userPassword": {
                        "source": {"secret": {"secretName": "s"}},
                        "propagationMethod": {"noCloud": {}},
                    }
                }
            ]
        },
        "spec.accessCredentials[0].userPassword.propagationMethod",
        "must have exactly one propagationMethod set",
    ),
    "SSH key without the volume that brings it": (
        {
            "accessCredentials": [
                {
                    "sshPublicKey": {
                        "source": {"secret": {"secretName": "s"}},
                        "propagationMethod": {"noCloud": {}},
                    }
                }
            ]
        },
        "spec.accessCredentials[0].sshPublicKey.propagationMethod",
        "requires a noCloud volume to exist when the noCloud propagationMethod is in use.",
    ),
    "long user data": (
        {"volumes[0]": {"name": "root", "cloudInitNoCloud": {"userData": "a" * 2049}}},
        "spec.volumes[0].cloudInitNoCloud.userData",
        "userdata exceeds 2048 byte limit. Should use UserDataSecretRef for larger data.",
    ),
    "long encoded network data": (
        {
            "volumes[0]": {
                "name": "root",
                "cloudInitNoCloud": {"networkDataBase64": base64.b64encode(b"a" * 2049).decode()},
            }
        },
        "spec.volumes[0].cloudInitNoCloud.networkDataBase64",
        "networkdata exceeds 2048 byte limit. Should use NetworkDataSecretRef for larger data.",
    ),
    "user data that is no base64": (
        {"volumes[0]": {"name": "root", "cloudInitNoCloud": {"userDataBase64": "%%%"}}},
        "spec.volumes[0].cloudInitNoCloud.userDataBase64",
        "is not a valid base64 value.",
    ),
    "user data in letters that base64 cannot have": (
        {"volumes[0]": {"name": "root", "cloudInitNoCloud": {"userDataBase64": "Zür"}}},
        "spec.volumes[0].cloudInitNoCloud.userDataBase64",
        "is not a valid base64 value.",
    ),
    "secret without name": (
        {"volumes[0]": {"name": "root", "cloudInitNoCloud": {"secretRef": {}, "networkData": "a"}}},
        "spec.volumes[0].cloudInitNoCloud.secretRef.name",
        "is a required field",
    ),
    "interface without network": (
        {f"{NIC}.name": "other"},
        "spec.domain.devices.interfaces[0].name",
        "spec.domain.devices.interfaces[0].name 'other' not found.",
    ),
    "network without interface": ({"networks[0].name": "other"}, "spec.networks[0].name", "'other' not found."),
    "network without type": ({"networks[0]": {"name": "default"}}, "spec.networks[0]", "should have a network type"),
    "two networks of one name": (
        {"networks[1]": {"name": "default", "pod": {}}},
        "spec.networks[1].name",
        'Network with name "default" already exists, every network must have a unique name',
    ),
    "two pod networks": (
        {
            "networks[1]": {"name": "more", "pod": {}},
            "domain.devices.interfaces[1]": {"name": "more", "bridge": {}},
        },
        "spec.domain.devices.interfaces",
        "more than one interface is connected to a pod network in spec.domain.devices.interfaces",
    ),
    "interface without binding": (
        {NIC: {"name": "default"}},
        "spec.domain.devices.interfaces[0]",
        "logical default interface must have exactly one binding method or binding plugin",
    ),
    "slirp": (
        {NIC: {"name": "default", "slirp": {}}},
        "spec.domain.devices.interfaces[0].slirp",
        "Slirp network binding has been discontinued since v1.3",
    ),
    "masquerade on another network": (
        {
            NIC: {"name": "default", "masquerade": {}},
            "networks[0]": {"name": "default", "multus": {"networkName": "lan"}},
        },
        "spec.domain.devices.interfaces[0].name",
        "Masquerade interface only implemented with pod network",
    ),
    "guest network without room": (
        {NIC: {"name": "default", "masquerade": {}}, "networks[0].pod": {"vmNetworkCIDR": "10.9.0.0/31"}},
        "spec.networks[0].pod.vmNetworkCIDR",
        "VM CIDR subnet is too small, at least 2 host addresses are required: 10.9.0.0/31",
    ),
    "guest network that is none": (
        {NIC: {"name": "default", "masquerade": {}}, "networks[0].pod": {"vmNetworkCIDR": "somewhere"}},
        "spec.networks[0].pod.vmNetworkCIDR",
        "invalid CIDR address: somewhere",
    ),
    "guest network of the other version": (
        {NIC: {"name": "default", "masquerade": {}}, "networks[0].pod": {"vmIPv6NetworkCIDR": "10.9.0.0/24"}},
        "spec.networks[0].pod.vmIPv6NetworkCIDR",
        "invalid CIDR address: 10.9.0.0/24",
    ),
    "reserved mac": (
        {NIC: {"name": "default", "masquerade": {}, "macAddress": "02:00:00:00:00:00"}},
        "spec.domain.devices.interfaces[0].macAddress",
        "The requested MAC address is reserved for the in-pod bridge. Please choose another one.",
    ),
    "interface model": (
        {f"{NIC}.model": "ne9000"},
        "spec.domain.devices.interfaces[0].model",
        "interface spec.domain.devices.interfaces[0].name uses model ne9000 that is not supported.",
    ),
    "malformed mac": (
        {f"{NIC}.macAddress": "02:00"},
        "spec.domain.devices.interfaces[0].macAddress",
        "has malformed MAC address (02:00).",
    ),
    "long mac": (
        {f"{NIC}.macAddress": "02:00:00:00:00:00:00:01"},
        "spec.domain.devices.interfaces[0].macAddress",
        "has MAC address (02:00:00:00:00:00:00:01) that is too long.",
    ),
    "malformed pci address of an interface": (
        {f"{NIC}.pciAddress": "81"},
        "spec.domain.devices.interfaces[0].pciAddress",
        "interface spec.domain.devices.interfaces[0].name has malformed PCI address (81).",
    ),
    "mac of the bridge": (
        {f"{NIC}.macAddress": "02-00-00-00-00-00"},
        "spec.domain.devices.interfaces[0].macAddress",
        "The requested MAC address is reserved for the in-pod bridge. Please choose another one.",
    ),
    "multicast mac": (
        {f"{NIC}.macAddress": "03:00:00:00:00:01"},
        "spec.domain.devices.interfaces[0].macAddress",
        "has a multicast MAC address",
    ),
    "interface name": (
        {f"{NIC}.name": "a b", "networks[0].name": "a b"},
        "spec.domain.devices.interfaces[0].name",
        "Network interface name can only contain alphabetical characters",
    ),
    "interface state": (
        {f"{NIC}.state": "sideways"},
        "spec.domain.devices.interfaces[0].state",
        "logical default interface state value is unsupported: sideways",
    ),
    "port zero": (
        {f"{NIC}.ports": [{"port": 0}]},
        "spec.domain.devices.interfaces[0].ports[0]",
        "Port field is mandatory.",
    ),
    "port out of range": (
        {f"{NIC}.ports": [{"port": 70000}]},
        "spec.domain.devices.interfaces[0].ports[0]",
        "Port field must be in range 0 < x < 65536.",
    ),
    "port protocol": (
        {f"{NIC}.ports": [{"port": 80, "protocol": "SCTP"}]},
        "spec.domain.devices.interfaces[0].ports[0].protocol",
        "Unknown protocol, only TCP or UDP allowed",
    ),
    "two ports of one name": (
        {f"{NIC}.ports": [{"port": 80, "name": "web"}, {"port": 81, "name": "web"}]},
        "spec.domain.devices.interfaces[0].ports[1].name",
        "Duplicate name of the port: web",
    ),
    "port name": (
        {f"{NIC}.ports": [{"port": 80, "name": "Web!"}]},
        "spec.domain.devices.interfaces[0].ports[0].name",
        "Invalid name of the port: Web!",
    ),
    "ntp server": (
        {f"{NIC}.dhcpOptions.ntpServers": ["time.example"]},
        "spec.domain.devices.interfaces[0].dhcpOptions.ntpServers",
        "NTP servers must be a list of valid IPv4 addresses.",
    ),
    "dhcp option out of range": (
        {f"{NIC}.dhcpOptions.privateOptions": [{"option": 255, "value": "x"}]},
        "spec.domain.devices.interfaces[0].dhcpOptions",
        "provided DHCPPrivateOptions are out of range, must be in range 224 to 254",
    ),
    "dhcp option twice": (
        {f"{NIC}.dhcpOptions.privateOptions": [{"option": 240, "value": "x"}, {"option": 240, "value": "y"}]},
        "spec.domain.devices.interfaces[0].dhcpOptions",
        "Found Duplicates: you have provided duplicate DHCPPrivateOptions",
    ),
}

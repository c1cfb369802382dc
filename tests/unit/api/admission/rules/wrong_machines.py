"""VMIs that are wrong at one place: CPU, memory, firmware, small devices, the run itself.

What is changed in a small valid VMI (path below spec, value), the field that is named, and words of the message.
"""

from __future__ import annotations

from typing import Any

# A table of a licence that is right.
LICENCE: dict[str, Any] = {
    "domain.firmware.acpi": {"slicNameRef": "licence"},
    "volumes[1]": {"name": "licence", "secret": {"secretName": "s"}},
}

Wrong = dict[str, tuple[dict[str, Any], str, str]]

WRONG_MACHINES: Wrong = {
    "more sockets than there may be": (
        {"domain.cpu": {"sockets": 3, "maxSockets": 2}},
        "spec.domain.cpu.sockets",
        "Number of sockets in CPU topology is greater than the maximum sockets allowed",
    ),
    "room for more than a machine has": (
        {"domain.cpu": {"sockets": 1, "cores": 4, "maxSockets": 200}},
        "spec.domain.cpu.maxSockets",
        "800 vCPUs are more than the 512 that a VM can have",
    ),
    "negative room": (
        {"domain.cpu": {"maxSockets": -1}},
        "spec.domain.cpu.maxSockets",
        "must be greater than or equal to 0",
    ),
    "room on arm64": (
        {"architecture": "arm64", "domain.cpu": {"sockets": 1, "maxSockets": 2}},
        "spec.domain.cpu.maxSockets",
        "CPUs cannot be plugged into guests of arm64",
    ),
    "more memory than it may get": (
        {"domain.memory": {"guest": "3Gi", "maxGuest": "2Gi"}},
        "spec.domain.memory.maxGuest",
        "Guest memory is greater than the configured maxGuest memory",
    ),
    "memory in no whole blocks": (
        {"domain.memory": {"guest": "1025Mi", "maxGuest": "2Gi"}},
        "spec.domain.memory.maxGuest",
        "Guest memory must be 2Mi aligned",
    ),
    "room in no whole blocks": (
        {"domain.memory": {"guest": "1Gi", "maxGuest": "2049Mi"}},
        "spec.domain.memory.maxGuest",
        "MaxGuest must be 2Mi aligned",
    ),
    "room for a guest that is too small": (
        {"domain.memory": {"guest": "512Mi", "maxGuest": "2Gi"}},
        "spec.domain.memory.maxGuest",
        "Memory hotplug is only available for VMs with at least 1Gi of guest memory; remove maxGuest",
    ),
    "room for memory on arm64": (
        {"architecture": "arm64", "domain.memory": {"guest": "1Gi", "maxGuest": "2Gi"}},
        "spec.domain.memory.maxGuest",
        "Memory hotplug is only available for x86_64 VMs",
    ),
    "room for memory of huge pages": (
        {"domain.memory": {"guest": "1Gi", "maxGuest": "2Gi", "hugepages": {"pageSize": "2Mi"}}},
        "spec.domain.memory.maxGuest",
        "Memory hotplug is not available for VMs with huge pages",
    ),
    "room that is no quantity": (
        {"domain.memory": {"guest": "1Gi", "maxGuest": "a lot"}},
        "spec.domain.memory.maxGuest",
        "'a lot' is no quantity",
    ),
    "no memory": (
        {"domain.memory": None},
        "spec.domain",
        "no memory requested, at least one of 'spec.domain.memory.guest'",
    ),
    "memory is no quantity": ({"domain.memory.guest": "4 GB"}, "spec.domain.memory.guest", "'4 GB' is no quantity"),
    "too little memory": (
        {"domain.resources.requests.memory": "1k"},
        "spec.domain.resources.requests.memory",
        "'1k': must be greater than or equal to 1M.",
    ),
    "negative cpu": (
        {"domain.resources.requests.cpu": "-1"},
        "spec.domain.resources.requests.cpu",
        "must be greater than or equal to 0.",
    ),
    "another resource": (
        {"domain.resources.requests.ephemeral-storage": "1Gi"},
        "spec.domain.resources.requests[ephemeral-storage]",
        "is not supported: ephemeral-storage (allowed values: [cpu memory])",
    ),
    "request above limit": (
        {"domain.resources.requests.memory": "2Gi", "domain.resources.limits.memory": "1Gi"},
        "spec.domain.resources.requests.memory",
        "'2Gi' is greater than spec.domain.resources.limits.memory '1Gi'",
    ),
    "guest above limit": (
        {"domain.memory.guest": "2Gi", "domain.resources.limits.memory": "1Gi"},
        "spec.domain.memory.guest",
        "must be equal to or less than the memory limit",
    ),
    "negative cores": ({"domain.cpu.cores": -1}, "spec.domain.cpu.cores", "must be greater than or equal to 0."),
    "too many cpus": ({"domain.cpu.cores": 600}, "spec.domain.cpu", "600 vCPUs are more than the 512"),
    "threads on arm64": (
        {"architecture": "arm64", "domain.cpu.threads": 2},
        "spec.domain.cpu.threads",
        "threads must not be greater than 1 at spec.domain.cpu.threads (got 2) when spec.architecture is arm64",
    ),
    "cpu feature policy": (
        {"domain.cpu.features": [{"name": "vmx", "policy": "please"}]},
        "spec.domain.cpu.features[0].policy",
        "CPU feature vmx uses policy please that is not supported.",
    ),
    "architecture": ({"architecture": "riscv"}, "spec.architecture", "unsupported architecture: riscv"),
    "machine": (
        {"domain.machine.type": "abacus"},
        "spec.domain.machine.type",
        "is not supported: abacus (allowed values: [q35* pc-q35* pc pc-i440fx*])",
    ),
    "firmware uuid": ({"domain.firmware.uuid": "123"}, "spec.domain.firmware.uuid", "'123' is not a UUID"),
    "firmware serial": (
        {"domain.firmware.serial": "a\nb"},
        "spec.domain.firmware.serial",
        "must be one line of text: remove control characters and line breaks",
    ),
    "firmware serial too long": (
        {"domain.firmware.serial": "x" * 257},
        "spec.domain.firmware.serial",
        "must be less than or equal to 256 in length",
    ),
    "both firmwares": (
        {"domain.firmware.bootloader": {"bios": {}, "efi": {"secureBoot": False}}},
        "spec.domain.firmware.bootloader",
        "has both EFI and BIOS configured, but they are mutually exclusive.",
    ),
    "secure boot without smm": (
        {"domain.firmware.bootloader.efi": {}},
        "spec.domain.firmware.bootloader.efi",
        "has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently disabled.",
    ),
    "a named CPU on arm64": (
        {"architecture": "arm64", "domain.cpu.model": "cortex-a72"},
        "spec.domain.cpu.model",
        "currently, host-passthrough is the only model supported on Arm64",
    ),
    "bios on arm64": (
        {"architecture": "arm64", "domain.firmware.bootloader.bios": {}},
        "spec.domain.firmware.bootloader.bios",
        "there is no BIOS on arm64",
    ),
    "secure boot on arm64": (
        {"architecture": "arm64", "domain.firmware.bootloader.efi": {"secureBoot": True}},
        "spec.domain.firmware.bootloader.efi.secureBoot",
        "there is no secure boot on arm64",
    ),
    "secure boot on an old machine": (
        {
            "domain.machine.type": "pc-i440fx-7.2",
            "domain.firmware.bootloader.efi": {"secureBoot": True},
            "domain.features.smm": {},
        },
        "spec.domain.firmware.bootloader.efi.secureBoot",
        "the machine pc-i440fx-7.2 has no secure boot; use q35, or set it to false",
    ),
    "hidden kvm on arm64": (
        {"architecture": "arm64", "domain.features.kvm.hidden": True},
        "spec.domain.features.kvm.hidden",
        "there is no such feature on arm64",
    ),
    "a control character": (
        {"domain.chassis.serial": "a\u0001b"},
        "spec.domain.chassis.serial",
        "holds the character U+0001; remove control characters",
    ),
    "the name of an input device": (
        {"domain.devices.inputs": [{"name": "left hand"}]},
        "spec.domain.devices.inputs[0].name",
        "can only contain alphabetical characters",
    ),
    "the name of an empty drive": (
        {"domain.devices.disks[1]": {"name": "a.b", "cdrom": {"bus": "sata"}}},
        "spec.domain.devices.disks[1].name",
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'",
    ),
    "kernel arguments alone": (
        {"domain.firmware.kernelBoot.kernelArgs": "quiet"},
        "spec.domain.firmware.kernelBoot",
        "kernel arguments cannot be provided without an external kernel",
    ),
    "kernel without image": (
        {"domain.firmware.kernelBoot.container": {"image": "", "kernelPath": "/boot/vmlinuz"}},
        "spec.domain.firmware.kernelBoot.container.image",
        "must be defined with an image",
    ),
    "image without kernel": (
        {"domain.firmware.kernelBoot.container": {"image": "k"}},
        "spec.domain.firmware.kernelBoot.container",
        "must be defined with at least one of the following: kernelPath, initrdPath",
    ),
    "kernel at the root": (
        {"domain.firmware.kernelBoot.container": {"image": "k", "kernelPath": "/"}},
        "spec.domain.firmware.kernelBoot.container.kernelPath",
        "must not point to root",
    ),
    "kernel path with detours": (
        {"domain.firmware.kernelBoot.container": {"image": "k", "kernelPath": "/boot/../../etc/passwd"}},
        "spec.domain.firmware.kernelBoot.container.kernelPath",
        "must be an absolute path to a file without relative components",
    ),
    "ACPI without tables": (
        {"domain.firmware.acpi": {}},
        "spec.domain.firmware.acpi",
        "ACPI was set but no SLIC nor MSDM volume reference was set",
    ),
    "a table of no volume": (
        {"domain.firmware.acpi.slicNameRef": "licence"},
        "spec.domain.firmware.acpi.slicNameRef",
        "does not have a matching Volume.",
    ),
    "a table of a disk": (
        {"domain.firmware.acpi.msdmNameRef": "root"},
        "spec.domain.firmware.acpi.msdmNameRef",
        "refers to Volume of unsupported type.",
    ),
    "a table without ACPI": (
        {**LICENCE, "domain.features.acpi.enabled": False},
        "spec.domain.firmware.acpi",
        "the guest has no ACPI; remove it, or features.acpi.enabled: false",
    ),
    "a table on arm64": (
        {**LICENCE, "architecture": "arm64"},
        "spec.domain.firmware.acpi",
        "QEMU has no such tables on arm64",
    ),
    "pages of no size": (
        {"domain.memory.hugepages": {"pageSize": "large"}},
        "spec.domain.memory.hugepages.pageSize",
        "'large' is no quantity",
    ),
    "pages that no processor has": (
        {"domain.memory.hugepages": {"pageSize": "3Mi"}},
        "spec.domain.memory.hugepages.pageSize",
        "'3Mi' is no size of huge pages; use 2Mi or 1Gi",
    ),
    "less memory than a page": (
        {"domain.memory.hugepages": {"pageSize": "1Gi"}},
        "spec.domain.memory.hugepages.pageSize",
        "spec.domain.memory.guest '64Mi' must be equal to or larger than page size",
    ),
    "memory of broken pages": (
        {"domain.memory": {"guest": "65Mi", "hugepages": {"pageSize": "2Mi"}}},
        "spec.domain.memory.hugepages.pageSize",
        "spec.domain.memory.guest '65Mi' is not a multiple of the page size",
    ),
    "an overhead without its gate": (
        {"domain.memory.reservedOverhead": {"addedOverhead": "100Mi"}},
        "spec.domain.memory.reservedOverhead",
        "the feature gate ReservedOverheadMemlock is not enabled",
    ),
    "two clocks": (
        {"domain.clock": {"utc": {}, "timezone": "Europe/Berlin"}},
        "spec.domain.clock",
        "has both utc and timezone configured",
    ),
    "tick policy that the timer lacks": (
        {"domain.clock.timer.pit.tickPolicy": "merge"},
        "spec.domain.clock.timer.pit.tickPolicy",
        "is not supported: merge (allowed values: [delay catchup discard])",
    ),
    "track of another timer": (
        {"domain.clock.timer.hpet.track": "guest"},
        "spec.domain.clock.timer.hpet.track",
        "is not supported: guest",
    ),
    "timer on arm64": (
        {"architecture": "arm64", "domain.clock.timer.hpet": {}},
        "spec.domain.clock.timer.hpet",
        "there is no such timer on arm64",
    ),
    "hyper-v on arm64": (
        {"architecture": "arm64", "domain.features.hyperv": {}},
        "spec.domain.features.hyperv",
        "there is no such feature on arm64",
    ),
    "hyper-v twice": (
        {"domain.features": {"hyperv": {}, "hypervPassthrough": {}}},
        "spec.domain.features.hypervPassthrough",
        "are mutually exclusive.",
    ),
    "long vendor": (
        {"domain.features.hyperv.vendorid.vendorid": "thirteen chars"},
        "spec.domain.features.hyperv.vendorid.vendorid",
        "must be 1 to 12 characters long",
    ),
    "few spinlocks": (
        {"domain.features.hyperv.spinlocks.spinlocks": 10},
        "spec.domain.features.hyperv.spinlocks.spinlocks",
        "must be greater than or equal to 4095.",
    ),
    "input bus": (
        {"domain.devices.inputs": [{"name": "t", "bus": "ps2"}]},
        "spec.domain.devices.inputs[0].bus",
        "Input device can have only virtio or usb bus.",
    ),
    "input type": (
        {"domain.devices.inputs": [{"name": "t", "type": "mouse"}]},
        "spec.domain.devices.inputs[0].type",
        "Input device can have only tablet type.",
    ),
    "watchdog action": (
        {"domain.devices.watchdog": {"name": "w", "i6300esb": {"action": "bark"}}},
        "spec.domain.devices.watchdog.i6300esb.action",
        "has invalid value bark",
    ),
    "sound on arm64": (
        {"architecture": "arm64", "domain.devices.sound": {"name": "s"}},
        "spec.domain.devices.sound",
        "Arm64 not support sound device",
    ),
    "a screen of amd64 on arm64": (
        {"architecture": "arm64", "domain.devices.video": {"type": "vga"}},
        "spec.domain.devices.video.type",
        "video model 'vga' is not supported on arm64 architecture",
    ),
    "watchdog on arm64": (
        {"architecture": "arm64", "domain.devices.watchdog": {"name": "w"}},
        "spec.domain.devices.watchdog",
        "there is no watchdog on arm64",
    ),
    "sound model": (
        {"domain.devices.sound": {"name": "s", "model": "sb16"}},
        "spec.domain.devices.sound.model",
        "Sound device type is not supported. Options: 'ich9' or 'ac97'",
    ),
    "sound without name": (
        {"domain.devices.sound": {}},
        "spec.domain.devices.sound.name",
        "Sound device requires a name field.",
    ),
    "video without display": (
        {"domain.devices.video.type": "vga", "domain.devices.autoattachGraphicsDevice": False},
        "spec.domain.devices.video",
        "Video configuration is not allowed when autoattachGraphicsDevice is set to false",
    ),
    "video type": (
        {"domain.devices.video.type": "voodoo"},
        "spec.domain.devices.video.type",
        "is not supported: voodoo",
    ),
    "panic model": (
        {"domain.devices.panicDevices": [{"model": "red-button"}]},
        "spec.domain.devices.panicDevices[0].model",
        "is not supported: red-button",
    ),
    "pool without size": (
        {"domain.ioThreadsPolicy": "supplementalPool"},
        "spec.domain.ioThreads.supplementalPoolThreadCount",
        "the number of iothreads needs to be set and positive for the dedicated policy",
    ),
    "eviction strategy": (
        {"evictionStrategy": "Flee"},
        "spec.evictionStrategy",
        "is set with an unrecognized option: Flee",
    ),
    "start strategy": ({"startStrategy": "Slow"}, "spec.startStrategy", "is set with an unrecognized option: Slow"),
    "negative grace": (
        {"terminationGracePeriodSeconds": -1},
        "spec.terminationGracePeriodSeconds",
        "must be greater than or equal to 0.",
    ),
    "host name": ({"hostname": "My.Host"}, "spec.hostname", "does not conform to the kubernetes DNS_LABEL rules"),
    "subdomain": ({"subdomain": "a..b"}, "spec.subdomain", "does not conform to the kubernetes DNS_SUBDOMAIN rules"),
    "dns policy": (
        {"dnsPolicy": "Mine"},
        "spec.dnsPolicy",
        "DNSPolicy: Mine is not supported, valid values: ClusterFirst",
    ),
    "dns policy without config": (
        {"dnsPolicy": "None"},
        "spec.dnsConfig",
        "must provide `dnsConfig` when `dnsPolicy` is None",
    ),
    "dns policy without server": (
        {"dnsPolicy": "None", "dnsConfig": {"searches": ["a"]}},
        "spec.dnsConfig.nameservers",
        "must provide at least one DNS nameserver when `dnsPolicy` is None",
    ),
    "too many name servers": (
        {"dnsConfig": {"nameservers": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]}},
        "spec.dnsConfig.nameservers",
        "must not have more than 3 nameservers",
    ),
    "name server that is no address": (
        {"dnsConfig": {"nameservers": ["dns.example"]}},
        "spec.dnsConfig.nameservers[0]",
        "must be valid IP address: dns.example",
    ),
    "search domain that is no domain": (
        {"dnsConfig": {"searches": ["a..b"]}},
        "spec.dnsConfig.searches[0]",
        "a lowercase RFC 1123 subdomain must consist of",
    ),
    "dns option without a name": (
        {"dnsConfig": {"options": [{"value": "2"}]}},
        "spec.dnsConfig.options[0].name",
        "Option.Name must not be empty",
    ),
    "too many search domains": (
        {"dnsConfig": {"searches": list("abcdefg")}},
        "spec.dnsConfig.searches",
        "must not have more than 6 search paths",
    ),
}

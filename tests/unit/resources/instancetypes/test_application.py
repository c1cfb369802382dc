"""What a template becomes with an instance type and a preference: a case for each of their fields."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import msgspec.inspect as shapes
import pytest

from kvedge.resources.codec import decode
from kvedge.resources.instancetypes.application import Applied, BadTypes, VmTypes, apply_types
from kvedge.resources.types.vm import VirtualMachineInstanceTemplate
from kvedge.resources.types.vm_types.instancetypes import VirtualMachineInstancetypeSpec
from kvedge.resources.types.vm_types.preferences import VirtualMachinePreferenceSpec

SMALL = {"cpu": {"guest": 2}, "memory": {"guest": "1Gi"}}
ONE_OF_TWO = {"cores": 1, "sockets": 2, "threads": 1}
DISK = {"name": "root", "disk": {}}


def put(path: str, value: Any) -> dict[str, Any]:
    """A document with one value."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return value  # type: ignore[no-any-return]


def merge(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    made = dict(one)
    for name, value in other.items():
        made[name] = merge(made[name], value) if isinstance(value, dict) and isinstance(made.get(name), dict) else value
    return made


def applied(spec: dict[str, Any], annotations: dict[str, str] | None = None, **types: Any) -> Applied:
    template = {"metadata": {"annotations": dict(annotations or {})}, "spec": spec}
    before = copy.deepcopy((template, types))
    found = apply_types(template, VmTypes(**types))
    assert (template, types) == before, "what is given is not touched"
    # Each result is a template.
    decode(VirtualMachineInstanceTemplate, found.template)
    return found


TYPE_CASES: dict[str, tuple[dict[str, Any], str, Any]] = {
    # The type besides cpu.guest and memory.guest, the path below the VMI's spec, and what is there.
    "cpu.guest": ({}, "domain.cpu", ONE_OF_TWO),
    "memory.guest": ({}, "domain.memory", {"guest": "1Gi"}),
    "cpu.model": (put("cpu.model", "Nehalem"), "domain.cpu.model", "Nehalem"),
    "cpu.dedicatedCPUPlacement": (put("cpu.dedicatedCPUPlacement", True), "domain.cpu.dedicatedCpuPlacement", True),
    "cpu.isolateEmulatorThread": (put("cpu.isolateEmulatorThread", True), "domain.cpu.isolateEmulatorThread", True),
    "cpu.numa": (put("cpu.numa.guestMappingPassthrough", {}), "domain.cpu.numa", {"guestMappingPassthrough": {}}),
    "cpu.realtime": (put("cpu.realtime", {}), "domain.cpu.realtime", {}),
    "cpu.maxSockets": (put("cpu.maxSockets", 8), "domain.cpu.maxSockets", 8),
    "memory.hugepages": (put("memory.hugepages.pageSize", "2Mi"), "domain.memory.hugepages", {"pageSize": "2Mi"}),
    "memory.overcommitPercent": (put("memory.overcommitPercent", 15), "domain.resources.requests.memory", "912680576"),
    "memory.maxGuest": (put("memory.maxGuest", "4Gi"), "domain.memory.maxGuest", "4Gi"),
    "nodeSelector": ({"nodeSelector": {"a": "b"}}, "nodeSelector", {"a": "b"}),
    "schedulerName": ({"schedulerName": "other"}, "schedulerName", "other"),
    "gpus": ({"gpus": [{"name": "g", "deviceName": "x"}]}, "domain.devices.gpus", [{"name": "g", "deviceName": "x"}]),
    "hostDevices": ({"hostDevices": [{"name": "h"}]}, "domain.devices.hostDevices", [{"name": "h"}]),
    "ioThreadsPolicy": ({"ioThreadsPolicy": "auto"}, "domain.ioThreadsPolicy", "auto"),
    "ioThreads": (
        put("ioThreads.supplementalPoolThreadCount", 4),
        "domain.ioThreads",
        {"supplementalPoolThreadCount": 4},
    ),
    "launchSecurity": ({"launchSecurity": {"sev": {}}}, "domain.launchSecurity", {"sev": {}}),
}


def find(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document[int(name)] if name.isdigit() else document[name]
    return document


@pytest.mark.parametrize(("given", "path", "wanted"), TYPE_CASES.values(), ids=TYPE_CASES)
def test_each_field_of_an_instance_type(given: dict[str, Any], path: str, wanted: Any) -> None:
    found = applied({"domain": {}}, instancetype=merge(SMALL, given))
    assert find(found.template["spec"], path) == wanted


def test_annotations_of_both_are_the_vmis() -> None:
    found = applied(
        {"domain": {}},
        {"own": "1"},
        instancetype={**SMALL, "annotations": {"type": "2"}},
        preference={"annotations": {"own": "3", "preference": "4"}},
    )
    assert found.template["metadata"]["annotations"] == {"own": "1", "type": "2", "preference": "4"}


RICH = merge(
    SMALL,
    {
        "cpu": {
            "model": "Nehalem",
            "dedicatedCPUPlacement": False,
            "isolateEmulatorThread": True,
            "numa": {},
            "realtime": {},
        },
        "memory": {"hugepages": {"pageSize": "2Mi"}, "maxGuest": "4Gi"},
        "nodeSelector": {"a": "b"},
        "schedulerName": "other",
        "gpus": [{"name": "g"}],
        "hostDevices": [{"name": "h"}],
        "ioThreadsPolicy": "auto",
        "ioThreads": {"supplementalPoolThreadCount": 1},
        "launchSecurity": {"sev": {}},
    },
)
ALWAYS = {
    "domain.cpu.sockets": 1,
    "domain.cpu.cores": 1,
    "domain.cpu.threads": 1,
    "domain.resources.requests.cpu": "1",
    "domain.resources.limits.cpu": "1",
    "domain.memory.guest": "1Gi",
    "domain.resources.requests.memory": "1Gi",
    "domain.resources.limits.memory": "1Gi",
}
IF_BOTH = {
    "domain.cpu.model": "Nehalem",
    "domain.cpu.dedicatedCpuPlacement": True,
    "domain.cpu.isolateEmulatorThread": True,
    "domain.cpu.numa": {},
    "domain.cpu.realtime": {},
    "domain.memory.hugepages": {"pageSize": "2Mi"},
    "domain.memory.maxGuest": "4Gi",
    "nodeSelector": {},
    "schedulerName": "other",
    "domain.ioThreadsPolicy": "auto",
    "domain.ioThreads.supplementalPoolThreadCount": 2,
    "domain.launchSecurity": {},
    "domain.devices.gpus": [{"name": "mine"}],
    "domain.devices.hostDevices": [{"name": "mine"}],
}


@pytest.mark.parametrize("path", ALWAYS)
def test_what_every_type_says_a_vm_must_not_say(path: str) -> None:
    found = applied(merge({"domain": {}}, put(path, ALWAYS[path])), instancetype=SMALL)
    assert [".".join(each) for each in found.conflicts] == [path]


@pytest.mark.parametrize("path", IF_BOTH)
def test_what_only_some_types_say_a_vm_may_say_with_the_others(path: str) -> None:
    spec = merge({"domain": {}}, put(path, IF_BOTH[path]))
    assert not applied(spec, instancetype=SMALL).conflicts
    found = applied(spec, instancetype=RICH)
    # KubeVirt calls the one as the type does.
    assert [".".join(each) for each in found.conflicts] == [path.replace("dedicatedCpu", "dedicatedCPU")]


def test_a_vm_may_say_what_stays_off_and_its_most_sockets() -> None:
    spec = {"domain": {"cpu": {"dedicatedCpuPlacement": False, "isolateEmulatorThread": False, "maxSockets": 3}}}
    found = applied(spec, instancetype=merge(RICH, put("cpu.maxSockets", 8)))
    assert not found.conflicts
    assert found.template["spec"]["domain"]["cpu"]["maxSockets"] == 8


def test_an_annotation_conflicts_when_it_has_another_value() -> None:
    given = {**SMALL, "annotations": {"a.io/b": "1"}}
    assert not applied({"domain": {}}, {"a.io/b": "1"}, instancetype=given).conflicts
    assert applied({"domain": {}}, {"a.io/b": "2"}, instancetype=given).conflicts == [("annotations", "a.io/b")]


def test_all_conflicts_are_told_but_of_memory_the_first() -> None:
    spec = {"nodeSelector": {}, "domain": {"cpu": {"cores": 2, "sockets": 2}, "memory": {"guest": 1, "maxGuest": 2}}}
    assert [each[-1] for each in applied(spec, instancetype=RICH).conflicts] == [
        "nodeSelector",
        "sockets",
        "cores",
        "guest",
    ]


DEVICES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # The preference of devices, the VM's devices, and these with the preference.
    **{
        f"preferredAutoattach{name}": ({f"preferredAutoattach{name}": value}, {}, {f"autoattach{name}": value})
        for name, value in (
            ("GraphicsDevice", False),
            ("MemBalloon", False),
            ("PodInterface", False),
            ("SerialConsole", True),
        )
    },
    "preferredAutoattachInputDevice": (
        {"preferredAutoattachInputDevice": True, "preferredInputBus": "virtio", "preferredInputType": "tablet"},
        {},
        {"autoattachInputDevice": True, "inputs": [{"name": "default-0", "bus": "virtio", "type": "tablet"}]},
    ),
    "preferredDisableHotplug": ({"preferredDisableHotplug": True}, {"disableHotplug": False}, {"disableHotplug": True}),
    "preferredVirtualGPUOptions": (
        {"preferredVirtualGPUOptions": {"display": {"enabled": False}}},
        {"gpus": [{"name": "a"}, {"name": "b", "virtualGPUOptions": {}}]},
        {
            "gpus": [
                {"name": "a", "virtualGPUOptions": {"display": {"enabled": False}}},
                {"name": "b", "virtualGPUOptions": {}},
            ]
        },
    ),
    "preferredSoundModel": (
        {"preferredSoundModel": "ac97"},
        {"sound": {"name": "s"}},
        {"sound": {"name": "s", "model": "ac97"}},
    ),
    "preferredUseVirtioTransitional": ({"preferredUseVirtioTransitional": True}, {}, {"useVirtioTransitional": True}),
    "preferredInputBus": (
        {"preferredInputBus": "virtio"},
        {"inputs": [{"name": "t"}, {"name": "u", "bus": "usb"}]},
        {"inputs": [{"name": "t", "bus": "virtio"}, {"name": "u", "bus": "usb"}]},
    ),
    "preferredInputType": (
        {"preferredInputType": "tablet"},
        {"inputs": [{"name": "t"}]},
        {"inputs": [{"name": "t", "type": "tablet"}]},
    ),
    "preferredDiskBus": (
        {"preferredDiskBus": "virtio"},
        {"disks": [{"name": "a"}, {"name": "b", "disk": {"bus": "sata"}}, {"name": "c", "cdrom": {}}]},
        {
            "disks": [
                {"name": "a", "disk": {"bus": "virtio"}},
                {"name": "b", "disk": {"bus": "sata"}},
                {"name": "c", "cdrom": {}},
            ]
        },
    ),
    "preferredLunBus": (
        {"preferredLunBus": "scsi"},
        {"disks": [{"name": "a", "lun": {}}]},
        {"disks": [{"name": "a", "lun": {"bus": "scsi"}}]},
    ),
    "preferredCdromBus": (
        {"preferredCdromBus": "scsi"},
        {"disks": [{"name": "a", "cdrom": {}}]},
        {"disks": [{"name": "a", "cdrom": {"bus": "scsi"}}]},
    ),
    "preferredDiskDedicatedIoThread": (
        {"preferredDiskDedicatedIoThread": True},
        {"disks": [{"name": "a", "disk": {"bus": "virtio"}}, {"name": "b", "disk": {"bus": "sata"}}]},
        {
            "disks": [
                {"name": "a", "disk": {"bus": "virtio"}, "dedicatedIOThread": True},
                {"name": "b", "disk": {"bus": "sata"}},
            ]
        },
    ),
    "preferredDiskCache": ({"preferredDiskCache": "none"}, {"disks": [DISK]}, {"disks": [{**DISK, "cache": "none"}]}),
    "preferredDiskIO": ({"preferredDiskIO": "native"}, {"disks": [DISK]}, {"disks": [{**DISK, "io": "native"}]}),
    "preferredDiskBlockSize": (
        {"preferredDiskBlockSize": {"matchVolume": {}}},
        {"disks": [DISK]},
        {"disks": [{**DISK, "blockSize": {"matchVolume": {}}}]},
    ),
    "preferredInterfaceModel": (
        {"preferredInterfaceModel": "e1000"},
        {"interfaces": [{"name": "a"}, {"name": "b", "model": "virtio"}]},
        {"interfaces": [{"name": "a", "model": "e1000"}, {"name": "b", "model": "virtio"}]},
    ),
    "preferredRng": ({"preferredRng": {}}, {}, {"rng": {}}),
    "preferredBlockMultiQueue": (
        {"preferredBlockMultiQueue": True},
        {"blockMultiQueue": False},
        {"blockMultiQueue": False},
    ),
    "preferredNetworkInterfaceMultiQueue": (
        {"preferredNetworkInterfaceMultiQueue": True},
        {},
        {"networkInterfaceMultiqueue": True},
    ),
    "preferredTPM": ({"preferredTPM": {"persistent": True}}, {}, {"tpm": {"persistent": True}}),
    "preferredPanicDeviceModel": (
        {"preferredPanicDeviceModel": "isa"},
        {},
        {"panicDevices": [{"model": "isa"}]},
    ),
    "preferredVideoType": ({"preferredVideoType": "virtio"}, {}, {"video": {"type": "virtio"}}),
}
PREFERENCES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # The preference, the VMI's spec besides what it gets, and the spec.
    **{
        f"devices.{name}": (
            {"devices": given},
            {"domain": {"devices": before}},
            {"domain": {"devices": {**before, **after}}},
        )
        for name, (given, before, after) in DEVICES.items()
    },
    "devices.preferredInterfaceMasquerade": (
        {"devices": {"preferredInterfaceMasquerade": {}}},
        {
            "domain": {"devices": {"interfaces": [{"name": "a"}, {"name": "b"}, {"name": "c", "bridge": {}}]}},
            "networks": [{"name": "a", "pod": {}}, {"name": "b", "multus": {"networkName": "n"}}],
        },
        {
            "domain": {
                "devices": {"interfaces": [{"name": "a", "masquerade": {}}, {"name": "b"}, {"name": "c", "bridge": {}}]}
            },
            "networks": [{"name": "a", "pod": {}}, {"name": "b", "multus": {"networkName": "n"}}],
        },
    ),
    "cpu.preferredCPUFeatures": (
        {"cpu": {"preferredCPUFeatures": [{"name": "a", "policy": "require"}, {"name": "b"}]}},
        {"domain": {"cpu": {"features": [{"name": "a"}]}}},
        {"domain": {"cpu": {"features": [{"name": "a"}, {"name": "b"}]}}},
    ),
    "clock.preferredClockOffset": (
        {"clock": {"preferredClockOffset": {"timezone": "Europe/Berlin"}}},
        {"domain": {}},
        {"domain": {"clock": {"timezone": "Europe/Berlin"}}},
    ),
    "clock.preferredTimer": (
        {"clock": {"preferredTimer": {"hpet": {"present": False}}}},
        {"domain": {"clock": {"utc": {}}}},
        {"domain": {"clock": {"utc": {}, "timer": {"hpet": {"present": False}}}}},
    ),
    "features.preferredAcpi": (
        {"features": {"preferredAcpi": {"enabled": False}}},
        {"domain": {"features": {"acpi": {"enabled": True}}}},
        {"domain": {"features": {"acpi": {"enabled": False}}}},
    ),
    **{
        f"features.preferred{name}": (
            {"features": {f"preferred{name}": {}}},
            {"domain": {}},
            {"domain": {"features": {name.lower(): {}}}},
        )
        for name in ("Apic", "Kvm", "Pvspinlock", "Smm")
    },
    "features.preferredHyperv": (
        {"features": {"preferredHyperv": {"relaxed": {}, "spinlocks": {"spinlocks": 8191}}}},
        {"domain": {"features": {"hyperv": {"relaxed": {"enabled": False}}}}},
        {"domain": {"features": {"hyperv": {"relaxed": {"enabled": False}, "spinlocks": {"spinlocks": 8191}}}}},
    ),
    "firmware.preferredUseBios": (
        {"firmware": {"preferredUseBios": True}},
        {"domain": {}},
        {"domain": {"firmware": {"bootloader": {"bios": {}}}}},
    ),
    "firmware.preferredUseBiosSerial": (
        {"firmware": {"preferredUseBiosSerial": True}},
        {"domain": {"firmware": {"bootloader": {"bios": {}}}}},
        {"domain": {"firmware": {"bootloader": {"bios": {"useSerial": True}}}}},
    ),
    "firmware.preferredEfi": (
        {"firmware": {"preferredEfi": {"secureBoot": False}, "preferredUseSecureBoot": True}},
        {"domain": {}},
        {"domain": {"firmware": {"bootloader": {"efi": {"secureBoot": False}}}}},
    ),
    "firmware.preferredUseEfi": (
        {"firmware": {"preferredUseEfi": True}},
        {"domain": {}},
        {"domain": {"firmware": {"bootloader": {"efi": {}}}}},
    ),
    "firmware.preferredUseSecureBoot": (
        {"firmware": {"preferredUseSecureBoot": False}},
        {"domain": {"firmware": {"bootloader": {"efi": {}}}}},
        {"domain": {"firmware": {"bootloader": {"efi": {"secureBoot": False}}}}},
    ),
    "machine.preferredMachineType": (
        {"machine": {"preferredMachineType": "pc"}},
        {"domain": {}},
        {"domain": {"machine": {"type": "pc"}}},
    ),
    "preferredSubdomain": ({"preferredSubdomain": "sub"}, {"domain": {}}, {"domain": {}, "subdomain": "sub"}),
    "preferredTerminationGracePeriodSeconds": (
        {"preferredTerminationGracePeriodSeconds": 0},
        {"domain": {}},
        {"domain": {}, "terminationGracePeriodSeconds": 0},
    ),
    "preferredArchitecture": (
        {"preferredArchitecture": "arm64"},
        {"domain": {}, "architecture": "amd64"},
        {"domain": {}, "architecture": "amd64"},
    ),
    "preferredLaunchSecurity": (
        {"preferredLaunchSecurity": {"sev": {}}},
        {"domain": {}},
        {"domain": {"launchSecurity": {"sev": {}}}},
    ),
}


def without_empty(document: Any) -> Any:
    """Objects that are only there because something was looked for in them are left out."""
    if not isinstance(document, dict):
        return document
    kept = {name: without_empty(value) for name, value in document.items()}
    return {name: value for name, value in kept.items() if (name, value) != ("devices", {})}


@pytest.mark.parametrize(("given", "before", "after"), PREFERENCES.values(), ids=PREFERENCES)
def test_each_field_of_a_preference(given: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    decode(VirtualMachinePreferenceSpec, given)
    found = applied(before, preference=given).template["spec"]
    assert without_empty(found) == without_empty(after)


def test_a_vm_keeps_what_it_says_itself() -> None:
    """Each case once more, on its own result: nothing is left to fill in."""
    for name, (given, _, after) in PREFERENCES.items():
        found = applied(after, preference=given).template["spec"]
        assert without_empty(found) == without_empty(after), name


def fields_of(shape: Any, depth: int) -> Iterator[str]:
    for field in shape.fields:
        inner = next((each for each in getattr(field.type, "types", ()) if isinstance(each, shapes.StructType)), None)
        if inner is None or depth == 0:
            yield field.encode_name
        else:
            yield from (f"{field.encode_name}.{name}" for name in fields_of(inner, depth - 1))


def test_no_field_is_without_a_case() -> None:
    types = set(fields_of(msgspec.inspect.type_info(VirtualMachineInstancetypeSpec), 0))
    assert types == {name.partition(".")[0] for name in TYPE_CASES} | {"annotations"}
    preferences = set(fields_of(msgspec.inspect.type_info(VirtualMachinePreferenceSpec), 1))
    elsewhere = {
        "annotations",
        "preferSpreadSocketToCoreRatio",
        "cpu.preferredCPUTopology",
        "cpu.spreadOptions",
        "volumes.preferredStorageClassName",
        *(f"requirements.{name}" for name in ("cpu", "memory", "architecture")),
    }
    assert preferences == {*PREFERENCES, *elsewhere}


def test_default_devices_get_what_is_preferred() -> None:
    preference = {"devices": {"preferredDiskBus": "virtio", "preferredInterfaceModel": "e1000e"}}
    template = {"spec": {"domain": {}, "volumes": [{"name": "root", "emptyDisk": {"capacity": "1Gi"}}]}}
    found = apply_types(template, VmTypes(preference=preference), "bridge").template["spec"]
    assert found["domain"]["devices"]["disks"] == [{"name": "root", "disk": {"bus": "virtio"}}]
    assert found["domain"]["devices"]["interfaces"] == [{"name": "default", "bridge": {}, "model": "e1000e"}]
    assert found["networks"] == [{"name": "default", "pod": {}}]
    without = {"devices": {"preferredAutoattachPodInterface": False}}
    assert "networks" not in apply_types(template, VmTypes(preference=without), "bridge").template["spec"]
    alone = apply_types(template, VmTypes(instancetype=SMALL), "bridge").template["spec"]
    assert "devices" not in alone["domain"]


def test_a_disk_that_comes_while_the_guest_runs_gets_no_bus_on_which_none_can_come() -> None:
    volumes = [{"name": "later", "persistentVolumeClaim": {"claimName": "c", "hotpluggable": True}}]
    spec = {"domain": {"devices": {"disks": [{"name": "later", "disk": {}}]}}, "volumes": volumes}
    for bus, wanted in (("sata", {}), ("virtio", {"bus": "virtio"})):
        found = applied(spec, preference={"devices": {"preferredDiskBus": bus}}).template["spec"]
        assert found["domain"]["devices"]["disks"][0]["disk"] == wanted


@pytest.mark.parametrize(
    "types",
    [
        {"instancetype": {"cpu": {"guest": 1}, "memory": {"guest": "1Gi", "overcommitPercent": 10**60}}},
        {
            "instancetype": SMALL,
            "preference": {"cpu": {"preferredCPUTopology": "spread", "spreadOptions": {"across": "Racks", "ratio": 0}}},
        },
    ],
    ids=["percent", "ratio"],
)
def test_what_cannot_be_counted_with_is_told_as_such(types: dict[str, Any]) -> None:
    with pytest.raises(BadTypes, match="the numbers of the instance type or the preference cannot be used"):
        apply_types({"spec": {}}, VmTypes(**types))

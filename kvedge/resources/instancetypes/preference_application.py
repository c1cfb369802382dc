"""A preference applied to a VMI's spec: it fills in what the VM has left open.

Called by application.py, after the instance type. Pure. Works on documents; the spec that is given is changed, and is
the caller's own. What a preference has written over, because KubeVirt cannot tell whether a VM has said it, is written
over here as well.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.type_application import object_at

_AUTOATTACH: Final = ("GraphicsDevice", "MemBalloon", "PodInterface", "SerialConsole", "InputDevice")
_DEVICES: Final[Mapping[str, str]] = {
    "preferredUseVirtioTransitional": "useVirtioTransitional",
    "preferredBlockMultiQueue": "blockMultiQueue",
    "preferredNetworkInterfaceMultiQueue": "networkInterfaceMultiqueue",
    "preferredRng": "rng",
    "preferredTPM": "tpm",
}
_BINDINGS: Final = ("bridge", "masquerade", "sriov", "slirp", "macvtap", "passt", "passtBinding", "binding")
# The buses that a disk may come by while its guest runs.
_HOTPLUG_BUSES: Final = ("scsi", "virtio")


def apply_autoattach(spec: JsonObject, preference: JsonObject) -> None:
    """Which devices are there unasked: this is known before the default ones are made."""
    given = preference.get("devices") or {}
    devices = object_at(spec, "domain", "devices")
    for name in _AUTOATTACH:
        _fill(devices, f"autoattach{name}", given.get(f"preferredAutoattach{name}"))


def apply_preference(spec: JsonObject, annotations: dict[str, str], preference: JsonObject) -> None:
    """Fill in the spec and the annotations."""
    _apply_cpu(spec, preference.get("cpu") or {})
    if preference.get("devices"):
        apply_autoattach(spec, preference)
        _apply_devices(spec, preference["devices"])
    if preference.get("features") is not None:
        _apply_features(spec, preference["features"])
    if preference.get("firmware") is not None:
        _apply_firmware(spec, preference["firmware"])
    if machine := (preference.get("machine") or {}).get("preferredMachineType"):
        _fill_text(object_at(spec, "domain", "machine"), "type", machine)
    _apply_clock(spec, preference.get("clock") or {})
    _fill_text(spec, "subdomain", preference.get("preferredSubdomain"))
    _fill(spec, "terminationGracePeriodSeconds", preference.get("preferredTerminationGracePeriodSeconds"))
    _fill_text(spec, "architecture", preference.get("preferredArchitecture"))
    for key, value in (preference.get("annotations") or {}).items():
        annotations.setdefault(key, value)
    _fill(object_at(spec, "domain"), "launchSecurity", preference.get("preferredLaunchSecurity"))


def _fill(target: JsonObject, name: str, value: Any) -> None:
    """A member that is not there gets the value; false and an empty object are values, too."""
    if value is not None and target.get(name) is None:
        target[name] = copy.deepcopy(value)


def _fill_text(target: JsonObject, name: str, value: Any) -> None:
    """The same for members for which an empty text is none."""
    if value and not target.get(name):
        target[name] = value


def _apply_cpu(spec: JsonObject, given: JsonObject) -> None:
    preferred = given.get("preferredCPUFeatures") or []
    if not preferred:
        return
    cpu = object_at(spec, "domain", "cpu")
    features = list(cpu.get("features") or ())
    there = {feature.get("name") for feature in features}
    cpu["features"] = [*features, *(dict(each) for each in preferred if each.get("name") not in there)]


def _apply_devices(spec: JsonObject, given: JsonObject) -> None:
    devices = object_at(spec, "domain", "devices")
    for name, target in _DEVICES.items():
        _fill(devices, target, given.get(name))
    if given.get("preferredDisableHotplug") is not None:
        devices["disableHotplug"] = given["preferredDisableHotplug"]
    if isinstance(devices.get("sound"), dict):
        _fill_text(devices["sound"], "model", given.get("preferredSoundModel"))
    if given.get("preferredVideoType") is not None:
        _fill_text(object_at(devices, "video"), "type", given["preferredVideoType"])
    for gpu in devices.get("gpus") or ():
        _fill(gpu, "virtualGPUOptions", given.get("preferredVirtualGPUOptions"))
    coming = _hotpluggable(spec)
    for disk in devices.get("disks") or ():
        _apply_disk(disk, given, is_coming=disk.get("name") in coming)
    for interface in devices.get("interfaces") or ():
        _apply_interface(interface, spec, given)
    if devices.get("autoattachInputDevice") and not devices.get("inputs"):
        devices["inputs"] = [{"name": "default-0"}]
    for each in devices.get("inputs") or ():
        _fill_text(each, "bus", given.get("preferredInputBus"))
        _fill_text(each, "type", given.get("preferredInputType"))
    if panic := given.get("preferredPanicDeviceModel"):
        devices["panicDevices"] = devices.get("panicDevices") or [{}]
        for each in devices["panicDevices"]:
            _fill_text(each, "model", panic)


def _hotpluggable(spec: JsonObject) -> set[str]:
    sources = ("persistentVolumeClaim", "dataVolume")
    return {
        str(volume.get("name"))
        for volume in spec.get("volumes") or ()
        if any((volume.get(source) or {}).get("hotpluggable") for source in sources)
    }


def _apply_disk(disk: JsonObject, given: JsonObject, *, is_coming: bool) -> None:
    if not any(disk.get(target) is not None for target in ("disk", "cdrom", "lun")):
        disk["disk"] = {}
    if disk.get("cdrom") is not None and disk.get("disk") is None:
        _fill_text(disk["cdrom"], "bus", given.get("preferredCdromBus"))
        return
    if disk.get("lun") is not None and disk.get("disk") is None:
        _fill_text(disk["lun"], "bus", given.get("preferredLunBus"))
        return
    bus = given.get("preferredDiskBus")
    if not is_coming or bus in _HOTPLUG_BUSES:
        _fill_text(disk["disk"], "bus", bus)
    _fill(disk, "blockSize", given.get("preferredDiskBlockSize"))
    _fill_text(disk, "cache", given.get("preferredDiskCache"))
    _fill_text(disk, "io", given.get("preferredDiskIO"))
    if disk["disk"].get("bus") == "virtio":
        _fill(disk, "dedicatedIOThread", given.get("preferredDiskDedicatedIoThread"))


def _apply_interface(interface: JsonObject, spec: JsonObject, given: JsonObject) -> None:
    _fill_text(interface, "model", given.get("preferredInterfaceModel"))
    is_bound = any(interface.get(name) is not None for name in _BINDINGS)
    networks = (each for each in spec.get("networks") or () if each.get("name") == interface.get("name"))
    network: JsonObject = next(networks, {})
    if not is_bound and network.get("pod") is not None:
        _fill(interface, "masquerade", given.get("preferredInterfaceMasquerade"))


def _apply_features(spec: JsonObject, given: JsonObject) -> None:
    features = object_at(spec, "domain", "features")
    if given.get("preferredAcpi") is not None:
        features["acpi"] = copy.deepcopy(given["preferredAcpi"])
    for name in ("Apic", "Kvm", "Pvspinlock", "Smm"):
        _fill(features, name.lower(), given.get(f"preferred{name}"))
    if given.get("preferredHyperv") is not None:
        hyperv = object_at(features, "hyperv")
        for name, value in given["preferredHyperv"].items():
            _fill(hyperv, name, value)


def _apply_firmware(spec: JsonObject, given: JsonObject) -> None:
    bootloader = object_at(spec, "domain", "firmware", "bootloader")

    def is_free() -> bool:
        return bootloader.get("bios") is None and bootloader.get("efi") is None

    if given.get("preferredUseBios") and is_free():
        bootloader["bios"] = {}
    if bootloader.get("bios") is not None:
        _fill(bootloader["bios"], "useSerial", given.get("preferredUseBiosSerial"))
    if given.get("preferredEfi") is not None and is_free():
        bootloader["efi"] = copy.deepcopy(given["preferredEfi"])
    else:
        if given.get("preferredUseEfi") and is_free():
            bootloader["efi"] = {}
        if bootloader.get("efi") is not None:
            _fill(bootloader["efi"], "secureBoot", given.get("preferredUseSecureBoot"))
    if not bootloader:
        # An empty one says nothing, and would hide that the machine's own firmware is meant.
        del spec["domain"]["firmware"]["bootloader"]


def _apply_clock(spec: JsonObject, given: JsonObject) -> None:
    if not given:
        return
    clock = object_at(spec, "domain", "clock")
    offset = given.get("preferredClockOffset")
    if offset is not None and clock.get("utc") is None and not clock.get("timezone"):
        clock.update(copy.deepcopy(offset))
    _fill(clock, "timer", given.get("preferredTimer"))

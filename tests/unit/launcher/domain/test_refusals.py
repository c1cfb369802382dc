# Tests: kvedge/launcher/domain/
"""What no domain can be made of: refused by the field, with what to do."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.launcher.domain.context import DiskSource, OvmfFiles
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.unit.launcher.domain.vmis import UID, context, vmi, with_disk

DEVICES = "spec.domain.devices"
EFI = "spec.domain.firmware.bootloader.efi"


def _devices(**devices: Any) -> VirtualMachineInstance:
    return vmi({"devices": devices})


def _nic(**nic: Any) -> VirtualMachineInstance:
    return _devices(interfaces=[{"name": "n", **nic}])


def _firmware(**firmware: Any) -> VirtualMachineInstance:
    return vmi({"firmware": firmware})


def _efi(efi: dict[str, Any], **domain: Any) -> VirtualMachineInstance:
    return vmi({"firmware": {"bootloader": {"efi": efi}}, **domain})


CASES: list[tuple[str, VirtualMachineInstance]] = [
    # Not there yet.
    (f"{DEVICES}.gpus[0].deviceName", _devices(gpus=[{"name": "g", "deviceName": "example.com/g"}])),
    (f"{DEVICES}.hostDevices[0].deviceName", _devices(hostDevices=[{"name": "h", "deviceName": "example.com/h"}])),
    *(
        (f"{DEVICES}.{devices}[0].claimName", _devices(**{devices: [{"name": "g", "claimName": "c"}]}))
        for devices in ("gpus", "hostDevices")
    ),
    ("spec.domain.launchSecurity", vmi({"launchSecurity": {"sev": {}}})),
    # The computer itself.
    (f"{DEVICES}.filesystems[0].virtiofs", _devices(filesystems=[{"name": "f"}])),
    ("spec.domain.cpu.dedicatedCpuPlacement", vmi({"cpu": {"dedicatedCpuPlacement": True}})),
    ("spec.domain.cpu.dedicatedCpuPlacement", vmi({"cpu": {"numa": {"guestMappingPassthrough": {}}}})),
    ("spec.architecture", vmi(architecture="s390x")),
    ("spec.architecture", vmi(architecture="arm64")),
    ("spec.domain.machine.type", vmi({"machine": {"type": "microvm"}})),
    ("spec.domain.machine.type", vmi({"machine": {"type": "virt"}})),
    ("metadata.uid", VirtualMachineInstance(spec=vmi().spec)),
    ("spec.domain.firmware.uuid", _firmware(uuid="not-a-uuid")),
    ("spec.domain.firmware.bootloader", _firmware(bootloader={"efi": {}, "bios": {}})),
    (f"{EFI}.secureBoot", _efi({})),
    (f"{EFI}.secureBoot", _efi({"secureBoot": True}, features={"smm": {"enabled": False}})),
    (f"{EFI}.secureBoot", _efi({}, features={"smm": {}}, machine={"type": "pc"})),
    ("spec.domain.firmware.kernelBoot.kernelArgs", _firmware(kernelBoot={"kernelArgs": "quiet"})),
    (
        "spec.domain.firmware.kernelBoot.container.kernelPath",
        _firmware(kernelBoot={"container": {"image": "i", "kernelPath": "/k"}}),
    ),
    (
        "spec.domain.firmware.kernelBoot.container.initrdPath",
        _firmware(kernelBoot={"container": {"image": "i", "initrdPath": "/i"}}),
    ),
    ("spec.domain.firmware.kernelBoot.container", _firmware(kernelBoot={"container": {"image": "i"}})),
    # Memory and CPU.
    ("spec.domain.memory", vmi({"memory": {}})),
    ("spec.domain.memory.guest", vmi({"memory": {"guest": "much"}})),
    ("spec.domain.memory.guest", vmi({"memory": {"guest": 0}})),
    ("spec.domain.resources.requests.memory", vmi({"memory": {}, "resources": {"requests": {"memory": "1X"}}})),
    ("spec.domain.memory.hugepages.pageSize", vmi({"memory": {"guest": "3Mi", "hugepages": {"pageSize": "2Mi"}}})),
    ("spec.domain.memory.hugepages.pageSize", vmi({"memory": {"guest": "3Mi", "hugepages": {"pageSize": "0"}}})),
    ("spec.domain.resources.limits.cpu", vmi({"resources": {"limits": {"cpu": "few"}}})),
    ("spec.domain.cpu.features[0].policy", vmi({"cpu": {"features": [{"name": "vmx", "policy": "maybe"}]}})),
    # Clock and features.
    ("spec.domain.clock", vmi({"clock": {"utc": {}, "timezone": "UTC"}})),
    ("spec.domain.clock.timer.pit.tickPolicy", vmi({"clock": {"timer": {"pit": {"tickPolicy": "merge"}}}})),
    ("spec.domain.clock.timer.rtc.tickPolicy", vmi({"clock": {"timer": {"rtc": {"tickPolicy": "discard"}}}})),
    ("spec.domain.clock.timer.hpet.tickPolicy", vmi({"clock": {"timer": {"hpet": {"tickPolicy": "hurry"}}}})),
    ("spec.domain.clock.timer.kvm.tickPolicy", vmi({"clock": {"timer": {"kvm": {"tickPolicy": "delay"}}}})),
    ("spec.domain.clock.timer.rtc.track", vmi({"clock": {"timer": {"rtc": {"track": "moon"}}}})),
    ("spec.domain.clock.timer.pit.track", vmi({"clock": {"timer": {"pit": {"track": "wall"}}}})),
    # Disks.
    (f"{DEVICES}.disks[0].name", _devices(disks=[{"name": "nothing", "disk": {}}])),
    (f"{DEVICES}.disks[0].name", _devices(disks=[{"name": "a.b", "cdrom": {}}])),
    (f"{DEVICES}.disks[0]", with_disk({"disk": {}, "cdrom": {}})),
    (f"{DEVICES}.disks[0].disk.bus", with_disk({"disk": {"bus": "ide"}})),
    (f"{DEVICES}.disks[0].cdrom.bus", with_disk({"cdrom": {"bus": "virtio"}})),
    (f"{DEVICES}.disks[0].cdrom.tray", with_disk({"cdrom": {"tray": "ajar"}})),
    (f"{DEVICES}.disks[0].lun.bus", with_disk({"lun": {"bus": "sata"}})),
    (f"{DEVICES}.disks[0].lun", with_disk({"lun": {}})),
    (f"{DEVICES}.disks[0].disk.readonly", with_disk({"disk": {"bus": "sata", "readonly": True}})),
    (f"{DEVICES}.disks[0].disk.pciAddress", with_disk({"disk": {"bus": "sata", "pciAddress": "0000:00:05.0"}})),
    (f"{DEVICES}.disks[0].disk.pciAddress", with_disk({"disk": {"bus": "virtio", "pciAddress": "5.0"}})),
    (f"{DEVICES}.disks[0].disk.pciAddress", with_disk({"disk": {"bus": "virtio", "pciAddress": "0000:00:20.0"}})),
    (f"{DEVICES}.disks[0].dedicatedIOThread", with_disk({"disk": {"bus": "sata"}, "dedicatedIOThread": True})),
    (f"{DEVICES}.disks[0].serial", with_disk({"disk": {}, "serial": "a b"})),
    (f"{DEVICES}.disks[0].cache", with_disk({"disk": {}, "cache": "unsafe"})),
    (
        f"{DEVICES}.disks[0].blockSize",
        with_disk({"disk": {}, "blockSize": {"custom": {"logical": 512, "physical": 512}, "matchVolume": {}}}),
    ),
    (f"{DEVICES}.disks[0].blockSize.matchVolume", with_disk({"disk": {}, "blockSize": {"matchVolume": {}}})),
    (
        f"{DEVICES}.disks[0].blockSize.custom.discardGranularity",
        with_disk({"disk": {}, "blockSize": {"custom": {"logical": 512, "physical": 512, "discardGranularity": 512}}}),
    ),
    # NICs.
    *((f"{DEVICES}.interfaces[0].{name}", _nic(**{name: {}})) for name in ("slirp", "macvtap", "passt")),
    (f"{DEVICES}.interfaces[0].sriov", _nic(sriov={})),
    (f"{DEVICES}.interfaces[0].state", _nic(sriov={}, state="down")),
    (f"{DEVICES}.interfaces[0].model", _nic(bridge={}, model="ne2000")),
    (f"{DEVICES}.interfaces[0].model", _nic(bridge={}, model="igb")),
    (f"{DEVICES}.interfaces[0].state", _nic(bridge={}, state="sideways")),
    (f"{DEVICES}.interfaces[0].pciAddress", _nic(bridge={}, pciAddress="0000:00:05.8")),
    (f"{DEVICES}.interfaces[0].name", _devices(interfaces=[{"name": "other", "bridge": {}}])),
    # The small devices.
    (f"{DEVICES}.inputs[0].type", _devices(inputs=[{"name": "i", "type": "mouse"}])),
    (f"{DEVICES}.inputs[0].bus", _devices(inputs=[{"name": "i", "bus": "ps2"}])),
    (f"{DEVICES}.inputs[0].name", _devices(inputs=[{"name": "left hand"}])),
    (f"{DEVICES}.video", _devices(video={"type": "vga"}, autoattachGraphicsDevice=False)),
    (f"{DEVICES}.video.type", _devices(video={"type": "qxl"})),
    (f"{DEVICES}.sound.model", _devices(sound={"name": "s", "model": "es1370"})),
    (f"{DEVICES}.watchdog.diag288", _devices(watchdog={"name": "w", "diag288": {}})),
    (f"{DEVICES}.watchdog.i6300esb.action", _devices(watchdog={"name": "w", "i6300esb": {"action": "bark"}})),
    (f"{DEVICES}.panicDevices[0].model", _devices(panicDevices=[{"model": "s390"}])),
    (f"{DEVICES}.panicDevices[0].model", _devices(panicDevices=[{"model": "pvpanic"}])),
]


def _number_repeated(cases: list[tuple[str, VirtualMachineInstance]]) -> list[str]:
    return [f"{field}#{index}" for index, (field, _) in enumerate(cases)]


@pytest.mark.parametrize(("field", "instance"), CASES, ids=_number_repeated(CASES))
def test_what_cannot_be_is_refused_by_its_field_with_a_remedy(field: str, instance: VirtualMachineInstance) -> None:
    with pytest.raises(ConversionError) as caught:
        render_domain(instance, context())
    assert caught.value.field == field
    assert caught.value.detail
    assert caught.value.remedy
    assert str(caught.value) == f"{field}: {caught.value.detail}; {caught.value.remedy}"


ON_ARM: list[tuple[str, dict[str, Any]]] = [
    ("spec.domain.features.hyperv", {"features": {"hyperv": {}}}),
    ("spec.domain.features.hypervPassthrough", {"features": {"hypervPassthrough": {}}}),
    ("spec.domain.features.pvspinlock", {"features": {"pvspinlock": {}}}),
    ("spec.domain.features.smm", {"features": {"smm": {}}}),
    ("spec.domain.features.apic.endOfInterrupt", {"features": {"apic": {"endOfInterrupt": True}}}),
    ("spec.domain.features.kvm.hidden", {"features": {"kvm": {"hidden": True}}}),
    ("spec.domain.clock.timer.hpet", {"clock": {"timer": {"hpet": {}}}}),
    ("spec.domain.cpu.threads", {"cpu": {"threads": 2}}),
    ("spec.domain.firmware.bootloader.bios", {"firmware": {"bootloader": {"bios": {}}}}),
    (f"{EFI}.secureBoot", {"firmware": {"bootloader": {"efi": {"secureBoot": True}}}}),
    ("spec.domain.machine.type", {"machine": {"type": "q35"}}),
    (f"{DEVICES}.watchdog", {"devices": {"watchdog": {"name": "w", "i6300esb": {}}}}),
    (f"{DEVICES}.panicDevices[0].model", {"devices": {"panicDevices": [{"model": "isa"}]}}),
]


@pytest.mark.parametrize(("field", "domain"), ON_ARM, ids=[field for field, _ in ON_ARM])
def test_what_arm64_does_not_have_is_refused_there(field: str, domain: dict[str, Any]) -> None:
    with pytest.raises(ConversionError) as caught:
        render_domain(vmi(domain, architecture="arm64"), context(architecture="aarch64"))
    assert caught.value.field == field


def test_a_tpm_without_what_plays_it_on_the_node_says_what_to_install() -> None:
    with pytest.raises(ConversionError, match="install the packages swtpm and swtpm-tools") as caught:
        render_domain(_devices(tpm={}), context())
    assert caught.value.field == f"{DEVICES}.tpm"


def test_passt_on_a_node_that_cannot_have_it_says_why_and_what_to_do() -> None:
    with pytest.raises(ConversionError, match=r"this node has no passt.*use masquerade") as caught:
        render_domain(_nic(passtBinding={}), context(passt_obstacle=("this node has no passt", "use masquerade: {}")))
    assert caught.value.field == f"{DEVICES}.interfaces[0].passtBinding"


def test_uefi_without_firmware_on_the_node_says_what_to_install() -> None:
    with pytest.raises(ConversionError, match="install the package ovmf") as caught:
        render_domain(_efi({"secureBoot": False}), context(ovmf=None))
    assert caught.value.field == EFI


def test_secure_boot_with_firmware_built_without_it_is_refused() -> None:
    plain = OvmfFiles(code="/c", vars_template="/v", nvram="/n", secure=False)
    with pytest.raises(ConversionError, match="without secure boot"):
        render_domain(_efi({}, features={"smm": {}}), context(ovmf=plain))


def test_hyperv_passthrough_beside_single_features_is_refused() -> None:
    instance = vmi({"features": {"hypervPassthrough": {}, "hyperv": {"relaxed": {}}}})
    with pytest.raises(ConversionError, match="excludes hyperv"):
        render_domain(instance, context(emulation=False))


@pytest.mark.parametrize("vendor", ["", "thirteen-char", "a,b"])
def test_a_hyperv_vendor_that_qemu_cannot_show_is_refused(vendor: str) -> None:
    instance = vmi({"features": {"hyperv": {"vendorid": {"vendorid": vendor}}}})
    with pytest.raises(ConversionError, match=r"hyperv\.vendorid\.vendorid"):
        render_domain(instance, context(emulation=False))


@pytest.mark.parametrize("detail", ["direct", "extended"])
def test_details_of_the_tlb_flush_need_a_newer_libvirt(detail: str) -> None:
    instance = vmi({"features": {"hyperv": {"tlbflush": {detail: {}}}}})
    with pytest.raises(ConversionError, match=rf"tlbflush\.{detail}: needs libvirt 11\.0, and this node has 9\.0"):
        render_domain(instance, context(emulation=False))


def test_a_table_msdm_needs_a_newer_libvirt() -> None:
    instance = _firmware(acpi={"msdmNameRef": "licence"})
    with pytest.raises(ConversionError, match=r"acpi\.msdmNameRef: needs libvirt 11\.2, and this node has 9\.0"):
        render_domain(instance, context(acpi_tables={"msdm": "/secret/msdm.bin"}))


def test_a_shareable_disk_must_be_raw_as_qcow2_has_one_writer() -> None:
    sources = {"d": DiskSource(path="/d", format="qcow2")}
    with pytest.raises(ConversionError, match="shareable"):
        render_domain(with_disk({"disk": {}, "shareable": True}), context(disk_sources=sources))


def test_a_read_only_volume_cannot_be_a_sata_disk() -> None:
    sources = {"d": DiskSource(path="/d", format="raw", readonly=True)}
    with pytest.raises(ConversionError, match=r"disk\.readonly"):
        render_domain(with_disk({"disk": {"bus": "sata"}}), context(disk_sources=sources))


def test_a_missing_volume_of_a_cdrom_is_not_taken_for_an_empty_drive() -> None:
    instance = with_disk({"cdrom": {}})
    with pytest.raises(ConversionError, match="no volume d was prepared"):
        render_domain(instance, context(disk_sources={}))


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x7f\x08", "\ufffe", "\ud800"])
def test_a_character_that_xml_cannot_hold_is_refused_by_its_code(character: str) -> None:
    instance = vmi({"chassis": {"asset": "a"}})
    assert instance.spec.domain.chassis is not None
    instance.spec.domain.chassis.asset = f"a{character}"
    with pytest.raises(ConversionError, match=r"U\+[0-9A-F]{4}, which XML cannot hold"):
        render_domain(instance, context())


@pytest.mark.parametrize("text", ['"><disk/>', "a & b", "<!--", "]]>", "ä漢\t\n"])
def test_text_of_a_manifest_never_becomes_markup(text: str) -> None:
    from xml.etree.ElementTree import fromstring

    domain = fromstring(render_domain(vmi({"chassis": {"asset": text}}), context()))
    assert [entry.text for entry in domain.iterfind("sysinfo/chassis/entry")] == [text]
    assert domain.find(".//disk") is None


def test_the_uid_stands_in_for_a_firmware_uuid_that_is_not_given() -> None:
    assert f"<uuid>{UID}</uuid>" in render_domain(vmi(), context())


def test_a_node_whose_qemu_takes_no_usb_devices_of_clients_is_told() -> None:
    with pytest.raises(ConversionError, match="the QEMU of this node has no device usb-redir") as caught:
        render_domain(_devices(clientPassthrough={}), context(redirects_usb=False))
    assert caught.value.field == f"{DEVICES}.clientPassthrough"


def test_a_vsock_without_a_number_is_told() -> None:
    with pytest.raises(ConversionError, match=r"has no status\.VSOCKCID; restart the VM") as caught:
        render_domain(_devices(autoattachVSOCK=True), context())
    assert caught.value.field == f"{DEVICES}.autoattachVSOCK"
